"""A walk through Dagster's UI in a real browser, as people take it: a mark, what it shows, a backfill, a refused sweep,
a night's round. Every step is driven by clicks and keys, and takes screenshots. Each test goes on from the one before.

LAKEGC_UI_SHOTS names the folder for the screenshots; without it they go where pytest keeps a run's files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakegc_core.policy.guards import GUARDS
from lakegc_dagster.checks import check_name
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.rounds import latest_slot, round_id
from tests.ui.browser import chromium
from tests.ui.site import LATE, REPOSITORIES, Site, open_site
from tests.ui.walker import PATIENCE_SECONDS, STILL, Walker

pytestmark = pytest.mark.ui


@dataclass(frozen=True)
class Walk:
    """Who walks, and where. `before`: what lay in the namespaces at the beginning."""

    walker: Walker
    site: Site
    before: dict[str, set[str]]

    def cell(self, repository: str, mark: int = 0) -> str:
        """A partition as the UI writes it."""
        return f"{self.site.marks[mark]}|{repository}"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    wanted = os.environ.get("LAKEGC_UI_SHOTS")
    shots = Path(wanted).resolve() if wanted else tmp_path_factory.mktemp("shots")
    shots.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, open_site(tmp_path_factory.mktemp("site")) as site:
        # Without a locale a bare machine's is en-US@posix, at which Dagster's pages stay empty.
        page = browser.new_page(viewport={"width": 1400, "height": 900}, locale="en-US")
        page.add_init_script(STILL)
        page.set_default_timeout(PATIENCE_SECONDS * 1_000)
        yield Walk(Walker(page, site.url, shots), site, site.files())


def test_all_six_assets_of_a_mark_are_materialised_from_the_graph_and_every_check_passes(walk: Walk) -> None:
    walker = walk.walker
    walker.open("/asset-groups")
    dialog = walker.choose_partitions([walk.site.marks[0]], ["analytics"])
    dialog.get_by_role("button", name="Launch 1 run").wait_for()
    walker.shot("launch-dialog")
    walker.launch_run(dialog, walk.cell("analytics"))
    assert walker.end_of_run() == "Success"
    walker.shot("run-of-all-assets")
    walker.open("/assets/expired_addresses?view=checks")
    found = walker.checks(len(GUARDS))
    assert found == {check_name(guard.name): "Succeeded" for guard in GUARDS}
    walker.shot("checks")
    assert walk.site.files() == walk.before  # a dry run


def test_the_page_of_expired_addresses_shows_its_tables_and_its_bars(walk: Walk) -> None:
    walker = walk.walker
    walker.open("/assets/expired_addresses")
    for shown in ("in_short", "summary", "by_age", "by_size", "largest_prefixes", "guards", "may_be_swept_from"):
        walker.see(shown, exact=True)
    walker.see("kept: committed")
    walker.see("█")
    assert not walker.page.get_by_text("[Show Markdown]").count()
    walker.shot("expired-addresses", height=1_500)
    walker.open(f"/assets/expired_addresses?view=partitions&partition={walk.cell('analytics').replace('|', '%7C')}")
    walker.see("by_age", exact=True)
    walker.shot("partitions")
    assert not walker.sideways()


def test_a_backfill_of_the_marking_assets_over_two_repositories_succeeds_and_deletes_nothing(walk: Walk) -> None:
    walker = walk.walker
    walker.open("/locations/lakegc/jobs/gc_mark")
    names = ["events", "orders"]
    dialog = walker.choose_partitions([walk.site.marks[1]], names)
    dialog.get_by_text("2 partitions").wait_for()
    walker.shot("backfill-dialog")
    walker.launch_backfill(dialog)
    assert walker.end_of_backfill(2) == "Succeeded"
    walker.shot("backfill")
    for name in names:
        cell = walk.cell(name, 1)
        assert walker.ended_runs(f"dagster/partition={cell}", [cell]) == {cell: "Success"}
    assert walk.site.files() == walk.before


def test_a_sweep_of_a_mark_that_needs_a_persons_word_is_refused_and_says_why(walk: Walk) -> None:
    walker = walk.walker
    walker.open("/locations/lakegc/jobs/gc_mark")
    walker.launch_run(walker.choose_partitions([walk.site.marks[0]], ["finance"]), walk.cell("finance"))
    assert walker.end_of_run() == "Success"  # the mark is in order, and its sweep needs a person's word
    walker.open(f"/assets/expired_addresses?view=partitions&partition={walk.cell('finance').replace('|', '%7C')}")
    walker.see("Guard blast-radius will refuse a sweep.")
    walker.shot("mark-with-a-warning")
    pad = walker.configure_sweep(walk.cell("finance"))
    walker.shot("launchpad")
    pad.get_by_role("button", name="Materialize").click()
    walker.page.wait_for_url("**/runs/**")
    assert walker.end_of_run() == "Failure"
    walker.see("is not swept. Nothing was deleted.")
    walker.see("blast-radius")
    walker.shot("refused-sweep")
    assert walk.site.files() == walk.before


def test_the_sensor_opens_a_round_in_which_a_broken_repository_fails_alone(walk: Walk) -> None:
    walker = walk.walker
    walker.turn_on("open_round")
    mark_id = round_id(latest_slot(LakegcConfig().round_cron, datetime.now(UTC)))
    wanted = {
        f"{mark_id}|analytics": "Success",
        f"{mark_id}|damaged": "Failure",
        f"{mark_id}|events": "Success",
    }
    wanted[f"{mark_id}|logs"] = "Failure"  # it has no rules
    found = walker.ended_runs(f"lakegc/round={mark_id}", wanted)
    walker.shot("round")
    assert found == wanted
    walker.open_newest_run(f"{mark_id}|damaged")
    assert walker.end_of_run() == "Failure"
    walker.see("committed_addresses", exact=True)
    walker.see("range")
    walker.shot("broken-repository")
    walker.open("/assets/expired_addresses?view=checks")
    found = walker.checks(len(GUARDS))  # waits for results: "Execution failed" is none
    assert set(found) == {check_name(guard.name) for guard in GUARDS}
    assert "cancel" not in walker.signs(), "a repository that fails is red on pages of all others"
    walker.shot("checks-with-a-broken-repository")
    walker.open("/automation")
    walker.see("open_round", exact=True)
    walker.shot("automation")
    walker.open("/asset-groups")
    walker.page.get_by_text("fetching statuses").first.wait_for(state="hidden")
    walker.shot("graph")
    assert walk.site.files() == walk.before


def test_the_watch_names_in_the_morning_who_was_never_marked(walk: Walk) -> None:
    walker = walk.walker
    walk.site.never_mark()
    walker.launch_job("gc_watch")
    assert walker.end_of_run() == "Failure"
    for name in ("damaged", "logs", LATE):
        walker.see(f"{name} was never marked")
    assert not [name for name in ("analytics", "events", "finance") if f"- {name}:" in walker.text()]
    walker.shot("watch")


@pytest.mark.parametrize(
    ("name", "check", "sign", "said"),
    [
        ("analytics", "Succeeded", "check_circle", "are garbage"),
        ("finance", "Failed", "warning_outline", "blast-radius"),  # the UI has one word for both severities
        ("damaged", "Failed", "cancel", "range"),
        ("logs", "Failed", "cancel", "has no garbage collection rules"),
        (LATE, "Failed", "cancel", "was never marked"),
    ],
)
def test_each_repository_has_a_page_of_its_own_that_says_how_it_stands(
    walk: Walk, name: str, check: str, sign: str, said: str
) -> None:
    walker = walk.walker
    walker.open(f"/assets/lakefs/{name}?view=checks")
    assert walker.checks(1) == {"last_mark": check}
    walker.see(said)
    assert walker.signs() == {sign}
    walker.shot(f"check-of-{name}")
    walker.open(f"/assets/lakefs/{name}")
    if name in ("analytics", "finance"):  # a mark of it ended
        walker.see("in_short", exact=True)
        walker.see("garbage_bytes", exact=True)
        walker.lakefs_page(name).first.wait_for()
    text = walker.text()
    others = {*REPOSITORIES, LATE} - {name}
    assert not [other for other in others if walker.lakefs_page(other).count() or f"|{other}" in text]
    walker.shot(f"repository-{name}")


def test_a_sweep_deletes_the_garbage_and_its_repository_shows_what_it_freed(walk: Walk) -> None:
    walker = walk.walker
    pad = walker.configure_sweep(walk.cell("orders", 1))
    pad.get_by_role("button", name="Materialize").click()
    walker.page.wait_for_url("**/runs/**")
    assert walker.end_of_run() == "Success"
    gone = {name: files - walk.site.files()[name] for name, files in walk.before.items()}
    assert {name: len(files) for name, files in gone.items() if files} == {"orders": 3}
    assert all("left-behind" in file for file in gone["orders"])
    walker.open("/assets/swept_report")
    for shown in ("in_short", "outcomes", "gone from the store"):
        walker.see(shown, exact=True)
    walker.shot("swept")
    walker.open("/assets/lakefs/orders?view=events")
    walker.see("3 objects deleted: 1.5 kB freed", exact=False)
    walker.shot("events-of-orders")
    walker.open("/assets/lakefs/orders")
    walker.see("Plots", exact=True).click()
    for curve in ("garbage_bytes", "deleted_bytes"):
        walker.see(curve, exact=True)
    walker.shot("plots-of-orders", height=1_500)
