"""Deletes the objects of a plan on the executors, and journals what became of each.

Before any key is sent, its name and age are judged once more, here, where nothing but the plan's own row is believed.
`store.pace` decides how many requests the store gets; `waves`, when a wave of this begins and ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import IncompleteError, MarkError
from lakegc_core.marks.lease import Proof, lost
from lakegc_core.names import NO_ANSWER, Json, Outcome
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import NOT_ASKED, StoreConfig, connect
from lakegc_core.store.clock import earliest, shared_clock
from lakegc_core.store.pace import Gate, Pace, Requests, shared
from lakegc_core.sweep.conditions import Conditions
from lakegc_core.sweep.keeping import ROWS, Keeping
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
"""The most keys a call; a store, or a low ceiling of deletes a second, takes fewer."""

_JOURNAL = 16_000
"""Outcomes that are written together, which a killed task may have to send again; a piece of more than eight times as
many rows writes an eighth of them at once."""

JOURNAL_EVERY = 10.0
"""Seconds after which outcomes are written, however few they are: to send them again to a slow store would be dear."""

_PROOF = 1.0
"""Seconds for which the proof of the lease is good within one call: beyond it, a repeated request needs another."""

_GONE = pa.array([str(Outcome.DELETED), str(Outcome.ALREADY_GONE)], pa.string())

Range = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """Rows that are left of one part of a plan. `left`: the ranges of rows, in order; None: all rows.

    `most_requests`: the most that one task may send for them; None: no limit. `asked_before`: a task that died may have
    sent them without a record.
    """

    source: Source
    left: tuple[Range, ...] | None = None
    most_requests: int | None = None
    asked_before: bool = False

    @property
    def ranges(self) -> tuple[Range, ...]:
        return ((0, self.source.part.rows),) if self.left is None else self.left

    @property
    def rows(self) -> int:
        """The number of rows that are left."""
        return sum(stop - start for start, stop in self.ranges)


@dataclass(frozen=True)
class Deletion:
    """Deletes pieces of a plan. Outcomes go to `journal`, as those of `attempt`.

    `until`: unix seconds, by the collector's clock, up to which this may go on without asking the server again.
    `lease`: the proof that the collector is still the only one; None if the operator sees to that. It names an owner
    and compares no clocks.
    `rate`: objects a second, at most, for each task; 0: no ceiling. `unknown_names`: True if objects below data/ may go
    whose names lakeFS never gives.
    `asked_before`: True if an earlier run, which broke off, may have sent these objects without a record.
    `canaries`: addresses that lakeFS showed while the sweep planned, which no plan may name.
    `keeping`: makes a copy of each object before its delete; None where no copies are wanted.
    `ahead`: seconds by which the data's store is at least ahead of the collector's clock, as `run_wave` measures it.

    An executor's own clock is never compared with the collector's. A task learns the collector's time from the store,
    which both ask (`store.clock`): a request every ten seconds for each process, and one a wave. `until` is an instant,
    not a duration: Spark may start or repeat a task late, and a duration would begin again.
    """

    data: StoreConfig
    journal: DatasetFolder
    attempt: int
    namespace: Namespace
    cutoff: float
    until: float
    lease: Proof | None
    rate: float = 0.0
    unknown_names: bool = False
    asked_before: bool = False
    ahead: float = 0.0
    canaries: tuple[str, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    keeping: Keeping | None = None

    def now(self, *, ask: bool = True) -> float:
        """Unix seconds that the collector's clock has not passed yet, wherever this runs. See `StoreClock.latest`."""
        return shared_clock(self.data).latest(ask=ask) - self.ahead

    def run(self, piece: Piece) -> Iterator[Json]:
        """Delete one piece, batch by batch, until it is done, the time is up or its requests are spent. Yields the rows
        that were not sent (`left`), how many were sent and are not gone (`stay`), the number of requests, and what kept
        an object from being copied, if anything did.

        Batches are under way side by side, as many as the store takes, while outcomes are journalled. RefusedError if
        another collector has taken over: the process that sent this task may be dead.
        """
        left, stay, is_repeated, problems = list(piece.ranges), 0, _is_repeated(), list[str]()
        requests = Requests(piece.most_requests)
        if is_repeated and piece.most_requests is not None:
            requests.spend()  # nobody knows how many the run before sent
        elif self.now() < self.until:
            journal = self._delete(piece, requests, problems)
            left, stay = journal.left, journal.stay
            if left and not self._is_alone():
                raise lost("somebody else took it")
        asked = is_repeated or piece.asked_before
        told = {"part": piece.source.part.name, "left": left, "stay": stay, "requests": requests.sent, "asked": asked}
        yield told | ({"problem": problems[0]} if problems else {})

    def _delete(self, piece: Piece, requests: Requests, problems: list[str]) -> _Journal:
        """Send the piece's batches and journal their outcomes. The journal knows the rows that were not sent."""
        deletes = connect(self.data).deletes
        pace = shared(self.data, deletes.requests, self.rate)
        most = BATCH if self.keeping is None else ROWS
        size = min(most, deletes.batch, max(1, int(self.rate)) if self.rate else BATCH)
        under_way: deque[tuple[int, pa.RecordBatch, Future[list[str]]]] = deque()
        journal = _Journal(self, piece)
        reached = 0
        with ThreadPoolExecutor(deletes.calls) as pool:
            try:
                for row, batch in self._batches(piece, size):
                    under_way.append((row, batch, pool.submit(self._ask, batch, pace, requests, problems)))
                    reached = row + batch.num_rows
                    if len(under_way) > 2 * deletes.calls:  # each call has another that waits for its place
                        self._settle(under_way, journal)
                    if journal.left:
                        break
                while under_way:
                    self._settle(under_way, journal)
            except BaseException:  # batches that the store has answered go on record all the same
                pool.shutdown(cancel_futures=True)
                try:
                    for row, batch, answer in under_way:
                        if not answer.cancelled() and answer.exception() is None:
                            journal.add(row, batch, answer.result())
                finally:
                    journal.write()
                raise
        journal.write()
        for start, stop in piece.ranges:
            if stop > reached:
                journal.leave(max(start, reached), stop)
        return journal

    def _settle(self, under_way: deque[tuple[int, pa.RecordBatch, Future[list[str]]]], journal: _Journal) -> None:
        """Wait for the oldest batch that is under way, and journal it."""
        row, batch, answer = under_way[0]
        found = answer.result()
        under_way.popleft()
        journal.add(row, batch, found)

    def _batches(self, piece: Piece, size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The piece's rows as batches of a call, each with the number of its first row."""
        at = 0
        for batch in read_part(piece.source.config, piece.source.folder, piece.source.part):
            self._judge(batch)
            for start, stop in piece.ranges:
                for row in range(max(start, at), min(stop, at + batch.num_rows), size):
                    yield row, batch.slice(row - at, min(size, stop - row))
            at += batch.num_rows

    def _judge(self, batch: pa.RecordBatch) -> None:
        cutoff = pa.scalar(datetime.fromtimestamp(self.cutoff, UTC), _MOMENT)
        named = self.namespace.deletable(batch["address"], unknown_names=self.unknown_names)
        fit = pc.and_(named, pc.less(batch["last_modified"], cutoff))
        fit = pc.and_not(fit, pc.is_in(batch["address"], pa.array(self.canaries, pa.string())))
        if not pc.all(fit, skip_nulls=False, min_count=0).as_py():
            raise MarkError(
                "The plan names an object that is not lakeFS's, too young or in use. The plan was altered: make a new "
                "mark."
            )

    def _ask(self, batch: pa.RecordBatch, pace: Pace, requests: Requests, problems: list[str]) -> list[str]:
        """Send one batch. Keys are not sent once the time is up, another collector has the lease, or the requests are
        spent; all are checked before each request, because a machine may sleep and a collector may die in between."""
        proved = float("-inf")

        def may() -> bool:
            nonlocal proved
            if self.now() >= self.until:
                return False
            now = time.monotonic()
            if now - proved >= _PROOF:
                if not self._is_alone():
                    return False
                proved = now
            return True

        gate = Gate(pace, may, requests.take)
        if self.keeping is None:
            return self.conditions.delete(connect(self.data), batch, gate)
        delete = partial(self.conditions.delete, connect(self.data), gate=gate)
        return self.keeping.delete(batch, self.until, self.now, delete, problems)

    def _is_alone(self) -> bool:
        return self.lease is None or self.lease.stands()


class _Journal:
    """Puts outcomes on record, many together; remembers the rows that were not sent (`left`), and counts those that
    were sent and are not gone (`stay`)."""

    def __init__(self, work: Deletion, piece: Piece) -> None:
        self._work = work
        # So that a large piece does not make many more parts than others.
        self._most = max(_JOURNAL, piece.source.part.rows // 8)
        self._asked_before = work.asked_before or piece.asked_before or _is_repeated()
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._written_at = time.monotonic()
        self.left: list[Range] = []
        self.stay = 0

    def add(self, row: int, batch: pa.RecordBatch, outcomes: list[str]) -> None:
        """Add the store's outcomes for the rows of a batch, the first of which is `row`."""
        if len(outcomes) != batch.num_rows:
            raise MarkError("The store answered for another number of keys than were sent.")
        told = pa.array(outcomes, pa.string())
        at = datetime.fromtimestamp(self._work.now(ask=False), UTC)  # nothing may fail before this is on record
        columns = [
            batch["address"],
            batch["size"],
            told,
            pa.repeat(pa.scalar(self._work.attempt, pa.int32()), batch.num_rows),
            pa.repeat(pa.scalar(at, _MOMENT), batch.num_rows),
        ]
        found = pa.RecordBatch.from_arrays(columns, schema=OUTCOMES_SCHEMA)
        if self._asked_before:
            self._waiting.append(_unanswered(found))
        if NOT_ASKED in outcomes:
            for number, outcome in enumerate(outcomes, row):
                if outcome == NOT_ASKED:
                    self.leave(number, number + 1)
            found = found.filter(pc.not_equal(told, NOT_ASKED))
        self.stay += pc.sum(pc.invert(pc.is_in(found["outcome"], _GONE))).as_py() or 0
        self._waiting.append(found)
        self._rows += found.num_rows
        if self._rows >= self._most or time.monotonic() - self._written_at > JOURNAL_EVERY:
            self.write()

    def leave(self, start: int, stop: int) -> None:
        """Remember rows that were not sent, after those that are known already."""
        if self.left and self.left[-1][1] == start:
            start = self.left.pop()[0]
        self.left.append((start, stop))

    def write(self) -> None:
        """Write what waits."""
        self._work.journal.written("", self._waiting, OUTCOMES_SCHEMA)
        self._waiting, self._rows, self._written_at = [], 0, time.monotonic()


def _unanswered(outcomes: pa.RecordBatch) -> pa.RecordBatch:
    """Rows NO_ANSWER for the objects that are already gone. The totals then count them as deleted by this sweep."""
    gone = outcomes.filter(pc.equal(outcomes["outcome"], Outcome.ALREADY_GONE))
    said = pa.repeat(pa.scalar(NO_ANSWER), gone.num_rows)
    return gone.set_column(gone.schema.get_field_index("outcome"), OUTCOMES_SCHEMA.field("outcome"), said)


def _is_repeated() -> bool:
    """True if Spark runs this task once more: the run before may have deleted objects, and died without a record."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


class Wave(NamedTuple):
    """What a wave left of its pieces, and the requests that it sent. `problem`: why one object was not copied; `stay`:
    number of objects that were sent and are not gone."""

    left: list[Piece]
    requests: int
    problem: str | None = None
    stay: int = 0


def run_wave(spark: SparkSession, pieces: Sequence[Piece], work: Deletion, tasks: int | None = None) -> Wave:
    """Delete pieces of a plan on the executors, `tasks` side by side at most, until it is done or time is up. 0 tasks:
    in this process, which is quicker for few objects."""
    # Ask the store before the collector's clock. The time between makes `ahead` too small, so tasks stop too early,
    # never too late.
    reached = earliest(work.data)
    work = replace(work, ahead=reached - clock.now().timestamp())
    here = (each for piece in pieces for each in work.run(piece))
    told = {each["part"]: each for each in (here if tasks == 0 else run_tasks(spark, pieces, work.run, width=tasks))}
    missing = [piece.source.part.name for piece in pieces if piece.source.part.name not in told]
    if missing:
        raise IncompleteError(f"No task tells what became of {missing[0]}. Run the same sweep again; it goes on.")
    found = [(piece, told[piece.source.part.name]) for piece in pieces]
    left = [
        replace(piece, left=tuple((start, stop) for start, stop in each["left"]), asked_before=each["asked"])
        for piece, each in found
        if each["left"]
    ]
    problem = next((each["problem"] for _, each in found if "problem" in each), None)
    requests, stay = (sum(each[name] for _, each in found) for name in ("requests", "stay"))
    return Wave(left, requests, problem, stay)
