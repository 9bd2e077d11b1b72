"""The past of what nothing refers to: the last path and commit that showed it, and what became of it then.

What earlier marks found is carried on, and no range is read for paths twice. It is for people, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT
from lakegc_core.marks.layers import Layer, rests_on
from lakegc_core.marks.previous import previous_mark
from lakegc_core.names import Stage
from lakegc_core.past.commits import LOST_BRANCHES, PASTS, PASTS_SCHEMA, Dataset, PastWalk
from lakegc_core.past.ranges import (
    CHOSEN_RANGES,
    CHOSEN_RANGES_SCHEMA,
    LOOKED,
    LOOKED_SCHEMA,
    MOST_ENTRIES,
    ORIGINS,
    ORIGINS_SCHEMA,
    Budget,
    OldRanges,
)
from lakegc_core.policy.causes import FOLDERS
from lakegc_core.policy.facts import NOTHING, Amount, Cause, ExpiredFacts, Folder, OriginFacts
from lakegc_core.references.commits.commit_walk import REFS
from lakegc_core.references.commits.known_walk import Place
from lakegc_core.references.commits.retained import walk_until_known
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA, reading
from lakegc_core.spark.session import Mapped, clear_errors, many, run_on_rows, run_tasks
from lakegc_core.tables.joins import among
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import Part, parts_of, read, rows_of, spark_width, tasks_for, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_METARANGES = 2_000
SHOWN = 10
"""Causes and folders that are named, those with the most bytes."""
DATASETS = (ORIGINS, LOOKED, LOST_BRANCHES)
_CAUSE, _FOLDER, _ALL = range(3)


@dataclass(frozen=True)
class Origins:
    """What was found: parts by dataset, and the facts; None where nobody looked."""

    facts: OriginFacts | None = None
    parts: Mapping[str, Sequence[Part]] = field(default_factory=lambda: dict.fromkeys(DATASETS, ()))


def find_origins(spark: SparkSession, context: MarkContext, own: Layer, parts: Mapping[str, Sequence[Part]]) -> Origins:
    """The past of the objects in `parts`: those that are expired, and those that something else than commits keeps."""
    if not context.policy.origins:
        return Origins()
    try:
        return _found(_Search(spark, context, _Before.of(context)), own, parts)
    except (CorruptFileError, MarkError, ObjectNotFoundError) as error:
        context.say(
            f"{Stage.EXPIRED_ADDRESSES}: what an earlier mark found of the past of objects does not read ({error})"
        )
        return _found(_Search(spark, context, _Before()), own, parts)


def _found(search: _Search, own: Layer, parts: Mapping[str, Sequence[Part]]) -> Origins:
    spark, context = search.spark, search.context
    results = walk_until_known(partial(run_tasks, spark), context, search.walk())
    walked = parts_of(results, [LOST_BRANCHES, PASTS])
    ranges, until = search.choose(own, walked[PASTS])
    found = search.origins(ranges, parts)
    left = sum(result.get("unread", 0) for result in results) + (until is not None)
    noted = search.note(walked[PASTS], ranges, until, whole=not rests_on(search.context.mark))
    datasets = {ORIGINS: found, LOOKED: noted, LOST_BRANCHES: walked[LOST_BRANCHES]}
    return Origins(search.facts(found, parts[Stage.EXPIRED_ADDRESSES], left), datasets)


def garbage_with_origins(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The garbage of a complete mark: the columns of `expired_addresses`, and those of `origins`, null where no commit
    is known to have shown an object."""
    folder, parts = _Before.of_mark(context, context.mark).origins
    origins = read(spark, context.workspace, folder, parts, ORIGINS_SCHEMA)
    expired = context.mark.require(Stage.EXPIRED_ADDRESSES).datasets[Stage.EXPIRED_ADDRESSES]
    garbage = read(
        spark, context.workspace, context.mark.stage_folder(Stage.EXPIRED_ADDRESSES), expired, FINDINGS_SCHEMA
    )
    return garbage.join(many(origins), "address", "left")


