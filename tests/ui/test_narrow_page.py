"""The pages of HTML on a telephone: all that stands on them is to be seen without scrolling sideways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakegc_core.views.page.mark import page
from lakegc_core.views.page.overview import overview
from tests.support.pages import REPORT, SWEEP, history, mark, sweep, totals
from tests.ui.browser import chromium

pytestmark = pytest.mark.ui

WIDTH = 390
LONG = "a-repository-whose-name-is-as-long-as-lakefs-lets-any-name-be-63"
PAST = history(mark(21, 10**12), mark(14, 2 * 10**12, sweep(16, 2 * 10**12)), totals=totals(sweeps=1, deleted=2))
AMOUNT = {"objects": 3_000_000, "bytes": 5_000_000_000}
KEEPER = {"name": f"branch:{LONG}", "shows": AMOUNT, "only": AMOUNT, "history": AMOUNT, "at_once": AMOUNT}
USAGE = {"keepers": [KEEPER], "shared": AMOUNT}
CURVES = {"default": [{"days": 1, "kept": AMOUNT}, {"days": None, "kept": AMOUNT}]}
_OUTSIDE = """() => [...document.querySelectorAll("body *:not(svg *)")].filter(each => {
  const box = each.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < 0 || each.scrollWidth > each.clientWidth + 1
    && getComputedStyle(each).display !== "inline");
}).map(each => each.tagName + ": " + each.innerText.slice(0, 80))"""


def test_nothing_on_the_pages_is_cut_or_has_to_be_scrolled_to_on_a_telephone(tmp_path: Path) -> None:
    shots = Path(os.environ.get("LAKEGC_UI_SHOTS") or tmp_path)
    pages = {
        "mark": page(REPORT, [SWEEP], PAST, USAGE, CURVES),
        "overview": overview([PAST], "2026-11-22T02:00:00.000Z"),
    }
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": WIDTH, "height": 844}, locale="en-US")
        for name, html in pages.items():
            shown.set_content(html)
            shown.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            shown.screenshot(path=shots / f"narrow-{name}.png", full_page=True)
            assert shown.evaluate(_OUTSIDE) == []
            assert shown.evaluate("document.documentElement.scrollWidth") <= WIDTH
        titles = shown.evaluate("[...document.querySelectorAll('td[data-title]')].map(each => each.dataset.title)")
        assert {"garbage", "objects", "freed"} <= set(titles)
