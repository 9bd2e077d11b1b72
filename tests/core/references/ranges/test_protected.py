"""The rows by which ranges protect addresses: one for each reading of each entry's address, under its own range."""

from __future__ import annotations

import pyarrow as pa

from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA, protected_rows

NAMESPACE = Namespace("s3://bucket/lake")
RELATIVE, FULL = 1, 2


def entries(*rows: tuple[str, int]) -> pa.Table:
    """Entries of these addresses and types; the size of each is its number."""
    return pa.table(
        {
            "address": pa.array([address for address, _ in rows], pa.string()),
            "address_type": pa.array([kind for _, kind in rows], pa.int8()),
            "size": pa.array(range(len(rows)), pa.int64()),
            "e_tag": [f"tag {number}" for number in range(len(rows))],
        }
    )


def test_every_entry_has_its_row_under_the_range_that_holds_it() -> None:
    rows = protected_rows(
        NAMESPACE, ["one", "none", "two"], [2, 0, 1], entries(("a", RELATIVE), ("b", RELATIVE), ("c", RELATIVE))
    )
    assert rows.schema == ENTRIES_SCHEMA
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("one", "a", True, 0, "tag 0"),
        ("one", "b", True, 1, "tag 1"),
        ("two", "c", True, 2, "tag 2"),
    ]


def test_an_address_that_reads_in_two_ways_protects_both_and_is_exact_in_one() -> None:
    rows = protected_rows(NAMESPACE, ["one", "two"], [1, 1], entries(("s3://bucket/lake/a%20b", FULL), ("c", RELATIVE)))
    found = {(row["range_id"], row["address"]): (row["exact"], row["size"]) for row in rows.to_pylist()}
    assert {name for name in found if name[0] == "one"} >= {("one", "a%20b"), ("one", "a b")}
    assert sorted(exact for (name, _), (exact, _) in found.items() if name == "one").count(True) == 1
    assert found["two", "c"] == (True, 1), "rows after it are still those of their own entries"


def test_an_address_outside_the_namespace_protects_nothing_in_it() -> None:
    rows = protected_rows(NAMESPACE, ["one"], [2], entries(("s3://bucket/lake2/a", FULL), ("s3://bucket/lake/b", FULL)))
    assert [(row["address"], row["size"]) for row in rows.to_pylist()] == [("b", 1)]


def test_further_columns_stay_with_their_entries() -> None:
    table = entries(("s3://far/a", FULL), ("b", RELATIVE)).append_column("path", pa.array([b"at/a", b"at/b"]))
    rows = protected_rows(NAMESPACE, ["one"], [2], table)
    assert rows.column_names == [*ENTRIES_SCHEMA.names, "path"]
    assert rows["path"].to_pylist() == [b"at/b"]