@dataclass(frozen=True)
class _Before:
    """The last complete mark and those that it rests on, newest first; none, if none is left."""

    marks: tuple[MarkArtifacts, ...] = ()

    @classmethod
    def of(cls, context: MarkContext) -> _Before:
        last = previous_mark(context)
        return cls() if last is None else cls.of_mark(context, last)

    @classmethod
    def of_mark(cls, context: MarkContext, last: MarkArtifacts) -> _Before:
        """A complete mark, and those that it rests on."""
        return cls((last, *map(context.artifacts, rests_on(last))))

    @property
    def origins(self) -> Dataset:
        """What the last of them that looked knows of the past of objects."""
        return self._last(ORIGINS)

    @property
    def lost(self) -> Dataset:
        """The branches that it knows to be gone."""
        return self._last(LOST_BRANCHES)

    @property
    def looked(self) -> tuple[Dataset, ...]:
        """What was read for paths. A mark notes what it has read itself, and a clean one all that was read before."""
        return tuple(_dataset(mark, LOOKED) for mark in self.marks)

    @property
    def refs(self) -> tuple[Dataset, ...]:
        """The refs that the last of them and the clean one saw."""
        ends = {mark.mark_id: mark for mark in (*self.marks[:1], *self.marks[-1:])}
        return tuple(
            (
                mark.stage_folder(Stage.RETENTION_COMMITS, REFS),
                tuple(mark.require(Stage.RETENTION_COMMITS).datasets[REFS]),
            )
            for mark in ends.values()
        )

    def _last(self, dataset: str) -> Dataset:
        looked = (mark for mark in self.marks if mark.facts(ExpiredFacts).origins is not None)
        mark = next(looked, None)
        return ("", ()) if mark is None else _dataset(mark, dataset)


def _dataset(mark: MarkArtifacts, dataset: str) -> Dataset:
    """The folder and the parts of a dataset; of a mark that did not look there are none."""
    return mark.stage_folder(Stage.EXPIRED_ADDRESSES, dataset), tuple(
        mark.require(Stage.EXPIRED_ADDRESSES).datasets.get(dataset, ())
    )


