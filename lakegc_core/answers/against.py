"""Compares the garbage of a mark with a list of another tool: what both would delete, what only one would, and why.

The other list is not believed; what only it names is told with what keeps it. Nothing is deleted by a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.answers.explain import explain_each
from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import Json, Reason, Stage
from lakegc_core.spark.tasks import many, moment, run_on_rows
from lakegc_core.store.base import connect
from lakegc_core.sweep.other_tools import OtherMark, addresses, kept_by_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOTH, OURS, THEIRS = "both", "lakegc", "other"
"""The tools that would delete an object."""

YOUNG_THERE, LATER, UNTOLD = "young_there", "later", "untold"
"""Reasons why only lakegc would: the object was too young for the other tool; lakegc found it unreferenced only after
the other list had been begun, so it may have been live then; nothing on record tells it."""

COLUMNS = ("address", "size", "by", "why")
_SHOWN = 5  # objects of each group that are explained


@dataclass(frozen=True)
class Made:
    """Facts of another tool's list: unix seconds, None if its summary does not say. `success`: False if it failed."""

    began: float | None = None
    cutoff: float | None = None
    success: bool | None = None


@dataclass(frozen=True)
class Group:
    """Objects that the same would delete (`by`) for the same reason (`why`). `examples`: some of them, as `explain`
    tells of them."""

    by: str
    why: str
    objects: int
    bytes: int  # of those whose size is known
    examples: tuple[Json, ...]


@dataclass(frozen=True)
class Comparison:
    """A mark against another tool's list. Times are ISO 8601, None where the other tool does not say."""

    repository: str
    mark_id: str
    at: str
    against: str
    began: str | None
    cutoff: str | None
    success: bool | None
    groups: tuple[Group, ...]

    def as_json(self) -> Json:
        """The comparison as it is printed."""
        return asdict(self)


def compare(spark: SparkSession, context: MarkContext, other: OtherMark) -> Comparison:
    """Compare a complete mark with another tool's list. CorruptFileError if that cannot be read."""
    made = made_of(context, other)
    results = run_on_rows(rows_of_both(spark, context, other, made), _count)
    groups = [_merged(by, why, results) for by, why in sorted({(each["by"], each["why"]) for each in results})]
    shown = [address for _, named in groups for address in named]
    told = {each.address: asdict(each) for each in explain_each(lambda: spark, context, shown)}
    header = context.header
    return Comparison(
        repository=header.repository,
        mark_id=header.mark_id,
        at=clock.instant(header.started_at),
        against=other.name,
        began=None if made.began is None else clock.instant(made.began),
        cutoff=None if made.cutoff is None else clock.instant(made.cutoff),
        success=made.success,
        groups=tuple(Group(**group, examples=tuple(told[each] for each in named)) for group, named in groups),
    )


def rows_of_both(spark: SparkSession, context: MarkContext, other: OtherMark, made: Made) -> DataFrame:
    """Each object that either would delete, once: COLUMNS. Size 0: not known; `why` of both is `unreferenced`."""
    from pyspark.sql import functions as F

    listed = addresses(spark, context, other)
    garbage = context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)
    why = F.when(F.col("listed"), Reason.UNREFERENCED.value)
    if made.cutoff is not None:
        why = why.when(F.col("last_modified") >= moment(made.cutoff), YOUNG_THERE)
    if made.began is not None:
        why = why.when(F.col("since") > moment(made.began), LATER)
    ours = (
        garbage.frame(spark, "address", "size", "last_modified", "since")
        .join(many(listed.withColumn("listed", F.lit(True))), "address", "left")
        .withColumn("by", F.when(F.col("listed"), BOTH).otherwise(OURS))
        .withColumn("why", why.otherwise(UNTOLD))
    )
    theirs = kept_by_ours(spark, context, listed).withColumn("by", F.lit(THEIRS)).withColumnRenamed("reason", "why")
    return ours.select(*COLUMNS).unionByName(theirs.select(*COLUMNS))


def made_of(context: MarkContext, other: OtherMark) -> Made:
    """The facts in the summary beside a list; nothing if there is no summary."""
    if other.summary is None:
        return Made()
    try:
        found = json.loads(connect(context.data).read(other.summary))
        began, cutoff = (clock.unix_seconds(found[name]) for name in ("start_time", "cutoff_time"))
        return Made(began, cutoff, bool(found["success"]))
    except ObjectNotFoundError:
        return Made()
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CorruptFileError(f"{context.namespace.uri}/{other.summary} is no summary of a list.") from None


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
    """The objects and bytes of each group in a partition, and the first of its addresses."""
    found: dict[tuple[str, str], Json] = {}
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        sums = rows.group_by(["by", "why"]).aggregate([("address", "count"), ("size", "sum")])
        for each in sums.to_pylist():
            group = found.setdefault((each["by"], each["why"]), {"objects": 0, "bytes": 0, "first": []})
            group["objects"] += each["address_count"]
            group["bytes"] += each["size_sum"]
            mine = rows.filter(pc.and_(pc.equal(rows["by"], each["by"]), pc.equal(rows["why"], each["why"])))
            some = pc.select_k_unstable(mine, _SHOWN, [("address", "ascending")])
            group["first"] = sorted([*group["first"], *mine["address"].take(some).to_pylist()])[:_SHOWN]
    for (by, why), group in found.items():
        yield {"by": by, "why": why, **group}


def _merged(by: str, why: str, results: Sequence[Json]) -> tuple[Json, list[str]]:
    """A group of all partitions, and the first of its addresses."""
    mine = [each for each in results if (each["by"], each["why"]) == (by, why)]
    first = sorted(address for each in mine for address in each["first"])[:_SHOWN]
    sums = {name: sum(each[name] for each in mine) for name in ("objects", "bytes")}
    return {"by": by, "why": why, **sums}, first
