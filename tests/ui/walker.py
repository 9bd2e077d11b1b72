"""What a person does in Dagster's UI, as methods: open, choose, launch, wait, look. Waits are for what is to be seen.

What is launched and what has to come of it belongs in the test. Where the UI gives a control no name, it is found by
the names of its style sheets, without the part that changes from build to build.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Locator, Page, TimeoutError

RUN_SECONDS = 600.0  # one run on a machine that is busy with other things
_LOADING_SECONDS = 15.0
PATIENCE_SECONDS = 180.0  # of steps that a busy machine delays: a page, a dialog, a run's place in the queue
_LOOKS_MILLISECONDS = 500  # between two looks at the same thing
_FINAL = {"Success", "Failure", "Canceled"}
_ENDED = re.compile(r"^(Success|Failure|Canceled)$")
_ROW = re.compile(
    r"^partition: (\S+)$(?:(?!^partition:).)*?^(Queued|Not started|Starting|Started|Success|Failure|Canceled)$",
    re.DOTALL | re.MULTILINE,
)
_CHECKED = re.compile(r"^(Succeeded|Failed|Warning)$")
_RESULT = re.compile(r"^([a-z_]+)\n+(Succeeded|Failed|Warning)$", re.MULTILINE)
_SIGNS = ("cancel", "warning_outline", "check_circle")
_STATUS = r"""() => {
  const found = /^Status\n(.+)$/m.exec(document.body.innerText);
  return found && !/^(Requested|In progress)/.test(found[1]) ? found[1] : null;
}"""

STILL = """addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "*, *::before, *::after { animation: none !important }";
  document.head.append(style);
})"""
"""For every page: what turns while runs are under way would cost more of a busy machine than the runs can spare."""
_SIDEWAYS = """() => [...document.querySelectorAll("body *")].filter(each =>
  each.scrollWidth > each.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(each).overflowX)
).map(each => each.innerText.slice(0, 200))"""


@dataclass
class Walker:
    """One page of one browser. `shots`: the folder for its screenshots, which are numbered."""

    page: Page
    url: str
    shots: Path
    taken: list[Path] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go to a place of the UI."""
        self.page.goto(self.url + path)

    def shot(self, name: str, height: int = 900) -> None:
        """Take a screenshot when nothing on the page is loading or moving any more."""
        self.page.set_viewport_size({"width": 1400, "height": height})
        self.page.mouse.move(0, 0)  # no tooltips
        with suppress(TimeoutError):  # something else may be at work, and that is to be seen then
            self.page.locator("[class*=Spinner_]").first.wait_for(state="detached", timeout=_LOADING_SECONDS * 1_000)
        self.page.evaluate("() => document.fonts.ready")
        self.taken.append(self.shots / f"{len(self.taken) + 1:02d}-{name}.png")
        limit, before = time.monotonic() + _LOADING_SECONDS, b""
        while (now := self.page.screenshot(animations="disabled")) != before and time.monotonic() < limit:
            before = now  # icons come one by one
            self.page.wait_for_timeout(_LOOKS_MILLISECONDS)
        self.taken[-1].write_bytes(now)

    def see(self, text: str | re.Pattern[str], seconds: float = PATIENCE_SECONDS, exact: bool = False) -> Locator:
        """Wait until a text is to be seen."""
        found = self.page.get_by_text(text, exact=exact).filter(visible=True).first
        found.wait_for(timeout=seconds * 1_000)
        return found

    def lakefs_page(self, repository: str) -> Locator:
        """The links to lakeFS's page of a repository."""
        return self.page.locator(f"a[href$='/repositories/{repository}']")

    def text(self) -> str:
        """All that is to be seen."""
        return self.page.locator("body").inner_text()

    def sideways(self) -> list[str]:
        """How what can be scrolled sideways begins."""
        found: list[str] = self.page.evaluate(_SIDEWAYS)
        return found

    def choose_partitions(self, marks: Sequence[str], repositories: Sequence[str]) -> Locator:
        """In the dialog that "Materialize all" opens. Returns the dialog."""
        self.page.get_by_role("button", name="Materialize all").click()
        dialog = self.page.get_by_role("dialog").filter(has_text="Partition selection")
        for number, chosen in enumerate((marks, repositories)):
            dialog.locator("[class*=TagSelector_tagSelectorContainer]").nth(number).click()
            for name in chosen:
                self._item(name).click()
            self.page.keyboard.press("Escape")
            self._item(chosen[0]).wait_for(state="detached")
        return dialog

    def _item(self, name: str) -> Locator:
        named = self.page.locator(f'[data-tooltip="{name}"]')
        return self.page.locator(".dagster-popover [role=menuitem]").filter(has=named)

    def launch_run(self, dialog: Locator, partition: str) -> None:
        """Launch what a dialog says for one partition, and open the run's page."""
        dialog.get_by_role("button", name="Launch 1 run").click()
        self.see("Launched run")
        self.open_newest_run(partition)

    def open_newest_run(self, partition: str) -> None:
        """The page of the run that was launched last for a partition."""
        self.open(_with_tag(f"dagster/partition={partition}"))
        self.page.locator("a[href^='/runs/']").first.click()
        self.page.wait_for_url("**/runs/*")

    def launch_backfill(self, dialog: Locator) -> None:
        """Launch what a dialog says for several partitions, and open the backfill's page."""
        dialog.get_by_role("button", name="Launch backfill").click()
        self.see("Created backfill")
        self.open("/runs?view=backfills")
        self.page.locator("a[href^='/runs/b/']").first.click()
        self.page.wait_for_url("**/runs/b/*")

    def configure_sweep(self, partition: str) -> Locator:
        """The launchpad of swept_report, with a partition and `dry_run: false`. Returns the launchpad."""
        self.open("/assets/swept_report")
        self.see("Latest materialization", exact=True)
        more = self.page.get_by_role("button", name="Materialize").locator("xpath=following::button[1]")
        more.click()
        self.page.get_by_role("menuitem", name="Open launchpad").click()
        pad = self.page.get_by_role("dialog").filter(has_text="Launchpad (configure assets)")
        pad.locator(".CodeMirror").get_by_text("true", exact=True).dblclick()
        self.page.keyboard.type("false")
        pad.locator(".CodeMirror").filter(has_text="dry_run: false").wait_for()
        pad.get_by_label("sort_by_alpha").wait_for()  # until the partitions are loaded, another field stands there
        pad.get_by_placeholder("Partition").fill(partition)
        self.page.locator(".dagster-popover").get_by_text(partition, exact=True).click()
        pad.get_by_text("No errors").wait_for()
        return pad

    def launch_job(self, job: str) -> None:
        """Launch a job that has neither partitions nor config, and wait for its run's page."""
        self.open(f"/locations/lakegc/jobs/{job}/playground")
        self.page.get_by_role("button", name="Launch run").click()
        self.page.wait_for_url("**/runs/*")

    def end_of_run(self) -> str:
        """On the page of a run: what it ends as."""
        found = self.page.get_by_text(_ENDED).filter(visible=True).first
        found.wait_for(timeout=RUN_SECONDS * 1_000)
        return found.inner_text()

    def end_of_backfill(self, runs: int) -> str:
        """On the page of a backfill: what it ends as."""
        found = self.page.wait_for_function(_STATUS, timeout=runs * RUN_SECONDS * 1_000, polling=1_000)
        return str(found.json_value())

    def checks(self, count: int) -> dict[str, str]:
        """On an asset's page of so many checks, when all were evaluated: the latest result of each."""
        self.see(f"Checks ({count})")
        self.page.get_by_text(_CHECKED).nth(count - 1).wait_for()
        limit, found = time.monotonic() + PATIENCE_SECONDS, dict[str, str]()
        while len(found) < count:  # dates come before results
            assert time.monotonic() < limit, f"of {count} checks only these have a result: {found}"
            self.page.wait_for_timeout(_LOOKS_MILLISECONDS)
            found = dict(_RESULT.findall(self.text()))
        return found

    def signs(self) -> set[str]:
        """On an asset's page of checks: the signs of results. `cancel` is red, `warning_outline` yellow, `check_circle`
        green."""
        found = (self.page.get_by_label(sign, exact=True).filter(visible=True) for sign in _SIGNS)
        return {sign for sign, seen in zip(_SIGNS, found, strict=True) if seen.count()}

    def ended_runs(self, tag: str, partitions: Collection[str]) -> dict[str, str]:
        """Wait until the list of runs with a tag shows these partitions, each run ended: status by partition."""
        limit, found = time.monotonic() + len(partitions) * RUN_SECONDS, dict[str, str]()
        self.open(_with_tag(tag))  # it renews itself
        while not (set(partitions) <= set(found) and set(found.values()) <= _FINAL):
            assert time.monotonic() < limit, f"the runs with {tag} did not end: {found}"
            self.page.wait_for_timeout(4 * _LOOKS_MILLISECONDS)  # the page itself looks more rarely still
            found = dict(_ROW.findall(self.text()))
        return found

    def turn_on(self, sensor: str) -> None:
        """On the page Automation."""
        self.open("/automation")
        row = self.page.locator("[class*=ListItem_listItem__]").filter(has_text=sensor)
        switch = row.locator("[class*=ListItem_right] label")  # comes last; the box on the left only selects the row
        switch.click()
        switch.locator("input:checked").wait_for(state="attached")


def _with_tag(tag: str) -> str:
    """The place of the list of runs with a tag, `name=value`: all of them, those of backfills too."""
    return "/runs?" + urlencode({"view": "runs", "q[0]": f"tag:{tag}"})
