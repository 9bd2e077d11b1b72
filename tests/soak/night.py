"""What happens in a soak, in its order: rounds that come due, work and damage between them, kills, sweeps, upkeep.

Here things are let happen and noted down. Whether what came of them is right belongs in `proof`.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg

from lakegc_dagster import records
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import latest_slot, newest, next_slot, round_id, slot_of
from tests.soak.herd import Herd
from tests.soak.pages import Prober, Seen
from tests.soak.site import Site

OPTIONS = LakegcConfig()
MARKING, SWEEPING = "gc_mark", "gc_sweep"
_LOOK_SECONDS = 1.0
_LEAD_SECONDS = 10.0  # before the next slot the work for it is done, whatever is still under way
_DAEMON_AWAY_SECONDS = 3.0
_RUN_SECONDS = 30.0
_PID = re.compile(r"Started process for run \(pid: (\d+)\)")


@dataclass(frozen=True)
class Plan:
    """Which troubles there are in which round, counted from 0. Sizes are for a machine of two cores."""

    repositories: int
    rounds: int
    minutes: int
    is_hasty: bool = False  # one sweep of each repository, after the last round: the sensor ticks but every 5 minutes

    def __post_init__(self) -> None:
        if self.repositories < 2 or self.rounds < 2 or not 1 <= self.minutes <= 60 or 60 % self.minutes:
            raise ValueError(
                "A soak needs 2 repositories, 2 rounds, and minutes between them that divide an hour: it got "
                f"{self.repositories}, {self.rounds} and {self.minutes}."
            )

    @property
    def cron(self) -> str:
        return f"*/{self.minutes} * * * *" if self.minutes < 60 else "0 * * * *"

    @property
    def middle(self) -> int:
        """The round in which the daemon is killed, and a run that marks."""
        return (self.rounds - 1) // 2

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"herd-{number:02d}" for number in range(self.repositories))

    @property
    def is_long(self) -> bool:
        """Whether there is time for a sweep to be killed and an old mark to be retired."""
        return self.rounds >= 4

    def broken(self, number: int) -> dict[str, str]:
        """Repositories that cannot be marked in a round, and what is wrong with them."""
        found = {}
        if number == self.middle:
            found[self.names[1]] = "rules"
        if self.repositories > 2 and number == min(self.middle + 1, self.rounds - 2):
            found[self.names[2]] = "damage"
        return found


@dataclass
class Notes:
    """What was done and seen. Times are unix seconds; `broken`: repository, what, from, until."""

    slots: list[str] = field(default_factory=list)
    broken: list[tuple[str, str, float, float]] = field(default_factory=list)
    killed: dict[str, str] = field(default_factory=dict)  # run id -> job
    daemon_killed: int = 0
    known_before: set[str] = field(default_factory=set)  # partitions of marks before upkeep
    most_queued: int = 0
    most_at_once: int = 0
    sampled: list[dict[str, int]] = field(default_factory=list)  # bytes in memory by process
    begun: float = 0.0
    ended: float = 0.0


@dataclass
class Night:
    """A soak under way. It waits for every step, beyond what that has to take, as long as all runs may take in turn."""

    site: Site
    herd: Herd
    plan: Plan
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        self._open: dict[str, tuple[str, float, int]] = {}  # broken now: what, since when, for which round
        self._prepared = 0  # rounds for which the work was done
        self._marking_over = -1  # the last round whose marks have all ended
        self._switches: dict[str, str] = {}
        self.prober = Prober(self.site.webserver, self._newest)

    def run(self) -> None:
        """All of it. Afterwards nothing is under way."""
        site, notes = self.site, self.notes
        notes.begun = time.time()
        self._prepare(0)
        self.prober.start()
        try:
            for sensor in ("open_round", "failures", *([] if self.plan.is_hasty else ["sweep_confirmed"])):
                self._turn_on(sensor)
            self._until(self._rounds_are_over, self.plan.rounds * self.plan.minutes * 60)
            self._until(self._marks_are_over)
            if self.plan.is_hasty:
                self._turn_on("sweep_confirmed")
                self._until(self._failures_are_told)  # of the marks: the watch's own is not waited for
            else:
                self._until(self._all_is_swept)
            notes.known_before = set(OPTIONS.grid.marks_of(site.instance))
            self._keep_up()
            self._until(self._all_is_swept)
            if not self.plan.is_hasty:
                self._until(self._failures_are_told)
        finally:
            notes.ended = time.time()
            self.prober.stop()

    # --- steps ---

    def _until(self, done: Callable[[], bool], due: float = 0.0) -> None:
        limit = time.monotonic() + due + max(1_800.0, _RUN_SECONDS * self.plan.repositories * self.plan.rounds)
        while not done():
            assert time.monotonic() < limit, f"{done.__name__} never came true: {self._under_way()}"
            for process in self.site.processes.values():
                process.require()
            self._sample()
            self._mend()
            time.sleep(_LOOK_SECONDS)

    def _rounds_are_over(self) -> bool:
        """Look once, and do what is due. True when the last round was opened, every run of it, and no more will be."""
        notes, plan = self.notes, self.plan
        known = OPTIONS.grid.marks_of(self.site.instance)
        first = notes.begun - 3_600
        notes.slots = sorted(each for each in known if (slot := slot_of(each)) and slot.timestamp() >= first)
        if not notes.slots:
            return False
        number = len(notes.slots) - 1
        runs = self._runs(MARKING, notes.slots[-1])
        is_whole = len(runs) >= plan.repositories
        if number >= plan.rounds - 1 and (is_whole or self._seconds_left() < _LEAD_SECONDS):
            self._turn_off("open_round")
            return True
        if number == plan.middle:
            self._kill_daemon(runs)
            self._kill_run(MARKING, runs)
        if plan.is_long and number > plan.middle:
            self._kill_run(SWEEPING, self._runs(SWEEPING))
        is_over = is_whole and all(run.is_finished for run in runs)
        if is_over and self._marking_over < number and self._recovered(runs):
            self._marking_over = number
            self.herd.meanwhile()
        if self._prepared == number + 1 and (self._marking_over == number or self._seconds_left() < _LEAD_SECONDS):
            self._prepare(number + 1)
        return False

    def _recovered(self, runs: list[dg.DagsterRun]) -> bool:
        """Whether all that the night wanted of its middle round was done."""
        return self._marking_over + 1 != self.plan.middle or bool(self.notes.daemon_killed and self.notes.killed)

    def _seconds_left(self) -> float:
        """Until the slot after the last one that was opened is due; less than 0 when it is."""
        last = slot_of(self.notes.slots[-1])
        assert last is not None
        return next_slot(self.plan.cron, last).timestamp() - time.time()

    def _prepare(self, number: int) -> None:
        """What happens before a round: work, and damage."""
        self.herd.work()
        for name, what in self.plan.broken(number).items():
            (self.herd.forget_rules if what == "rules" else self.herd.damage)(name)
            self._open[name] = (what, time.time(), number)
        self._prepared = number + 1

    def _mend(self) -> None:
        """Repair what was broken for a round as soon as its mark in that round is over."""
        for name, (what, since, number) in list(self._open.items()):
            runs = self._runs(MARKING, self.notes.slots[number]) if number < len(self.notes.slots) else []
            own = [run for run in runs if run.tags[records.REPOSITORY_TAG] == name]
            if own and all(run.is_finished for run in own):
                self.herd.heal(name)
                del self._open[name]
                self.notes.broken.append((name, what, since, time.time()))

    def _kill_daemon(self, runs: list[dg.DagsterRun]) -> None:
        """Once, while runs of the round are under way; it comes back a little later."""
        if self.notes.daemon_killed or not any(run.status == dg.DagsterRunStatus.STARTED for run in runs):
            return
        self.site.daemon.kill()
        self.notes.daemon_killed += 1
        time.sleep(_DAEMON_AWAY_SECONDS)
        self.herd.meanwhile()
        self.site.daemon.start()

    def _kill_run(self, job: str, runs: list[dg.DagsterRun]) -> None:
        """kill -9 of one run of a job, once: one that marks after its first stage, one that sweeps when it pleases."""
        broken = set(self._open)
        for run in runs:
            is_ours = run.status == dg.DagsterRunStatus.STARTED and run.tags[records.REPOSITORY_TAG] not in broken
            if job in self.notes.killed.values() or not is_ours:
                continue
            events = [entry.dagster_event for entry in self.site.instance.all_logs(run.run_id) if entry.dagster_event]
            is_far = any(event.is_step_materialization if job == MARKING else event.is_step_start for event in events)
            pids = [found[1] for event in events if (found := _PID.search(event.message or ""))]
            if is_far and pids:
                with suppress(ProcessLookupError):  # it has just ended by itself: another one, then
                    os.kill(int(pids[-1]), signal.SIGKILL)
                    self.notes.killed[run.run_id] = job

    def _marks_are_over(self) -> bool:
        runs = self._runs(MARKING)
        last = [run for run in runs if run.tags["lakegc/round"] == self.notes.slots[-1]]
        return len(last) >= self.plan.repositories and all(run.is_finished for run in runs)

    def _all_is_swept(self) -> bool:
        """Whether nothing is under way, and every newest mark that found anything was asked to be swept."""
        instance = self.site.instance
        if records.unfinished(instance, OPTIONS):
            return False
        for name in self.plan.names:
            mark = newest(records.marked(instance, OPTIONS, name))
            if mark and mark.expired and not records.request_of(instance, OPTIONS, GcCell(name, mark.mark_id)):
                return False
        return True

    def _keep_up(self) -> None:
        """One watch and one retirement, by their schedules."""
        states = {job: self.site.webserver.turn_schedule_on(name) for name, job in UPKEEP.items()}

        def upkeep_is_done() -> bool:
            for job in [job for job in states if self._runs(job)]:
                self.site.webserver.turn_schedule_off(states.pop(job))
            return not states and not records.unfinished(self.site.instance, OPTIONS)

        self._until(upkeep_is_done, 60)

    def _failures_are_told(self) -> bool:
        failed = self.site.instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        told = self.site.alerts.read_text() if self.site.alerts.exists() else ""
        return all(run.run_id in told for run in failed)

    # --- looking ---

    def _runs(self, job: str, slot: str | None = None) -> list[dg.DagsterRun]:
        tags = {"lakegc/round": slot} if slot else {}
        return list(self.site.instance.get_runs(dg.RunsFilter(job_name=job, tags=tags)))

    def _newest(self) -> Seen | None:
        found = self.site.instance.fetch_materializations(OPTIONS.key("expired_addresses"), limit=1).records
        return Seen(str(found[0].partition_key), found[0].run_id) if found else None

    def _sample(self) -> None:
        statuses = Counter(run.status for run in records.unfinished(self.site.instance, OPTIONS))
        notes = self.notes
        notes.most_queued = max(notes.most_queued, statuses[dg.DagsterRunStatus.QUEUED])
        notes.most_at_once = max(notes.most_at_once, statuses[dg.DagsterRunStatus.STARTED])
        notes.sampled.append({name: process.memory() for name, process in self.site.processes.items()})

    def _under_way(self) -> dict[str, str]:
        runs = records.unfinished(self.site.instance, OPTIONS)
        return {run.tags.get("dagster/partition", run.job_name): run.status.value for run in runs}

    def _turn_on(self, sensor: str) -> None:
        self._switches[sensor] = self.site.webserver.turn_on(sensor)

    def _turn_off(self, sensor: str) -> None:
        self.site.webserver.turn_off(self._switches.pop(sensor))


UPKEEP = {"watch_rounds": "gc_watch", "retire_marks": "gc_retire"}
"""The jobs of upkeep, by their schedules."""


def slot_before(plan: Plan, moment: float) -> str:
    """The round that was due last at a moment."""
    return round_id(latest_slot(plan.cron, datetime.fromtimestamp(moment, UTC)))


def days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)
