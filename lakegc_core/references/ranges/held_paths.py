"""Holds by path: an object that any known commit shows at a held path is kept, however old the commit.

For holds, only commits that are not retained are read: the others keep their objects anyway. Of them, only ranges are
read that can have keys below the held path.
`idle_paths` finds holds that keep nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA, elsewhere_rows, sum_authorities
from lakegc_core.marks.findings import HELD
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json, Stage, Symptom, see
from lakegc_core.policy.holds import PATH, PathGlobs, fixed_prefix, patterns_of
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA, protected_rows
from lakegc_core.spark.tasks import run_on_rows
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter, part_results, parts_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_PATHS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=True),  # one of them
        pa.field("inside", pa.bool_(), nullable=False),  # False: not in the namespace; the address is the whole URI
    ]
)
AT_PATHS_DDL = "address string, path string, inside boolean"
"""The same as Spark writes it."""
_MEANT = f"A hold of kind {PATH}, or the paths that were asked for, may mean paths in it."


@dataclass(frozen=True)
class HeldByPath:
    """The addresses that holds by path keep (ENTRIES_SCHEMA), and those of other namespaces (ELSEWHERE_SCHEMA).

    `idle`: globs that match no path of the commits that were searched.
    """

    addresses: Dataset
    elsewhere: Dataset
    idle: tuple[str, ...]


def held_by_path(
    spark: SparkSession,
    context: MarkContext,
    others: Dataset,
    out: DatasetFolder,
    holds: Collection[str] | None = None,
) -> HeldByPath:
    """Write the addresses that holds by path keep to dataset HELD, and those in other namespaces to dataset ELSEWHERE.
    Both are empty if no hold is by path.

    `others`: the commits that are not retained (dataset OTHERS of retention_commits). `holds`: None for those of the
    mark and of lakegc.yaml.
    """
    globs = patterns_of({*context.header.holds, *context.policy.holds} if holds is None else holds, PATH)
    if not globs or not others.parts:
        return HeldByPath(Dataset(ENTRIES_SCHEMA), Dataset(ELSEWHERE_SCHEMA), globs)
    work = _reader(context, globs)
    results = run_on_rows(_ranges(spark, context, others, work), _Writing(work, out))
    matched = {glob for result in results for glob in result.get("matched", ())}
    parts = parts_of(results, [HELD, ELSEWHERE])
    return HeldByPath(
        out.dataset(HELD, parts[HELD], ENTRIES_SCHEMA),
        out.dataset(ELSEWHERE, parts[ELSEWHERE], ELSEWHERE_SCHEMA),
        tuple(glob for glob in globs if glob not in matched),
    )


def addresses_at(spark: SparkSession, context: MarkContext, globs: Sequence[str]) -> DataFrame:
    """The addresses (column `address`) at matching paths, in commits that the mark does not retain."""
    others = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA, OTHERS)
    work = _reader(context, globs)
    return _ranges(spark, context, others, work).mapInArrow(work.addresses, "address string").distinct()


def shown_at(spark: SparkSession, context: MarkContext, globs: Sequence[str]) -> DataFrame:
    """The objects that any commit which the mark knew shows at matching paths, each once: AT_PATHS."""
    from pyspark.sql import functions as F

    stage = Stage.RETENTION_COMMITS
    commits = context.mark.dataset(stage, COMMITS_SCHEMA) + context.mark.dataset(stage, COMMITS_SCHEMA, OTHERS)
    work = _reader(context, globs)
    found = _ranges(spark, context, commits, work).mapInArrow(work.shown, AT_PATHS_DDL)
    return found.groupBy("address", "inside").agg(F.min("path").alias("path"))


def shown_rows(namespace: Namespace, entries: pa.Table) -> pa.RecordBatch:
    """The objects of entries (address, address_type, path), by their likely addresses: AT_PATHS."""
    addresses, types = (entries[name].combine_chunks() for name in ("address", "address_type"))
    keys = namespace.protected_keys(addresses, types)
    likely = keys.filter(keys["exact"])
    within = likely["index"].to_numpy()
    outside = np.setdiff1d(np.arange(len(entries)), within)
    paths = [as_path(path) for path in entries["path"].take(pa.array(np.concatenate([within, outside]))).to_pylist()]
    found = [*likely["address"].to_pylist(), *addresses.take(pa.array(outside)).to_pylist()]
    inside = [True] * len(within) + [False] * len(outside)
    return pa.RecordBatch.from_pydict({"address": found, "path": paths, "inside": inside}, AT_PATHS)


def as_path(path: bytes | str) -> str:
    """A path for people: bytes that are no UTF-8 are replaced."""
    return path if isinstance(path, str) else path.decode("utf-8", "replace")


def may_contain(ranges: pa.Table, prefix: bytes) -> pa.Array:
    """A mask of the ranges (columns `min_key` and `max_key`) that can contain a key which begins with `prefix`."""
    first, last = (ranges[name].combine_chunks() for name in ("min_key", "max_key"))
    start = pc.binary_slice(first, 0, len(prefix)) if prefix else first
    reaches = pc.greater_equal(last, pa.scalar(prefix, last.type))
    return pc.and_(reaches, pc.less_equal(start, pa.scalar(prefix, first.type))) if prefix else reaches


@contextmanager
def _may_be_meant(what: str) -> Iterator[None]:
    """Add to the error of a file that cannot be read what it is, and that a path in it may be meant."""
    try:
        yield
    except (CorruptFileError, ObjectNotFoundError) as error:
        raise type(error)(f"{what}: {str(error).rstrip('.')}. {_MEANT} {see(Symptom.UNREADABLE_COMMIT)}") from None


def _reader(context: MarkContext, globs: Sequence[str]) -> _PathReader:
    return _PathReader(context.metadata, context.namespace, PathGlobs(tuple(globs)))


def _ranges(spark: SparkSession, context: MarkContext, commits: Dataset, work: _PathReader) -> DataFrame:
    """The ranges of commits that can have a matching path, each once (column range_id)."""
    width = context.settings.scale.range_num_partitions or 2 * spark_width(spark)
    metaranges = commits.frame(spark, "metarange_id").where("metarange_id != ''").distinct().repartition(width)
    return metaranges.mapInArrow(work.ranges, "range_id string").distinct().repartition(width)


@dataclass(frozen=True)
class _Found:
    """The entries of a range at matching paths: `rows`, the addresses that they protect (ENTRIES_SCHEMA); `elsewhere`,
    those in other namespaces (ELSEWHERE_SCHEMA); `matched`, the globs that they match."""

    rows: pa.Table
    elsewhere: pa.Table
    matched: set[str]


@dataclass(frozen=True)
class _PathReader:
    """Reads the entries at matching paths."""

    files: MetadataFiles
    namespace: Namespace
    paths: PathGlobs

    def ranges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The ranges of metaranges that can have a matching path."""
        prefixes = {fixed_prefix(glob) for glob in self.paths.globs}
        for batch in batches:
            for metarange_id in batch.column("metarange_id").to_pylist():
                with _may_be_meant(f"Metarange {metarange_id}"):
                    table = graveler.read_metarange(self.files.read(metarange_id), expected_id=metarange_id)
                fit = pa.repeat(False, len(table))
                for prefix in prefixes:
                    fit = pc.or_(fit, may_contain(table, prefix))
                found = table["range_id"].filter(fit).combine_chunks()
                yield pa.RecordBatch.from_pydict({"range_id": found.cast(pa.string())})

    def found(self, batches: Iterator[pa.RecordBatch]) -> Iterator[_Found]:
        """Read the entries at matching paths, a range at a time."""
        for range_id, entries, matched in self._entries(batches):
            held = entries.drop_columns(["path"])
            rows = protected_rows(self.namespace, [range_id], [len(held)], held)
            # `exact` is False, although these are likely readings: an old object may be gone, and must not count as
            # missing.
            place = ENTRIES_SCHEMA.get_field_index("exact")
            rows = rows.set_column(place, ENTRIES_SCHEMA.field(place), pa.repeat(False, rows.num_rows))
            # In `elsewhere`, the range_id is empty, because the mark does not retain the range.
            yield _Found(rows, elsewhere_rows(self.namespace, [""], [len(held)], held), matched)

    def shown(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The objects at matching paths by their likely addresses: see `shown_at`."""
        for _, entries, _ in self._entries(batches):
            yield shown_rows(self.namespace, entries)

    def _entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table, set[str]]]:
        """The entries at matching paths, a range at a time, and the globs that they match."""
        for batch in batches:
            for range_id in batch.column("range_id").to_pylist():
                with _may_be_meant(f"Range {range_id}"):
                    entries = graveler.read_range(self.files.read(range_id), paths=True, expected_id=range_id)
                masks = dict(zip(self.paths.globs, self.paths.each(entries["path"]), strict=True))
                matched = {glob for glob, mask in masks.items() if pc.any(mask).as_py()}
                at_path = pa.repeat(False, len(entries))
                for glob in matched:
                    at_path = pc.or_(at_path, masks[glob])
                yield range_id, entries.filter(at_path), matched

    def addresses(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The addresses that entries at matching paths protect: column `address`."""
        for found in self.found(batches):
            yield from found.rows.select(["address"]).to_batches()


@dataclass(frozen=True)
class _Writing:
    """Writes the entries that a reader finds in ranges."""

    work: _PathReader
    out: DatasetFolder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        protected = PartWriter(self.out.config, self.out.at(HELD), ENTRIES_SCHEMA)
        elsewhere = PartWriter(self.out.config, self.out.at(ELSEWHERE), ELSEWHERE_SCHEMA, sum_authorities)
        seen: set[str] = set()
        for found in self.work.found(batches):
            seen |= found.matched
            for writer, rows in ((protected, found.rows), (elsewhere, found.elsewhere)):
                for batch in rows.to_batches():
                    writer.write(batch)
        yield {"matched": sorted(seen)}
        yield from part_results(HELD, protected.close())
        yield from part_results(ELSEWHERE, elsewhere.close())
