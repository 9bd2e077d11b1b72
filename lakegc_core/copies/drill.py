"""A drill of undo: a few objects that a mark would have deleted are deleted, brought back, and compared.

Each step is the real one. The delete is a sweep of the mark that is restricted to the objects chosen; `restore` brings
them back. Here: what is chosen, whether anything can bring it back, the digests before and after, and the record.
A drill that is killed is taken up by the next one: it ends the sweep, brings back, and compares.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.copies import backup, undo
from lakegc_core.errors import LakegcError, MarkError, ObjectNotFoundError, RefusedError, SettingsError, StoreError
from lakegc_core.judging.since import with_later_findings
from lakegc_core.marks import drills
from lakegc_core.marks.artifacts import STAMP
from lakegc_core.marks.backups import backed_up, backup_facts
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.marks.drills import Drill
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.sweeps import report_of, sweep_of_drill
from lakegc_core.names import NO_ANSWER, STILL_THERE, Json, Outcome
from lakegc_core.past.origins import garbage_with_origins
from lakegc_core.policy import guards
from lakegc_core.policy.facts import Amount, ExpiredFacts
from lakegc_core.policy.safety import DRILL_BYTES, DRILL_OBJECTS, may_lack
from lakegc_core.spark.tasks import Mapped, clear_errors, many, moment
from lakegc_core.stages import swept_report
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.sweep.authorize import check_look_delay, judge, refusal
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.statement import operator
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.sweep.what_counts import as_swept, check_level

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BACK, STAYED, MISSING, DIFFERENT = "back", "stayed", "missing", "different"
"""Outcomes of the objects of a drill: it was deleted and reads as before; it was not deleted and reads as before; it is
not there; other bytes lie there."""
QUARANTINE, STORE, BACKUP = "quarantine", "store", "backup"
"""Ways by which objects come back, in the order in which `restore` takes them."""

_READY = pa.schema(
    [
        *(FINDINGS_SCHEMA.field(name) for name in ("address", "size", "last_modified", "since")),
        pa.field("cause", pa.string()),
    ]
)
_IN_MEMORY = 16 << 20  # bytes of an object that stay out of a temporary file
_NAMED = 10  # paths
_MOST_OF_A_KIND = 1_000
_SPARE = 20  # for each object that is wanted, so many are looked at: some may be too large, or gone


@dataclass(frozen=True)
class Wanted:
    """The most that a drill takes: objects, and bytes, which are read before the delete and after it."""

    objects: int = DRILL_OBJECTS
    bytes: int = DRILL_BYTES


def way_of(context: MarkContext) -> tuple[str, str | None]:
    """The way by which a restore of the mark would bring back what is deleted now, and the place of the backup if it is
    that. SettingsError if nothing is known to."""
    if context.policy.quarantine is not None:
        return QUARANTINE, None
    told = connect(context.data).settings()
    keeps = isinstance(told.soft_delete, timedelta) and told.soft_delete > timedelta(0)
    if (keeps and told.undeletes is not False) or told.versioning is True:
        return STORE, None
    facts, wanted = backup_facts(context), context.mark.facts(ExpiredFacts).expired.objects
    if facts and not facts.problem and max(1, wanted - may_lack(wanted)) <= facts.objects <= wanted:
        return BACKUP, facts.place
    name = f"{context.header.repository} {context.header.mark_id}"
    trouble = f" The backup of this mark does not help: {facts.problem}." if facts and facts.problem else ""
    raise SettingsError(
        f"Nothing is known to bring back what is deleted in {context.data.root}, and nothing was deleted.{trouble} Set "
        "`quarantine: 7d` in lakegc.yaml, or turn on versioning or soft delete in the store (the key must be able to "
        "see it, and lakegc brings nothing back in an Azure account with a hierarchical namespace), or back the mark "
        f"up: lakegc backup {name} DEST."
    )


def drill(
    spark: SparkSession,
    context: MarkContext,
    *,
    accepted: Mapping[str, str] | None = None,
    wanted: Wanted | None = None,
) -> Json:
    """Drill with garbage of a mark that a sweep could delete now. Returns the report, as it is on record: `passed`, or
    `why` not, and the outcome of each object.

    Nothing is deleted, and RefusedError or SettingsError raised, where nothing is known to bring it back, where a guard
    refuses, where a sweep of the mark or a drill is not over, or where no garbage is ready.
    """
    began, wanted = time.monotonic(), wanted or Wanted()
    check_level(context)
    way, place = way_of(context)
    with context.lease("drill"):
        if drills.unfinished(context):
            raise RefusedError(f"A drill is not over. Finish it first: lakegc drill {context.header.repository}.")
        check_guards(context, accepted, wanted)
        check_look_delay(context)
        found = _choose(spark, context, wanted, way)
        begun = {
            "repository": context.header.repository,
            "mark_id": context.header.mark_id,
            "begun_at": clock.now().timestamp(),
            "by": operator(),
            "way": way,
            "place": place,
            "objects": found,
        }
        made = drills.begin(context, clock.now().strftime(STAMP), begun)
        return _swept_and_ended(spark, context, made, accepted, began)


def check_guards(context: MarkContext, accepted: Mapping[str, str] | None, wanted: Wanted) -> None:
    """RefusedError if a guard stops a drill, as far as the mark's own records tell. The sweep judges again, also by the
    bytes of what was chosen, and asks anew what is known of neighbours."""
    judged = judge(context, accepted, drill=Amount(wanted.objects, 0))
    verdicts = [each for each in judged if each.name != guards.NEIGHBOURS]
    if not guards.authorized(verdicts):
        raise RefusedError(refusal(context, verdicts))


def _swept_and_ended(
    spark: SparkSession, context: MarkContext, made: Drill, accepted: Mapping[str, str] | None, began: float
) -> Json:
    try:
        swept_report(spark, context, accepted=accepted, only=chosen_by(made), budget=Budget())
    except LakegcError as error:
        if _sweep_of(context, made)[0] is None:  # so nothing was deleted
            drills.close(context, made.name, _nothing_deleted(made, str(error)))
            raise
        return _end(spark, context, made, began, f"its sweep broke off ({error})")
    return _end(spark, context, made, began)


def finish(spark: SparkSession, context: RepositoryContext, made: Drill) -> Json:
    """Bring back what a drill deleted that was killed, and end it. Returns the report; `sweep` is None if it had
    deleted nothing."""
    began = time.monotonic()
    way_out = drills.by_hand(context, made.name)
    try:
        opened = open_mark(context, made.mark_id, retired_too=True, any_version=True)
    except RefusedError as error:  # the repository was created anew
        raise RefusedError(f"{error} {way_out}") from None
    except MarkError as error:
        raise MarkError(f"{error} {way_out}") from None
    with opened.lease("drill"):
        try:
            if _sweep_of(opened, made)[0] is None:
                why = "it was killed before it deleted anything"
                return drills.close(context, made.name, _nothing_deleted(made, why))
            return _end(spark, opened, made, began)
        except MarkError as error:  # of another version, perhaps
            raise MarkError(f"{error} {way_out}") from None


def chosen_by(made: Drill) -> Chosen:
    """The objects of a drill, for its sweep and its restore."""
    objects = made.begun["objects"]
    return Chosen(made.sweep_name, tuple(each["address"] for each in objects), sum(each["size"] for each in objects))


def _sweep_of(context: MarkContext, made: Drill) -> tuple[int | None, Json]:
    """The number of a drill's sweep, None if it has sealed no plan; and its report, empty if it is not over."""
    if context.mark.header(any_version=True) is None:  # retired
        sweeps = (context.mark.retired() or {"sweeps": {}})["sweeps"]
        found = ((int(number), told) for number, told in sweeps.items() if told.get("only") == made.sweep_name)
        return next(found, (None, {}))
    store, folder = connect(context.workspace), context.mark.folder
    number = sweep_of_drill(store, folder, made.sweep_name)
    return number, (number and report_of(store, folder, number)) or {}


