"""Rounds as arithmetic: which slot is due, who takes part, what may be swept, what is overdue. Pure functions.

A round is a mark id shared by all repositories, named after its slot in UTC, so that whoever asks twice asks for the
same. Nothing here asks lakeFS, a store or Dagster's instance; `sensors` and `upkeep` do, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from croniter import CroniterBadDateError, croniter

from lakegc_core.clock import from_minute, minute
from lakegc_core.config.settings import Settings
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.models import Repository
from lakegc_core.policy.safety import PATIENCE, RETIREMENT
from lakegc_dagster.partitions import GcCell

_SLOT = "%Y%m%dT%H%MZ"
LONGEST_RUN = timedelta(days=1)
"""A run that has not ended for longer excuses no repository from its round: its process may be dead, or the queue too
slow."""
ASKED_AGAIN_AFTER = timedelta(hours=1)
"""The time after which a mark that broke off is gone on with: what stopped it may have passed by then."""
ASKED_WITHIN = timedelta(hours=1)
"""The marks of a round, and the sweep of a mark, are asked for within minutes after they may begin. After longer,
nobody is asking."""
STOPPED_FOR = timedelta(days=3)
"""The time after which sweeps that guards stop are a fault: nobody has said a word, and the bucket grows."""
_WAY_OUT = "look at its checks, do what they say, or accept what may be accepted"
_SOME_DAY, _SLOTS = datetime(2026, 1, 1, tzinfo=UTC), 60
_TICK = 300  # seconds


def check_cron(cron: str) -> bool:
    """True if this is a cron expression of five fields, and of a date that there is."""
    if not croniter.is_valid(cron) or len(croniter.expand(cron)[0]) != 5:
        return False
    try:
        croniter(cron, datetime.now(UTC)).get_next()
    except CroniterBadDateError:
        return False
    return True


def latest_slot(cron: str, now: datetime) -> datetime:
    """The last tick of a cron expression, in UTC, that is not after `now`."""
    slot: datetime = _ticks(cron, now + timedelta(seconds=1)).get_prev(datetime)  # a tick at `now` counts
    return slot.astimezone(UTC)


def watched_slot(cron: str, now: datetime) -> datetime:
    """The slot since which repositories must have been marked at `now`: the last one whose marks were asked for by now.
    A watch often runs in the very minute of a slot."""
    return latest_slot(cron, now - ASKED_WITHIN)


def next_slot(cron: str, now: datetime) -> datetime:
    """The first tick of a cron expression, in UTC, that is after `now`."""
    slot: datetime = _ticks(cron, now).get_next(datetime)
    return slot.astimezone(UTC)


def _ticks(cron: str, start: datetime) -> croniter:
    """The ticks around a moment, which are whole minutes: what is less than a second counts for nothing."""
    return croniter(cron, start.astimezone(UTC).replace(microsecond=0))


def tick_seconds(cron: str) -> int:
    """The interval of looks for a slot that has come: every five minutes, and oftener where slots are closer."""
    return min(_TICK, round(_shortest(cron).total_seconds()))


def patience(cron: str) -> timedelta:
    """The time for which the sweep of a mark waits for more of its garbage: at most half of the time between two slots.
    With the next mark the wait would begin anew, and where garbage comes with each slot, nothing would be swept."""
    return min(PATIENCE, _shortest(cron) / 2)


def _shortest(cron: str) -> timedelta:
    """The shortest time between two slots."""
    return min(after - before for before, after in pairwise(some_slots(cron)))


def some_slots(cron: str) -> list[datetime]:
    """Slots one after another, for the times between them. They do not depend on the day on which this is asked."""
    slots = [next_slot(cron, _SOME_DAY)]
    while len(slots) < _SLOTS:
        slots.append(next_slot(cron, slots[-1]))
    return slots


def round_id(slot: datetime) -> str:
    """The mark id of a slot: `20261121T0200Z`; ids of later slots sort later."""
    return slot.astimezone(UTC).strftime(_SLOT)


def slot_of(mark_id: str) -> datetime | None:
    """The slot that a mark id names; None for one that was given by hand."""
    try:
        return datetime.strptime(mark_id, _SLOT).replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True)
class Choice:
    """The repositories that take part in rounds, and why others do not, by name."""

    taken: tuple[Repository, ...]
    left_out: Mapping[str, str]

    def without_bare(self, bare: Set[str]) -> Choice:
        """The same choice, from which the repositories of these names are left out because they are bare."""
        why = "bare: it has no branch, so that nothing says what is live in it"
        taken = tuple(each for each in self.taken if each.id not in bare)
        return Choice(taken, {**self.left_out, **{each.id: why for each in self.taken if each.id in bare}})


def choose(repositories: Iterable[Repository], settings: Settings) -> Choice:
    """Who takes part in rounds, by lakegc.yaml. One odd repository keeps none of the others out."""
    taken: list[Repository] = []
    left_out: dict[str, str] = {}
    for repository in repositories:
        reason = _left_out(repository, settings)
        if reason:
            left_out[repository.id] = reason
        else:
            taken.append(repository)
    return Choice(tuple(taken), left_out)


def _left_out(repository: Repository, settings: Settings) -> str:
    try:
        GcCell.checked(repository.id, "any")
    except SettingsError as error:
        return str(error)
    if repository.read_only:
        return "read-only: lakeFS prepares no garbage collection for it"
    return "" if settings.policy_for(repository.id).mark else "lakegc.yaml says `mark: false`"


def store_of(storage_namespace: str) -> str:
    """The store of a namespace for tags: `s3://bucket`, `https://account.blob.core.windows.net`."""
    return "/".join(storage_namespace.split("/")[:3])


@dataclass(frozen=True)
class Marked:
    """A complete mark as Dagster has recorded it. Times are unix seconds."""

    repository: str
    mark_id: str
    started_at: float
    ready_at: float  # when its one sweep is due
    expired: int  # objects
    stopped_by: str = ""  # guards that stop a sweep of it
    completed_at: float = 0.0  # when Dagster heard of it


def newest(marks: Iterable[Marked]) -> Marked | None:
    """The mark that was begun last."""
    return max(marks, key=lambda mark: (mark.started_at, mark.mark_id), default=None)


def why_not_swept(mark: Marked | None, now: float, *, busy: str | None, requested: str | None) -> str:
    """The reason why the newest mark of a repository is not swept now; empty if it is to be.

    `busy`: a run that is at work on the repository. `requested`: the run by which this mark was asked to be swept
    before, whatever became of it: what refused would refuse again, and a later mark asks anew.
    """
    if mark is None:
        return "has no complete mark that Dagster knows"
    if busy:
        return f"run {busy} is at work on it"
    if requested:
        return f"mark {mark.mark_id} was swept, or refused, by run {requested}"
    if not mark.expired:
        return f"mark {mark.mark_id} found nothing to sweep"
    if mark.stopped_by:
        return f"mark {mark.mark_id} is stopped by {mark.stopped_by}: {_WAY_OUT}"
    if now < mark.ready_at:
        return f"mark {mark.mark_id} may be swept from {from_minute(mark.ready_at)}"
    return ""


def unswept(mark: Marked, now: datetime, *, busy: str | None, requested: str | None) -> str:
    """The fault of a repository whose sweep should have been asked for some time ago; empty if there is none. `mark`:
    the newest that was complete by then."""
    if why_not_swept(mark, (now - ASKED_WITHIN).timestamp(), busy=busy, requested=requested):
        return ""
    return (
        f"lakegc.yaml says `sweep: true`, mark {mark.mark_id} may be swept since "
        f"{minute(mark.ready_at)}, and nobody asked for a sweep for a day: look at the sensor "
        "sweep_confirmed"
    )


def stopped(marks: Sequence[Marked], now: datetime, *, busy: str | None) -> str:
    """The fault of a repository of which nothing was swept for too long; empty if there is none. `marks`: those since
    its last sweep that guards stopped, or whose sweep was asked for in vain, newest first. `busy`: a run that is at
    work on it."""
    waited = now.timestamp() - marks[-1].started_at if marks else 0.0
    if waited < STOPPED_FOR.total_seconds():
        return ""
    last, by_guards = marks[0], sum(bool(mark.stopped_by) for mark in marks)
    told = {"marks that guards stopped": by_guards, "sweeps that failed or were refused": len(marks) - by_guards}
    counts = ", ".join(f"{what}: {count}" for what, count in told.items() if count)
    do = (
        f"guards stop the last one, {last.mark_id}, by {last.stopped_by}: {_WAY_OUT}"
        if last.stopped_by
        else f"the last sweep was of mark {last.mark_id}: look at its run of gc_sweep, and do what that says"
    )
    at_work = f". Run {busy} is at work on it now" if busy else ""
    return (
        f"lakegc.yaml says `sweep: true`, and for {waited / 86_400:.0f} days nothing was swept ({counts}); {do} "
        f"(lakegc review {last.repository} {last.mark_id}){at_work}"
    )


def partitions_to_remove(
    known: Sequence[str], *, held: set[str], retired: set[str], busy: set[str], now: float
) -> list[str]:
    """The marks that no repository has any more: retired, or rounds of long ago that came to nothing.

    `held`: marks that any repository still has, or may have. `busy`: those that an unfinished run is for.
    """

    def is_over(mark_id: str) -> bool:
        slot = slot_of(mark_id)
        return mark_id in retired or (slot is not None and now - slot.timestamp() > RETIREMENT.total_seconds())

    return [mark_id for mark_id in known if mark_id not in held | busy and is_over(mark_id)]


def overdue(
    repository: str, created: float, mark: Marked | None, slot: datetime, *, busy: str | None, stuck: str | None = None
) -> str:
    """The fault of a repository that has no mark since a slot; empty if there is none. `created`: unix seconds.

    `busy`: a run that is at work on it, or waits to be. `stuck`: one that has not ended for longer than `LONGEST_RUN`;
    then a younger one, which may wait for it, is no excuse.
    """
    if (
        (busy and not stuck)
        or created >= slot.timestamp()
        or (mark is not None and mark.started_at >= slot.timestamp())
    ):
        return ""
    if mark is None:
        return f"{repository} was never marked, though round {round_id(slot)} was due{_because(stuck)}"
    days = (slot.timestamp() - mark.started_at) / 86_400
    return (
        f"{repository} was marked last as {mark.mark_id}, {days:.1f} days before round {round_id(slot)} was due"
        f"{_because(stuck)}"
    )


def _because(stuck: str | None) -> str:
    if stuck is None:
        return ""
    return (
        f". Run {stuck} has not ended for more than a day: if its process is dead, terminate it in the UI; if it waits "
        "in the queue, the queue is too slow for these rounds"
    )
