"""What is to be done about an address, from all that is told of it: against a definition address by address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakegc_core.judging.address_rows import (
    ANEW,
    ASKED,
    BEFORE,
    CANDIDATES,
    DROPPED_SINCE,
    FREED,
    GONE_SINCE,
    HELD,
    HELD_BEFORE,
    MISSED,
    NEW,
    ROWS,
    STAGED,
    SWEPT,
    decide,
)


@dataclass(frozen=True)
class Row:
    kind: int
    hash: int
    carried: bool
    asks: bool
    range_id: str

    def table(self) -> dict[str, object]:
        is_held = self.kind in (HELD, HELD_BEFORE)
        return {
            "kind": self.kind,
            "hash": self.hash,
            "address": None if is_held else f"data/s/{self.hash}",
            "range_id": self.range_id if is_held else None,
            "carried": self.carried,
            "asks": self.asks if self.kind in (NEW, STAGED, MISSED) else None,
        }


rows = st.lists(
    st.builds(Row, st.integers(0, 8), st.integers(-3, 3), st.booleans(), st.booleans(), st.sampled_from("abc")),
    max_size=25,
)


def told(every: list[Row]) -> Iterator[tuple[str, int, str | None, bool]]:
    """Verdict, hash, the first range that holds it, whether it is live or staged."""
    for number in {row.hash for row in every}:
        own = [row for row in every if row.hash == number]
        kinds = {row.kind for row in own}
        ranges = sorted(row.range_id for row in own if row.kind in (HELD, HELD_BEFORE))
        rest = (ranges[0] if ranges else None, bool(ranges) or STAGED in kinds)
        lies = ANEW in kinds or (BEFORE in kinds and GONE_SINCE not in kinds)
        if lies and not ranges:
            yield (CANDIDATES, number, *rest)
        if not lies and not ranges and DROPPED_SINCE in kinds and GONE_SINCE not in kinds:
            yield (FREED, number, *rest)
        asking = [row for row in own if row.kind in (NEW, STAGED, MISSED) and row.asks]
        was_there = kinds & {HELD_BEFORE, DROPPED_SINCE}
        if not lies and asking and GONE_SINCE in kinds:
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
