"""The past of unreferenced objects: the last path and commit that showed each, and what became of it then.

Results of earlier marks are carried on, and no range is read for paths twice. It is for people, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.layers import Layer, rests_on
from lakegc_core.marks.previous import previous_mark
from lakegc_core.names import Json, Stage
from lakegc_core.past.commits import LOST_BRANCHES, LOST_SCHEMA, PASTS, PASTS_SCHEMA, PastWalk
from lakegc_core.past.noted import origins_of_all
from lakegc_core.past.ranges import (
    CHOSEN_RANGES,
    CHOSEN_RANGES_SCHEMA,
    LOOKED,
    LOOKED_SCHEMA,
    MOST_ENTRIES,
    ORIGINS,
    ORIGINS_SCHEMA,
    OldRanges,
    within_budget,
)
from lakegc_core.policy.causes import FOLDERS
from lakegc_core.policy.facts import NOTHING, Amount, Cause, ExpiredFacts, Folder, OriginFacts
from lakegc_core.references.commits.commit_walk import REFS, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits
from lakegc_core.references.commits.retained import walk_until_known
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA, range_reader
from lakegc_core.spark.tasks import Mapped, many, run_on_rows, run_tasks
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import HASH, KIND, columns_of, gather, partitions_for, rows_in, rows_of_feeds, with_hash
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import among
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import Part, parts_of, read_part, spark_width, tasks_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_METARANGES = 2_000
SHOWN = 10
"""Causes and folders that are named, those with the most bytes."""
_FEW = 200_000  # rows that this process looks through by itself
DATASETS = (ORIGINS, LOOKED, LOST_BRANCHES)
_CAUSE, _FOLDER, _ALL = range(3)
_NEW, _GROUPS = "new-origins", "groups-of-origins"
_TOLD = pa.schema(  # origins, and rows of objects with address and size alone; -1 for those that are kept
    [HASH, *(field.with_nullable(True) for field in ORIGINS_SCHEMA), pa.field("size", pa.int64())]
)
_NEWEST = pa.schema([*ORIGINS_SCHEMA, pa.field("size", pa.int64(), nullable=False)])
_GROUPS_SCHEMA = pa.schema(
    [
        KIND,
        *(ORIGINS_SCHEMA.field(name) for name in ("cause", "branch", "gone")),
        pa.field("folder", pa.string(), nullable=False),
        pa.field("objects", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
_BY_GROUP = pa.schema([HASH, *_GROUPS_SCHEMA])


@dataclass(frozen=True)
class Origins:
    """The result of a search: facts, and parts by dataset. `facts`: None where nobody looked."""

    facts: OriginFacts | None = None
    parts: Mapping[str, Sequence[Part]] = field(default_factory=lambda: dict.fromkeys(DATASETS, ()))


def find_origins(
    spark: SparkSession, context: MarkContext, own: Layer, garbage: Dataset, kept: Dataset, *, returned: Dataset
) -> Origins:
    """Find the past of objects. `garbage`: expired ones; `kept`: unreferenced ones, which a reason keeps; `returned`:
    those that came back after a delete, of which the last mark may know nothing."""
    if not context.policy.origins:
        return Origins()
    try:
        search = _Search.after(spark, context, _marks_before(context))
        search = replace(search, known=origins_of_all(context)) if returned.rows else search
        return _found(search, own, garbage, kept)
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(
            f"{Stage.EXPIRED_ADDRESSES}: what an earlier mark found of the past of objects cannot be read ({error})"
        )
        return _found(_Search.after(spark, context, ()), own, garbage, kept)


def _found(search: _Search, own: Layer, garbage: Dataset, kept: Dataset) -> Origins:
    results = walk_until_known(partial(run_tasks, search.spark), search.context, search.walk())
    walked = parts_of(results, [LOST_BRANCHES, PASTS])
    pasts = search.out.dataset(PASTS, walked[PASTS], PASTS_SCHEMA)
    ranges, complete_after = search.choose(own, pasts)
    found = search.origins(ranges, garbage, kept)
    left = sum(result.get("unread", 0) for result in results)
    if complete_after is not None:
        left += 1  # of some, ranges are left
    noted = search.note(pasts, ranges, complete_after, whole=not rests_on(search.context.mark))
    parts = {ORIGINS: found[ORIGINS].parts, LOOKED: noted.parts, LOST_BRANCHES: walked[LOST_BRANCHES]}
    return Origins(search.facts(found[_GROUPS], left), parts)


def garbage_with_origins(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The garbage of a complete mark: the columns of `expired_addresses`, and those of `origins`, null where no commit
    is known to have shown an object."""
    garbage = context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA)
    return garbage.frame(spark).join(many(known_origins(context).frame(spark)), "address", "left")


