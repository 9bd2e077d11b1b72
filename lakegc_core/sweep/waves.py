"""The waves of a sweep: a plan is deleted piece by piece, and right before each wave a glance looks for objects that
came back. No wave is sent once the budget's time or requests are spent.

A plan goes ring by ring (`rings`), each in waves of its own; after a ring, paths near to it are read (`near`).
`deletion` deletes a piece.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.errors import LakegcError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.rescues import rescue
from lakegc_core.marks.sweeps import STOPPED
from lakegc_core.names import Json, Outcome, Stage
from lakegc_core.spark.session import may_run_twice
from lakegc_core.spark.tasks import count_of, many
from lakegc_core.store.base import connect
from lakegc_core.sweep.budget import Budget, dealt
from lakegc_core.sweep.conditions import Conditions
from lakegc_core.sweep.deletion import BATCH, Deletion, Piece, run_wave
from lakegc_core.sweep.keeping import ROWS, Keeping, keeping_of
from lakegc_core.sweep.look import Glance
from lakegc_core.sweep.near import Near, near_paths, note, noted, planned_among, taken
from lakegc_core.sweep.planning import Plan
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.rings import SMALL, Rings, divide, rows_left, shares_of
from lakegc_core.sweep.spinning import Spinning
from lakegc_core.sweep.what_counts import unknown_names
from lakegc_core.tables.joins import among
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_TRIES = 10
"""The most tries at one ring. Then it counts as full: otherwise objects that fail would hold back all other garbage."""


@dataclass
class Waves:
    """Deletes the plans of one sweep. `resumed`: the sweep was begun by a call that broke off.

    `conditions`: of the deletes.

    Counts what this call sent: `objects`, `requests`, and the `seconds` that its waves took. `is_unsure`: objects may
    have been sent without a record. `read`: number of paths that were read after rings; `taken`: those that could be
    read before their ring and not after it, with their addresses.
    """

    spark: SparkSession
    context: MarkContext
    record: SweepRecord
    lease: Lease | None
    spinning: Spinning
    resumed: bool
    budget: Budget = field(default_factory=Budget)
    conditions: Conditions = field(default_factory=Conditions)
    objects: int = 0
    requests: int = 0
    seconds: float = 0.0
    is_unsure: bool = field(init=False)
    read: int = 0
    taken: Mapping[str, str] = field(default_factory=dict)
    _rings: Rings | None = None
    _passed: int = 0
    _gone_before: int = 0
    _stay: int = 0
    _tries: tuple[int, int] = (0, 0)  # number of the last ring, and tries at it so far
    _stopped_at: int | None = None
    _keeping: Keeping | None = None  # of this attempt

    def __post_init__(self) -> None:
        self.is_unsure = self.resumed

    @property
    def is_spent(self) -> bool:
        """True if the budget allows no further delete."""
        until, most = self.budget.until, self.budget.most_requests
        late = until is not None and clock.now().timestamp() >= until
        return late or (most is not None and self.requests >= most)

    @property
    def is_over(self) -> bool:
        """True if this call deletes nothing more, whatever is left."""
        return self.is_spent or bool(self.taken)

    def rings_told(self) -> Json:
        """The rings, for reports: see `SweepResult.rings`. Empty if nothing was deleted in rings."""
        if self._rings is None:
            return {}
        return {
            "passed": self._passed,
            "count": self._rings.count,
            "read": self.read,
            "gone": dict(self.taken),
            "stopped_at": self._stopped_at,
        }

    @property
    def _went(self) -> int:
        """The objects that are gone by this sweep, also by calls that broke off. Rings go by these: a ring whose
        deletes fail shows nothing."""
        return self._gone_before + self.objects - self._stay

    def delete(self, plan: Plan, attempt: int) -> bool:
        """Delete a plan ring by ring. False when a whole look is due before all is done, or this call is over.

        After the last wave there is no glance: `SweepCall._look_again` takes a whole look.
        """
        rings = self._rings = self._rings or self._begin_rings(plan)
        if self.taken:
            return False
        self.is_unsure |= may_run_twice(self.spark)
        rest = [Piece(source) for source in plan.objects.sources]
        self._keeping = keeping_of(self.context, self.record.number, attempt) if rest else None
        glance, is_first = Glance(self.spark, self.context, plan.look), True
        self.context.say(f"{Stage.SWEPT_REPORT}: deleting {plan.objects.rows:,} objects")
        while rest:
            number, went = rings.number(self._went), self._went
            ring, rest = divide(rest, rings.room(went))
            near = self._near(ring, number, plan)
            is_small = bool(rest) and rows_left(ring) <= SMALL
            is_done = self._ring(plan, attempt, ring, glance, is_first=is_first, is_small=is_small)
            is_first = False
            self._read_again(near, number)
            if self.taken or not is_done:
                return False
            self._count_try(number, rings)
            if rest:
                self._passed = rings.number(self._went) - 1
            else:  # a last ring of which nothing went shows nothing
                self._passed = number if self._went != went else number - 1
            if rest and self._passed == number:
                self.context.say(
                    f"{Stage.SWEPT_REPORT}: ring {number} of {rings.count} is done; {len(near)} paths read"
                )
        return True

    def _count_try(self, number: int, rings: Rings) -> None:
        """Count a try at a ring. After the last one, just enough of what stayed counts as gone to fill this ring."""
        ring, tries = self._tries
        self._tries = (number, tries + 1 if ring == number else 1)
        if self._tries[1] >= _MOST_TRIES and number < rings.count:
            self._stay, self._tries = self._gone_before + self.objects - rings.bounds[number - 1], (0, 0)

    def _near(self, ring: Sequence[Piece], number: int, plan: Plan) -> list[Near]:
        """The paths to read before and after a ring, even of a plan with one ring; none if rings are switched off."""
        if not shares_of(self.context):
            return []
        found = near_paths(self.spark, self.context, ring, plan.canaries)
        note(self.context, self.record.folder, number, found)
        return found

    def _begin_rings(self, plan: Plan) -> Rings:
        """The rings of this sweep; counts what of them is gone by earlier calls. An earlier call may have died before
        it read the paths of its last ring again: they are read now, and can stop the sweep."""
        rows = plan.objects.rows
        if self.resumed:
            rows, told = self.record.planned().rows, self.record.outcomes()
            told = told.where(told["outcome"].isin(Outcome.DELETED, Outcome.ALREADY_GONE)).select("address")
            planned = self.record.planned().frame(self.spark, "address")  # others were gone before this sweep
            self._gone_before = count_of(told.distinct().join(many(planned), "address", "left_semi"))
            number, near = noted(self.context, self.record.folder)
            self._read_again(near, number)
        rings = Rings.of(rows, shares_of(self.context))
        self._passed = (self._stopped_at or rings.number(self._went)) - 1
        return rings

    def _read_again(self, near: Sequence[Near], number: int) -> None:
        """Read paths again after a ring. If one is gone, that goes on record: the guard `rings` then stops sweeps."""
        self.taken = taken(self.context, near, partial(planned_among, self.spark, self.record))
        self.read += len(near)
        if self.taken:
            self._stopped_at = number
            first = next(iter(self.taken.items()))
            self.context.say(f"{Stage.SWEPT_REPORT}: ring {number} took live data: {first[0]} ({first[1]}); stopping")
            found = {"ring": number, "gone": self.taken, "at": clock.now().timestamp()}
            connect(self.context.workspace).write(f"{self.record.folder}/{STOPPED}", encode(sealed(found)))

    def read_last_ring(self) -> None:
        """Read the paths of the last ring that earlier calls began, before the sweep is closed. If it cannot read
        them, it says so and goes on."""
        try:
            self._rings = Rings.of(self.record.planned().rows, shares_of(self.context))
            number, near = noted(self.context, self.record.folder)
            self._passed = max(0, number - 1)
            self._read_again(near, number)
        except LakegcError as error:
            self.context.say(f"{Stage.SWEPT_REPORT}: the paths near to the last ring were not read. {error}")

    def _ring(
        self, plan: Plan, attempt: int, pieces: Sequence[Piece], glance: Glance, *, is_first: bool, is_small: bool
    ) -> bool:
        """Delete a ring in waves, each right after a glance. False as in `delete`. `is_first`: of its plan."""
        valid = self.context.level.look_validity.total_seconds()
        number = 0
        while pieces:
            if self.is_spent:
                self.context.say(f"{Stage.SWEPT_REPORT}: the budget is spent")
                return False
            if self._look_is_due(glance, plan):
                self.context.say(f"{Stage.SWEPT_REPORT}: refs or rules have changed; looking again")
                return False
            if self.lease is not None:
                self.lease.check()
            age = plan.look.age
            if age >= valid:
                if is_first and number == 0:
                    self.spinning.late(age, plan.objects.rows)
                self.context.say(f"{Stage.SWEPT_REPORT}: the look is too old; looking again")
                return False
            lasts = min(valid - age, self.context.level.watch_interval.total_seconds())
            until = clock.now().timestamp() + lasts
            ends = until if self.budget.until is None else min(until, self.budget.until)
            pieces = self._wave(plan, attempt, pieces, ends, is_small=is_small)
            number += 1
        return True

    def _wave(self, plan: Plan, attempt: int, pieces: Sequence[Piece], until: float, *, is_small: bool) -> list[Piece]:
        """Send one wave. Returns the pieces that are left, in their order. `until`: unix seconds. `is_small`: of a ring
        for which a job of Spark would take longer than this process."""
        scale = self.context.settings.scale
        # None: as many as Spark gives; 0: in this process. Fixed under a ceiling of deletes: tasks share it.
        tasks = scale.delete_parallelism or (spark_width(self.spark) if scale.delete_rate else None)
        if is_small:
            tasks = 0
        sent, later = self._allowed(pieces)
        work = self._work(plan, attempt, until, scale.delete_rate / min(tasks or 1, len(sent)))
        began = time.monotonic()
        wave = run_wave(self.spark, dealt(sent, tasks) if self.budget.is_limited else sent, work, tasks)
        self.seconds += time.monotonic() - began
        self.requests += wave.requests
        if wave.problem:
            self.context.say(
                f"{Stage.SWEPT_REPORT}: objects stay that could not be copied into quarantine: {wave.problem}"
            )
        self.is_unsure |= any(piece.asked_before for piece in wave.left)
        found = {piece.source.part.name: piece for piece in (*wave.left, *later)}
        before, after = rows_left(pieces), rows_left(found.values())
        self.objects += before - after
        self._stay += wave.stay
        if self.budget.most_requests is None or not wave.requests:  # else the budget ends such waves
            self.spinning.wave(before, after)
        return [found[piece.source.part.name] for piece in pieces if piece.source.part.name in found]

    def _allowed(self, pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Divide the requests that are left among pieces, the first ones first. Returns pieces with requests, and
        pieces for which none are left."""
        most = self.budget.most_requests
        if most is None:
            return list(pieces), []
        room, batch = most - self.requests, min(BATCH, connect(self.context.data).deletes.batch)
        batch = batch if self._keeping is None else min(ROWS, batch)
        sent: list[Piece] = []
        later: list[Piece] = []
        for piece in pieces:
            wanted = min(room, 2 * -(-piece.rows // batch) + 2)  # some take fewer keys, or are repeated
            if wanted:
                sent.append(replace(piece, most_requests=wanted))
                room -= wanted
            else:
                later.append(piece)
        return sent, later

    def _work(self, plan: Plan, attempt: int, until: float, rate: float) -> Deletion:
        """The work of each task of a wave. `until`: unix seconds; `rate`: objects a second."""
        return Deletion(
            data=self.context.data,
            journal=self.record.journal,
            attempt=attempt,
            namespace=self.context.namespace,
            cutoff=self.context.header.cutoff,
            until=until,
            lease=self.lease.proof if self.lease else None,
            rate=rate,
            unknown_names=unknown_names(self.context),
            asked_before=self.is_unsure,
            canaries=plan.canaries.addresses,
            conditions=self.conditions,
            keeping=self._keeping,
        )

    def _look_is_due(self, glance: Glance, plan: Plan) -> bool:
        """True if a whole look is due before the next wave: rules changed, many commits are new, or a commit that
        counts since the look refers to objects of the plan. These go on record as live."""
        if glance.rules_changed() or glance.has_many_commits():
            return True
        refs = glance.changed_refs()
        if refs is None:
            return False
        seen = glance.read(refs)
        if not seen.rows:
            return False
        back = among(self.spark, plan.objects.mapped(self.spark, "address"), seen.keys())
        if not count_of(back.as_frame().limit(1)):
            return False
        rescue(self.context, back)  # the next look may fail; then this alone tells when these objects were live
        return True
