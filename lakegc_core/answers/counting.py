"""Counts objects by the results of a question: rows of objects and of an index meet by the hash of the address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.answers import standing
from lakegc_core.answers.question import HEAD, Question, fields_of
from lakegc_core.names import Json, Reason
from lakegc_core.policy.facts import Amount
from lakegc_core.policy.scenarios import NEVER, Columns, merged
from lakegc_core.spark.tasks import Mapped, begin_task, collected

_OBJECT = [
    standing.SCHEMA.field("hash"),
    *(standing.SCHEMA.field(name).with_nullable(True) for name in ("size", "reason", "staged")),
]
_VIEW = pa.field("view", pa.int32(), nullable=False)
_AMOUNTS = [pa.field("objects", pa.int64(), nullable=False), pa.field("bytes", pa.int64(), nullable=False)]


@dataclass(frozen=True)
class Group:
    """The objects that have the same results in a view of a question, and are kept by the same besides commits:
    `unreferenced` if only commits can keep them."""

    view: tuple[str, ...]
    results: Mapping[str, int]
    reason: Reason
    amount: Amount


def rows_schema(question: Question) -> pa.Schema:
    """Objects, and addresses of ranges with the numbers of a question."""
    return pa.schema([*_OBJECT, *fields_of(question)])


def numbers_in(shape: pa.Schema) -> tuple[str, ...]:
    """The columns of a question in a schema that ends with them."""
    return tuple(name for name in shape.names if name.startswith("number_"))


def grouped(
    question: Question,
    names: Json,
    objects: Mapped,
    numbered: Sequence[Mapped],
    partitions: int,
    *,
    branches_listed: bool,
) -> list[Group]:
    """The objects by their results, in every view. `numbered`: addresses with their numbers. `branches_listed`: the
    mark listed what branches show, so that what is staged has also what heads show."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    shape = rows_schema(question)
    told = objects.then(shape, partial(_unnumbered, shape))
    rows = reduce(DataFrame.unionByName, [each.as_frame() for each in (told, *numbered)])
    width = max(map(len, question.views))
    numbers = [pa.field(f"result_{place}", pa.int32(), nullable=False) for place in range(width)]
    result = pa.schema([_VIEW, standing.SCHEMA.field("reason"), *numbers, *_AMOUNTS])
    counted = _Counted(question, branches_listed, names, shape, result, clock.ambient())
    found = Mapped(rows.repartition(partitions, "hash"), result, counted).as_frame()
    keys = result.names[: -len(_AMOUNTS)]
    groups = found.groupBy(*keys).agg(*(F.sum(each.name).alias(each.name) for each in _AMOUNTS))
    every = []
    for row in collected(groups):
        view = question.views[row["view"]]
        results = {name: row[f"result_{place}"] for place, name in enumerate(view)}
        every.append(Group(view, results, Reason(row["reason"]), Amount(row["objects"], row["bytes"])))
    return every


def _unnumbered(shape: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make rows of objects, to stand beside those of the index."""
    for batch in batches:
        never = pa.repeat(pa.scalar(NEVER, pa.int32()), batch.num_rows)
        own = [batch.column(each.name) for each in _OBJECT]
        yield pa.RecordBatch.from_arrays([*own, *([never] * len(numbers_in(shape)))], schema=shape)


@dataclass(frozen=True)
class _Counted:
    """Counts the objects of a task by their results. All rows of an address are in one task."""

    question: Question
    branches_listed: bool
    names: Json
    shape: pa.Schema
    result: pa.Schema
    clocks: dict[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task(self.clocks)
        every = list(batches)
        if not every:
            return
        rows = pa.Table.from_batches(every).cast(self.shape)
        hashes, groups = np.unique(rows["hash"].to_numpy(), return_inverse=True)
        places = zip(self.question.columns, numbers_in(self.shape), strict=True)
        numbers = merged({name: rows[place].to_numpy() for name, place in places}, groups, len(hashes))
        lying = np.flatnonzero(pc.is_valid(rows["size"]).to_numpy())
        objects, own = rows.take(pa.array(lying)), groups[lying]
        numbers = {name: values[own] for name, values in numbers.items()}
        staged = objects["staged"]
        if self.branches_listed:
            staged = pc.and_(staged, pa.array(numbers[HEAD] == NEVER))
        staged = pc.and_(staged, pc.not_equal(objects["reason"], Reason.FOREIGN))
        reasons = pc.if_else(staged, Reason.STAGED, objects["reason"])
        results = self.question.finish(self.names, numbers)
        for number, view in enumerate(self.question.views):
            yield from self._view(number, view, pa.table({"reason": reasons, "size": objects["size"]}), results)

    def _view(self, number: int, view: tuple[str, ...], objects: pa.Table, results: Columns) -> list[pa.RecordBatch]:
        places = {f"result_{place}": results[name] for place, name in enumerate(view)}
        table = pa.table({"reason": objects["reason"], "size": objects["size"], **places})
        found = table.group_by(["reason", *places]).aggregate([("size", "count"), ("size", "sum")])
        columns = {name: found[name] for name in ("reason", *places)}
        columns |= {"objects": found["size_count"], "bytes": found["size_sum"]}
        unused = pa.repeat(pa.scalar(0, pa.int32()), len(found))
        every = {name: columns.get(name, unused) for name in self.result.names} | {
            _VIEW.name: pa.repeat(pa.scalar(number, pa.int32()), len(found))
        }
        whole: list[pa.RecordBatch] = pa.table(every).cast(self.result).combine_chunks().to_batches()
        return whole
