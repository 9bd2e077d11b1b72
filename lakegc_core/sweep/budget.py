"""The budget of a sweep: the most that it does, and what it leaves to a later sweep.

Bytes and objects limit what is planned, those with the most bytes first; `waves` stops at `until`, and counts
requests. An object that is left has the outcome `over_budget`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.clock import instant
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.config.sizes import next_time
from lakegc_core.names import Json, Outcome
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import StoreConfig
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA
from lakegc_core.sweep.lost import mark_gone
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import bytes_of, part_results, parts_of, read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")

BYTES = "bytes"
"""The total that each part of a plan has: of the sizes of its objects."""
_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True)
class Budget:
    """The most that a sweep does; None: no limit. `until`: unix seconds, from which on no delete is sent.

    `most_bytes` and `most_objects` hold for all calls of one sweep together, `until` and `most_requests` for one call.
    """

    most_bytes: int | None = None
    most_objects: int | None = None
    until: float | None = None
    most_requests: int | None = None

    @classmethod
    def of(cls, settings: BudgetSettings, now: datetime, given: BudgetSettings | None = None) -> Budget:
        """The budget of a call that begins at `now`. What is `given` for this call counts instead of the settings."""
        given = given or BudgetSettings()
        told = {each.name: getattr(given, each.name) for each in fields(given)}
        wanted = replace(settings, **{name: value for name, value in told.items() if value is not None})
        until = None if wanted.until is None else next_time(wanted.until, now).timestamp()
        return cls(wanted.most_bytes, wanted.most_objects, until, wanted.most_requests)

    @property
    def is_limited(self) -> bool:
        """True if anything is limited."""
        return self != Budget()

    @property
    def limits_plans(self) -> bool:
        """True if bytes or objects are limited."""
        return self.most_bytes is not None or self.most_objects is not None

    def as_json(self) -> Json:
        """The budget for reports; `until` as an instant."""
        return asdict(self) | {"until": None if self.until is None else instant(self.until)}


def largest_first(sources: Sequence[Source]) -> list[Source]:
    """The parts of a plan, those with the largest objects first."""
    return sorted(sources, key=lambda each: each.part.sums.get(BYTES, 0) / max(1, each.part.rows), reverse=True)


@dataclass(frozen=True)
class Room:
    """The objects and bytes that still fit."""

    objects: int
    bytes: int

    def without(self, source: Source) -> Room | None:
        """The room that is left after all rows of a part; None if they do not fit."""
        left = Room(self.objects - source.part.rows, self.bytes - source.part.sums[BYTES])
        return left if min(left.objects, left.bytes) >= 0 else None


@dataclass(frozen=True)
class Cut:
    """Divides rows of a plan between the plan and the journal. `attempt` and `at`: for the journal.

    `store`: given if an earlier call of the sweep may have deleted objects without a record; what is gone of those that
    do not fit then counts as deleted by it.
    """

    plan: DatasetFolder
    journal: DatasetFolder
    attempt: int
    at: datetime
    store: StoreConfig | None = None

    def within(self, spark: SparkSession, planned: Dataset, budget: Budget) -> Dataset:
        """The rows of a plan that fit into the budget, part by part in their order, and of the part that does not fit
        those with the most bytes; the others are journalled as `over_budget`. Each object alone fits. The driver
        handles parts only."""
        room: Room | None = Room(
            *(_NO_LIMIT if most is None else most for most in (budget.most_objects, budget.most_bytes))
        )
        whole: list[Source] = []
        rest: list[tuple[Source, Room]] = []
        for source in planned.sources:
            if room is not None and (left := room.without(source)) is not None:
                whole.append(source)
                room = left
            else:  # the first part that does not fit is divided; nothing fits after it
                rest.append((source, room or Room(0, 0)))
                room = None
        divided = parts_of(run_tasks(spark, rest, self._divide), ["plan"])["plan"]
        return Dataset(PLAN_SCHEMA, tuple(whole)) + self.plan.dataset("", divided, PLAN_SCHEMA)

    def _divide(self, item: tuple[Source, Room]) -> Iterator[Json]:
        source, room = item
        rows = pa.Table.from_batches(read_part(source.config, source.folder, source.part), PLAN_SCHEMA)
        largest = pc.sort_indices(rows, sort_keys=[("size", "descending"), ("address", "ascending")])
        sizes = np.cumsum(rows["size"].take(largest).to_numpy(), dtype=np.int64)
        fit = min(room.objects, int(np.searchsorted(sizes, room.bytes, side="right")))
        planned = self.plan.written("", rows.take(np.sort(largest[:fit])), PLAN_SCHEMA, bytes_of)  # in their order
        self.journal.written("", self._over(rows.take(largest[fit:])), OUTCOMES_SCHEMA, bytes_of)
        yield from part_results("plan", planned.parts)

    def _over(self, rows: pa.Table) -> pa.Table:
        for name, value in (("outcome", str(Outcome.OVER_BUDGET)), ("attempt", self.attempt), ("at", self.at)):
            kind = OUTCOMES_SCHEMA.field(name).type
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
        return rows if self.store is None else mark_gone(rows, self.store, asked=True)


def dealt(pieces: Sequence[Item], tasks: int | None) -> list[Item]:
    """The pieces, dealt to so many tasks that each take a run of them: so the first pieces begin first."""
    width = min(tasks or len(pieces), len(pieces))
    return [piece for first in range(width) for piece in pieces[first::width]]
