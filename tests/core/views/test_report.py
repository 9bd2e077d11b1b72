"""What marks and sweeps say of themselves: figures for machines, words for people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakegc_core.config.settings import Price
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views import report, screen, words

COUNTS = {"listed": 100, "committed": 50, "uncommitted": 0, "held": 40, "expired": 10}
COUNTS |= dict.fromkeys(("neighbour", "foreign", "unknown", "young", "unasked"), 0)
MARK: dict[str, Any] = {
    "repository": "lake",
    "mark_id": "m1",
    "cutoff": "2026-11-20T01:00:00.000Z",
    "confirmed_at": "2026-11-20T01:00:00.000Z",
    "safety": "none",
    "objects": COUNTS | {"missing": 0, "swept_before": 0, "confirmed": 10},
    "bytes": {name: 100 * count for name, count in COUNTS.items()},
    "commits": {"known": 9, "retained": 4, "kept_by": {"head": 1, "rules": 3}},
    "holds": ["path:legal/**", "tag:v*"],
    "guards": [],
    "seconds": {},
    "run": {"mode": "clean", "why_clean": "the first"},
    "price": None,
}
EUR = Price(0.02, "EUR")
SWEPT = SweepResult("lake", "m1", 1, {"deleted": 3, "rescued": 1}, 2 * 10**12, 4, 1.0, None, versioned=False, price=EUR)


def test_the_screen_of_a_mark_tells_what_a_sweep_had_deleted_from_what_is_missing() -> None:
    found = {**MARK, "objects": MARK["objects"] | {"swept_before": 3}, "missing": []}
    text = screen.mark_screen(found)
    assert "live again, but a sweep had deleted them" in text and "but not in the store" not in text
    assert "swept before" not in screen.mark_screen(MARK)


def test_a_sweep_says_what_it_saves_a_month() -> None:
    found = report.sweep_report(SWEPT)
    assert found["price"] == {"per_gb_month": 0.02, "currency": "EUR"}
    assert "2.0 TB freed: about 40.00 EUR a month" in screen.sweep_screen(found)


def test_what_a_store_keeps_as_old_versions_is_not_called_freed_and_saves_no_money() -> None:
    said = words.freed(report.sweep_report(replace(SWEPT, versioned=True)))
    assert "freed" not in said and said.endswith("let them expire")
    shown = [screen.sweep_screen(report.sweep_report(replace(SWEPT, versioned=kept))) for kept in (True, False)]
    assert ["undo     lakegc restore lake m1" in each for each in shown] == [True, False]


def test_where_the_store_does_not_say_what_it_keeps_nothing_is_called_freed() -> None:
    said = words.freed(report.sweep_report(replace(SWEPT, versioned=None)))
    assert said == "2.0 TB deleted; whether the store keeps old versions of it is not known"


def test_the_command_that_undoes_a_sweep_is_named_only_where_lakegc_can_bring_back_what_soft_delete_keeps() -> None:
    kept = replace(SWEPT, recoverable_until=2_000_000_000.0)
    for undeletes in (True, False):
        said = screen.sweep_screen(report.sweep_report(replace(kept, undeletes=undeletes)))
        assert ("lakegc restore" in said) is undeletes and "kept by the store's soft delete until 2033" in said


def test_a_sweep_of_a_mark_with_a_backup_names_the_restore_that_undoes_it_with_the_place_as_a_shell_takes_it() -> None:
    backed_up = replace(SWEPT, backup="s3://spare/my lake")
    assert "  undo     lakegc restore lake m1 's3://spare/my lake'" in screen.sweep_screen(
        report.sweep_report(backed_up)
    )
    kept = screen.sweep_screen(report.sweep_report(replace(backed_up, versioned=True)))
    assert kept.splitlines()[-1] == "  undo     lakegc restore lake m1", "the store has all of it"
    nothing = replace(backed_up, outcomes={"deleted": 0}, bytes_deleted=0)
    assert "undo" not in screen.sweep_screen(report.sweep_report(nothing))


def test_a_sweep_that_came_too_early_says_from_when_it_may_delete_more() -> None:
    early = replace(SWEPT, outcomes={"deleted": 0, "unconfirmed": 3}, confirmed_from=2_000_000_040.0)
    text = screen.sweep_screen(report.sweep_report(early))
    assert "long enough: kept for a later sweep, from 2033-05-18 03:34 UTC" in text
    untold = screen.sweep_screen(report.sweep_report(replace(early, confirmed_from=None)))
    assert untold.endswith("long enough: kept for a later sweep")


def test_only_bytes_that_the_store_has_no_more_count_as_freed() -> None:
    quarantine = {"age": 9.0, "objects": 1, "bytes": 5 * 10**11}
    kept: list[dict[str, Any]] = [
        {"versioned": True},
        {"versioned": None},
        {"recoverable_until": 2_000_000_000.0},
        {"quarantine": {"age": 9.0}},
        {"versioned": True, "quarantine": quarantine},
    ]
    assert [replace(SWEPT, **each).bytes_freed for each in kept] == [0] * len(kept)
    assert "a month" not in words.freed(report.sweep_report(replace(SWEPT, recoverable_until=2_000_000_000.0)))
    assert SWEPT.bytes_freed == 2 * 10**12 and replace(SWEPT, quarantine=quarantine).bytes_freed == 15 * 10**11


def test_without_a_price_or_without_bytes_nobody_speaks_of_money() -> None:
    for each in (replace(SWEPT, price=None), replace(SWEPT, bytes_deleted=0)):
        assert "month" not in screen.sweep_screen(report.sweep_report(each))
    assert report.sweep_report(replace(SWEPT, price=None))["price"] is None


def test_a_sweep_that_deletes_nothing_says_nothing_of_what_the_store_keeps() -> None:
    for each in (replace(SWEPT, outcomes={"deleted": 0}), replace(SWEPT, outcomes={}, dry_run=True, planned_bytes=9)):
        found = report.sweep_report(replace(each, bytes_deleted=0, versioned=None))
        assert "is not known" not in screen.sweep_screen(found)
        assert words.freed(found) == "" and words.deleted(found) == "0 objects deleted"
    assert words.deleted(report.sweep_report(SWEPT)) == "3 objects deleted: 2.0 TB freed: about 40.00 EUR a month"


def test_a_sweep_that_its_budget_stopped_says_so_and_how_much_is_left() -> None:
    left = {"objects": 2, "bytes": 5_000_000}
    stopped = replace(SWEPT, outcomes={"deleted": 3, "over_budget": 2}, over_budget=left)
    found = report.sweep_report(stopped)
    assert (found["stopped_by_budget"], found["over_budget"]) == (True, left)
    assert "2 objects   5.0 MB are left: stopped by its budget" in screen.sweep_screen(found)
    whole = report.sweep_report(SWEPT)
    assert (whole["stopped_by_budget"], whole["over_budget"]) == (False, {"objects": 0, "bytes": 0})


def test_a_dry_run_says_how_long_the_sweep_would_take_or_that_nobody_knows() -> None:
    dry = replace(SWEPT, outcomes={}, dry_run=True, planned=9_000, planned_bytes=9)
    assert "no sweep of this repository is on record that tells" in screen.sweep_screen(report.sweep_report(dry))
    known = {"seconds": 7_200.0, "looks": 40.0, "objects_a_second": 1_234.0, "sweeps": 1, "objects_until": 800}
    told = replace(dry, estimate=known, budget={"until": "2026-11-27T06:00:00.000Z"})
    text = screen.sweep_screen(report.sweep_report(told))
    said = "would take about 2h: 40 s for its looks, the rest at the 1,234 objects a second of 1 earlier sweep\n"
    assert said in text
    assert "until 2026-11-27 06:00 UTC there is time for about 800 objects" in text
    small = replace(dry, estimate={"seconds": 41.0, "looks": 40.0, "sweeps": 1})
    assert screen.sweep_screen(report.sweep_report(small)).endswith("would take about 41 s"), (
        "no rate that it cannot tell"
    )


def test_a_sweep_says_what_its_rings_read_and_what_is_gone() -> None:
    rings = {"passed": 1, "count": 4, "read": 60, "gone": {}, "stopped_at": None}
    left = {"objects": 990, "bytes": 5_000_000}
    stopped = replace(SWEPT, outcomes={"deleted": 10, "over_budget": 990}, over_budget=left, rings=rings)
    text = screen.sweep_screen(report.sweep_report(stopped))
    assert "60 paths     near to what went read after them (1 of 4 passed)" in text
    gone = replace(stopped, rings=rings | {"gone": {EVIL: "data/1"}})
    assert no_control(screen.sweep_screen(report.sweep_report(gone)))
    assert report.sweep_report(SWEPT)["rings"] is None


@pytest.mark.parametrize("confirmed", [0, 4, 10])
def test_the_screen_of_a_mark_names_a_time_only_for_objects_that_there_are(confirmed: int) -> None:
    told = {"objects": MARK["objects"] | {"confirmed": confirmed}, "bytes": MARK["bytes"] | {"confirmed": confirmed}}
    lines = screen.mark_screen(MARK | told | {"safety": "full"}).splitlines()
    (now,) = [line for line in lines if "unreferenced ≥ gap" in line]
    (later,) = [line for line in lines if "newly unreferenced" in line]
    assert ("may be swept now" in now) == (confirmed > 0)
    assert ("may be swept after" in later) == (confirmed < 10)


def test_little_money_is_not_called_none() -> None:
    price: dict[str, Any] | None = report.price_json(EUR)
    assert words.monthly(1_000, price) == "less than 0.01 EUR a month"
    assert words.monthly(10**9, price) == "about 0.02 EUR a month"
    assert words.monthly(10**15, price) == "about 20,000.00 EUR a month"


EVIL = "evil/\x1b[31mred\x1b[0m\x07\n  garbage 0 objects"


def no_control(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_names_that_others_gave_cannot_change_the_screen_of_a_mark() -> None:
    one = {"objects": 1, "bytes": 1}
    evil = MARK | {
        "objects": MARK["objects"] | {"missing": 1, "foreign": 1},
        "missing": [{"path": EVIL, "address": EVIL}],
        "foreign_prefixes": [{"prefix": EVIL} | one],
        "origins": {"causes": [{"words": EVIL} | one], "folders": [{"prefix": EVIL} | one]},
        "guards": [{"name": "live", "passed": False, "severity": "ERROR", "description": EVIL}],
        "holds": [f"path:{EVIL}"],
    }
    found = screen.mark_screen(evil)
    assert no_control(found) and len(found.splitlines()) == len(screen.mark_screen(MARK).splitlines()) + 6
    assert found.count(r"evil/\x1b[31mred\x1b[0m\x07\n  garbage 0 objects") == 7
    swept = report.sweep_report(SWEPT) | {"unreadable": {EVIL: 404}}
    assert no_control(screen.sweep_screen(swept)) and r"evil/\x1b[31mred" in screen.sweep_screen(swept)


def test_the_screen_of_a_mark_says_what_only_holds_keep_and_by_which() -> None:
    lines = screen.mark_screen(MARK).splitlines()
    assert "  kept: held                       40 objects     4.0 kB   by path:legal/**" in lines
    held = MARK | {"commits": MARK["commits"] | {"kept_by": {"head": 1, "hold": 2}}, "holds": ["tag:v*"]}
    (line,) = (line for line in screen.mark_screen(held).splitlines() if "kept: held" in line)
    assert line.endswith("the 2 commits held count as committed")


def test_the_screen_of_a_mark_says_what_other_repositories_keep_where_they_keep_anything() -> None:
    assert "neighbours" not in screen.mark_screen(MARK)
    kept = MARK | {"objects": MARK["objects"] | {"neighbour": 7}, "bytes": MARK["bytes"] | {"neighbour": 700}}
    (line,) = (line for line in screen.mark_screen(kept).splitlines() if "kept: neighbours" in line)
    assert line.startswith("  kept: neighbours  ") and line.endswith(
        "7 objects      700 B   other repositories refer to it"
    )
