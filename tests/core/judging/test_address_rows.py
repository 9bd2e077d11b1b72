"""What is to be done about an address, from all that is told of it: against a definition address by address."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakegc_core.inventory.carried import Units
from lakegc_core.judging.address_rows import (
    ANEW,
    ASKED,
    BEFORE,
    CANARY,
    CANDIDATES,
    DROPPED_SINCE,
    FREED,
    GONE_SINCE,
    IN_RANGE,
    IN_RANGE_BEFORE,
    MISSED,
    NEW,
    ROWS,
    STAGED,
    SWEPT,
    address_rows,
    decide,
    index_rows,
)
from lakegc_core.references.ranges.range_files import by_range_and_mark
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter


@dataclass(frozen=True)
class Row:
    kind: int
    hash: int
    carried: bool
    asks: bool
    range_id: str

    def table(self) -> dict[str, object]:
        is_held = self.kind in (IN_RANGE, IN_RANGE_BEFORE)
        return {
            "kind": self.kind,
            "hash": self.hash,
            "address": None if is_held else f"data/s/{self.hash}",
            "range_id": self.range_id if is_held else None,
            "carried": self.carried,
            "asks": self.asks if self.kind in (NEW, STAGED, MISSED) else None,
        }


rows = st.lists(
    st.builds(
        Row,
        st.integers(BEFORE, IN_RANGE_BEFORE),
        st.integers(-3, 3),
        st.booleans(),
        st.booleans(),
        st.sampled_from("abc"),
    ),
    max_size=25,
)


def told(every: list[Row]) -> Iterator[tuple[str, int, str | None, bool]]:
    """Verdict, hash, the first range that holds it, whether it is live or staged."""
    for number in {row.hash for row in every}:
        own = [row for row in every if row.hash == number]
        kinds = {row.kind for row in own}
        ranges = sorted(row.range_id for row in own if row.kind in (IN_RANGE, IN_RANGE_BEFORE))
        rest = (ranges[0] if ranges else None, bool(ranges) or STAGED in kinds)
        lies = ANEW in kinds or (BEFORE in kinds and GONE_SINCE not in kinds)
        if (lies or CANARY in kinds) and not ranges:
            yield (CANDIDATES, number, *rest)
        if not lies and not ranges and DROPPED_SINCE in kinds and GONE_SINCE not in kinds:
            yield (FREED, number, *rest)
        asking = [row for row in own if row.kind in (NEW, STAGED, MISSED) and row.asks]
        was_there = kinds & {IN_RANGE_BEFORE, DROPPED_SINCE}
        if not lies and GONE_SINCE in kinds and (asking or ranges):
            yield (SWEPT, number, *rest)
        elif not lies and any(not (was_there and row.carried and row.kind != MISSED) for row in asking):
            yield (ASKED, number, *rest)


@example([Row(MISSED, 0, True, True, "a"), Row(DROPPED_SINCE, 0, True, False, "a")])
@given(rows)
def test_what_is_decided_of_an_address_follows_from_all_that_is_told_of_it(every: list[Row]) -> None:
    table = pa.Table.from_pylist([row.table() for row in every], schema=ROWS)
    found = [
        (row["verdict"], row["hash"], row["range_id"], row["live"])
        for each in decide(table)
        for row in each.to_pylist()
    ]
    assert sorted(found, key=str) == sorted(told(every), key=str)


@pytest.mark.parametrize("kind", [NEW, STAGED, MISSED])
def test_no_address_is_asked_for_that_was_given_out_since_the_listing_unless_its_name_tells_a_time_to_come(
    kind: int,
) -> None:
    """The second name is of a clock of lakeFS that was ahead by days."""
    given_out = 5 * 86_400  # unix seconds
    name = f"data/x/{np.base_repr(given_out << 3, 32).lower().zfill(7)}{'0' * 13}"
    columns = [pa.array([name]), pa.array([True]), pa.array([1])]
    rows = pa.RecordBatch.from_arrays(columns, ["address", "exact", "size"])
    asks = [
        bool(address_rows(kind, Units((), ()), float(at), rows)["asks"][0])
        for at in (given_out + 1, given_out, given_out - 86_400, given_out - 86_401)
    ]
    assert asks == [True, False, False, True]


_RANGES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3)), max_size=12)


def _written(folder: str, schema: pa.Schema, rows: list[tuple[object, ...]]) -> Dataset:
    out = DatasetFolder(LocalConfig(folder), "marks", "m1")
    writer = PartWriter(out.config, out.path, schema)
    columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(schema)]
    writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    return out.dataset("", writer.close(), schema)


@given(_RANGES, st.sets(st.sampled_from(["a@m1", "b@m1", "b@m2", "c@m2"])), st.sets(st.integers(-3, 3)), st.booleans())
def test_of_an_index_count_the_sought_hashes_in_ranges_that_are_retained_and_were_read_there(
    index: list[tuple[str, int]], held: set[str], sought: set[int], repeated: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        readings = pa.schema([("range_id", pa.string()), ("read_in", pa.string())])
        retained = _written(f"{folder}/ranges", readings, [tuple(each.split("@")) for each in sorted(held)])
        addresses = _written(
            f"{folder}/sought", pa.schema([("hash", pa.int64())]), [(each,) for each in sorted(sought)]
        )
        those = (retained.keys("range_id", "read_in", by=by_range_and_mark), addresses.keys("hash"))
        make = partial(index_rows, IN_RANGE_BEFORE, "m1", *those)
        ids = pa.array([each for each, _ in index], pa.string())
        rows = pa.table({"range_id": ids.dictionary_encode() if repeated else ids, "hash": [each for _, each in index]})
        rows = rows.cast(pa.schema([("range_id", rows.schema.field("range_id").type), ("hash", pa.int64())]))
        found = make(rows.combine_chunks().to_batches()[0]) if index else {"hash": pa.array([]), "range_id": []}
    assert found.get("kind", IN_RANGE_BEFORE) == IN_RANGE_BEFORE
    counted = [(range_id, key) for range_id, key in index if f"{range_id}@m1" in held and key in sought]
    pairs = list(zip(pa.array(found["range_id"]).to_pylist(), pa.array(found["hash"]).to_pylist(), strict=True))
    assert {key for _, key in pairs} == {key for _, key in counted}
    assert set(pairs) <= set(counted)
    assert len(pairs) == len({key for _, key in counted}), "of those that agree in their hash the first is enough"
