"""A clean mark: all that lies there against all that is referred to, and the other way round."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import MarkError
from lakegc_core.inventory.carried import GONE, GONE_SCHEMA, OBJECTS_SCHEMA, UNITS, UNITS_SCHEMA
from lakegc_core.judging import subtraction
from lakegc_core.judging.subtraction import _LATE, _UNDATED, ABSENT, _split_named, against_all
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import MISSTATED
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import STAGES
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import INDEX, INDEX_SCHEMA
from lakegc_core.references.staged import STAGED_SCHEMA as STAGED_SCHEMA
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.hashing import hash_strings
from tests.support.crowded import crowded
from tests.support.lake import NO_SPARK, NOW, Lake
from tests.support.marks import Rows, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_AGO = NOW - timedelta(days=40)
OLD = "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490"
"""How names of objects begin that were uploaded long before NOW."""


def name(number: int) -> str:
    return f"{OLD}{number}00"


def xid(moment: float) -> str:
    """An object's name that lakeFS gave out at a moment, unix seconds."""
    value, digits = int(moment) << 3, ""
    for _ in range(7):
        value, digit = divmod(value, 32)
        digits = "0123456789abcdefghijklmnopqrstuv"[digit] + digits
    return f"{digits}{'0' * 13}"


def lying(*numbers: int) -> Rows:
    """Objects of the listing, each of a hundred times its number in bytes."""
    return [
        {
            "address": name(number),
            "size": 100 * number,
            "last_modified": LONG_AGO,
            "etag": None,
            "unit": "data/gk5b63g7lm5ii54909u0/",
            "foreign": False,
        }
        for number in numbers
    ]


def entry(number: int, *, size: int = 0, exact: bool = True) -> dict[str, Any]:
    return {"range_id": "r1", "address": name(number), "exact": exact, "size": size or 100 * number, "e_tag": "t"}


def hashed(rows: Rows) -> Rows:
    hashes = hash_strings(pa.array([row["address"] for row in rows], pa.string())).tolist()
    return [{"range_id": "r1", "hash": each, "size": row["size"]} for row, each in zip(rows, hashes, strict=True)]


def mark(
    served: Lake, listed: Rows, entries: Rows, staged: Rows | None = None, index: Rows | None = None
) -> MarkContext:
    """A mark that has only to subtract."""
    context = served.begin("lake", "m1")
    finish(
        context, STAGES[0], {STAGES[0]: (OBJECTS_SCHEMA, listed), UNITS: (UNITS_SCHEMA, []), GONE: (GONE_SCHEMA, [])}
    )
    finish(context, STAGES[1], {STAGES[1]: (STAGED_SCHEMA, staged or [])})
    finish(context, STAGES[2])
    rows = hashed(entries) if index is None else index
    finish(context, STAGES[3], {STAGES[3]: (ENTRIES_SCHEMA, entries), INDEX: (INDEX_SCHEMA, rows)})
    return context


def subtracted(spark: SparkSession, context: MarkContext) -> tuple[set[str], set[str], dict[str, int]]:
    """What nothing refers to; what is missing; and what has another size than its entry claims, with that."""
    (own,) = all_layers(context)
    found = against_all(spark, context, own, context.header.started_at, Dataset(OBJECTS_SCHEMA))
    missing = found.missing.collect() if found.missing is not None else []
    odd = {row["address"]: row["size"] for batch in found.misstated.batches() for row in batch.to_pylist()}
    return {row["address"] for row in found.objects.as_frame().collect()}, {row[0] for row in missing}, odd


@pytest.mark.parametrize("many", [False, True], ids=["by scan", "by join"])
def test_what_lies_there_and_nothing_refers_to_is_told_from_what_is_missing_and_what_has_another_size(
    quick: SparkSession, served: Lake, many: bool
) -> None:
    entries = [entry(1), entry(2, size=7), entry(5), entry(6, exact=False)]
    staged = [{"address": name(number), "exact": exact} for number, exact in ((4, True), (7, True), (8, False))]
    context = mark(served, lying(1, 2, 3, 4), entries, staged)
    with crowded(many):
        unreferenced, missing, misstated = subtracted(quick, context)
    assert unreferenced == {name(3), name(4)}, "what is staged is judged later"
    assert missing == {name(5), name(7)}, "a second reading of an address is not missing where it does not lie"
    assert misstated == {name(2): 7}


def test_without_references_all_that_lies_there_is_to_be_judged(quick: SparkSession, served: Lake) -> None:
    assert subtracted(quick, mark(served, lying(1, 2), [])) == ({name(1), name(2)}, set(), {})


