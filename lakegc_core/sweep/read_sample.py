"""A random sample of paths on branch heads, of which one byte is read before and after a sweep.

The surest sign that nothing live was taken, because it asks lakeFS for what its users ask for. The safety level limits
the number of paths; the guard `reads` judges unreadable ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.lakefs.client import READS
from lakegc_core.lakefs.files import graveler
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, MISSING
from lakegc_core.names import Json, Reason, Stage
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, REFS, REFS_SCHEMA
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.spark.tasks import collected, many, run_tasks
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.key_scan import Wanted, by_address, filter_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FINE = (*READS, 404)  # 404: deleted from the branch since the mark
_RANGES = 5  # ranges to read, spread over up to as many heads


@dataclass(frozen=True)
class Sample:
    """Paths that were asked for.

    `paths`: (branch, path) of each. `unreadable`: those that could not be read, with lakeFS's HTTP status: 410 if the
    data is gone. Any other status says nothing of the data. `known_gone`: paths that were left out, because the mark
    knows that their objects are gone, with the reason; not all of them.
    """

    paths: tuple[tuple[str, str], ...] = ()
    unreadable: Mapping[str, int] = field(default_factory=dict)
    known_gone: Mapping[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        return len(self.paths)


def take_sample(spark: SparkSession, context: MarkContext, size: int) -> Sample:
    """Read one byte of up to `size` random paths of branch heads, as the mark saw them."""
    if not size:
        return Sample()
    found = _random_paths(spark, context, size)
    paths = [(each["branch"], each["path"]) for each in found if not each["gone"]][:size]
    gone = {f"{each['branch']}/{each['path']}": each["gone"] for each in found if each["gone"]}
    return Sample(tuple(paths), _unreadable(context, paths), gone)


def read_again(context: MarkContext, sample: Sample) -> Mapping[str, int]:
    """The paths of a sample that could be read before and cannot be read now, with their status."""
    return _unreadable(context, [each for each in sample.paths if f"{each[0]}/{each[1]}" not in sample.unreadable])


def _unreadable(context: MarkContext, paths: list[tuple[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for branch, path in paths:
        status = status_at(context, branch, path)
        if status not in _FINE:
            found[f"{branch}/{path}"] = status
    return found


def status_at(context: MarkContext, ref: str, path: str) -> int:
    """lakeFS's HTTP status for the first byte at a path. ServerError if there is no answer."""
    try:
        return context.client.read_byte(context.header.repository, ref, path)
    except LakeFSError as error:
        return error.status


def _random_paths(spark: SparkSession, context: MarkContext, size: int) -> list[Json]:
    """Rows of branch, path and gone: the reason why the mark knows that the object is gone; "" where it lies there."""
    from pyspark.sql import functions as F

    refs = context.mark.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS).frame(spark)
    retained = context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA).frame(spark)
    heads = (
        refs.where("kind = 'branch'")
        .join(many(retained.where("metarange_id != ''")), "commit_id")
        .groupBy("metarange_id")
        .agg(F.first("name").alias("branch"))
        .orderBy(F.rand())
        .limit(_RANGES)
    )
    branches = [(row["branch"], row["metarange_id"]) for row in collected(heads)]
    files, namespace = context.metadata, context.namespace
    ranges_a_head = -(-_RANGES // max(1, len(branches)))
    paths_a_range = -(-size // _RANGES)
    gone = _KnownGone.of(context)

    def task(item: tuple[str, str]) -> Iterator[Json]:
        branch, metarange_id = item
        held = graveler.read_metarange(files.read(metarange_id))["range_id"].to_pylist()
        for range_id in random.sample(held, min(ranges_a_head, len(held))):
            entries = graveler.read_range(files.read(range_id), paths=True)
            # What was imported lies elsewhere: no sweep of this repository can have taken it.
            rows = protected_rows(namespace, [range_id], [len(entries)], entries)
            for reason, paths in gone.divide(rows).items():
                for row in random.sample(range(len(paths)), min(paths_a_range, len(paths))):
                    try:
                        yield {"branch": branch, "path": paths[row].as_py().decode(), "gone": reason}
                    except UnicodeDecodeError:
                        continue  # REST cannot ask for it

    return run_tasks(spark, branches, task)


@dataclass(frozen=True)
class _KnownGone:
    """Objects that a mark knows as gone, by the reason."""

    wanted: Mapping[str, Wanted]

    @classmethod
    def of(cls, context: MarkContext) -> _KnownGone:
        manifest = context.mark.manifest(Stage.EXPIRED_ADDRESSES)
        if manifest is None:
            return cls({})
        missing = context.mark.dataset_of(manifest, FINDINGS_SCHEMA, MISSING, may_lack=True)
        by = {Reason.SWEPT_BEFORE: _swept_before, Reason.MISSING: _missing}
        return cls({why: missing.keys("address", "reason", by=key) for why, key in by.items()} if missing.parts else {})

    def divide(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The paths of rows (columns address, path) by the reason why the object is gone; "": it lies there."""
        found: dict[str, pa.Array] = {}
        left = rows.combine_chunks()
        for reason, wanted in self.wanted.items():
            hit = pa.array(filter_of(wanted).rows(hash_strings(left["address"])), pa.int64())
            found[reason] = pc.unique(left["path"].take(hit))
            left = left.filter(pc.invert(pc.is_in(left["path"], value_set=found[reason])))
        return {"": pc.unique(left["path"]), **found}


def _swept_before(rows: pa.RecordBatch) -> np.ndarray:
    return by_address(rows.filter(pc.equal(rows["reason"], Reason.SWEPT_BEFORE)))


def _missing(rows: pa.RecordBatch) -> np.ndarray:
    reasons = pa.array([Reason.MISSING, Reason.GIVEN_UP], pa.string())
    return by_address(rows.filter(pc.is_in(rows["reason"], value_set=reasons)))
