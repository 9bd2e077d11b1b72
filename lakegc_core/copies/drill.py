"""A drill of undo: a few objects that a mark would have deleted are deleted, brought back, and compared.

Each step is the real one. The delete is a sweep of the mark that is restricted to the objects chosen; `restore` brings
them back. Here: whether anything can bring objects back, the order of the steps, and the record.
A drill that is killed is taken up by the next one: it ends the sweep, brings back, and compares.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.copies import backup, undo
from lakegc_core.copies.drill_objects import BACK, DIFFERENT, MISSING, STAYED, Wanted, choose, compared, told_by_sweep
from lakegc_core.errors import LakegcError, MarkError, RefusedError, SettingsError
from lakegc_core.marks import drills
from lakegc_core.marks.artifacts import STAMP
from lakegc_core.marks.backups import backup_facts
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.marks.drills import Drill
from lakegc_core.marks.sweeps import report_of, sweep_of_drill
from lakegc_core.names import Json, Outcome
from lakegc_core.policy import guards
from lakegc_core.policy.facts import Amount, ExpiredFacts
from lakegc_core.policy.safety import may_lack
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.sweep.authorize import check_look_delay, judge, refusal
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.statement import operator
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.sweep.what_counts import check_level

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAMED = 10  # paths


def way_of(context: MarkContext) -> tuple[str, str | None]:
    """The way by which a restore of the mark would bring back what is deleted now, and the place of the backup if it is
    that. SettingsError if nothing is known to."""
    if context.policy.quarantine is not None:
        return drills.QUARANTINE, None
    told = connect(context.data).settings()
    keeps = isinstance(told.soft_delete, timedelta) and told.soft_delete > timedelta(0)
    if (keeps and told.undeletes is not False) or told.versioning is True:
        return drills.STORE, None
    facts, wanted = backup_facts(context), context.mark.facts(ExpiredFacts).expired.objects
    if facts and not facts.problem and max(1, wanted - may_lack(wanted)) <= facts.objects <= wanted:
        return drills.BACKUP, facts.place
    name = f"{context.header.repository} {context.header.mark_id}"
    trouble = f" The backup of this mark does not help: {facts.problem}." if facts and facts.problem else ""
    raise SettingsError(
        f"Nothing is known to bring back what is deleted in {context.data.root}, and nothing was deleted.{trouble} Set "
        "`quarantine: 7d` in lakegc.yaml, or turn on versioning or soft delete in the store (the key must be able to "
        "see it, and lakegc brings nothing back in an Azure account with a hierarchical namespace), or back the mark "
        f"up: lakegc backup {name} DEST."
    )


def check_garbage(context: MarkContext) -> None:
    """RefusedError if the mark found nothing that a drill could take."""
    if not context.mark.facts(ExpiredFacts).expired.objects:
        name = context.header.repository
        raise RefusedError(
            f"Mark {context.header.mark_id} found no garbage: there is nothing to drill with, and nothing was deleted. "
            f"`lakegc review {name} {context.header.mark_id}` shows what it found. Drill once a mark has found some: "
            f"lakegc mark {name}."
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
    check_garbage(context)
    way, place = way_of(context)
    with context.lease("drill"):
        if drills.unfinished(context):
            raise RefusedError(f"A drill is not over. Finish it first: lakegc drill {context.header.repository}.")
        check_guards(context, accepted, wanted)
        check_look_delay(context)
        found = choose(spark, context, wanted, way)
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
    judged = judge(context, accepted, at_most=Amount(wanted.objects, 0))
    verdicts = [each for each in judged if each.name != guards.NEIGHBOURS]
    if not guards.authorized(verdicts):
        raise RefusedError(refusal(context, verdicts))


def _swept_and_ended(
    spark: SparkSession, context: MarkContext, made: Drill, accepted: Mapping[str, str] | None, began: float
) -> Json:
    try:
        swept_report(spark, context, accepted=accepted, only=chosen_by(made), budget=Budget())
    except LakegcError as error:
        with _or_by_hand(context, made):
            number, _ = _sweep_of(context, made)
        if number is None:  # so nothing was deleted
            drills.close(context, made.name, _nothing_deleted(made, str(error)))
            raise
        return _end(spark, context, made, began, f"its sweep broke off ({error})")
    return _end(spark, context, made, began)


def finish(spark: SparkSession, context: RepositoryContext, made: Drill) -> Json:
    """Bring back what a drill deleted that was killed, and end it. Returns the report; `sweep` is None if it had
    deleted nothing."""
    began = time.monotonic()
    with _or_by_hand(context, made, (MarkError, RefusedError)):  # the repository was created anew
        opened = open_mark(context, made.mark_id, retired_too=True, any_version=True)
    with opened.lease("drill"), _or_by_hand(context, made):
        if _sweep_of(opened, made)[0] is None:
            return drills.close(context, made.name, _nothing_deleted(made, "it was killed before it deleted anything"))
        return _end(spark, opened, made, began)


@contextmanager
def _or_by_hand(
    context: RepositoryContext, made: Drill, errors: tuple[type[LakegcError], ...] = (MarkError,)
) -> Iterator[None]:
    """Say with such errors what a person does about a drill that lakegc cannot finish: its records cannot be read, or
    are of another version."""
    try:
        yield
    except errors as error:
        raise type(error)(f"{error} {drills.by_hand(context, made.name)}") from None


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


def _end(spark: SparkSession, context: MarkContext, made: Drill, began: float, trouble: str = "") -> Json:
    """Close the drill's sweep if it broke off, bring back what it deleted, compare, and put all that on record."""
    number, sweep = _sweep_of(context, made)
    if number is not None and not sweep:
        close_sweep(spark, context)
        number, sweep = _sweep_of(context, made)
    told = {} if number is None else told_by_sweep(spark, context, chosen_by(made), number)
    problems, seconds = dict[str, str](), 0.0
    if any(undo.may_be_gone(each) for outcomes in told.values() for each in outcomes):
        back = backup.restore(spark, context, made.begun["place"], chosen=chosen_by(made))
        problems = {each["address"]: f"{each['outcome']}: {each['problem']}" for each in back.problems}
        seconds = back.seconds
    rows = [compared(context, each, told.get(each["address"], set()), problems) for each in made.begun["objects"]]
    report = _ended(made, rows, trouble or _trouble(sweep)) | {
        "sweep": number,
        "seconds": time.monotonic() - began,
        "seconds_of_sweep": sweep.get("seconds"),
        "seconds_of_restore": seconds,
    }
    return drills.close(context, made.name, report)


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
            f"its sweep took live data: {lost:,} objects are lost; paths that could not be read after it: "
            f"{named or 'none'}"
        )
    return ""