def test_an_index_that_does_not_hold_every_address_that_was_read_is_an_error(served: Lake) -> None:
    entries = [entry(1), entry(2)]
    context = mark(served, lying(1, 2), entries, index=hashed(entries[:1]))
    (own,) = all_layers(context)
    with pytest.raises(MarkError, match="does not hold every address"):
        against_all(NO_SPARK, context, own, 0.0, Dataset(OBJECTS_SCHEMA))


@pytest.mark.parametrize("dataset", [STAGES[3], INDEX])
def test_a_mark_that_does_not_name_what_it_read_is_an_error(served: Lake, dataset: str) -> None:
    context = served.begin("lake", "m1")
    finish(context, STAGES[0], {STAGES[0]: (OBJECTS_SCHEMA, lying(1))})
    for stage in STAGES[1:3]:
        finish(context, stage)
    both = {STAGES[3]: (ENTRIES_SCHEMA, [entry(1)]), INDEX: (INDEX_SCHEMA, hashed([entry(1)]))}
    finish(context, STAGES[3], {each: both[each] for each in both if each != dataset})
    (own,) = all_layers(context)
    with pytest.raises(MarkError, match=f"has no dataset {dataset}"):
        against_all(NO_SPARK, context, own, 0.0, Dataset(OBJECTS_SCHEMA))


def test_what_was_named_since_a_moment_is_new_and_a_name_that_does_not_say_counts_as_old() -> None:
    now = NOW.timestamp()
    names = [name(1), f"data/x/{xid(now)}", "data/x/1"]
    table = pa.table({"address": names, "size": [1, 2, 3], "lies": [False] * 3})
    found = _split_named(now, table)
    assert [found[each]["address"].to_pylist() for each in (ABSENT, _LATE)] == [[names[0]], [names[2]]]
    assert found[MISSTATED]["address"].to_pylist() == [names[1]]
    assert found[_UNDATED]["address"].to_pylist() == [names[2]]
    found = _split_named(now, table.set_column(2, "lies", pa.array([True] * 3)))
    assert [len(found[each]) for each in (ABSENT, _LATE, MISSTATED, _UNDATED)] == [0, 0, 3, 0]


def test_a_name_of_a_time_to_come_tells_nothing_so_its_object_can_be_missing() -> None:
    """A clock of lakeFS was ahead once. By that name it would be too new to be missed until then."""
    now = NOW.timestamp()
    names = [f"data/x/{xid(now + ahead)}" for ahead in (86_400, 86_402)]
    found = _split_named(now, pa.table({"address": names, "size": [1, 2], "lies": [False] * 2}))
    assert [found[each]["address"].to_pylist() for each in (ABSENT, _LATE, MISSTATED)] == [[], names[1:], names]


def test_an_upload_that_was_in_flight_during_the_listing_is_not_missing(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was given out before, and it lies there once the mark asks; it may be staged or committed."""
    in_flight, lost, unnamed = (f"data/x/{each}" for each in (xid(NOW.timestamp() - 60), f"{xid(0)[:-1]}g", "1"))
    for address in (in_flight, unnamed):
        served.sandbox.repository("lake").files.write(address, b"x", NOW.timestamp())
    late = [entry(1) | {"address": in_flight}]
    staged = [{"address": each, "exact": True} for each in (unnamed, lost, "data/x/2")]
    context = mark(served, lying(2), late, staged)
    assert subtracted(quick, context)[1] == {lost, "data/x/2"}
    monkeypatch.setattr(subtraction, "_MOST_ASKED", 1)
    assert subtracted(quick, context)[1] == {in_flight, unnamed, lost, "data/x/2"}


def test_a_name_that_does_not_say_counts_as_misstated_where_the_store_has_another_size_than_its_entry_claims(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not listed, and no later optimized mark compares what its entry claims."""
    claimed, other, lost = (f"data/x/{each}" for each in "123")
    for address in (claimed, other):
        served.sandbox.repository("lake").files.write(address, b"x", NOW.timestamp())
    entries = [entry(1) | {"address": each, "size": size} for each, size in ((claimed, 1), (other, 2), (lost, 3))]
    context = mark(served, lying(2), entries)
    assert subtracted(quick, context)[2] == {other: 2}
    monkeypatch.setattr(subtraction, "_MOST_ASKED", 2)
    assert subtracted(quick, context)[2] == {other: 2}, "however many are missing, they hide no garbage"
