"""Reads the shards of a namespace: slices that can have changed, and whatever else lies there, each object once.

If any slice is carried, every shard is descended. Otherwise each is listed whole, with the fewest requests.
`carried` decides which slices are carried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import COUNTS, SHARDED, unit_of
from lakegc_core.policy.xids import slice_time
from lakegc_core.store.base import Store


class ShardReading:
    """Lists shards but for the units that are `carried`. `seen`: carried units that lie in the shards listed so far."""

    def __init__(self, store: Store, carried: frozenset[str]) -> None:
        self._store, self._carried = store, carried
        self.seen: set[str] = set()

    def read(self, shard: str) -> Iterator[pa.RecordBatch]:
        """The objects of a shard, `data/!ab/`."""
        return self._descend(shard) if self._carried else self._store.list(shard)

    def _descend(self, folder: str) -> Iterator[pa.RecordBatch]:
        anew: list[str] = []
        kept: list[str] = []
        others: list[str] = []
        for level in self._store.list_level(folder):
            yield level.objects
            for below in level.prefixes:
                name = below[len(folder) : -1]
                unit = f"{SHARDED}{name}/"
                if slice_time(name) is None:
                    others.append(below)
                elif unit in self._carried:
                    self.seen.add(unit)
                    kept.append(name)
                else:
                    anew.append(name)
        for start in covering(anew, avoided=kept):
            for batch in self._store.list(folder + start):
                yield self._of_slices(batch, folder)
        for below in others:
            yield from self._descend(below)

    def _of_slices(self, batch: pa.RecordBatch, folder: str) -> pa.RecordBatch:
        """The rows of slices that lie directly below the folder and are not carried. Other folders with the same prefix
        are descended by themselves."""
        units = unit_of(batch["address"])
        names = pc.utf8_slice_codeunits(batch["address"], len(folder), len(folder) + _SLICE)
        direct = pc.equal(units, pc.binary_join_element_wise(SHARDED, names, "/", ""))
        return batch.filter(pc.and_not(direct, pc.is_in(units, pa.array(self._carried, pa.string()))))


_SLICE = 20  # characters of a slice's name


def covering(names: Sequence[str], avoided: Sequence[str], length: int = 1) -> list[str]:
    """The fewest prefixes that cover all `names` and match none of `avoided`. A name alone in its group gives its
    folder. `length`: of the prefixes to try; each step of the recursion tries longer ones.

    Slices that are listed anew are mostly of one time, so their names begin alike: few requests list them all.
    """
    found: list[str] = []
    for start, group in groupby(sorted(names), key=lambda name: name[:length]):
        alike, rest = list(group), [each for each in avoided if each.startswith(start)]
        if len(alike) == 1:
            found.append(f"{alike[0]}/")
        else:
            found += covering(alike, rest, length + 1) if rest else [start]
    return found


def add_counts(counts: dict[str, dict[str, int]], rows: pa.Table) -> None:
    """Add rows to the counts of their units. `rows`: column unit, and those of COUNTS for each object."""
    summed = rows.group_by("unit").aggregate([(name, "sum") for name in COUNTS])
    for row in summed.to_pylist():
        known = counts.setdefault(row["unit"], dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            known[name] += row[f"{name}_sum"]
