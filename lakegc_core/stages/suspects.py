"""Suspects: candidates that may be identical re-uploads, which no dump of the server names and a branch yet shows.

lakeFS compares entries by content, not by address: an upload of the same bytes to the same path is not "uncommitted",
though reads of the branch go to the new object. A candidate of the size (and checksum) of an entry of a current head is
asked for, path by path: at the mark, to say what is garbage, and again at every look, to be sure. On blockstore `local`
every branch is listed instead, which shows them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.lakefs import graveler
from lakegc_core.safety import Level
from lakegc_core.spark import Json, clear_errors, many, run_tasks
from lakegc_core.stages import committed_addresses
from lakegc_core.stages.commit_walk import COMMITS, COMMITS_SCHEMA, REFS, REFS_SCHEMA
from lakegc_core.stages.look import Look
from lakegc_core.stages.uncommitted_addresses import protect_listed
from lakegc_core.store.base import connect
from lakegc_core.store.parquet import read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RESCUED = "rescued"
UNCONFIRMED = "unconfirmed"

_MD5 = "^[0-9a-f]{32}$"


@dataclass(frozen=True)
class Heads:
    """What the heads of branches hold, as frames.

    `branches`: name, metarange_id. `ranges`: metarange_id, range_id. `entries`: range_id, size, e_tag (of any commits).
    """

    branches: DataFrame
    ranges: DataFrame
    entries: DataFrame


def find_suspects(
    spark: SparkSession, context: MarkContext, heads: Heads, planned: DataFrame, level: Level
) -> DataFrame | None:
    """Addresses of `planned` that must not be deleted, with column verdict: rescued or unconfirmed. None: no suspects.

    More paths than `level.suspects` are not asked for: all suspects then stay unconfirmed.
    """
    if context.namespace.is_local:
        return None
    of_heads = heads.ranges.join(heads.branches, "metarange_id", "left_semi").select("range_id").distinct()
    entries = heads.entries.join(many(of_heads), "range_id", "left_semi")
    candidates = planned.select("address", "size", "etag")
    suspected = _alike(candidates, "etag", entries, "e_tag").select("address").distinct()
    alike = _alike(entries, "e_tag", candidates, "etag").select("range_id", "size", "e_tag").distinct()
    with clear_errors():
        found = [row.asDict() for row in alike.limit(level.suspects + 1).collect()]
    if not found:
        return None
    paths = _paths(spark, context, found) if len(found) <= level.suspects else []
    if not paths or len(paths) > level.suspects:
        return _all_unconfirmed(suspected)
    shown = _shown_addresses(context, heads, paths)
    if shown is None:
        return _all_unconfirmed(suspected)
    with clear_errors():
        rescued = [(row[0], RESCUED) for row in suspected.where(suspected["address"].isin(shown)).collect()]
    return spark.createDataFrame(rescued, "address string, verdict string") if rescued else None


def heads_of_mark(spark: SparkSession, context: MarkContext, look: Look | None = None) -> Heads:
    """The heads as the mark saw them, or as a later look did; ranges and entries of both."""
    stage, mark, config = committed_addresses, context.mark, context.workspace
    marked, columns = mark.require(stage.STAGE).datasets, ["range_id", "size", "e_tag"]
    entries = read(spark, config, mark.stage_folder(stage.STAGE), marked[stage.STAGE], stage.SCHEMA, columns)
    folder, schema = mark.stage_folder(stage.STAGE, stage.METARANGES), stage.METARANGES_SCHEMA
    ranges = read(spark, config, folder, marked[stage.METARANGES], schema, ["metarange_id", "range_id"])
    if look is None:
        commits = mark.require(COMMITS).datasets
        refs = read(spark, config, mark.stage_folder(COMMITS, REFS), commits[REFS], REFS_SCHEMA)
        retained = read(spark, config, mark.stage_folder(COMMITS), commits[COMMITS], COMMITS_SCHEMA)
    else:
        refs, retained = look.read_refs(spark, context), look.read_commits(spark, context)
        place = f"{look.folder}/committed"
        entries = entries.unionByName(read(spark, config, place, look.committed, stage.SCHEMA, columns))
        new = read(spark, config, f"{place}/{stage.METARANGES}", look.metaranges, schema, ["metarange_id", "range_id"])
        ranges = ranges.unionByName(new)
    heads = refs.where("kind = 'branch'").select("name", "commit_id").distinct()
    return Heads(
        branches=heads.join(many(retained.select("commit_id", "metarange_id")), "commit_id"),
        ranges=ranges.where("range_id != ''"),
        entries=entries,
    )


def _all_unconfirmed(suspected: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return suspected.withColumn("verdict", F.lit(UNCONFIRMED))


def _alike(rows: DataFrame, tag: str, others: DataFrame, other_tag: str) -> DataFrame:
    """The rows for which another row has the same size, and the same MD5 where both have one."""
    from pyspark.sql import functions as F

    def is_md5(name: str) -> Column:
        return F.coalesce(F.col(name).rlike(_MD5), F.lit(False))

    mine, plain = rows.where(is_md5(tag)), rows.where(~is_md5(tag))
    sizes = others.select("size")
    hashed = others.where(is_md5(other_tag)).select("size", F.col(other_tag).alias(tag))
    plain_sizes = others.where(~is_md5(other_tag)).select("size")
    return (
        mine.join(many(hashed), ["size", tag], "left_semi")
        .unionByName(mine.join(many(plain_sizes), "size", "left_semi"))
        .unionByName(plain.join(many(sizes), "size", "left_semi"))
    )


def _paths(spark: SparkSession, context: MarkContext, entries: list[Json]) -> list[tuple[str, str]]:
    """The paths of entries (range_id, size, e_tag), with their range: read from the ranges themselves."""
    wanted: dict[str, set[tuple[int, str]]] = {}
    for entry in entries:
        wanted.setdefault(entry["range_id"], set()).add((entry["size"], entry["e_tag"]))
    data, prefix = context.data, context.header.block_prefix

    def task(item: tuple[str, set[tuple[int, str]]]) -> Iterator[Json]:
        range_id, sought = item
        file = connect(data).read(f"{prefix}/{range_id}")
        table = graveler.read_range(file, paths=True, expected_id=range_id)
        for row in table.filter(pc.is_in(table["size"], pa.array([size for size, _ in sought]))).to_pylist():
            if (row["size"], row["e_tag"]) in sought:
                yield {"range_id": range_id, "path": row["path"].decode("utf-8", "surrogateescape")}

    return [(found["range_id"], found["path"]) for found in run_tasks(spark, list(wanted.items()), task)]


def _shown_addresses(context: MarkContext, heads: Heads, paths: list[tuple[str, str]]) -> list[str] | None:
    """The addresses that the branches whose heads hold these ranges show at these paths. None: too many to ask."""
    from pyspark.sql import functions as F

    ranges = sorted({range_id for range_id, _ in paths})
    limit = 10 * context.level.suspects
    holding = heads.ranges.where(F.col("range_id").isin(ranges)).join(heads.branches, "metarange_id")
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
