"""Which entries of heads are alike a candidate: where a branch may hide it. `reuploads` decides where to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakegc_core.marks.context import MarkContext
from lakegc_core.spark.session import Mapped, many
from lakegc_core.stages.committed_addresses.range_files import INDEX_SCHEMA, METARANGES_SCHEMA, reading
from lakegc_core.stages.expired_addresses.classes import EVERY, PLANNED, SIZES, ranked
from lakegc_core.stages.expired_addresses.heads import Heads
from lakegc_core.stages.expired_addresses.intervals import ALIKE
from lakegc_core.tables.key_scan import LAYER, MOST, Wanted, scan
from lakegc_core.tables.parts import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZED = pa.schema([INDEX_SCHEMA.field("range_id"), INDEX_SCHEMA.field("size")])  # of the index, and of ELSEWHERE
_HITS = pa.schema([*_SIZED, LAYER])
_HELD = pa.schema([field for field in METARANGES_SCHEMA if field.name != "checksum"])


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

    def alike(self, classes: Sequence[Part]) -> list[Part]:
        """Which retained ranges hold entries that are alike a candidate: ALIKE."""
        sizes = Wanted(self.context.workspace, ((self.folder("sizes"), tuple(classes)),), ("size",), _by_size)
        if sizes.rows <= MOST:
            rows = self.claimed(sizes)
        else:
            every = self.claimed(None).as_frame()
            of_candidates = self.read("sizes", classes, SIZES, ["size"])
            rows = Mapped(every.join(many(of_candidates), "size", "left_semi").select(*_HITS.names), _HITS)
        hits = self.put("hits", rows.then(_HITS, _distinct_hits), _HITS)
        ranks = self.read("sizes", classes, SIZES, ["size", "rank"])
        found = self.of_ranges(hits, "hits").join(many(ranks), "size").select(*ALIKE.names)
        if self.heads.misstated.rows:
            found = found.unionByName(self.misstated())
        return self.put("alike", found, ALIKE) if hits or self.heads.misstated.rows else []

    def misstated(self) -> DataFrame:
        """The ranges of entries that claim another size than their object has: ALIKE, alike to every candidate."""
        from pyspark.sql import functions as F

        wanted = self.heads.misstated
        shape = pa.schema([*_SIZED, INDEX_SCHEMA.field("hash")])
        sought = wanted if wanted.rows <= MOST else None  # of too many all ranges are asked for
        rows = scan(self.spark, self.heads.sources, shape, sought, repeated=("range_id",))
        parts = self.put("claims", rows.then(_HITS, _distinct_hits), _HITS)
        return self.of_ranges(parts, "claims").withColumn("rank", F.lit(EVERY)).select(*ALIKE.names)

    def claimed(self, wanted: Wanted | None) -> Mapped:
        """The sizes that entries claim, imported ones as well: a branch may hide a candidate behind either (_HITS)."""
        sources = [*self.heads.sources, *self.heads.outside]
        return scan(self.spark, sources, _SIZED, wanted, _by_size, repeated=("range_id",))

    def of_ranges(self, hits: Sequence[Part], name: str) -> DataFrame:
        """Sizes of ranges that count: range_id, count, size."""
        return self.read(name, hits, _HITS).distinct().join(many(self.heads.ranges()), ["range_id", "layer"])

    def held(self) -> DataFrame:
        """What the heads' metaranges say of their ranges (_HELD), read from the metaranges themselves."""
        metaranges = self.heads.branches().where("metarange_id != ''").select("metarange_id").distinct()
        width = self.context.settings.scale.range_num_partitions or 2 * spark_width(self.spark)
        work = reading(self.context, self.heads.folder)
        rows = Mapped(metaranges.repartition(width), METARANGES_SCHEMA, work.metaranges).as_frame()
        parts = self.put("held", rows.where("range_id != ''").select(*_HELD.names), _HELD)
        return self.read("held", parts, _HELD)

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


def _by_size(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    return (rows["size"].to_numpy(),)


def _distinct_hits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every size of a range once, as far as a batch shows."""
    for batch in batches:
        found = pa.Table.from_batches([batch]).group_by(_HITS.names).aggregate([])
        yield from found.select(_HITS.names).cast(_HITS).to_batches()
