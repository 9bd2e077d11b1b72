"""What a sweep comes to: nothing that went wrong is silent."""

from __future__ import annotations

from typing import Any

from lakegc_core.sweep.result import SweepResult


def result(outcomes: dict[str, int], **more: Any) -> SweepResult:
    return SweepResult("lake", "m1", 1, outcomes, 0, 9, 1.0, None, **more)


def test_a_sweep_in_which_nothing_failed_says_nothing() -> None:
    fine = result({"deleted": 5, "already_gone": 1, "rescued": 1, "unconfirmed": 2, "refused:live": 3})
    assert (fine.failed, fine.lost, fine.trouble) == (0, 0, "")


def test_failures_of_all_codes_are_counted_together_and_said() -> None:
    found = result({"deleted": 5, "failed:403": 2, "failed:no_answer": 1_000})
    assert found.failed == 1_002
    assert "1,002 objects could not be deleted" in found.trouble and "Run the same sweep again" in found.trouble


def test_failures_beside_a_spent_budget_do_not_pass_for_all_that_is_left() -> None:
    said = result({"failed:403": 2, "over_budget": 5}, over_budget={"objects": 5, "bytes": 50}).trouble
    assert "2 objects could not be deleted; the budget kept 5 others back" in said and "Run the same sweep" not in said
    limited = result({"failed:403": 2}, budget={"most_objects": 1}).trouble
    assert "2 objects could not be deleted in this sweep, or in one within a week before it; " in limited


def test_objects_that_were_lost_and_paths_that_do_not_read_any_more_are_said_with_what_to_do() -> None:
    found = result({"lost": 2, "failed:403": 1}, unreadable={"main/a": 410})
    assert found.lost == 2
    for said in ("2 objects were found referenced after they had been deleted", "restore them, and report this"):
        assert said in found.trouble
    assert "1 sampled paths could be read before the sweep, and cannot now" in found.trouble
    assert "1 objects could not be deleted" in found.trouble
