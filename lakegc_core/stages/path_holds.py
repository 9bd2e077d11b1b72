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
from lakegc_core.spark import Json, run_on_rows
from lakegc_core.stages.commit_walk import COMMITS_SCHEMA, OTHERS
from lakegc_core.stages.protected import ROWS_SCHEMA, protected_rows
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, part_results, parts_of, read, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    work = _Holding(context.data, context.workspace, folder, context.header.block_prefix, context.namespace, globs)
    commits = read(spark, context.workspace, f"{commits_folder}/{OTHERS}", others, COMMITS_SCHEMA, ["metarange_id"])
    width = 2 * spark_width(spark)
    metaranges = commits.where("metarange_id != ''").distinct().repartition(width)
    ranges = metaranges.mapInArrow(work.ranges, "range_id string").distinct().repartition(width)
    return parts_of(run_on_rows(ranges, work.addresses), ["held"])["held"]


@dataclass(frozen=True)
class _Holding:
    """Reads ranges for held paths; a picklable value that tasks carry."""

    data: StoreConfig
    artifacts: StoreConfig
    folder: str
    prefix: str
    namespace: Namespace
    globs: tuple[str, ...]

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges that can hold a held path, by metarange."""
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

    def addresses(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """The addresses at held paths in some ranges."""
        store, writer = connect(self.data), PartWriter(self.artifacts, self.folder, ROWS_SCHEMA)
        patterns = "|".join(path_pattern(glob) for glob in self.globs)
        for batch in batches:
            for range_id in batch.column("range_id").to_pylist():
                data = store.read(f"{self.prefix}/{range_id}")
                entries = graveler.read_range(data, paths=True, expected_id=range_id)
                held = entries.filter(pc.match_substring_regex(entries["path"], patterns))
                rows = protected_rows(self.namespace, range_id, held.drop_columns(["path"]))
                # Long expired: the data may be gone already, so none of it counts as missing.
                place = ROWS_SCHEMA.get_field_index("exact")
                rows = rows.set_column(place, ROWS_SCHEMA.field(place), pa.repeat(False, rows.num_rows))
                for each in rows.to_batches():
                    writer.write(each)
        yield from part_results("held", writer.close())


def _may_hold(first: bytes, last: bytes, prefix: bytes) -> bool:
    """Can a range of keys from `first` to `last` hold a key that begins with `prefix`?"""
    return last >= prefix and (first[: len(prefix)] <= prefix)
