"""A mark as a page of HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from lakegc_core.views import html_report

REPORT: dict[str, Any] = {
    "repository": "lake",
    "mark_id": "m1",
    "started_at": "2026-11-21T02:00:00.000Z",
    "cutoff": "2026-11-20T01:00:00.000Z",
    "safety": "full",
    "objects": {
        "listed": 1000,
        "committed": 800,
        "uncommitted": 50,
        "foreign": 0,
        "neighbour": 0,
        "young": 0,
        "expired": 150,
        "confirmed": 0,
    },
    "bytes": {
        "listed": 10**12,
        "committed": 0,
        "uncommitted": 0,
        "foreign": 0,
        "neighbour": 0,
        "young": 0,
        "expired": 10**12,
        "confirmed": 0,
    },
    "commits": {"known": 9, "retained": 4, "kept_by": {"head": 1, "rules": 3}},
    "guards": [
        {"name": "reads", "passed": True, "severity": "ERROR", "description": "All read."},
        {
            "name": "blast-radius",
            "passed": False,
            "severity": "ERROR",
            "description": "15% <would> go.",
            "accepted_because": "dropped a & b",
        },
    ],
    "authorized": True,
    "missing": [{"path": "a/<b>", "address": "data/x"}],
    "confirmed_at": "2026-11-22T02:00:00.000Z",
    "seconds": {"namespace_listing": 1.0},
    "artifacts": "s3://bucket/lake/_lakefs/retention/gc/lakegc/marks/m1",
    "ages": [
        {"name": "under a week", "objects": 0, "bytes": 0},
        {"name": "1–4 weeks", "objects": 150, "bytes": 10**12},
    ],
    "sizes": [{"name": "1–10 MB", "objects": 150, "bytes": 10**12}],
    "prefixes": [{"prefix": "data/abc/", "objects": 150, "bytes": 10**12}],
    "price": {"per_gb_month": 0.023, "currency": "EUR"},
}
SWEEP = {"sweep": 1, "bytes_deleted": 5_000, "outcomes": {"deleted": 149, "rescued": 1, "already_gone": 0}}


class Reader(HTMLParser):
    """Collects what a page shows and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.loads, self.open = "", [], []  # type: ignore[var-annotated]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    found = Reader()
    found.feed(page)
    found.close()
    assert not found.open
    return found


def test_the_page_says_what_the_screen_says_and_what_the_garbage_costs() -> None:
    shown = read(html_report.page(REPORT, [SWEEP])).text
    for part in ("lake · mark m1", "1.0 TB", "15.0%", "about 23.00 EUR a month", "data/abc/"):
        assert part in shown
    assert "swept" in shown and "no guard stops" in read(html_report.page(REPORT)).text
    assert "a guard stops the sweep" in read(html_report.page(REPORT | {"authorized": False})).text
    assert "4 of 9 commits retained (1 by head, 3 by rules)" in shown
    assert "Sweep 1: 5.0 kB deleted" in shown and "149" in shown and "already_gone" not in shown


def test_what_holds_keep_is_a_line_of_its_own_with_the_holds() -> None:
    kept = {kind: REPORT[kind] | {"held": 7, "committed": 793} for kind in ("objects", "bytes")}
    commits = REPORT["commits"] | {"kept_by": {"head": 1, "hold": 3}}
    report = REPORT | kept | {"commits": commits, "holds": ["path:legal/<x>/**", "tag:v*"]}
    shown = read(html_report.page(report)).text
    assert "Kept: held77 B0.7%by path:legal/<x>/** · the 3 commits held count as committed" in shown


def test_a_sweep_has_the_price_that_was_set_when_it_was_made() -> None:
    swept = SWEEP | {"bytes_deleted": 10**12, "price": {"per_gb_month": 0.05, "currency": "<USD>"}}
    assert "1.0 TB deleted, about 50.00 <USD> a month" in read(html_report.page(REPORT, [swept])).text
    assert "deleted, " not in read(html_report.page(REPORT, [swept | {"price": None}])).text


def test_names_from_the_repository_cannot_break_the_page() -> None:
    shown = read(html_report.page(REPORT)).text
    assert "15% <would> go." in shown and "dropped a & b" in shown and "a/<b>" in shown


def test_the_page_needs_no_network() -> None:
    page = html_report.page(REPORT, [SWEEP])
    assert read(page).loads == [] and "http-equiv" not in page and "@import" not in page and "url(" not in page


def test_a_mark_without_garbage_has_no_pictures_of_it() -> None:
    empty = REPORT | {"objects": REPORT["objects"] | {"expired": 0}, "price": None, "prefixes": [], "missing": []}
    page = html_report.page(empty)
    assert "<svg" not in page and "a month" not in read(page).text


def test_bars_grow_with_their_values_and_the_smallest_is_still_seen() -> None:
    classes = [{"name": f"{size} & more", "objects": 1, "bytes": size} for size in (100_000, 50_000, 1, 0)]
    drawn = ElementTree.fromstring(html_report.picture(classes, "x & y"))
    widths = [float(each.get("width", "")) for each in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[0] == 2 * widths[1] and widths[2] > 1 and widths[3] == 0


def test_what_lies_below_data_under_unknown_names_is_told_with_what_to_do() -> None:
    objects = REPORT["objects"] | {"foreign": 3, "unknown": 2}
    size = REPORT["bytes"] | {"foreign": 4_000, "unknown": 3_000}
    folders = [{"prefix": "data/raw/", "objects": 2, "bytes": 3_000}]
    shown = read(html_report.page(REPORT | {"objects": objects, "bytes": size, "foreign_prefixes": folders})).text
    for part in ("Of it below data/", "collect_unknown_names: true", "What is not lakeFS's", "data/raw/", "3.0 kB"):
        assert part in shown
    assert "Of it below data/" not in read(html_report.page(REPORT)).text
