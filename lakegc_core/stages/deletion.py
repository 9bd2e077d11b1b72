"""Deletes the objects of a plan on the executors, and journals what became of each.

Before any key is sent, its name and age are judged once more, here, where nothing but the plan's own row is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.lease import Proof, lost
from lakegc_core.namespace import Namespace
from lakegc_core.spark import Json
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, read_part

_MOMENT = pa.timestamp("us", tz="UTC")

PLAN_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("last_modified", _MOMENT, nullable=False),
        pa.field("etag", pa.string(), nullable=True),
        pa.field("since", _MOMENT, nullable=False),
    ]
)
OUTCOMES_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),  # the last attempt's outcome is the final one
        pa.field("at", _MOMENT, nullable=False),
    ]
)

BATCH = 1000
_IN_FLIGHT = 4
_JOURNAL = 4 * BATCH * _IN_FLIGHT  # outcomes that a killed task may have to ask for again


@dataclass(frozen=True)
class Piece:
    """What is left of one part of a plan: its rows from `start` on."""

    part: Part
    start: int = 0


@dataclass(frozen=True)
class Deletion:
    """Deletes pieces of a plan; a picklable value that tasks carry.

    `until`: unix seconds, by the collector's clock, up to which this may go on without asking the server again.
    `lease`: what shows that the collector is still the only one; None where the operator sees to that.
    """

    data: StoreConfig
    artifacts: StoreConfig
    plan_folder: str
    journal: str
    attempt: int
    namespace: Namespace
    cutoff: float
    until: float
    lease: Proof | None

    def run(self, piece: Piece) -> Iterator[Json]:
        """Delete one piece, batch by batch, until it is done or the time is up; tell up to which row.

        RefusedError if another collector has taken over: the process that sent this task may be dead.
        """
        row = piece.start
        for group in self._groups(piece):
            asked = self._delete(group)
            row += asked
            if asked < sum(batch.num_rows for batch in group):
                if not self._is_alone():
                    raise lost("somebody else took it")
                break
        yield {"part": piece.part.name, "row": row, "done": row == piece.part.rows}

    def _groups(self, piece: Piece) -> Iterator[list[pa.RecordBatch]]:
        """The piece's rows as groups of batches, each to be deleted and journalled together."""
        group: list[pa.RecordBatch] = []
        skip = piece.start
        for batch in read_part(self.artifacts, self.plan_folder, piece.part):
            self._judge(batch)
            rest, skip = batch.slice(min(skip, batch.num_rows)), max(0, skip - batch.num_rows)
            for start in range(0, rest.num_rows, BATCH):
                group.append(rest.slice(start, BATCH))
                if len(group) * BATCH >= _JOURNAL:
                    yield group
                    group = []
        if group:
            yield group

    def _judge(self, batch: pa.RecordBatch) -> None:
        cutoff = pa.scalar(datetime.fromtimestamp(self.cutoff, UTC), _MOMENT)
        fit = pc.and_(self.namespace.collectable(batch["address"]), pc.less(batch["last_modified"], cutoff))
        if not pc.all(fit).as_py():
            raise MarkError(
                "The plan names an object that is not lakeFS's or too young. It was altered: make a new mark."
            )

    def _delete(self, group: list[pa.RecordBatch]) -> int:
        """Delete batches and journal their outcomes; how many rows were asked for while that was allowed."""
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            outcomes = list(pool.map(self._ask, group))
        journal = PartWriter(self.artifacts, self.journal, OUTCOMES_SCHEMA)
        now = clock.now()
        asked, allowed = 0, True
        for batch, found in zip(group, outcomes, strict=True):
            if found is None:
                allowed = False  # a later batch may have been just in time: it is journalled, and asked for again
                continue
            asked += batch.num_rows if allowed else 0
            if len(found) != batch.num_rows:
                raise MarkError("The store answered for another number of keys than were sent.")
            columns = [
                batch["address"],
                batch["size"],
                pa.array(found, pa.string()),
                pa.array([self.attempt] * batch.num_rows, pa.int32()),
                pa.array([now] * batch.num_rows, _MOMENT),
            ]
            journal.write(pa.RecordBatch.from_arrays(columns, schema=OUTCOMES_SCHEMA))
        journal.close()
        return asked

    def _ask(self, batch: pa.RecordBatch) -> list[str] | None:
        """Send one batch, unless the time is up or another collector at work: a machine may have slept since the last
        one, and the collector may have died."""
        if clock.now().timestamp() >= self.until or not self._is_alone():
            return None
        return connect(self.data).delete_many(batch["address"].to_pylist())

    def _is_alone(self) -> bool:
        return self.lease is None or self.lease.stands()