def last_paths(spark: SparkSession, context: MarkContext, addresses: Sequence[str]) -> list[tuple[str, str]]:
    """The path of each of a few addresses, with the branch on which it was last shown, as far as the mark knows and its
    files read."""
    try:
        return _last_paths(spark, known_origins(context), pa.array(addresses, pa.string()))
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(f"{Stage.SWEPT_REPORT}: what the mark found of the past of objects cannot be read ({error})")
        return []


def _last_paths(spark: SparkSession, found: Dataset, wanted: pa.Array) -> list[tuple[str, str]]:
    def task(source: Source) -> Iterator[Json]:
        for batch in read_part(source.config, source.folder, source.part, ["address", "path", "branch"]):
            yield from batch.filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist()

    if found.rows <= _FEW:  # quicker than a job
        rows = [row for source in found.sources for row in task(source)]
    else:
        rows = run_tasks(spark, found.sources, task, width=4 * spark_width(spark))
    return [(row["branch"], row["path"]) for row in rows]


def known_origins(context: MarkContext) -> Dataset:
    """The origins that a mark knows (ORIGINS_SCHEMA): its own, or those of the newest below it that looked for them."""
    return _of_the_last((context.mark, *map(context.artifacts, rests_on(context.mark))), ORIGINS, ORIGINS_SCHEMA)


def _marks_before(context: MarkContext) -> tuple[MarkArtifacts, ...]:
    """The last complete mark and those that it rests on, newest first; none, if none is left."""
    last = previous_mark(context)
    return () if last is None else (last, *map(context.artifacts, rests_on(last)))


def _of_the_last(marks: Sequence[MarkArtifacts], name: str, schema: pa.Schema) -> Dataset:
    """A dataset of the newest of some marks that looked for origins; empty if none did."""
    looked = (mark for mark in marks if mark.facts(ExpiredFacts).origins is not None)
    mark = next(looked, None)
    return Dataset(schema) if mark is None else _of(mark, name, schema)


def _of(mark: MarkArtifacts, name: str, schema: pa.Schema) -> Dataset:
    """A dataset of a search; empty of a mark that did not look."""
    return mark.dataset(Stage.EXPIRED_ADDRESSES, schema, name, may_lack=True)


