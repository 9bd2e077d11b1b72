"""The waves of a sweep: a plan is deleted piece by piece, and right before each wave a glance looks for objects that
came back. No wave is sent once the budget's time or requests are spent.

`deletion` deletes a piece.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.lease import Lease
from lakegc_core.names import Stage
from lakegc_core.spark.session import clear_errors
from lakegc_core.store.base import connect
from lakegc_core.sweep.budget import Budget, dealt
from lakegc_core.sweep.conditions import Conditions
from lakegc_core.sweep.deletion import BATCH, Deletion, Piece, run_wave
from lakegc_core.sweep.look import Glance
from lakegc_core.sweep.planning import Plan
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.spinning import Spinning
from lakegc_core.sweep.what_counts import unknown_names
from lakegc_core.tables.joins import among
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Waves:
    """Deletes the plans of one sweep. `resumed`: the sweep was begun by a call that broke off.

    `conditions`: of the deletes.

    Counts what this call sent: `objects`, `requests`, and the `seconds` that its waves took. `is_unsure`: objects may
    have been sent without a record.
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

    def __post_init__(self) -> None:
        self.is_unsure = self.resumed

    @property
    def is_spent(self) -> bool:
        """True if the budget allows no further delete."""
        until, most = self.budget.until, self.budget.most_requests
        late = until is not None and clock.now().timestamp() >= until
        return late or (most is not None and self.requests >= most)

    def delete(self, plan: Plan, attempt: int) -> bool:
        """Delete a plan in waves, each right after a glance. False when a whole look is due before all is done, or the
        budget is spent.

        After the last wave there is no glance: `_Sweep._look_again` takes a whole look.
        """
        pieces = [Piece(source) for source in plan.objects.sources]
        glance = Glance(self.spark, self.context, plan.look)
        expires = plan.look.began_at + self.context.level.look_validity.total_seconds()
        number = 0
        self.context.say(f"{Stage.SWEPT_REPORT}: deleting {plan.objects.rows:,} objects")
        while pieces:
            if self.is_spent:
                self.context.say(f"{Stage.SWEPT_REPORT}: the budget is spent")
                return False
            if self._came_back(glance, plan):
                self.context.say(f"{Stage.SWEPT_REPORT}: refs or rules have changed; looking again")
                return False
            if self.lease is not None:
                self.lease.check()
            now = clock.now().timestamp()
            if now >= expires:
                if number == 0:
                    self.spinning.late(now - plan.look.began_at, plan.objects.rows)
                self.context.say(f"{Stage.SWEPT_REPORT}: the look is too old; looking again")
                return False
            until = min(expires, now + self.context.level.watch_interval.total_seconds())
            ends = until if self.budget.until is None else min(until, self.budget.until)
            pieces = self._wave(plan, attempt, pieces, ends)
            number += 1
        return True

    def _wave(self, plan: Plan, attempt: int, pieces: Sequence[Piece], until: float) -> list[Piece]:
        """Send one wave. Returns the pieces that are left, in their order. `until`: unix seconds."""
        scale = self.context.settings.scale
        # Tasks that run side by side share the ceiling of deletes, so their number is fixed.
        tasks = scale.delete_parallelism or (spark_width(self.spark) if scale.delete_rate else None)
        sent, later = self._allowed(pieces)
        work = self._work(plan, attempt, until, scale.delete_rate / min(tasks or 1, len(sent)))
        began = time.monotonic()
        wave = run_wave(self.spark, dealt(sent, tasks) if self.budget.is_any else sent, work, tasks)
        self.seconds += time.monotonic() - began
        self.requests += wave.requests
        self.is_unsure |= any(piece.asked_before for piece in wave.left)
        found = {piece.source.part.name: piece for piece in (*wave.left, *later)}
        before, after = _rows(pieces), _rows(found.values())
        self.objects += before - after
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
        )

    def _came_back(self, glance: Glance, plan: Plan) -> bool:
        """Ask right before a wave: does a commit that counts since the look refer to an object of the plan?"""
        if glance.rules_changed() or glance.has_many_commits():
            return True
        refs = glance.changed_refs()
        if refs is None:
            return False
        seen = glance.read(refs)
        if not seen.rows:
            return False
        planned = plan.objects.mapped(self.spark)
        with clear_errors():
            return bool(among(self.spark, planned, seen.keys()).as_frame().limit(1).count())


def _rows(pieces: Iterable[Piece]) -> int:
    return sum(piece.rows for piece in pieces)
