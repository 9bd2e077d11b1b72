"""Copies objects from one store to another under the same keys, and never over something different.

A copy counts only after the target was asked for it: its size must be the source's, and its digest too where both
stores vouch for one.
`backup` decides which objects are copied, and why. `carry_out` also journals for `undo`, which copies nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import LakegcError, ObjectNotFoundError, StoreError
from lakegc_core.marks.backups import ALREADY_THERE, COPIED
from lakegc_core.names import Json
from lakegc_core.spark.session import run_on_rows
from lakegc_core.store.base import ObjectInfo, Store, StoreConfig, connect, head_if_there
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter, part_results, parts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MISSING = "missing"  # not in the source
DIFFERENT = "different"  # something else lies at the target: left alone
FAILED = "failed"

SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("etag", pa.string(), nullable=True),  # of the source
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("problem", pa.string(), nullable=True),
    ]
)
_IN_MEMORY = 16 << 20  # bytes of an object between two stores that stay out of a temporary file
_PROBLEMS_A_TASK = 5


@dataclass(frozen=True)
class Limits:
    """Limits of a copy: copies at a time a task, and bytes a second a task between stores (0: no limit)."""

    parallel: int = 8
    bandwidth: int = 0


@dataclass(frozen=True)
class Copied:
    """The result of a copy: its journal (SCHEMA), objects and bytes by outcome, and some of the problems."""

    journal: Dataset
    objects: dict[str, int]
    bytes: dict[str, int]
    problems: list[Json]


def copy_objects(
    objects: DataFrame,
    source: StoreConfig,
    target: StoreConfig,
    journal: DatasetFolder,
    limits: Limits,
    *,
    may_be_gone: bool = False,
) -> Copied:
    """Copy `objects` (columns address, size) on the executors, and write the outcomes (SCHEMA) to the folder `journal`.

    What is at the target already and the same is not copied again, so that a broken copy is simply run once more.
    `may_be_gone`: a copy of the size asked for is `already_there` also if the source holds the object no longer.
    """
    work = _Transfer(source, target, limits, may_be_gone)
    return carry_out(objects.select("address", "size"), work.copy, journal, limits.parallel)


def carry_out(objects: DataFrame, one: Callable[[Json], Json], journal: DatasetFolder, parallel: int) -> Copied:
    """Do `one` to each row of `objects` on the executors, `parallel` at a time in each task. It returns the row's
    outcome (SCHEMA), which goes to the folder `journal`."""
    results = run_on_rows(objects, _Journalled(one, journal, parallel).run)
    parts = parts_of(results, [FAILED])[FAILED]
    counted: dict[str, dict[str, int]] = {"objects": {}, "bytes": {}}
    for part in parts:
        for name, value in part.sums.items():
            outcome, _, kind = name.partition(":")
            counted[kind][outcome] = counted[kind].get(outcome, 0) + value
    problems = [each["problem"] for each in results if "problem" in each]
    return Copied(journal.dataset("", parts, SCHEMA), counted["objects"], counted["bytes"], problems[:20])


@dataclass(frozen=True)
class _Journalled:
    """Does `one` to the rows of a partition, and journals what came of each."""

    one: Callable[[Json], Json]
    journal: DatasetFolder
    parallel: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        writer = PartWriter(self.journal.config, self.journal.path, SCHEMA, _count)
        told = 0
        with ThreadPoolExecutor(self.parallel) as pool:
            for batch in batches:
                rows = list(pool.map(self.one, batch.to_pylist()))
                writer.write(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
                for row in rows:
                    if row["problem"] and told < _PROBLEMS_A_TASK:
                        told += 1
                        yield {"problem": {name: row[name] for name in ("address", "outcome", "problem")}}
        yield from part_results(FAILED, writer.close())


@dataclass(frozen=True)
class _Transfer:
    """Copies objects, one at a time."""

    source: StoreConfig
    target: StoreConfig
    limits: Limits
    may_be_gone: bool = False

    def copy(self, wanted: Json) -> Json:
        """Copy one object. `wanted`: address, and size as the mark listed it."""
        row: Json = {**wanted, "etag": None, "outcome": FAILED, "problem": None}
        address: str = wanted["address"]
        source, target = connect(self.source), connect(self.target)
        try:
            found = source.head(address)
            row |= {"size": found.size, "etag": found.etag}
            there = head_if_there(target, address)
            if there is not None:
                same = _same(found, there)
                problem = None if same else f"{there.size:,} bytes lie there, not the {found.size:,} of the source"
                return row | {"outcome": ALREADY_THERE if same else DIFFERENT, "problem": problem}
            if target.copy(self.source, address, address) is None:
                self._carry(source, target, found)
            if not _same(found, target.head(address)):
                raise StoreError(f"the copy in {self.target.root} is not what {self.source.root} holds")
        except ObjectNotFoundError:
            return row | self._lacking(target, address, wanted["size"])
        except LakegcError as error:
            return row | {"problem": str(error)[:500]}
        return row | {"outcome": COPIED}

    def _lacking(self, target: Store, address: str, size: int) -> Json:
        """The outcome of an object that the source does not hold."""
        if self.may_be_gone:
            try:
                there = head_if_there(target, address)
            except LakegcError as error:
                return {"problem": str(error)[:500]}
            if there is not None and there.size == size:
                return {"outcome": ALREADY_THERE}
        return {"outcome": MISSING, "problem": f"{self.source.root} does not hold it"}

    def _carry(self, source: Store, target: Store, found: ObjectInfo) -> None:
        """Between stores that cannot copy from each other: down and up again."""
        began = time.monotonic()
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            source.download(found.address, file)
            file.seek(0)
            target.upload(found.address, file)
        if self.limits.bandwidth:
            least = found.size * self.limits.parallel / self.limits.bandwidth
            time.sleep(max(0.0, least - (time.monotonic() - began)))


def _same(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Equal as far as the stores prove: an ETag proves nothing, however much it looks like an MD5 (SSE-KMS)."""
    if one.size != other.size:
        return False
    digests = {each.digest for each in (one, other) if each.digest}
    return len(digests) < 2


def _count(table: pa.Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in table.group_by("outcome").aggregate([("size", "sum"), ("size", "count")]).to_pylist():
        found[f"{row['outcome']}:objects"] = row["size_count"]
        found[f"{row['outcome']}:bytes"] = row["size_sum"]
    return found
