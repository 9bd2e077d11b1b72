"""All repositories as one page."""

from __future__ import annotations

import pytest

from lakegc_core.errors import StoreError
from lakegc_core.views.history import unreadable
from lakegc_core.views.page.overview import overview
from tests.support.pages import history, mark, read, sweep, totals

AT = "2026-11-23T16:30:00.000Z"
MALICE = "<script>alert(1)</script>"
SMALL = history(
    mark(22, 5_000, sweep(23, 3_000)),
    mark(20, 4_000),
    repository="small",
    garbage={"objects": 2, "bytes": 2_000},
    totals=totals(sweeps=1, deleted=2, bytes_deleted=3_000),
)
LARGE = history(
    mark(21, 7_000),
    repository="large",
    garbage={"objects": 3, "bytes": 7_000},
    refused=[{"name": "blast-radius", "description": "15% <would> go."}],
)
FAR = unreadable("far", StoreError("s3://bucket/far: no answer"))
NEW = history(repository="new")


@pytest.fixture(autouse=True)
def _at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", "1795451400")  # AT


def test_it_sums_all_and_has_a_line_for_each_the_most_garbage_first() -> None:
    shown = read(overview([SMALL, LARGE, NEW], AT)).text
    assert "Garbage in 3 repositories" in shown and "23 November 2026, 16:30 UTC" in shown
    assert "5 objects (9.0 kB) of 2 marked repositories are garbage" in shown and "1 sweep freed 3.0 kB" in shown
    rows = (
        "large7.0 kB30 B3 days ago21 November 2026, 02:00 UTCrefused: blast-radius: 15% <would> go.",
        "small2.0 kB23.0 kB38 hours ago22 November 2026, 02:00 UTC",
        "new0 Bno complete mark",
    )
    places = [shown.index(row) for row in rows]
    assert places == sorted(places)


def test_a_repository_that_does_not_read_is_told_with_its_reason_and_hides_no_other() -> None:
    shown = read(overview([FAR, SMALL], AT)).text
    assert "1 repository cannot be read. The sums leave it out." in shown
    assert "farcannot be read: s3://bucket/far: no answer" in shown
    assert "2 objects (2.0 kB) of 1 marked repository are garbage" in shown and "small2.0 kB" in shown


def test_where_no_mark_is_complete_it_does_not_say_that_there_is_no_garbage() -> None:
    shown = read(overview([FAR, NEW], AT)).text
    assert "No complete mark says what is garbage." in shown and "Garbage nownot known" in shown


def test_each_repository_with_a_past_has_a_picture_of_it() -> None:
    shown = overview([SMALL, LARGE, FAR, NEW], AT)
    assert shown.count("<svg") == 1 and "2 complete marks, 1 sweep" in shown


def test_it_says_since_when_it_counts() -> None:
    shown = read(overview([SMALL], AT, "2026-10-24T16:30:00.000Z")).text
    assert "what happened since 24 October 2026" in shown and "Freed since 24 October 2026" in shown


def test_a_mark_that_does_not_read_is_told_beside_its_repository() -> None:
    broken = SMALL | {"marks": [*SMALL["marks"], mark(1, 1, problem="not a manifest")]}
    assert (
        "1 mark does not read, so that the figures can leave something out: not a manifest"
        in read(overview([broken], AT)).text
    )


def test_whatever_comes_from_outside_is_escaped_and_nothing_is_loaded() -> None:
    refused = [{"name": MALICE, "description": MALICE}]
    marks = [mark(21, 5, mark_id=MALICE), mark(20, 5, problem=MALICE)]
    price = {"per_gb_month": 1, "currency": MALICE}
    shown = overview(
        [SMALL | {"repository": MALICE, "refused": refused, "marks": marks, "price": price},
         unreadable(MALICE, StoreError(MALICE))],
        AT,
    )  # fmt: skip
    assert "<script" not in shown and read(shown).loads == []
    assert read(shown).text.count(MALICE) > 5
