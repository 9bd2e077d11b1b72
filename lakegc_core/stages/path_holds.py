"""Holds by path: what any known commit shows under a held path is kept, however old the commit.

Only ranges whose keys can lie below the held path are read, of commits that are not retained anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.context import MarkContext
from lakegc_core.lakefs import graveler
from lakegc_core.namespace import Namespace
from lakegc_core.stages.commit_walk import COMMITS, COMMITS_SCHEMA, OTHERS
from lakegc_core.stages.protected import ROWS_SCHEMA, protected_rows
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KIND = "path:"


def path_pattern(glob: str) -> str:
    """A regular expression for a path glob: `*` and `?` stay within a folder, `**` crosses folders."""
    parts = re.split(r"(\*\*|\*|\?)", glob)
    translated = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "^" + "".join(translated.get(part, re.escape(part)) for part in parts) + "$"


def fixed_prefix(glob: str) -> bytes:
    """What every path that the glob matches begins with."""
    return re.split(r"[*?]", glob, maxsplit=1)[0].encode()


def held_by_path(
    spark: SparkSession,
    context: MarkContext,
    commits_folder: str,
    others: Sequence[Part],
    folder: str,
) -> list[Part]:
    """Write the addresses that holds by path keep to `folder`; none where no hold is by path.

    `others` are the commits that are not retained (dataset `others` of retention_commits).
    """
    globs = tuple(
        hold.removeprefix(KIND)
        for hold in sorted({*context.header.holds, *context.policy.holds})
        if hold.startswith(KIND)
    )
    if not globs or not others:
        return []
    commits = read(spark, context.workspace, f"{commits_folder}/{OTHERS}", others, COMMITS_SCHEMA, ["metarange_id"])
    rows = _rows_at(spark, context, commits, globs)
    return write(rows, context.workspace, {"held": folder}, ROWS_SCHEMA)["held"]


def addresses_at(spark: SparkSession, context: MarkContext, globs: Sequence[str]) -> DataFrame:
    """The addresses (column `address`) that commits which the mark does not retain show at paths that match."""
    others = context.mark.require(COMMITS).datasets[OTHERS]
    folder = context.mark.stage_folder(COMMITS, OTHERS)
    commits = read(spark, context.workspace, folder, others, COMMITS_SCHEMA, ["metarange_id"])
    return _rows_at(spark, context, commits, tuple(globs)).select("address").distinct()


def _rows_at(spark: SparkSession, context: MarkContext, commits: DataFrame, globs: tuple[str, ...]) -> DataFrame:
    """What the commits (column metarange_id) show at paths that match a glob: ROWS_SCHEMA."""
    from pyspark.sql.pandas.types import from_arrow_schema

    work = _PathReader(context.data, context.header.block_prefix, context.namespace, globs)
    width = context.settings.scale.range_num_partitions or 2 * spark_width(spark)
    metaranges = commits.where("metarange_id != ''").distinct().repartition(width)
    ranges = metaranges.mapInArrow(work.ranges, "range_id string").distinct().repartition(width)
    return ranges.mapInArrow(work.rows, from_arrow_schema(ROWS_SCHEMA))


@dataclass(frozen=True)
class _PathReader:
    """Reads what lies at some paths; a picklable value that tasks carry."""

    data: StoreConfig
    prefix: str
    namespace: Namespace
    globs: tuple[str, ...]

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges that can hold a matching path, by metarange."""
        store = connect(self.data)
        prefixes = [fixed_prefix(glob) for glob in self.globs]
        for batch in batches:
            for metarange_id in batch.column("metarange_id").to_pylist():
                table = graveler.read_metarange(store.read(f"{self.prefix}/{metarange_id}"), expected_id=metarange_id)
                found = [
                    row["range_id"]
                    for row in table.to_pylist()
                    if any(_may_hold(row["min_key"], row["max_key"], prefix) for prefix in prefixes)
                ]
                yield pa.RecordBatch.from_pydict({"range_id": pa.array(found, pa.string())})

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the entries at matching paths protect."""
        store = connect(self.data)
        patterns = "|".join(path_pattern(glob) for glob in self.globs)
        for batch in batches:
            for range_id in batch.column("range_id").to_pylist():
                data = store.read(f"{self.prefix}/{range_id}")
                entries = graveler.read_range(data, paths=True, expected_id=range_id)
                at_path = entries.filter(pc.match_substring_regex(entries["path"], patterns))
                rows = protected_rows(self.namespace, [range_id], [len(at_path)], at_path.drop_columns(["path"]))
                # Long expired: the data may be gone already, so none of it counts as missing.
                place = ROWS_SCHEMA.get_field_index("exact")
                rows = rows.set_column(place, ROWS_SCHEMA.field(place), pa.repeat(False, rows.num_rows))
                yield from rows.to_batches()


def _may_hold(first: bytes, last: bytes, prefix: bytes) -> bool:
    """Can a range of keys from `first` to `last` hold a key that begins with `prefix`?"""
    return last >= prefix and (first[: len(prefix)] <= prefix)
