"""What lakeFS answers of expired objects decides what stays, and when a series begins."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lakegc_core.judging.asked import _Answers
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import Outcome, Reason
from tests.support.lake import NOW
from tests.support.old_marks import DAY

READ_AT = NOW.timestamp()


def rows(*told: tuple[str, str, float, str | None]) -> pa.Table:
    """Rows of (address, reason, since, what lakeFS answered)."""
    table = [
        {
            "address": address,
            "size": 1,
            "last_modified": NOW,
            "etag": None,
            "reason": reason,
            "since": datetime.fromtimestamp(since, UTC),
        }
        for address, reason, since, _ in told
    ]
    verdicts = pa.array([verdict for *_, verdict in told], pa.string())
    return pa.Table.from_pylist(table, schema=FINDINGS_SCHEMA).append_column("verdict", verdicts)


def answered(*told: tuple[str, str, float, str | None]) -> dict[str, tuple[str, float]]:
    found = _Answers(READ_AT, READ_AT + 60)(rows(*told))
    assert found.schema.names == FINDINGS_SCHEMA.names
    return {row["address"]: (row["reason"], row["since"].timestamp() - READ_AT) for row in found.to_pylist()}


def test_what_a_branch_shows_is_staged_and_what_is_new_and_was_not_asked_for_is_kept() -> None:
    garbage, old = Reason.UNREFERENCED, READ_AT - DAY
    found = answered(
        ("shown", garbage, old, Outcome.RESCUED),
        ("shown and new", garbage, READ_AT, Outcome.RESCUED),
        ("not asked", garbage, old, Outcome.UNCONFIRMED),
        ("not asked and new", garbage, READ_AT, Outcome.UNCONFIRMED),
        ("asked", garbage, old, None),
        ("asked and new", garbage, READ_AT, None),
    )
    assert {name: reason for name, (reason, _) in found.items()} == {
        "shown": Reason.STAGED,
        "shown and new": Reason.STAGED,
        "not asked": garbage,  # its series goes on, and the look asks again
        "not asked and new": Reason.UNASKED,
        "asked": garbage,
        "asked and new": garbage,
    }


def test_a_series_that_begins_now_begins_when_lakefs_had_answered_and_an_older_one_stays() -> None:
    found = answered(("new", Reason.UNREFERENCED, READ_AT, None), ("old", Reason.UNREFERENCED, READ_AT - DAY, None))
    assert {name: since for name, (_, since) in found.items()} == {"new": 60, "old": -DAY}
