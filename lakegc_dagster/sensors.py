"""The two sensors of a night: one opens a round of marks, one sweeps what it confirmed. Both are off until turned on.

They ask lakeFS for the names of repositories, and Dagster for what was recorded; no store, and no Spark. What they
decide by is in `rounds`. A sensor only requests: whether a sweep deletes anything, the run itself judges.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import dagster as dg

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, LakegcError
from lakegc_core.lakefs.models import Repository
from lakegc_core.marks.context import is_bare
from lakegc_core.policy.safety import RESUMED_WITHIN
from lakegc_dagster import records, rounds
from lakegc_dagster.budget import MOST_REQUESTS, Budget
from lakegc_dagster.config import SWEEP, LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource, resource_of

_SHOWN = 20  # reasons in one sentence
_SIDE_BY_SIDE = 8  # repositories that lakeFS is asked about at a time


def sensors(options: LakegcConfig, jobs: dict[str, Any]) -> list[dg.SensorDefinition]:
    """`open_round` and `sweep_confirmed`, over the jobs of the same definitions."""
    return [_open_round(options, jobs["gc_mark"]), _sweep_confirmed(options, jobs["gc_sweep"])]


def _open_round(options: LakegcConfig, job: Any) -> dg.SensorDefinition:
    @dg.sensor(
        name=options.job_name("open_round"),
        job=job,
        minimum_interval_seconds=rounds.tick_seconds(options.round_cron),
        required_resource_keys={options.resource_key},
        tags=dict(options.tags),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Marks every repository of the lakeFS once a slot: the same mark id for all. Deletes nothing.",
    )
    def open_round(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        lakegc, budget = resource_of(options, context), Budget.of_a_tick()
        now = clock.now()
        mark_id = rounds.round_id(rounds.latest_slot(options.round_cron, now))
        if context.cursor == mark_id:
            if again := _asked_again(context.instance, options, lakegc, mark_id, now):
                return _result(options, again, mark_id, cursor=mark_id)
            following = rounds.next_slot(options.round_cron, now)
            return dg.SkipReason(f"Round {mark_id} is open; the next one opens at {following:%Y-%m-%d %H:%M} UTC.")
        choice = rounds.choose(every_repository(lakegc), lakegc.settings())
        due, cursor = _due_now(choice.taken, mark_id, context.cursor or "")
        choice = choice.without_bare(_bare(lakegc, due, budget))
        for name, reason in choice.left_out.items():
            context.log.info(f"{name} takes no part in round {mark_id}: {reason}")
        if not choice.taken:
            return dg.SkipReason(
                f"Round {mark_id} is not opened: none of {len(choice.left_out):,} repositories takes part. "
                + _reasons(choice.left_out)
            )
        queued = records.queued_marks(context.instance, options, but_of=mark_id)
        waiting = {each.id: f"its run of round {queued[each.id]} is still queued" for each in due if each.id in queued}
        for name, reason in waiting.items():
            context.log.info(f"{name} is not asked for in round {mark_id}: {reason}")
        not_asked = {**waiting, **choice.left_out}
        asked = [repository for repository in due if repository.id not in not_asked]
        if not asked:
            return dg.SensorResult(skip_reason=_reasons(not_asked), cursor=cursor)
        return _result(options, [_mark_request(repository, mark_id) for repository in asked], mark_id, cursor=cursor)

    return open_round


def taking_part(lakegc: LakegcResource) -> rounds.Choice:
    """Who takes part in rounds, by lakegc.yaml and by what lakeFS says of each."""
    choice = rounds.choose(every_repository(lakegc), lakegc.settings())
    return choice.without_bare(_bare(lakegc, choice.taken))


def _bare(lakegc: LakegcResource, repositories: Sequence[Repository], budget: Budget | None = None) -> set[str]:
    """The names of those that have no branch, as far as lakeFS says so in the time of `budget`. A repository of
    which it says nothing takes part: its own run says why it cannot be marked. Each is asked about once, and nothing
    waits for those that hang: they keep no tick, and nobody else's round."""

    def has_no_branch(name: str) -> bool:
        try:
            return is_bare(client, name, attempts=1)
        except LakegcError:
            return False

    with closing(lakegc.client()) as client:
        pool = ThreadPoolExecutor(_SIDE_BY_SIDE)
        asked = {pool.submit(has_no_branch, each.id): each.id for each in repositories}
        answered, _ = wait(asked, budget.left() if budget else None)
        pool.shutdown(wait=False, cancel_futures=True)
        return {asked[each] for each in answered if each.result()}


def _due_now(taken: Sequence[Repository], mark_id: str, cursor: str) -> tuple[list[Repository], str]:
    """The repositories that this tick asks for, and the cursor after it.

    The cursor is the mark id of a round that is wholly open; while one is opened, the last repository follows.
    """
    opened, _, last = cursor.partition(" ")
    due = sorted((each for each in taken if opened != mark_id or each.id > last), key=lambda each: each.id)
    some = due[:MOST_REQUESTS]
    return some, mark_id if some == due else f"{mark_id} {some[-1].id}"


def every_repository(lakegc: LakegcResource) -> list[Repository]:
    """All repositories that lakeFS lists. IncompleteError if it lists none: that is no empty round."""
    with closing(lakegc.client()) as client:
        found = list(client.repositories())
    if not found:
        raise IncompleteError(
            f"{client!r} lists no repository at all. Either there is none, or the key may not see them: it needs "
            "fs:ListRepositories. No round is opened."
        )
    return found


