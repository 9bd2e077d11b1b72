"""Suspects: candidates that may be identical re-uploads, which no dump of the server names and a branch yet shows.

lakeFS compares entries by content, not by address: an upload of the same bytes to the same path is not "uncommitted",
though reads of the branch go to the new object. A candidate of the size (and checksum) of an entry of a current head is
asked for, path by path: at the mark, to say what is garbage, and again at every look, to be sure. On blockstore `local`
every branch is listed instead, which shows them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.lakefs import graveler
from lakegc_core.safety import Level
from lakegc_core.spark import Json, Mapped, clear_errors, many, run_tasks
from lakegc_core.stages import findings
from lakegc_core.stages.commit_walk import COMMITS, COMMITS_SCHEMA, REFS, REFS_SCHEMA
from lakegc_core.stages.hash_scan import LAYER, Source, Wanted, scan, sources_of
from lakegc_core.stages.layers import all_layers
from lakegc_core.stages.look import Look
from lakegc_core.stages.protected import ROWS_SCHEMA
from lakegc_core.stages.range_reading import (
    INDEX,
    INDEX_SCHEMA,
    METARANGES_SCHEMA,
    RANGES,
    RANGES_SCHEMA,
    STAGE,
    reading,
    tags,
)
from lakegc_core.stages.uncommitted_addresses import protect_listed
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESCUED = "rescued"
UNCONFIRMED = "unconfirmed"

PLANNED = pa.schema([findings.SCHEMA.field(name) for name in ("address", "size", "etag")])

_CANDIDATES = pa.schema([ROWS_SCHEMA.field("address"), INDEX_SCHEMA.field("size"), INDEX_SCHEMA.field("tag")])
_ALIKE = pa.schema([INDEX_SCHEMA.field(name) for name in ("range_id", "size", "tag")])
_HITS = pa.schema([*_ALIKE, LAYER])
_HOLDING = pa.schema([METARANGES_SCHEMA.field(name) for name in ("metarange_id", "range_id")])
_LOOK = "look"
_SPREAD, _WITHOUT, _ANY = np.int64(0x4F1BBCDCBFA53E0B), np.int64(-1), np.int64(-2)


@dataclass(frozen=True)
class Heads:
    """What the heads of branches hold. `branches` gives name, metarange_id. `folder`: where what is found is put down.

    `sources`: indexes in which all their ranges are; `ranges` gives those of them that count (range_id, layer).
    """

    branches: Callable[[], DataFrame]
    sources: Sequence[Source]
    ranges: Callable[[], DataFrame]
    folder: str


def find_suspects(
    spark: SparkSession, context: MarkContext, heads: Heads, planned: Mapped, level: Level
) -> DataFrame | None:
    """Addresses of `planned` (PLANNED) that must not be deleted, with column verdict: rescued or unconfirmed. None: no
    suspects.

    More paths than `level.suspects` are not asked for: all suspects then stay unconfirmed.
    """
    if context.namespace.is_local:
        return None
    config = context.workspace
    candidates = _put(planned.then(_CANDIDATES, _tagged), heads, "tagged", config)
    wanted = Wanted(config, ((f"{heads.folder}/tagged", candidates),), ("size", "tag"), _keys_sought)
    found_alike = scan(spark, heads.sources, _ALIKE, wanted, _keys_held, repeated=("range_id",))
    hits = _put(found_alike, heads, "hits", config, _HITS)
    if not hits:
        return None
    alike = read(spark, config, f"{heads.folder}/hits", hits, _HITS).join(
        many(heads.ranges()), ["range_id", "layer"], "left_semi"
    )
    alike_parts = _put(alike.select(*_ALIKE.names).distinct(), heads, "alike", config, _ALIKE)
    if not alike_parts:
        return None
    holding_parts = _put(_holding(spark, context, heads, alike_parts), heads, "holding", config, _HOLDING)
    holding = read(spark, config, f"{heads.folder}/holding", holding_parts, _HOLDING)
    entries = read(spark, config, f"{heads.folder}/alike", alike_parts, _ALIKE)
    entries = entries.join(many(holding.select("range_id").distinct()), "range_id", "left_semi")
    tagged = read(spark, config, f"{heads.folder}/tagged", candidates, _CANDIDATES)
    suspected = _alike(tagged, entries).select("address").distinct()
    with clear_errors():
        rows = _alike(entries, tagged).distinct().limit(level.suspects + 1).collect()
    found = [row.asDict() for row in rows]
    if not found:
        return None
    paths = _paths(spark, context, found) if len(found) <= level.suspects else []
    if not paths or len(paths) > level.suspects:
        return _all_unconfirmed(suspected)
    shown = _shown_addresses(context, heads, holding, paths)
    if shown is None:
        return _all_unconfirmed(suspected)
    with clear_errors():
        rescued = [(row[0], RESCUED) for row in suspected.where(suspected["address"].isin(shown)).collect()]
    return spark.createDataFrame(rescued, "address string, verdict string") if rescued else None


def heads_of_mark(spark: SparkSession, context: MarkContext, folder: str, look: Look | None = None) -> Heads:
    """The heads as the mark saw them, or as a later look did. `folder`: where a search may put down what it finds."""
    from pyspark.sql import functions as F

    mark, config = context.mark, context.workspace
    layers = all_layers(context)
    sources = [source for layer in layers for source in layer.sources(STAGE, INDEX)]
    place = f"{look.folder}/committed/{INDEX}" if look else ""
    if look:
        sources += sources_of(config, place, look.index, _LOOK)

    def branches() -> DataFrame:
        if look:
            refs, retained = look.read_refs(spark, context), look.read_commits(spark, context)
        else:
            commits = mark.require(COMMITS).datasets
            refs = read(spark, config, mark.stage_folder(COMMITS, REFS), commits[REFS], REFS_SCHEMA)
            retained = read(spark, config, mark.stage_folder(COMMITS), commits[COMMITS], COMMITS_SCHEMA)
        heads = refs.where("kind = 'branch'").select("name", "commit_id").distinct()
        return heads.join(many(retained.select("commit_id", "metarange_id")), "commit_id")

    def ranges() -> DataFrame:
        marked = layers[0].frame(spark, STAGE, RANGES, RANGES_SCHEMA)
        found = marked.select("range_id", F.col("read_in").alias("layer"))
        if look:
            new = read(spark, config, place, look.index, INDEX_SCHEMA, ["range_id"]).distinct()
            found = found.unionByName(new.withColumn("layer", F.lit(_LOOK)))
        return found

    return Heads(branches, sources, ranges, folder)


def _put(
    rows: DataFrame | Mapped, heads: Heads, name: str, config: StoreConfig, schema: pa.Schema | None = None
) -> list[Part]:
    return write(rows, config, {name: f"{heads.folder}/{name}"}, schema or _CANDIDATES)[name]


def _tagged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch["address"], batch["size"], pa.array(tags(batch["etag"]))]
        yield pa.RecordBatch.from_arrays(columns, schema=_CANDIDATES)


def _keys_sought(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    """Keys of candidates: one with an MD5 is like entries of the same size and MD5, or of the size and without one;
    one without is like all of its size."""
    sizes, found = rows["size"].to_numpy(), rows["tag"].to_numpy()
    plain = found == 0
    return (_key(sizes[~plain], found[~plain]), _key(sizes, _WITHOUT), _key(sizes[plain], _ANY))


def _keys_held(rows: pa.RecordBatch) -> Sequence[np.ndarray]:
    """Keys of entries, to be looked for among those."""
    sizes, found = rows["size"].to_numpy(), rows["tag"].to_numpy()
    return (_key(sizes, np.where(found == 0, _WITHOUT, found)), _key(sizes, _ANY))


def _key(sizes: np.ndarray, marks: np.ndarray | np.int64) -> np.ndarray:
    with np.errstate(over="ignore"):
        keys: np.ndarray = sizes * _SPREAD ^ marks
    return keys


def _holding(spark: SparkSession, context: MarkContext, heads: Heads, alike: Sequence[Part]) -> DataFrame:
    """Which metaranges of heads hold the ranges of these entries: read from the metaranges themselves."""
    metaranges = heads.branches().where("metarange_id != ''").select("metarange_id").distinct()
    width = context.settings.scale.range_num_partitions or 2 * spark_width(spark)
    work = reading(context, heads.folder)
    held = Mapped(metaranges.repartition(width), METARANGES_SCHEMA, work.metaranges).as_frame()
    ranges = read(spark, context.workspace, f"{heads.folder}/alike", alike, _ALIKE, ["range_id"]).distinct()
    return held.join(many(ranges), "range_id", "left_semi").select(*_HOLDING.names)


def _all_unconfirmed(suspected: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return suspected.withColumn("verdict", F.lit(UNCONFIRMED))


def _alike(rows: DataFrame, others: DataFrame) -> DataFrame:
    """The rows for which another row has the same size, and the same MD5 where both have one."""
    mine, plain = rows.where("tag != 0"), rows.where("tag = 0")
    return (
        mine.join(many(others.where("tag != 0").select("size", "tag")), ["size", "tag"], "left_semi")
        .unionByName(mine.join(many(others.where("tag = 0").select("size")), "size", "left_semi"))
        .unionByName(plain.join(many(others.select("size")), "size", "left_semi"))
        .select(*rows.columns)
    )


def _paths(spark: SparkSession, context: MarkContext, entries: list[Json]) -> list[tuple[str, str]]:
    """The paths of entries (range_id, size, tag), with their range: read from the ranges themselves."""
    wanted: dict[str, set[tuple[int, int]]] = {}
    for entry in entries:
        wanted.setdefault(entry["range_id"], set()).add((entry["size"], entry["tag"]))
    data, prefix = context.data, context.header.block_prefix

    def task(item: tuple[str, set[tuple[int, int]]]) -> Iterator[Json]:
        range_id, sought = item
        file = connect(data).read(f"{prefix}/{range_id}")
        table = graveler.read_range(file, paths=True, expected_id=range_id)
        table = table.filter(pc.is_in(table["size"], pa.array([size for size, _ in sought])))
        for row, tag in zip(table.to_pylist(), tags(table["e_tag"]).tolist(), strict=True):
            if (row["size"], tag) in sought:
                yield {"range_id": range_id, "path": row["path"].decode("utf-8", "surrogateescape")}

    return [(found["range_id"], found["path"]) for found in run_tasks(spark, list(wanted.items()), task)]


def _shown_addresses(
    context: MarkContext, heads: Heads, held: DataFrame, paths: list[tuple[str, str]]
) -> list[str] | None:
    """The addresses that the branches whose heads hold these ranges show at these paths. None: too many to ask."""
    from pyspark.sql import functions as F

    ranges = sorted({range_id for range_id, _ in paths})
    limit = 10 * context.level.suspects
    holding = held.where(F.col("range_id").isin(ranges)).join(many(heads.branches()), "metarange_id")
    with clear_errors():
        rows = holding.select("range_id", "name").distinct().limit(limit + 1).collect()
    branches = [(row["range_id"], row["name"]) for row in rows]
    asked = [(branch, path) for range_id, path in paths for held, branch in branches if held == range_id]
    if len(branches) > limit or len(asked) > limit:
        return None
    shown: list[str] = []
    for branch, path in sorted(set(asked)):
        stats = context.client.stat(context.header.repository, branch, path)
        if stats is not None:
            shown.append(stats.physical_address)
    addresses: list[str] = protect_listed(context.namespace, shown)["address"].to_pylist()
    return addresses
