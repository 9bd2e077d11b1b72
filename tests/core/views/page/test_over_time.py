"""What marks found and sweeps deleted over time is what the history says of complete marks and of sweeps."""

from __future__ import annotations

from lakegc_core.views.page.over_time import found_and_deleted, over_time, unread
from tests.support.pages import history, mark, read, sweep


def test_each_complete_mark_is_a_point_also_a_retired_one_and_no_other() -> None:
    found, _ = found_and_deleted(
        history(
            mark(9, 900),
            {"mark_id": "m08", "started_at": "2026-11-08T02:00:00.000Z", "state": "after namespace_listing"},
            {"mark_id": "m07", "started_at": None, "state": "damaged", "problem": "no JSON"},
            mark(6, 600, state="retired", complete=True),
            mark(5, 0, state="retired", complete=False),
        )
    )
    assert [(each["mark_id"], each["bytes"]) for each in found] == [("m06", 600), ("m09", 900)]


def test_each_sweep_stands_where_it_was_over_and_one_that_broke_off_where_its_mark_began() -> None:
    marks = (mark(9, 900, sweep(None, 5)), mark(2, 200, sweep(3, 100), sweep(12, 50), sweep(13, 0)))
    _, deleted = found_and_deleted(history(*marks))
    assert [(each["at"][8:13], each["bytes"]) for each in deleted] == [("03T16", 100), ("09T02", 5), ("12T16", 50)]


def test_sweeps_before_the_moment_that_was_asked_about_are_left_out() -> None:
    past = history(mark(2, 200, sweep(3, 100), sweep(12, 50)), since="2026-11-10T00:00:00.000Z")
    assert [each["bytes"] for each in found_and_deleted(past)[1]] == [50]


def test_the_figures_stand_below_the_picture_newest_first() -> None:
    shown = over_time(history(mark(9, 900), mark(2, 200, sweep(3, 100))))
    text = read(shown).text
    assert "<svg" in shown and "<details>" in shown
    rows = ("9 November 2026, 02:00 UTCm09found3900 B", "3 November 2026, 16:30 UTCm02deleted2100 B", "2 November 2026")
    places = [text.rindex(row) for row in rows]
    assert places == sorted(places)


def test_delays_have_a_picture_from_the_second_sweep_on_and_what_waits_longest_is_said() -> None:
    delays = [{"objects": 2, "p50": 25 * 3600.0, "p99": days * 86_400.0} for days in (3, 9)]
    first, second = (sweep(day, 100) | {"delay": delay} for day, delay in zip((3, 12), delays, strict=True))
    oldest = {"since": "2026-11-01T02:00:00.000Z", "address": "data/<a>", "why": "over_budget"}
    one = over_time(history(mark(2, 200, first)))
    both = over_time(history(mark(11, 900, second), mark(2, 200, first), oldest=oldest))
    assert (one.count("<svg"), both.count("<svg")) == (1, 2)
    text = read(both).text
    assert "12 November 2026, 16:30 UTCm11deleted2100 B25h9.0 days" in text
    assert "12 November 2026, 16:30 UTC: 9.0 days for 99 % of 2 objects" in text and "100h" not in text
    assert "Oldest garbage: unreferenced since 2026-11-01 02:00 UTC · the budget kept it back · data/<a>" in text


def test_one_mark_alone_is_no_picture() -> None:
    shown = over_time(history(mark(9, 900)))
    assert "<svg" not in shown and "it begins with the second complete mark" in shown


def test_marks_that_do_not_read_are_counted_and_the_first_says_why() -> None:
    assert unread(history(mark(9, 900))) == ""
    past = history(mark(9, 900), mark(8, 800, problem="not a manifest"), mark(7, 700, problem="no JSON"))
    assert unread(past).startswith("2 marks do not read") and unread(past).endswith("not a manifest")
