"""Entries at branch heads that have the size of a candidate: at their paths a branch may show the candidate although no
staged dump names it. `reuploads` decides where to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.context import MarkContext
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.ranges.range_files import INDEX_SCHEMA
from lakegc_core.references.shown.classes import EVERY
from lakegc_core.references.shown.heads import LAYER, BranchHeads
from lakegc_core.references.shown.intervals import ALIKE
from lakegc_core.spark.tasks import Mapped, both
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import columns_of
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.joins import scan
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.relations import distinct, joined, same, selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLAIMS = pa.schema([ENTRIES_SCHEMA.field(name) for name in ("address", "size", "e_tag")])
"""The claims of an entry about its object, for each reading of its address."""
_OF_RANGE = pa.schema([ENTRIES_SCHEMA.field(name) for name in ("range_id", "size")])
_ROWS_TOGETHER = 250_000  # in memory at once, to find what they repeat
_HITS = pa.schema([INDEX_SCHEMA.field("range_id"), INDEX_SCHEMA.field("size"), LAYER])


@dataclass(frozen=True)
class AlikeEntries:
    """Searches the entries of heads for those that are alike to a candidate, and writes what it finds.

    `candidates`: rows with the columns of PLANNED. `out`: the folder that it writes to. `waited`: classes (SIZES) that
    were left over last time, and come first.
    """

    spark: SparkSession
    context: MarkContext
    heads: BranchHeads
    candidates: Dataset
    out: DatasetFolder
    waited: Dataset

    def find_hits(self, classes: Dataset) -> Dataset:
        """The ranges with entries that claim the sizes of candidates: range_id, size and layer. Imported entries are
        included, because candidates may hide behind them too."""
        return self._hits("hits", self.heads.index, classes.keys("size", by=_by_size), self.heads.outside)

    def alike_ranges(self, classes: Dataset, hits: Dataset) -> Mapped:
        """The retained ranges with entries that are alike to a candidate: ALIKE. `hits`: see `find_hits`."""
        ranks = classes.mapped(self.spark, "size", "rank", here=True)
        found = selected(joined(self._in_retained(hits), ranks, ["size"]), ALIKE)
        return both(found, self._misstated()) if self.heads.misstated.rows else found

    def _misstated(self) -> Mapped:
        """The ranges of entries that claim another size than their object has: ALIKE, alike to every candidate."""
        found = self._hits("misstated-hits", self.heads.index, self.heads.misstated.keys(), more=("hash",))
        return selected(self._in_retained(found), ALIKE, rank=partial(same, EVERY))

    def _hits(
        self, name: str, index: Dataset, wanted: Wanted, outside: Dataset | None = None, more: Sequence[str] = ()
    ) -> Dataset:
        """The wanted entries, as _HITS. `more`: further columns of the index that `wanted` computes its keys from."""
        schema = pa.schema([*_HITS, *(INDEX_SCHEMA.field(column) for column in more)])
        sources = (*index.sources, *(outside.sources if outside else ()))
        columns = [column for column in schema.names if column != LAYER.name]
        feeds = [
            feed
            for source in sources
            for feed in Dataset(schema, (source,)).feeds(
                *columns, make=partial(_of_layer, source.layer), repeated=("range_id",)
            )
        ]
        found = scan(self.spark, feeds, schema, wanted).then(_HITS, partial(_distinct, _HITS))
        return self.out.put(name, found, _HITS)

    def _in_retained(self, hits: Dataset) -> Mapped:
        """The hits in retained ranges, and the number of entries of each range: range_id, size, layer and count."""
        rows = distinct(hits.mapped(self.spark, here=True))
        return joined(rows, self.heads.retained_ranges(self.spark), ["range_id", "layer"])

    def claims(self, alike: Dataset) -> Mapped:
        """The claims of entries that are alike by their sizes (ALIKE): CLAIMS, some more than once."""
        found = self._entries(alike.keys(*_OF_RANGE.names, by=_by_range_and_size))
        return found.then(CLAIMS, partial(_distinct, CLAIMS))

    def ranges_with_claims(self, claims: Dataset) -> Mapped:
        """The ranges with entries that make one of these claims (CLAIMS), and perhaps a few others: range_id, size,
        e_tag."""
        found = self._entries(claims.keys(*CLAIMS.names, by=_by_claim))
        return distinct(found, "range_id", "size", "e_tag")

    def _entries(self, wanted: Wanted) -> Mapped:
        schema = pa.schema([_OF_RANGE.field("range_id"), *CLAIMS])
        feeds = self.heads.entries.feeds(*schema.names, repeated=("range_id",))
        return scan(self.spark, feeds, schema, wanted, here=True)

    def ranges_elsewhere(self, alike: Dataset) -> Mapped:
        """The ranges and sizes (range_id, size) with entries whose objects may lie in other namespaces."""
        feeds = self.heads.outside.feeds(*_OF_RANGE.names, repeated=("range_id",))
        wanted = alike.keys(*_OF_RANGE.names, by=_by_range_and_size)
        return distinct(scan(self.spark, feeds, _OF_RANGE, wanted, here=True))


def _by_size(rows: pa.RecordBatch) -> np.ndarray:
    sizes: np.ndarray = rows["size"].to_numpy()
    return sizes


def _by_claim(rows: pa.RecordBatch) -> np.ndarray:
    claims = pc.binary_join_element_wise(rows["address"], rows["e_tag"], "\n")
    return mixed(hash_strings(claims), rows["size"].to_numpy())


def _by_range_and_size(rows: pa.RecordBatch) -> np.ndarray:
    return mixed(hash_strings(rows["range_id"]), rows["size"].to_numpy())


def _of_layer(layer: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    return columns_of(rows) | {"layer": layer}


def _distinct(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows by the columns of `schema`, without those that repeat within some batches: versions of a range share
    rows, and Spark gets fewer."""
    waiting = schema.empty_table()
    for batch in batches:
        own = _once(pa.Table.from_batches([batch.select(schema.names).cast(schema)]))
        waiting = pa.concat_tables([waiting, own])
        if len(waiting) < _ROWS_TOGETHER:
            continue
        waiting = _once(waiting)
        if len(waiting) > _ROWS_TOGETHER // 2:
            yield from waiting.to_batches()
            waiting = schema.empty_table()
    yield from _once(waiting).to_batches()


def _once(rows: pa.Table) -> pa.Table:
    names = rows.schema.names
    return rows.group_by(names).aggregate([]).select(names).cast(rows.schema)