def _choose(spark: SparkSession, context: MarkContext, wanted: Wanted, way: str) -> list[Json]:
    """Objects that a sweep could delete now, with their digests: as many causes and sizes as there are, by hash. What
    does not read, or what the backup lacks by which it would come back, is not among them. RefusedError if there is
    none."""
    record = SweepRecord(spark, context, dry_run=False)
    name = f"{context.header.repository} {context.header.mark_id}"
    if record.is_begun:
        raise RefusedError(f"A sweep of the mark broke off. Finish it, or close it: lakegc sweep {name} --close.")
    with clear_errors():
        ready = _spread(spark, context, record)
        if way == BACKUP:
            ready = ready.join(many(backed_up(spark, context)), "address", "left_semi").orderBy("rank", "hash")
        rows = ready.limit(_SPARE * wanted.objects).select("address", "size", "cause").collect()
    found, left, unread = list[Json](), wanted.bytes, ""
    for row in rows:
        if len(found) < wanted.objects and row["size"] <= left:
            try:
                told = _digest(context.data, row["address"])
            except StoreError as error:  # in an archive class, or under a customer's key
                unread = f" Some does not read: {error}"
                continue
            if told is not None and told[0] == row["size"]:  # else somebody else has deleted or replaced it
                found.append({**row.asDict(), "sha256": told[1]})
                left -= row["size"]
    if not found:
        raise RefusedError(
            f"Nothing was deleted: no garbage of mark {context.header.mark_id} is ready and of at most "
            f"{wanted.bytes:,} bytes. `lakegc review {name}` says when the first of it may be deleted; --read-most "
            f"allows larger objects.{unread}"
        )
    context.say(f"drill: {len(found):,} objects of {wanted.bytes - left:,} bytes were read, and are deleted now")
    return found


