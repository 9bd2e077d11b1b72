"""Which class of candidates lakeFS is asked about first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.references.shown.classes import (
    EVERY,
    HAD_ITS_TURN,
    SIZES,
    of_waited,
    ranked,
    sum_classes,
    that_wait,
)
from lakegc_core.spark.tasks import Few, Mapped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ranks(*rows: tuple[int, int, int]) -> list[int]:
    """The ranks of classes of (size, bytes in all, waited)."""
    columns = {
        "size": [size for size, _, _ in rows],
        "objects": [1] * len(rows),
        "bytes": [whole for _, whole, _ in rows],
    }
    waited = pa.array([int(waited) for _, _, waited in rows], pa.int32())
    (batch,) = ranked(iter(pa.table({**columns, "waited": waited}).to_batches()))
    assert batch.schema == SIZES
    found: list[int] = batch.column(SIZES.names[-1]).to_pylist()
    return found


def in_order(*rows: tuple[int, int, int]) -> bool:
    found = ranks(*rows)
    return found == sorted(found) and len(set(found)) == len(found)


def test_what_waited_comes_first_then_what_frees_most_and_empty_objects_last() -> None:
    assert in_order((8, 1, True), (16, 1 << 60, False), (24, 1 << 20, False), (32, 2, False), (0, 0, False))
    assert in_order((8, 1 << 30, True), (16, 1 << 20, True), (24, 1 << 30, False))


def test_what_waited_longest_comes_first_however_little_it_frees() -> None:
    assert in_order((8, 1, 50_000), (16, 1 << 20, 3), (24, 1 << 30, 2), (32, 1 << 60, 1), (40, 1 << 62, 0))


def test_each_class_has_its_turn_where_the_budget_is_for_few() -> None:
    sizes, waited, asked = range(8, 88, 8), dict.fromkeys(range(8, 88, 8), 0), dict.fromkeys(range(8, 88, 8), 0)
    for _ in range(60):
        order = dict(zip(sizes, ranks(*((size, 1 << (20 + size // 8), waited[size]) for size in sizes)), strict=True))
        turn = sorted(sizes, key=lambda size: order[size])[:3]
        asked = {size: asked[size] + (size in turn) for size in sizes}
        waited = {size: 0 if size in turn else waited[size] + 1 for size in sizes}
    assert min(asked.values()) >= 15, asked


def test_a_class_that_an_earlier_version_left_has_waited_once() -> None:
    old = pa.record_batch({"size": [8, 16]})
    assert list(of_waited(old)["waited"]) == [1, 1]
    new = pa.record_batch({"size": [8, 16, 24], "waited": pa.array([0, 4, HAD_ITS_TURN], pa.int32())})
    assert list(of_waited(new)["waited"]) == [1, 5, 0], "what was asked about begins to wait anew"


def test_empty_objects_that_have_waited_come_first_of_all_or_a_budget_that_is_always_spent_never_gets_to_them() -> None:
    assert in_order((0, 0, True), (8, (1 << 63) - 1, True), (16, 1 << 60, False))


def test_no_class_has_the_rank_of_entries_that_are_alike_to_all() -> None:
    every = [
        (size, whole, waited) for size in (0, 1, 7, 1 << 62) for whole in (0, 1, (1 << 63) - 1) for waited in (0, 1)
    ]
    assert min(ranks(*((size, whole, bool(waited)) for size, whole, waited in every))) > EVERY


def test_classes_of_like_bytes_are_told_apart_by_their_sizes_so_that_a_budget_can_end_between_them() -> None:
    assert len(set(ranks(*((size, 1 << 20, False) for size in range(8, 16))))) == 8


def test_what_was_left_out_or_not_come_to_waits_and_what_is_too_dear_has_had_its_turn(quick: SparkSession) -> None:
    rows = [{"size": rank, "objects": 1, "bytes": rank, "waited": 5, "rank": rank} for rank in (1, 2, 3, 4)]
    classes = Mapped(Few(quick, lambda: iter(pa.Table.from_pylist(rows, SIZES).to_batches())), SIZES)
    found = [row for batch in that_wait(classes, 2, [1], [1, 4]).here() for row in batch.to_pylist()]
    assert {row["rank"]: row["waited"] for row in found} == {1: HAD_ITS_TURN, 3: 5, 4: HAD_ITS_TURN}


def test_totals_are_of_all_classes_and_zero_of_none() -> None:
    table = pa.table({"objects": [2, 3], "bytes": [10, 1 << 40]})
    assert sum_classes(table) == {"objects": 5, "bytes": 10 + (1 << 40)}
    assert sum_classes(table.slice(0, 0)) == {"objects": 0, "bytes": 0}
