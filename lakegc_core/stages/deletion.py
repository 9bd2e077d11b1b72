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
from lakegc_core.namespace import Namespace
from lakegc_core.spark import Json
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, PartWriter, read_part

PLAN_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string(), nullable=True),
        pa.field("since", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
OUTCOMES_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),  # the last attempt's outcome is the final one
    ]
)

BATCH = 1000
_IN_FLIGHT = 4
_JOURNAL = 4 * BATCH * _IN_FLIGHT  # outcomes that a killed task may have to ask for again


@dataclass(frozen=True)
class Deletion:
    """Deletes plan parts; a picklable value that tasks carry. `until`: unix seconds up to which the look is valid."""

    data: StoreConfig
    artifacts: StoreConfig
    plan_folder: str
    journal: str
    attempt: int
    namespace: Namespace
    cutoff: float
    until: float

    def run(self, part: Part) -> Iterator[Json]:
        """Delete one part of the plan, batch by batch; stops without error when the look runs out."""
        group: list[pa.RecordBatch] = []
        rows = 0
        for batch in read_part(self.artifacts, self.plan_folder, part):
            self._judge(batch)
            for start in range(0, batch.num_rows, BATCH):
                group.append(batch.slice(start, BATCH))
                rows += group[-1].num_rows
                if rows >= _JOURNAL:
                    if not self._delete(group):
                        return
                    group, rows = [], 0
        if group:
            self._delete(group)
        yield {"swept": part.name}

    def _judge(self, batch: pa.RecordBatch) -> None:
        cutoff = pa.scalar(datetime.fromtimestamp(self.cutoff, UTC), pa.timestamp("us", tz="UTC"))
        fit = pc.and_(self.namespace.collectable(batch["address"]), pc.less(batch["last_modified"], cutoff))
        if not pc.all(fit).as_py():
            raise MarkError(
                "The plan names an object that is not lakeFS's or too young. It was altered: make a new mark."
            )

    def _delete(self, group: list[pa.RecordBatch]) -> bool:
        """Delete and journal a group of batches; False when the look has run out before the first."""
        if clock.now().timestamp() >= self.until:
            return False
        store = connect(self.data)
        keys = [batch["address"].to_pylist() for batch in group]
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            outcomes = list(pool.map(store.delete_many, keys))
        journal = PartWriter(self.artifacts, self.journal, OUTCOMES_SCHEMA)
        for batch, found in zip(group, outcomes, strict=True):
            if len(found) != batch.num_rows:
                raise MarkError("The store answered for another number of keys than were sent.")
            columns = [batch["address"], batch["size"], pa.array(found, pa.string())]
            attempts = pa.array([self.attempt] * batch.num_rows, pa.int32())
            journal.write(pa.RecordBatch.from_arrays([*columns, attempts], schema=OUTCOMES_SCHEMA))
        journal.close()
        return True
