"""Rings: a plan goes in shares that grow, each exactly as large as it may be, also when a sweep breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.config.rings import RingSettings
from lakegc_core.policy.safety import FULL
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep import deletion, rings, waves
from lakegc_core.sweep.deletion import Piece, Range
from lakegc_core.sweep.rings import Rings, divide
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import Part
from tests.interleavings.rig import Lake
from tests.interleavings.rig import lake as a_lake
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("rows", "bounds"),
    [(0, ()), (999, ()), (1_000, (10, 100)), (20_000, (20, 200, 2_000)), (10_000_000, (10_000, 100_000, 1_000_000))],
)
def test_a_first_ring_is_a_thousandth_or_ten_objects_and_a_small_plan_goes_in_one(
    rows: int, bounds: tuple[int, ...]
) -> None:
    found = Rings.of(rows, FULL.rings)
    assert found.bounds == bounds and found.count == len(bounds) + 1
    assert found.room(0) == (bounds[0] if bounds else None) and found.room(rows) is None
    assert [found.number(sent) for sent in (0, *bounds)] == list(range(1, found.count + 1))


RANGES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 900)), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(RANGES, min_size=1, max_size=40), st.none() | st.integers(0, 4_000))
def test_a_ring_takes_as_many_objects_as_it_may_and_the_rest_loses_none(
    layout: list[list[Range]], room: int | None
) -> None:
    pieces = [piece(number, gaps) for number, gaps in enumerate(layout)]
    ring, rest = divide(pieces, room)
    taken, left, every = rows_of(ring), rows_of(rest), rows_of(pieces)
    assert len(taken) == (len(every) if room is None else min(room, len(every)))
    assert taken | left == every and not taken & left
    assert all(each.rows for each in (*ring, *rest))


def test_a_ring_of_ten_is_spread_over_ten_parts_and_a_larger_one_over_parts_of_five_hundred_rows() -> None:
    pieces = [piece(number, [(0, 10_000)]) for number in range(1_000)]
    assert [each.rows for each in divide(pieces, 10)[0]] == [1] * 10
    assert {each.rows for each in divide(pieces, 10_000)[0]} == {500}


def piece(number: int, gaps: list[Range]) -> Piece:
    """What is left of a part: ranges, each after a gap of so many rows."""
    ranges, at = [], 0
    for gap, rows in gaps:
        ranges.append((at + gap, at + gap + rows))
        at += gap + rows
    return Piece(Source(LocalConfig("/nowhere"), "plan", Part(f"part-{number}", at, 1, ""), ""), tuple(ranges))


def rows_of(pieces: list[Piece]) -> set[tuple[str, int]]:
    return {
        (each.source.part.name, row) for each in pieces for start, stop in each.ranges for row in range(start, stop)
    }


# --- sweeps ---

GARBAGE = 40


@pytest.fixture
def lake(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """Forty objects that nothing refers to; a plan of twenty or more goes in three rings, of 10, 10 and 20."""
    monkeypatch.setattr(rings, "SMALL", 20)
    with a_lake(spark, tmp_path_factory.mktemp("rings")) as found:
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        found.policy = {"rings": RingSettings((0.001, 0.5))}
        found.upload("main", "kept/head")
        found.commit("main", days=0)
        for number in range(GARBAGE):
            found.expired(f"dead/{number:02}")
        yield found


def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of objects of the waves from now on."""
    found: list[int] = []

    def counted(spark: Any, pieces: list[Piece], *more: Any) -> Any:
        found.append(sum(each.rows for each in pieces))
        return deletion.run_wave(spark, pieces, *more)

    monkeypatch.setattr(waves, "run_wave", counted)
    return found


def test_a_sound_sweep_deletes_all_ring_by_ring_also_after_a_kill_between_rings(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = lake.stored(), sent(monkeypatch)
    lake.mark("m1")
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(waves, "taken", dying_at(2))
        lake.sweep("m1")
    assert seen == [10, 10] and len(before - lake.stored()) == 20
    found = lake.sweep("m1")
    assert seen == [10, 10, 20] and len(before - lake.stored()) == GARBAGE
    assert (found.outcomes["deleted"], found.planned, found.trouble) == (GARBAGE, GARBAGE, "")
    assert (found.rings["passed"], found.rings["count"], found.rings["gone"]) == (3, 3, {})
    assert lake.reads("main", "kept/head")


def dying_at(call: int) -> Any:
    calls: list[Any] = []

    def taken(*arguments: Any) -> dict[str, str]:
        calls.append(arguments)
        if len(calls) == call:
            raise Crash
        return {}

    return taken