def _spread(spark: SparkSession, context: MarkContext, record: SweepRecord) -> DataFrame:
    """The objects that a sweep could delete now: address, size, cause (null if not known), and rank and hash, by which
    they are ordered: those first that differ in cause and size."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    garbage, strict = garbage_with_origins(spark, context), as_swept(context)
    gap = strict.level.gap
    objects = record.unfinished(Mapped(garbage.select(*_READY.names), _READY))
    ready = (with_later_findings(spark, context, objects) if gap else objects).as_frame()
    until = clock.now().timestamp() - gap.total_seconds()
    ready = ready.where((ready["since"] <= moment(until)) & (ready["last_modified"] < moment(strict.header.cutoff)))
    by_hash = F.xxhash64("address", F.lit(clock.now().isoformat()))
    kind = Window.partitionBy("cause", F.expr("int(log10(1 + size))")).orderBy(by_hash)
    ranked = ready.select("address", "size", "cause", F.row_number().over(kind).alias("rank"), by_hash.alias("hash"))
    # So few of each kind that Spark drops the others before it moves them (`windowGroupLimitThreshold`).
    few = ranked.where(ranked["rank"] <= _MOST_OF_A_KIND)
    return few.orderBy("rank", "hash")


def _digest(config: StoreConfig, address: str) -> tuple[int, str] | None:
    """Bytes and SHA-256 of an object as it reads now; None if it is not there."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        try:
            connect(config).download(address, file)
        except ObjectNotFoundError:
            return None
        size = file.tell()
        file.seek(0)
        found = hashlib.sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
    return size, found.hexdigest()


