"""The waves of a sweep: a plan is deleted piece by piece, and right before each wave a glance looks for objects that
came back.

`deletion` deletes a piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core import clock
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.lease import Lease
from lakegc_core.names import Stage
from lakegc_core.spark.session import clear_errors
from lakegc_core.sweep.deletion import Deletion, Piece, run_wave
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
    """Deletes the plans of one sweep. `resumed`: the sweep was begun by a call that broke off."""

    spark: SparkSession
    context: MarkContext
    record: SweepRecord
    lease: Lease | None
    spinning: Spinning
    resumed: bool

    def delete(self, plan: Plan, attempt: int) -> bool:
        """Delete a plan in waves, each right after a glance. False when a whole look is due before all is done.

        After the last wave there is no glance: `_Sweep._look_again` takes a whole look.
        """
        pieces = [Piece(source) for source in plan.objects.sources]
        glance = Glance(self.spark, self.context, plan.look)
        expires = plan.look.began_at + self.context.level.look_validity.total_seconds()
        number = 0
        scale = self.context.settings.scale
        # Tasks that run side by side share the ceiling of deletes, so their number is fixed.
        tasks = scale.delete_parallelism or (spark_width(self.spark) if scale.delete_rate else None)
        self.context.say(f"{Stage.SWEPT_REPORT}: deleting {plan.objects.rows:,} objects")
        while pieces:
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
            work = self._work(plan, attempt, until, scale.delete_rate / min(tasks or 1, len(pieces)))
            before = sum(piece.rows for piece in pieces)
            pieces = run_wave(self.spark, pieces, work, tasks)
            self.spinning.wave(before, sum(piece.rows for piece in pieces))
            number += 1
        return True

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
            asked_before=self.resumed,
            canaries=plan.canaries.addresses,
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
