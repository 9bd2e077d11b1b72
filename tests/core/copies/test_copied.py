"""A result says what is not at its place, and what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakegc_core.copies.copied import CopyResult


@pytest.mark.parametrize(
    ("is_undo", "outcomes", "says"),
    [
        (True, {"copied": 2}, ""),
        (True, {"copied": 2, "failed": 1}, "The other 2 are at their place. Do what their problems ask for, and run"),
        (
            True,
            {"copied": 2, "missing": 1},
            "Neither quarantine nor the store keeps 1 of them. If there is a backup: lakegc restore",
        ),
        (
            True,
            {"missing": 3},
            "None of 3 objects was brought back. Neither quarantine nor the store keeps 3 of them.",
        ),
        (True, {"already_there": 1, "different": 1}, "Other objects lie there, which are not overwritten."),
        (
            False,
            {"missing": 3},
            "None of 3 objects was copied. s3://b/ns lacks 3 of them: name the place that the backup was made to.",
        ),
        (False, {"failed": 3}, "None of 3 objects was copied. Do what their problems ask for, and run it again."),
    ],
)
def test_what_a_restore_could_not_do_is_said_with_what_helps_and_run_again_only_where_that_helps(
    is_undo: bool, outcomes: dict[str, int], says: str
) -> None:
    result = CopyResult("restore", "lake", "m1", "s3://b/ns", outcomes, 0, [], 1.0, is_undo=is_undo)
    assert says in result.trouble and bool(says) == bool(result.trouble)
    named = replace(result, backup="/spare/my lake").trouble
    assert ("lakegc restore lake m1 '/spare/my lake'." in named) == ("If there is a backup" in result.trouble)
    assert ("run it again" in result.trouble) == bool(outcomes.get("failed"))