def _result(options: LakegcConfig, requests: Sequence[dg.RunRequest], mark_id: str, *, cursor: str) -> dg.SensorResult:
    """A tick that asks for marks of a round, and adds their partitions: somebody may have deleted one in the UI, and
    Dagster fails a whole tick for one partition that is not there."""
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[
            options.grid.repositories.build_add_request([each.tags[records.REPOSITORY] for each in requests]),
            options.grid.marks.build_add_request([mark_id]),
        ],
        cursor=cursor,
    )


def _mark_request(repository: Repository, mark_id: str) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{mark_id}|{repository.id}",
        partition_key=GcCell(repository.id, mark_id).key,
        tags={
            records.REPOSITORY: repository.id,
            records.STORE: rounds.store_of(repository.storage_namespace),
            records.ROUND: mark_id,
        },
    )


def _asked_again(
    instance: dg.DagsterInstance, options: LakegcConfig, lakegc: LakegcResource, mark_id: str, now: datetime
) -> list[dg.RunRequest]:
    """Requests to go on, once, with marks of the open round that broke off. An unfinished mark would start every gap
    anew: the next mark does not know what it found live."""
    slot = rounds.slot_of(mark_id)
    if slot is None or now - slot > RESUMED_WITHIN:
        return []
    settings, found = lakegc.settings(), records.broken_off(instance, options, mark_id, now - rounds.ASKED_AGAIN_AFTER)
    return [
        dg.RunRequest(
            run_key=f"{mark_id}|{run.tags[records.REPOSITORY]}|again",
            partition_key=GcCell(run.tags[records.REPOSITORY], mark_id).key,
            tags={
                **{key: run.tags[key] for key in (records.REPOSITORY, records.STORE, records.ROUND) if key in run.tags},
                records.AGAIN: "yes",
            },
        )
        for run in found[:MOST_REQUESTS]
        if settings.policy_for(run.tags[records.REPOSITORY]).mark
    ]


def _sweep_confirmed(options: LakegcConfig, job: Any) -> dg.SensorDefinition:
    @dg.sensor(
        name=options.job_name("sweep_confirmed"),
        job=job,
        minimum_interval_seconds=300,
        required_resource_keys={options.resource_key},
        tags=dict(options.tags),
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Sweeps the newest mark of every repository with `sweep: true` in lakegc.yaml, once, as soon as it "
        "may be. Deletes. The run judges for itself; what it refuses is not asked for again until there is a later "
        "mark.",
    )
    def sweep_confirmed(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lakegc, budget = resource_of(options, context), Budget.of_a_tick()
        settings, known = lakegc.settings(), options.grid.repositories_of(context.instance)
        policies = {name: settings.policy_for(name) for name in known}
        wanted = [name for name, policy in policies.items() if policy.sweep and policy.mark]
        if not wanted:
            return dg.SensorResult(skip_reason="lakegc.yaml says `sweep: true` for no repository that was marked.")
        look = _Look.begin(context.instance, options)
        for name in budget.turns(wanted, context.cursor):
            look.at(name)
            if len(look.requests) == MOST_REQUESTS:
                break
        for name, reason in look.waiting.items():
            context.log.info(f"{name}: {reason}")
        left = len(wanted) - len(look.requests) - len(look.waiting)
        if left:
            context.log.info(f"{left:,} of {len(wanted):,} repositories are left for the next tick.")
        if look.requests:
            return dg.SensorResult(run_requests=look.requests, cursor=look.last)
        more = f"; {left:,} more repositories are left for the next tick" if left else ""
        return dg.SensorResult(skip_reason=_reasons(look.waiting) + more, cursor=look.last)

    return sweep_confirmed


@dataclass
class _Look:
    """The findings of a tick so far: sweeps to ask for, and why others wait, by repository. `last`: where it is."""

    instance: dg.DagsterInstance
    options: LakegcConfig
    marks: Sequence[str]
    busy: Mapping[str, str]
    now: float
    requests: list[dg.RunRequest] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    last: str = ""

    @classmethod
    def begin(cls, instance: dg.DagsterInstance, options: LakegcConfig) -> Self:
        """Ask once for what is the same for all repositories."""
        now = clock.now()
        recent = records.unfinished(instance, options, since=now - rounds.LONGEST_RUN)
        busy = records.busy_repositories(records.at_work(recent))
        return cls(instance, options, options.grid.marks_of(instance), busy, now.timestamp())

    def at(self, name: str) -> None:
        """Decide about one repository."""
        mark = records.newest_mark(self.instance, self.options, name, self.marks)
        before = records.request_of(self.instance, self.options, GcCell(name, mark.mark_id)) if mark else None
        reason = rounds.why_not_swept(mark, self.now, busy=self.busy.get(name), requested=before)
        if mark is None or reason:
            self.waiting[name] = reason
        else:
            cell = GcCell(name, mark.mark_id)
            store = records.store_of(self.instance, self.options, cell)
            self.requests.append(_sweep_request(self.options, cell, store))
        self.last = name


def _sweep_request(options: LakegcConfig, cell: GcCell, store: str | None) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{cell.mark_id}|{cell.repository}",
        partition_key=cell.key,
        run_config={"ops": {options.op(SWEEP): {"config": {"dry_run": False}}}},
        tags={
            records.REPOSITORY: cell.repository,
            records.REQUESTED: cell.mark_id,
            **({records.STORE: store} if store else {}),
        },
    )


def _reasons(by_name: Any) -> str:
    shown = [f"{name}: {reason}" for name, reason in sorted(by_name.items())]
    more = f"; and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more