def _end(spark: SparkSession, context: MarkContext, made: Drill, began: float, trouble: str = "") -> Json:
    """Close the drill's sweep if it broke off, bring back what it deleted, compare, and put all that on record."""
    number, sweep = _sweep_of(context, made)
    if number is not None and not sweep:
        close_sweep(spark, context)
        number, sweep = _sweep_of(context, made)
    told = _told(spark, context, chosen_by(made))
    problems, seconds = dict[str, str](), 0.0
    if any(undo.may_be_gone(each) for outcomes in told.values() for each in outcomes):
        back = backup.restore(spark, context, made.begun["place"], chosen=chosen_by(made))
        problems = {each["address"]: f"{each['outcome']}: {each['problem']}" for each in back.problems}
        seconds = back.seconds
    rows = [_compared(context, each, told.get(each["address"], set()), problems) for each in made.begun["objects"]]
    report = _ended(made, rows, trouble or _trouble(sweep)) | {
        "sweep": number,
        "seconds": time.monotonic() - began,
        "seconds_of_sweep": sweep.get("seconds"),
        "seconds_of_restore": seconds,
    }
    return drills.close(context, made.name, report)


def _told(spark: SparkSession, context: MarkContext, chosen: Chosen) -> dict[str, set[str]]:
    """The outcomes that the journals of the mark's sweeps have of the objects of a drill."""
    with clear_errors():
        rows = chosen.among(undo.journals_of(spark, context)).select("address", "outcome").distinct().collect()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["address"], set()).add(row["outcome"])
    return found


def _compared(context: MarkContext, each: Json, told: set[str], problems: Mapping[str, str]) -> Json:
    """An object of a drill with its outcome, as it reads now."""
    now, problem = _digest(context.data, each["address"]), None
    if now == (each["size"], each["sha256"]):
        # Gone without an answer that is on record is deleted, as the totals of a sweep have it.
        deleted = Outcome.DELETED in told or {NO_ANSWER, Outcome.ALREADY_GONE} <= told
        outcome = BACK if deleted and STILL_THERE not in told else STAYED
    else:
        outcome = MISSING if now is None else DIFFERENT
        found = "it is not there" if now is None else f"{now[0]:,} bytes with SHA-256 {now[1]} lie there"
        problem = problems.get(each["address"], found)
    return each | {"outcome": outcome, "problem": problem, "sweep": sorted(told)}


def _ended(made: Drill, rows: Sequence[Json], trouble: str) -> Json:
    """The report of a drill that is over, by its objects as they were compared."""
    outcomes = Counter(each["outcome"] for each in rows)
    bad = outcomes[MISSING] + outcomes[DIFFERENT]
    why = ""
    if bad:
        why = f"{bad:,} of {len(rows):,} objects did not come back as they were"
    elif trouble:
        why = trouble
    elif not outcomes[BACK]:
        why = "no object was deleted, so nothing was shown"
    return made.begun | {
        "drill": made.name,
        "passed": not why,
        "why": why,
        "finished_at": clock.now().timestamp(),
        "outcomes": {name: outcomes[name] for name in (BACK, STAYED, MISSING, DIFFERENT)},
        "bytes": sum(each["size"] for each in rows if each["outcome"] == BACK),
        "objects": list(rows),
    }


def _nothing_deleted(made: Drill, why: str) -> Json:
    """The report of a drill that ended before it deleted anything: it counts for nothing."""
    nothing = _ended(made, (), "") | {"why": why, "objects": made.begun["objects"]}
    return nothing | {"sweep": None, "seconds": 0.0, "seconds_of_sweep": None, "seconds_of_restore": 0.0}


def _trouble(sweep: Mapping[str, Any]) -> str:
    """Whether the sweep of a drill took what is live, by its report; "" if nothing says so."""
    lost, gone = sweep.get("outcomes", {}).get(Outcome.LOST, 0), sweep.get("rings", {}).get("gone", {})
    if lost or gone or sweep.get("unreadable"):
        named = ", ".join([*gone, *sweep.get("unreadable", {})][:_NAMED])
        return (
            f"its sweep took live data: {lost:,} objects are lost; paths that did not read after it: {named or 'none'}"
        )
    return ""