@dataclass(frozen=True)
class _Search:
    """The steps of a search; each is a job of Spark.

    `known`: what the last mark that looked knows of the past of objects. `lost`: the branches that it knows to be gone.
    `looked`: what marks before have read for paths. `former`: refs as the marks before saw them.
    """

    spark: SparkSession
    context: MarkContext
    known: Dataset
    lost: Dataset
    looked: Dataset
    former: Dataset

    @classmethod
    def after(cls, spark: SparkSession, context: MarkContext, marks: Sequence[MarkArtifacts]) -> _Search:
        """Begin a search with what these marks found: a complete one and those that it rests on, newest first."""
        # A mark notes what it has read itself, and a clean one all that was read before.
        looked = (_of(mark, LOOKED, LOOKED_SCHEMA) for mark in marks)
        # Of the newest mark and of the clean mark at the bottom: a branch that neither saw is not remembered.
        ends = {mark.mark_id: mark for mark in (*marks[:1], *marks[-1:])}.values()
        refs = (mark.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS) for mark in ends)
        return cls(
            spark,
            context,
            known=_of_the_last(marks, ORIGINS, ORIGINS_SCHEMA),
            lost=_of_the_last(marks, LOST_BRANCHES, LOST_SCHEMA),
            looked=sum(looked, Dataset(LOOKED_SCHEMA)),
            former=sum(refs, Dataset(REFS_SCHEMA)),
        )

    @property
    def out(self) -> DatasetFolder:
        """The folder of the results."""
        return self.context.mark.out(Stage.EXPIRED_ADDRESSES)

    def walk(self) -> PastWalk:
        """The task that chooses the commits to read."""
        return PastWalk(
            commits=KnownCommits.of(self.context),
            out=self.out,
            looked=self.looked,
            lost=self.lost,
            former=self.former,
            most=MOST_METARANGES,
        )

    def choose(self, own: Layer, pasts: Dataset) -> tuple[Dataset, int | None]:
        """The ranges to read, each with the newest of these commits that has it; and `complete_after`: every commit
        newer than this (microseconds) was read. None if all were."""
        if not pasts.rows:
            return Dataset(CHOSEN_RANGES_SCHEMA), None
        from pyspark.sql import functions as F

        names = CHOSEN_RANGES_SCHEMA.names[1:]
        tasks = tasks_for(pasts.rows, 64, 4 * spark_width(self.spark))
        read_by = Mapped(pasts.frame(self.spark).repartition(tasks), CHOSEN_RANGES_SCHEMA, self._old.ranges)
        retained = own.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES).frame(self.spark, "range_id")
        looked = self.looked.frame(self.spark).withColumnRenamed("id", "range_id")
        new = (
            read_by.as_frame()
            .join(many(retained), "range_id", "left_anti")
            .join(many(looked), "range_id", "left_anti")
            .groupBy("range_id")
            .agg(F.max_by(F.struct(*names), "moment").alias("newest"))
            .select("range_id", *(f"newest.{name}" for name in names))
        )
        most = self.context.settings.scale.origin_entries or MOST_ENTRIES
        results = run_on_rows(new.repartition(1), partial(within_budget, self.out, most))
        complete_after = next((result["complete_after"] for result in results if "complete_after" in result), None)
        parts = parts_of(results, [CHOSEN_RANGES])[CHOSEN_RANGES]
        return self.out.dataset(CHOSEN_RANGES, parts, CHOSEN_RANGES_SCHEMA), complete_after

    def origins(self, ranges: Dataset, garbage: Dataset, kept: Dataset) -> dict[str, Dataset]:
        """Write the last path of each of these objects, by these ranges and by what earlier marks found (ORIGINS); and
        the causes and folders of garbage, added up as far as some rows show (_GROUPS)."""
        found = self.known
        if ranges.rows and garbage.rows + kept.rows:
            chosen = ranges.frame(self.spark).repartition(tasks_for(ranges.rows, 4, 4 * spark_width(self.spark)))
            new = Mapped(chosen, ORIGINS_SCHEMA, self._old.entries)
            found += self.out.put(_NEW, among(self.spark, new, (garbage + kept).keys()), ORIGINS_SCHEMA)
        feeds = found.feeds(make=with_hash) if garbage.rows + kept.rows else []
        if feeds:
            feeds += garbage.feeds("address", "size", make=with_hash) + kept.feeds("address", make=_kept)
        rows = gather(self.spark, feeds, _TOLD, _newest, _NEWEST, partitions_for(rows_in(feeds)))
        return self.out.divide(rows, {ORIGINS: ORIGINS_SCHEMA, _GROUPS: _GROUPS_SCHEMA}, _with_groups)

    def note(self, pasts: Dataset, ranges: Dataset, complete_after: int | None, *, whole: bool) -> Dataset:
        """Write the ids of the metaranges and ranges that this mark has read: no other mark reads them again. `whole`:
        also of those that were read before, for a mark that rests on no other."""
        feeds = pasts.feeds("metarange_id", "moment", make=partial(_done, complete_after))
        feeds += ranges.feeds("range_id", make=_id_of_range) + (self.looked.feeds() if whole else [])
        return self.out.put(LOOKED, rows_of_feeds(self.spark, feeds, LOOKED_SCHEMA), LOOKED_SCHEMA)

    def facts(self, groups: Dataset, left: int) -> OriginFacts:
        """The causes and the folders of the most expired bytes."""
        feeds = groups.feeds(make=_by_group)
        made = gather(self.spark, feeds, _BY_GROUP, _largest, _GROUPS_SCHEMA, partitions_for(rows_in(feeds)))
        rows = run_on_rows(made, lambda batches: (row for batch in batches for row in batch.to_pylist()))
        rows = sorted(rows, key=_order)
        of = {kind: [row for row in rows if row["kind"] == kind][:SHOWN] for kind in (_CAUSE, _FOLDER, _ALL)}
        return OriginFacts(
            causes=tuple(
                Cause(row["cause"], row["branch"], row["gone"], row["objects"], row["bytes"]) for row in of[_CAUSE]
            ),
            folders=tuple(Folder(row["folder"], row["objects"], row["bytes"]) for row in of[_FOLDER]),
            found=Amount(of[_ALL][0]["objects"], of[_ALL][0]["bytes"]) if of[_ALL] else NOTHING,
            unread=left,
        )

    @property
    def _old(self) -> OldRanges:
        return OldRanges(range_reader(self.context))