@dataclass(frozen=True)
class _Search:
    """The steps of a search; each is a job of Spark."""

    spark: SparkSession
    context: MarkContext
    before: _Before

    def walk(self) -> PastWalk:
        """Which commits are read."""
        return PastWalk(
            place=Place.of(self.context),
            folders={name: self._folder(name) for name in (LOST_BRANCHES, PASTS)},
            looked=self.before.looked,
            lost=self.before.lost,
            former=self.before.refs,
            most=MOST_METARANGES,
        )

    def choose(self, own: Layer, pasts: Sequence[Part]) -> tuple[list[Part], int | None]:
        """The ranges to read, each with the newest of these commits that has it, and until which moment all are; None
        where that is all of them."""
        if not pasts:
            return [], None
        from pyspark.sql import functions as F

        names = CHOSEN_RANGES_SCHEMA.names[1:]
        tasks = tasks_for(rows_of(pasts), 64, 4 * spark_width(self.spark))
        read_by = Mapped(
            self._read(PASTS, pasts, PASTS_SCHEMA).repartition(tasks), CHOSEN_RANGES_SCHEMA, self._old.ranges
        )
        retained = own.frame(self.spark, Stage.COMMITTED_ADDRESSES, RANGES, RANGES_SCHEMA)
        looked = self._looked()
        new = (
            read_by.as_frame()
            .join(many(retained.select("range_id")), "range_id", "left_anti")
            .join(many(looked.withColumnRenamed("id", "range_id")), "range_id", "left_anti")
            .groupBy("range_id")
            .agg(F.max_by(F.struct(*names), "moment").alias("newest"))
            .select("range_id", *(f"newest.{name}" for name in names))
        )
        entries = self.context.settings.scale.origin_entries or MOST_ENTRIES
        budget = Budget(self._old.work, self._folder(CHOSEN_RANGES), entries)
        results = run_on_rows(new.repartition(1), budget)
        until = next((result["until"] for result in results if "until" in result), None)
        return parts_of(results, [CHOSEN_RANGES])[CHOSEN_RANGES], until

    def origins(self, ranges: Sequence[Part], parts: Mapping[str, Sequence[Part]]) -> list[Part]:
        """Write where the objects in `parts` were last shown: what these ranges say, and what marks before found."""
        from pyspark.sql import functions as F

        places = tuple(
            (self.context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, name), parts[name])
            for name in (Stage.EXPIRED_ADDRESSES, KEPT)
        )
        wanted = Wanted.at(self.context.workspace, places)
        folder, former = self.before.origins
        if not wanted.rows or not (ranges or former):
            return []
        tasks = tasks_for(len(ranges) and rows_of(ranges), 4, 4 * spark_width(self.spark))
        chosen = self._read(CHOSEN_RANGES, ranges, CHOSEN_RANGES_SCHEMA).repartition(tasks)
        new = among(self.spark, Mapped(chosen, ORIGINS_SCHEMA, self._old.entries), wanted)
        known = read(self.spark, self.context.workspace, folder, former, ORIGINS_SCHEMA)
        old = among(self.spark, Mapped(known, ORIGINS_SCHEMA), wanted)
        names = ORIGINS_SCHEMA.names[1:]
        every = (
            new.as_frame()
            .union(old.as_frame())
            .groupBy("address")
            .agg(F.max_by(F.struct(*names), "moment").alias("newest"))
            .select("address", *(f"newest.{name}" for name in names))
        )
        return write(every, self.context.workspace, {ORIGINS: self._folder(ORIGINS)}, ORIGINS_SCHEMA)[ORIGINS]

    def note(self, pasts: Sequence[Part], ranges: Sequence[Part], until: int | None, *, whole: bool) -> list[Part]:
        """Write which metaranges and ranges this mark has read: no other reads them again. `whole`: and those that
        were read before, for a mark that rests on no other."""
        former = whole and any(parts for _, parts in self.before.looked)
        if not (pasts or former):
            return []
        metaranges = self._read(PASTS, pasts, PASTS_SCHEMA)
        done = metaranges if until is None else metaranges.where(metaranges["moment"] > until)
        every = done.selectExpr("metarange_id AS id").union(
            self._read(CHOSEN_RANGES, ranges, CHOSEN_RANGES_SCHEMA).select("range_id")
        )
        every = every.union(self._looked()) if former else every
        return write(every, self.context.workspace, {LOOKED: self._folder(LOOKED)}, LOOKED_SCHEMA)[LOOKED]

    def facts(self, found: Sequence[Part], expired: Sequence[Part], left: int) -> OriginFacts:
        """The causes and the folders of the most expired bytes."""
        rows = self._largest(found, expired) if found and expired else []
        of = {kind: [row for row in rows if row["kind"] == kind] for kind in (_CAUSE, _FOLDER, _ALL)}
        return OriginFacts(
            causes=tuple(
                Cause(row["cause"], row["branch"], row["gone"], row["objects"], row["bytes"]) for row in of[_CAUSE]
            ),
            folders=tuple(Folder(row["folder"], row["objects"], row["bytes"]) for row in of[_FOLDER]),
            found=Amount(of[_ALL][0]["objects"], of[_ALL][0]["bytes"]) if of[_ALL] else NOTHING,
            unread=left,
        )

    def _largest(self, found: Sequence[Part], expired: Sequence[Part]) -> list[Any]:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        def group(kind: int, **keys: Any) -> Any:
            own = {
                "kind": F.lit(kind),
                "cause": F.lit(""),
                "branch": F.lit(""),
                "gone": F.lit(None),
                "folder": F.lit(""),
            }
            shape = {"kind": "int", "gone": "long"}
            return F.struct(
                *(value.cast(shape.get(name, "string")).alias(name) for name, value in (own | keys).items())
            )

        origins = self._read(ORIGINS, found, ORIGINS_SCHEMA)
        folder = F.regexp_extract("path", FOLDERS.replace("?P<", "?<"), 0)
        groups = F.array(
            group(_CAUSE, cause=F.col("cause"), branch=F.col("branch"), gone=F.col("gone")),
            group(_FOLDER, folder=folder),
            group(_ALL),
        )
        own = self._read(Stage.EXPIRED_ADDRESSES, expired, FINDINGS_SCHEMA, ["address", "size"]).join(
            many(origins), "address"
        )
        sums = own.select("size", F.explode(groups).alias("group")).groupBy("group")
        told = sums.agg(F.count("size").alias("objects"), F.sum("size").alias("bytes"))
        place = F.row_number().over(Window.partitionBy("group.kind").orderBy(F.desc("bytes"), "group"))
        with clear_errors():
            rows = told.withColumn("place", place).where(F.col("place") <= SHOWN).select("group.*", "objects", "bytes")
            return sorted(rows.collect(), key=lambda row: (row["kind"], -row["bytes"]))

    @property
    def _old(self) -> OldRanges:
        return OldRanges(reading(self.context, self._folder(ORIGINS)))

    def _folder(self, dataset: str) -> str:
        return self.context.mark.stage_folder(
            Stage.EXPIRED_ADDRESSES, "" if dataset == Stage.EXPIRED_ADDRESSES else dataset
        )

    def _read(
        self, dataset: str, parts: Sequence[Part], schema: pa.Schema, columns: Sequence[str] | None = None
    ) -> DataFrame:
        return read(self.spark, self.context.workspace, self._folder(dataset), parts, schema, columns)

    def _looked(self) -> DataFrame:
        """What was read before."""
        places = [place for place in self.before.looked if place[1]] or [("", ())]
        frames = (read(self.spark, self.context.workspace, *place, LOOKED_SCHEMA) for place in places)
        return reduce(lambda one, other: one.union(other), frames)
