"""Accounts for all objects that ever stood at some paths: what keeps each, or which sweep took it; and, once all are
gone, a statement.

The store says what is there. Commits, branches as they are now, and what marks noted say what stood at the paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakegc_core import clock
from lakegc_core.answers.explain import AT_ONCE, explain_each
from lakegc_core.answers.gone_unread import unread
from lakegc_core.answers.in_backups import backups, left, made_since, saved
from lakegc_core.answers.in_quarantine import began_since, lying, places, with_copies
from lakegc_core.answers.scratch import scratch
from lakegc_core.answers.sooner import Terms, ends, keeper_json, keepers_of
from lakegc_core.answers.taken import last_records, sweep_that_took, vanished
from lakegc_core.clock import instant
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import sealed
from lakegc_core.names import Json, Stage
from lakegc_core.past.noted import origins_of_all
from lakegc_core.policy.facts import CommitsFacts, CommittedFacts
from lakegc_core.policy.holds import PathGlobs, fixed_prefix
from lakegc_core.policy.retention import Rules
from lakegc_core.policy.xids import latest_told, told_until, xid_times
from lakegc_core.references.commits.commit_walk import REFS, REFS_SCHEMA
from lakegc_core.references.commits.known_walk import KnownCommits, NewCommits
from lakegc_core.references.ranges.held_paths import AT_PATHS, shown_at, shown_rows
from lakegc_core.spark.shipping import runs_here
from lakegc_core.spark.tasks import collected, many, run_tasks
from lakegc_core.spark.versions import frame_of
from lakegc_core.store.base import StoreConfig, connect, heads
from lakegc_core.sweep.lost import spread
from lakegc_core.sweep.what_counts import effective_level

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_LISTED = 100_000
"""Objects below the fixed beginning of the paths that are listed, at most, on all branches together."""
_FULL = 2  # the type of a full address in lakeFS's entries
_ASKED = pa.schema(  # null: not in the store, and no copy in the quarantine of any mark, and in no backup
    [
        *AT_PATHS,
        pa.field("size", pa.int64(), nullable=True),
        pa.field("copied", pa.string(), nullable=True),
        pa.field("saved", pa.string(), nullable=True),
    ]
)


@dataclass(frozen=True)
class Account:
    """The answer. Times are ISO 8601.

    `objects`: how many ever stood at the paths; of them `there`, with `bytes`; `gone`; and `outside`, which do not lie
    in the namespace. `standing`: some of those that are there, as `explain` tells of them, each with `keepers`, `until`
    and `earliest`. `vanished`: some of those that are gone. `sweeps`: which sweeps took them, with the digests of their
    statements; `otherwise`: how many no sweep on record took; `unread`: records of sweeps that cannot be read: they may
    tell of some of these. `open`: why nobody can say yet that all are gone. `statement`: sealed, once all are gone.
    """

    repository: str
    mark_id: str
    at: str
    asked_at: str
    paths: str
    objects: int
    there: int
    bytes: int
    gone: int
    outside: int
    standing: tuple[Json, ...]
    vanished: tuple[Json, ...]
    sweeps: tuple[Json, ...]
    otherwise: int
    unread: tuple[str, ...]
    open: tuple[str, ...]
    statement: Json | None

    def as_json(self) -> Json:
        """The answer as it is printed."""
        return asdict(self)


@dataclass(frozen=True)
class _Now:
    """What branches show at the paths now: AT_PATHS, and the branches by address. `is_whole`: False if there was
    too much to list. `moved`: how many branches and tags have commits that the mark did not see; `new`: how many
    commits lakeFS has that the mark did not know."""

    rows: pa.Table
    branches: dict[str, list[str]]
    is_whole: bool
    moved: int
    new: int


def check_asked(paths: str, most: int) -> None:
    """SettingsError for what `gone` does not answer."""
    if not paths:
        raise SettingsError("No path is given: name one, or a pattern such as `people/**`.")
    if not 0 < most <= AT_ONCE:
        raise SettingsError(f"The number of objects to name must be from 1 to {AT_ONCE:,}.")


def gone(spark: SparkSession, context: MarkContext, paths: str, most: int) -> Account:
    """Account for the objects at paths (a glob: `*` stays in a folder, `**` crosses them), by a complete mark. `most`:
    how many are named of those that are there, and of those that are gone."""
    check_asked(paths, most)
    now = _shown_now(spark, context, paths)
    quarantines, kept = places(context), backups(context)
    with scratch(context, here=runs_here(spark)) as aside:
        asked = _asked(context, _every(spark, context, paths, now), quarantines, kept.places)
        every = aside.put("asked", asked, _ASKED).frame(spark)
        records, unread_files = last_records(spark, context)
        told = every.join(many(records), "address", "left")
        groups = _groups(told)
        there = {row["address"]: row["path"] for row in _first(every.where("inside and size is not null"), most)}
        away = tuple(vanished(row) for row in _first(told.where("inside and size is null"), most))
        standing = tuple(_standing(spark, context, there, now))
    copies = (*lying(context, groups), *saved(groups), *kept.unknown, *left(context))
    copies += (*began_since(context, quarantines), *made_since(context, kept))
    return _account(context, paths, now, groups, standing, away, unread_files, copies)


def _every(spark: SparkSession, context: MarkContext, paths: str, now: _Now) -> DataFrame:
    """All objects that are known to have stood at the paths, each once: AT_PATHS."""
    from pyspark.sql import functions as F

    globs = PathGlobs((paths,))

    def at_paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = batch.filter(globs.any(batch["path"]))
            yield found.append_column("inside", pa.repeat(True, found.num_rows))

    noted = origins_of_all(context).mapped(spark, "address", "path").then(AT_PATHS, at_paths).as_frame()
    shown = shown_at(spark, context, (paths,)).select(*AT_PATHS.names).unionByName(noted)
    if now.rows.num_rows:
        shown = shown.unionByName(frame_of(spark, now.rows))
    return shown.groupBy("address", "inside").agg(F.min("path").alias("path"))


def _shown_now(spark: SparkSession, context: MarkContext, paths: str) -> _Now:
    """List the paths on all branches, up to MOST_LISTED objects, and count what the mark did not see."""
    name, prefix = context.repository.id, fixed_prefix(paths).decode("utf-8", "surrogateescape")
    globs, left, rows = PathGlobs((paths,)), MOST_LISTED, [AT_PATHS.empty_table()]
    branches: dict[str, list[str]] = {}
    refs = list(context.client.branches(name))
    for branch in refs:
        for page in context.client.objects(name, branch.name, prefix) if left > 0 else ():
            left -= len(page)
            entries = pa.table(
                {
                    "path": pa.array([each.path for each in page], pa.string()),
                    "address": pa.array([each.physical_address for each in page], pa.string()),
                    "address_type": pa.repeat(pa.scalar(_FULL, pa.int8()), len(page)),
                }
            )
            found = shown_rows(context.namespace, entries.filter(globs.any(entries["path"])))
            rows.append(pa.Table.from_batches([found]))
            for address in found["address"].to_pylist():
                branches.setdefault(address, []).append(branch.name)
            if left <= 0:
                break
    known = set(context.mark.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS).values("commit_id"))
    moved = sum(each.commit_id not in known for each in (*refs, *context.client.tags(name)))
    return _Now(pa.concat_tables(rows), branches, left > 0, moved, _new_commits(spark, context))


def _new_commits(spark: SparkSession, context: MarkContext) -> int:
    dump = context.client.dump(context.repository.id).commits_metarange_id
    walk = NewCommits(commits=KnownCommits.of(context), dump=dump)
    (found,) = run_tasks(spark, [walk], NewCommits.run)
    return int(found["new"])


def _asked(
    context: MarkContext,
    rows: DataFrame,
    quarantines: Mapping[str, StoreConfig],
    kept: Mapping[str, StoreConfig],
) -> DataFrame:
    """The rows with the size that the store has of each object, and of those that it lacks the mark in whose quarantine
    a copy lies (`copied`), and the place of a backup in which one lies (`saved`); null where there is none. HEADs on
    executors."""
    config = context.data

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sized = _with_sizes(batch.select(AT_PATHS.names), config)
            copied = with_copies(sized, quarantines, "copied")  # after that: a copy is made before the delete
            yield with_copies(copied, kept, "saved")

    return spread(rows.select(*AT_PATHS.names)).mapInArrow(
        body, "address string, path string, inside boolean, size bigint, copied string, saved string"
    )


def _with_sizes(batch: pa.RecordBatch, config: StoreConfig) -> pa.RecordBatch:
    inside = np.flatnonzero(batch["inside"].to_numpy(zero_copy_only=False))
    asked = heads(connect(config), batch["address"].take(pa.array(inside)).to_pylist())
    sizes: list[int | None] = [None] * batch.num_rows
    for place, info in zip(inside.tolist(), asked, strict=True):
        sizes[place] = None if info is None else info.size
    return batch.append_column("size", pa.array(sizes, pa.int64()))


def _groups(told: DataFrame) -> list[Json]:
    """The objects by what became of them: as many groups as there are sweeps, and a few more."""
    from pyspark.sql import functions as F

    there = F.col("size").isNotNull().alias("there")
    keys = (F.col("inside"), there, F.col("mark_id"), F.col("sweep"), F.col("copied"), F.col("saved"))
    groups = told.groupBy(*keys).agg(F.count("*").alias("objects"), F.sum("size").alias("bytes"))
    return [row.asDict() for row in collected(groups)]


def _first(rows: DataFrame, most: int) -> list[Any]:
    return list(collected(rows.orderBy("path", "address").limit(most)))


def _standing(spark: SparkSession, context: MarkContext, there: Mapping[str, str], now: _Now) -> Iterator[Json]:
    """Each of some objects that are there, with what keeps it. `there`: their paths by address. lakeFS's dump of what
    is staged has no paths, so that `explain` may know none."""
    addresses = list(there)
    name = context.repository.id
    given = context.client.gc_rules(name)
    rules = None if given is None else Rules(given.default_retention_days, dict(given.branches))
    sweep = f"lakegc sweep {name} {context.header.mark_id}"
    level, header = effective_level(context), context.header
    gap, memory = level.gap.total_seconds(), level.rules_memory.total_seconds()
    terms = Terms(rules, gap, header.min_age, memory, header.started_at, sweep)
    times = told_until(xid_times(pa.array(addresses, pa.string())), latest_told(context.header.started_at))
    named = np.nan_to_num(times).tolist()
    for each, at in zip(explain_each(lambda: spark, context, addresses), named, strict=True):
        keepers = keepers_of(each, now.branches.get(each.address, ()), terms, at)
        until, earliest = (None if end is None else instant(end) for end in ends(keepers, terms))
        told = [keeper_json(keeper) for keeper in keepers]
        paths = each.paths or (there[each.address],)
        yield asdict(each) | {"paths": paths, "keepers": told, "until": until, "earliest": earliest}


def _account(
    context: MarkContext,
    paths: str,
    now: _Now,
    groups: Sequence[Json],
    standing: tuple[Json, ...],
    vanished: tuple[Json, ...],
    unread_files: tuple[str, ...],
    copies: Iterable[str],
) -> Account:
    def count(**wanted: Any) -> int:
        return sum(each["objects"] for each in groups if all(each[key] == value for key, value in wanted.items()))

    there, outside, gone_now = count(inside=True, there=True), count(inside=False), count(inside=True, there=False)
    taken = [each for each in groups if each["inside"] and not each["there"] and each["mark_id"] is not None]
    by_sweep = Counter[tuple[str, int]]()
    for each in taken:
        by_sweep[each["mark_id"], int(each["sweep"])] += each["objects"]
    sweeps = [sweep_that_took(context, *sweep, objects) for sweep, objects in sorted(by_sweep.items())]
    told: Json = {
        "repository": context.repository.id,
        "mark_id": context.header.mark_id,
        "at": instant(context.header.started_at),
        "asked_at": instant(clock.now().timestamp()),
        "paths": paths,
        "objects": there + outside + gone_now,
        "gone": gone_now,
        "sweeps": tuple(sweeps),
        "otherwise": gone_now - sum(each["objects"] for each in taken),
        "unread": unread_files,
    }
    facts = context.mark.facts(CommitsFacts), context.mark.facts(CommittedFacts)
    reasons = (*_open(there, outside, told, now), *copies, *unread(*facts))
    return Account(
        **told,
        there=there,
        bytes=sum(each["bytes"] or 0 for each in groups if each["there"]),
        outside=outside,
        standing=standing,
        vanished=vanished,
        open=reasons,
        statement=None if reasons else sealed(told),
    )


def _open(there: int, outside: int, told: Json, now: _Now) -> Iterator[str]:
    """Sentences on why nobody can say that all are gone."""
    name = told["repository"]
    if not told["objects"]:
        yield "nothing is known to have ever stood at these paths: see if they are right"
    if there:
        yield f"{there:,} {'object is' if there == 1 else 'objects are'} there"
    if outside:
        lie = "object does not lie" if outside == 1 else "objects do not lie"
        yield f"{outside:,} {lie} in the namespace: lakegc never deletes what lies elsewhere"
    if now.moved:
        yield (
            f"mark {told['mark_id']} does not know what branches and tags showed that have moved since, {now.moved:,} "
            f"in all: make a mark (lakegc mark {name})"
        )
    if now.new:
        yield (
            f"lakeFS has commits that mark {told['mark_id']} did not know, {now.new:,} in all: make a mark "
            f"(lakegc mark {name})"
        )
    if not now.is_whole:
        yield f"branches show more than {MOST_LISTED:,} objects there, and not all were listed: ask for fewer paths"