def _kept(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return with_hash(rows) | {"size": -1}


def _newest(rows: pa.Table) -> Iterator[pa.Table]:
    """Of all rows of some addresses (_TOLD) the newest origin of each object: _NEWEST."""
    is_origin = pc.is_valid(rows["path"])
    objects = rows.filter(pc.invert(is_origin)).group_by("address").aggregate([("size", "max")])
    found = rows.filter(is_origin).drop_columns(["size"])
    found = found.sort_by([("moment", "descending"), ("commit_id", "ascending"), ("path", "ascending")])
    found = found.append_column("number", pa.array(np.arange(found.num_rows)))
    first = found.group_by("address").aggregate([("number", "min")])
    found = found.take(first["number_min"]).join(objects, "address", join_type="inner")
    yield found.rename_columns({"size_max": "size"})


def _with_groups(rows: pa.Table) -> dict[str, pa.Table]:
    """ORIGINS of rows of _NEWEST; and garbage by its cause, by its folder, and all of it (_GROUPS)."""
    garbage = rows.filter(pc.greater_equal(rows["size"], 0))
    count = garbage.num_rows
    folders = pc.struct_field(pc.extract_regex(garbage["path"].combine_chunks(), FOLDERS), "folder")
    counted = {"objects": pa.repeat(1, count), "bytes": garbage["size"]}
    causes = {name: garbage[name] for name in ("cause", "branch", "gone")}
    tables = [_group(count, _CAUSE, **counted, **causes), _group(count, _FOLDER, **counted, folder=folders)]
    return {ORIGINS: rows, _GROUPS: _summed(pa.concat_tables([*tables, _group(count, _ALL, **counted)]))}


def _group(rows: int, kind: int, **columns: Any) -> pa.Table:
    none = {"gone": pa.nulls(rows, pa.int64())}
    plain = {name: columns.get(name, none.get(name, pa.repeat("", rows))) for name in _GROUPS_SCHEMA.names[1:]}
    return pa.table({"kind": pa.repeat(pa.scalar(kind, pa.int8()), rows), **plain}).cast(_GROUPS_SCHEMA)


def _summed(rows: pa.Table) -> pa.Table:
    found = rows.group_by(_GROUPS_SCHEMA.names[:-2]).aggregate([("objects", "sum"), ("bytes", "sum")])
    return found.rename_columns({"objects_sum": "objects", "bytes_sum": "bytes"})


def _by_group(rows: pa.RecordBatch) -> Mapping[str, Any]:
    names = pc.binary_join_element_wise(rows["cause"], rows["branch"], rows["folder"], "\n")
    return columns_of(rows) | {"hash": hash_strings(names)}


def _largest(rows: pa.Table) -> Iterator[pa.Table]:
    """The largest groups of all rows of some groups, SHOWN of each kind at most."""
    found = _summed(rows).sort_by(
        [("bytes", "descending"), *((name, "ascending") for name in _GROUPS_SCHEMA.names[:-2])]
    )
    for kind in (_CAUSE, _FOLDER, _ALL):
        yield found.filter(pc.equal(found["kind"], kind)).slice(0, SHOWN)


def _order(row: Json) -> tuple[Any, ...]:
    gone = row["gone"]
    return -row["bytes"], row["cause"], row["branch"], gone is None, gone or 0, row["folder"]


def _done(complete_after: int | None, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The ids of metaranges whose ranges were all read."""
    if complete_after is not None:
        rows = rows.filter(pc.greater(rows["moment"], complete_after))
    return {"id": rows["metarange_id"]}


def _id_of_range(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return {"id": rows["range_id"]}
