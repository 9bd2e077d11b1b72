"""How many objects became what; and the second judgement of every expired row, apart from Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakegc_core.judging.summary import Findings, Summary, amount_of, groups_of
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import Reason
from lakegc_core.policy.facts import Amount, ListingFacts, read_facts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part
from tests.support.facts import whole_facts

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)
NOT_STORED = (Reason.MISSING, Reason.GIVEN_UP, Reason.SWEPT_BEFORE)
NAME = "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900"
FOLDER = DatasetFolder(LocalConfig("nowhere"), "stage")
SUMMARY = Summary(
    Namespace("s3://bucket/lake"),
    unknown_names=False,
    cutoff=(NOW - DAY).timestamp(),
    now=NOW.timestamp(),
    confirmed=(NOW - DAY).timestamp(),
)


def table(*rows: tuple[str, int, str, timedelta, timedelta]) -> pa.Table:
    """Rows of (address, size, reason, age, unreferenced for)."""
    told = [
        {"address": name, "size": size, "reason": reason, "last_modified": NOW - age, "etag": None, "since": NOW - dead}
        for name, size, reason, age, dead in rows
    ]
    return pa.Table.from_pylist(told, schema=FINDINGS_SCHEMA)


def test_rows_are_counted_by_reason_and_those_that_were_dead_for_long_enough_apart() -> None:
    rows = table(
        (NAME, 5, Reason.UNREFERENCED, 9 * DAY, DAY),
        (NAME, 7, Reason.UNREFERENCED, 9 * DAY, DAY / 2),
        (NAME, 1, Reason.STAGED, 9 * DAY, DAY),
    )
    sums = Counter(SUMMARY(rows))
    assert amount_of(sums, Reason.UNREFERENCED) == Amount(2, 12)
    assert amount_of(sums, "confirmed") == Amount(1, 5)
    assert amount_of(sums, Reason.STAGED) == Amount(1, 1)
    assert amount_of(sums, Reason.HELD) == Amount(0, 0)
    assert sums["violations"] == 0


@pytest.mark.parametrize(
    ("address", "age"),
    [
        (NAME, DAY),  # exactly at the cutoff: not older
        (NAME, DAY / 2),
        ("data/raw/customers.csv", 9 * DAY),
        ("_lakefs/retention/rules", 9 * DAY),
        ("README.md", 9 * DAY),
    ],
)
def test_an_expired_row_that_is_too_young_or_not_lakefs_is_a_violation(address: str, age: timedelta) -> None:
    good = (NAME, 1, Reason.UNREFERENCED, 9 * DAY, DAY)
    assert SUMMARY(table(good, (address, 1, Reason.UNREFERENCED, age, DAY), good))["violations"] == 1
    assert SUMMARY(table(good, (address, 1, Reason.FOREIGN, age, DAY)))["violations"] == 0, "it is kept"


def test_no_rows_are_nothing_and_no_violation() -> None:
    assert {name: count for name, count in SUMMARY(table()).items() if count} == {}


def test_every_listed_object_is_in_one_group_and_what_is_in_no_other_is_committed() -> None:
    reasons = (*(reason for reason in Reason if reason not in (*NOT_STORED, Reason.UNREFERENCED)),)
    rows = [(NAME, 10, reason, 9 * DAY, DAY) for reason in reasons] + [(NAME, 4, Reason.UNREFERENCED, 9 * DAY, DAY)]
    kept = [Part("p", 1, 1, "0", SUMMARY(table(row))) for row in rows]
    nothing = Dataset(FINDINGS_SCHEMA)
    findings = Findings(nothing, FOLDER.dataset("kept", kept, FINDINGS_SCHEMA), nothing)
    facts = read_facts(ListingFacts, whole_facts("namespace_listing", {"objects": 20, "bytes": 200}))
    learnt = FOLDER.dataset("learnt", [Part("l", 3, 1, "0", {"bytes": 30})], FINDINGS_SCHEMA)
    found = groups_of(findings.sums(), facts, learnt)
    assert found.listed == Amount(23, 230)
    assert found.foreign == Amount(2, 20) and found.unknown == Amount(1, 10), "unknown ones are foreign as well"
    others = asdict(found)
    for name in ("listed", "unknown", "confirmed"):
        others.pop(name)
    assert sum(each["objects"] for each in others.values()) == 23
    assert sum(each["bytes"] for each in others.values()) == 230
    assert found.committed == Amount(23 - len(rows), 230 - 10 * len(reasons) - 4)
