"""Which entries of heads are alike a candidate: where a branch may hide it. `reuploads` decides where to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.context import MarkContext
from lakegc_core.references.ranges.range_files import ENTRIES_SCHEMA, INDEX_SCHEMA
from lakegc_core.references.shown.classes import EVERY, PLANNED, SIZES, ranked
from lakegc_core.references.shown.heads import Heads
from lakegc_core.references.shown.intervals import ALIKE
from lakegc_core.spark.session import Mapped, many
from lakegc_core.tables.gather import Feed, columns_of
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.joins import scan
from lakegc_core.tables.key_scan import Source, Wanted
from lakegc_core.tables.parts import Part, read, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_HEADS = "alike-of-heads"
CLAIMS = pa.schema([ENTRIES_SCHEMA.field(name) for name in ("address", "size", "e_tag")])
"""What an entry claims of its object, for each reading of its address."""
_OF_RANGE = pa.schema([ENTRIES_SCHEMA.field(name) for name in ("range_id", "size")])
LAYER = pa.field("layer", pa.string(), nullable=False)
_HITS = pa.schema([INDEX_SCHEMA.field("range_id"), INDEX_SCHEMA.field("size"), LAYER])


@dataclass(frozen=True)
class Candidates:
    """Rows of PLANNED in parts."""

    folder: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class AlikeEntries:
    """Looks through what heads hold for entries that are alike a candidate, and puts down what it finds.

    `waited`: folder and parts of classes (SIZES) that were left over last time, and come first.
    """

    spark: SparkSession
    context: MarkContext
    heads: Heads
    candidates: Candidates
    waited: tuple[str, Sequence[Part]] | None

    def classes(self) -> list[Part]:
        """The sizes of candidates: SIZES."""
        from pyspark.sql import functions as F

        rows = (
            self.read_candidates("size")
            .groupBy("size")
            .agg(F.count("*").alias("objects"), F.sum("size").alias("bytes"))
        )
        if self.waited and self.waited[1]:
            folder, parts = self.waited
            before = read(self.spark, self.context.workspace, folder, parts, SIZES, ["size"])
            rows = rows.join(many(before.distinct().withColumn("waited", F.lit(True))), "size", "left")
            rows = rows.withColumn("waited", F.coalesce("waited", F.lit(False)))
        else:
            rows = rows.withColumn("waited", F.lit(False))
        return self.put("sizes", Mapped(rows, SIZES, ranked), SIZES)

    def alike(self, classes: Sequence[Part], hits: Sequence[Part]) -> DataFrame:
        """Which retained ranges hold entries that are alike a candidate: ALIKE. `hits`: of `sizes`."""
        ranks = self.read("sizes", classes, SIZES, ["size", "rank"])
        found = self.of_ranges(hits, "hits").join(many(ranks), "size").select(*ALIKE.names)
        return found.unionByName(self.misstated()) if self.heads.misstated.rows else found

    def sizes(self, classes: Sequence[Part]) -> list[Part]:
        """The entries of ranges that claim the sizes of candidates: _HITS."""
        sizes = Wanted.at(self.context.workspace, ((self.folder("sizes"), tuple(classes)),), ("size",), _by_size)
        # The sizes that entries claim, imported ones as well: a branch may hide a candidate behind either.
        return self.hits("hits", [*self.heads.sources, *self.heads.outside], sizes)

    def misstated(self) -> DataFrame:
        """The ranges of entries that claim another size than their object has: ALIKE, alike to every candidate."""
        from pyspark.sql import functions as F

        parts = self.hits("misstated-hits", self.heads.sources, self.heads.misstated, INDEX_SCHEMA.field("hash"))
        return self.of_ranges(parts, "misstated-hits").withColumn("rank", F.lit(EVERY)).select(*ALIKE.names)

    def hits(self, name: str, sources: Sequence[Source], wanted: Wanted, *more: pa.Field) -> list[Part]:
        """The rows of entries that are wanted, as _HITS. `more`: columns that the keys need."""
        schema = pa.schema([*_HITS, *more])
        columns = tuple(column for column in schema.names if column != LAYER.name)
        feeds = [Feed(each, columns, partial(_of_layer, each.layer), ("range_id",)) for each in sources]
        rows = scan(self.spark, feeds, schema, wanted)
        return self.put(name, rows.then(_HITS, _distinct_hits), _HITS)

    def of_ranges(self, hits: Sequence[Part], name: str) -> DataFrame:
        """Sizes of ranges that count: range_id, count, size."""
        return self.read(name, hits, _HITS).distinct().join(many(self.heads.ranges()), ["range_id", "layer"])

    def claims(self, alike: Sequence[Part]) -> Mapped:
        """What entries of ranges claim that are alike by their sizes (ALIKE, in parts): CLAIMS, some more than once."""
        return self._rows(self._wanted(alike)).then(CLAIMS, _distinct_claims)

    def claiming(self, name: str, claims: Sequence[Part]) -> DataFrame:
        """In which ranges there are entries that claim what some parts say (CLAIMS): range_id, size, e_tag; and
        perhaps a few others."""
        wanted = Wanted.at(
            self.context.workspace, ((self.folder(name), tuple(claims)),), tuple(CLAIMS.names), _by_claim
        )
        return self._rows(wanted).as_frame().select("range_id", "size", "e_tag").distinct()

    def _rows(self, wanted: Wanted) -> Mapped:
        schema = pa.schema([_OF_RANGE.field("range_id"), *CLAIMS])
        feeds = [Feed(each, tuple(schema.names), columns_of, ("range_id",)) for each in self.heads.rows]
        return scan(self.spark, feeds, schema, wanted)

    def away(self, alike: Sequence[Part]) -> DataFrame:
        """Of which ranges and sizes (range_id, size) there are entries that may lie in other namespaces."""
        feeds = [Feed(each, tuple(_OF_RANGE.names), columns_of, ("range_id",)) for each in self.heads.outside]
        return scan(self.spark, feeds, _OF_RANGE, self._wanted(alike)).as_frame().distinct()

    def _wanted(self, alike: Sequence[Part]) -> Wanted:
        place = (self.folder(OF_HEADS), tuple(alike))
        return Wanted.at(self.context.workspace, (place,), tuple(_OF_RANGE.names), _by_range_and_size)

    def read_candidates(self, *columns: str) -> DataFrame:
        parts = self.candidates.parts
        return read(self.spark, self.context.workspace, self.candidates.folder, parts, PLANNED, columns)

    def folder(self, name: str) -> str:
        return f"{self.heads.folder}/{name}"

    def put(
        self,
        name: str,
        rows: DataFrame | Mapped,
        schema: pa.Schema,
        summarise: Callable[[pa.Table], Mapping[str, int]] | None = None,
    ) -> list[Part]:
        return write(rows, self.context.workspace, {name: self.folder(name)}, schema, summarise=summarise)[name]

    def read(
        self, name: str, parts: Sequence[Part], schema: pa.Schema, columns: Sequence[str] | None = None
    ) -> DataFrame:
        return read(self.spark, self.context.workspace, self.folder(name), parts, schema, columns)


def _by_size(rows: pa.RecordBatch) -> np.ndarray:
    sizes: np.ndarray = rows["size"].to_numpy()
    return sizes


def _by_claim(rows: pa.RecordBatch) -> np.ndarray:
    told = pc.binary_join_element_wise(rows["address"], rows["e_tag"], "\n")
    return mixed(hash_strings(told), rows["size"].to_numpy())


def _distinct_claims(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every claim once, as far as a batch shows."""
    for batch in batches:
        found = pa.Table.from_batches([batch.select(CLAIMS.names)]).group_by(CLAIMS.names).aggregate([])
        yield from found.select(CLAIMS.names).cast(CLAIMS).to_batches()


def _by_range_and_size(rows: pa.RecordBatch) -> np.ndarray:
    ids = rows["range_id"]
    if pa.types.is_dictionary(ids.type):
        hashes = hash_strings(ids.dictionary.cast(pa.string()))[ids.indices.to_numpy()]
    else:
        hashes = hash_strings(ids)
    return mixed(hashes, rows["size"].to_numpy())


def _of_layer(layer: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    return columns_of(rows) | {"layer": layer}


def _distinct_hits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every size of a range once, as far as a batch shows."""
    for batch in batches:
        found = pa.Table.from_batches([batch]).group_by(_HITS.names).aggregate([])
        yield from found.select(_HITS.names).cast(_HITS).to_batches()
