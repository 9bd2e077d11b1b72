"""The waves of a sweep: executors whose clocks are hours wrong, and a sweep that gets nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import IncompleteError
from lakegc_core.marks.context import MarkContext
from lakegc_core.spark.session import run_tasks
from lakegc_core.stages.swept_report import deletion, planning, spinning, waves
from lakegc_core.stages.swept_report import stage as swept_report
from lakegc_core.stages.swept_report.deletion import Piece
from lakegc_core.stages.swept_report.result import SweepResult
from tests.support.lake import NOW, Lake, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCEPTED = {"blast-radius": "half of a test's repository is garbage"}
HOUR = 3600.0


class Swept:
    """A mark with three objects to delete; `waves` and `looks` count what its sweep takes."""

    def __init__(self, spark: SparkSession, found: Lake, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.lake, self.patch = spark, found, patch
        repository = found.create("lake")
        repository.set_rules(7)
        self.garbage = [leave(repository, f"data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii54909{n}0", 30) for n in range(3)]
        self.context: MarkContext = found.begin("lake", "m1")
        pipeline.mark(spark, self.context)
        self.waves = self.looks = 0
        take_look = swept_report.take_look

        def look(*arguments: Any) -> Any:
            self.looks += 1
            return take_look(*arguments)

        for module in (planning, swept_report):
            patch.setattr(module, "take_look", look)

    def sweep(self) -> SweepResult:
        return swept_report.swept_report(self.spark, self.context, accepted=ACCEPTED)

    def left(self) -> list[str]:
        return [key for key in self.garbage if (self.lake.files("lake") / key).exists()]

    def each_wave(self, wave: Callable[..., list[Piece]]) -> None:
        """Replace what sends a wave."""

        def counted(*arguments: Any) -> list[Piece]:
            self.waves += 1
            return wave(*arguments)

        self.patch.setattr(waves, "run_wave", counted)


@pytest.fixture
def swept(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swept]:
    with lake(tmp_path) as found, quick(spark):
        yield Swept(spark, found, monkeypatch)


@pytest.mark.parametrize("ahead", [-2 * HOUR, 2 * HOUR])
def test_a_sweep_on_executors_whose_clocks_are_two_hours_wrong_takes_one_wave(swept: Swept, ahead: float) -> None:
    there = str(NOW.timestamp() + ahead)

    def elsewhere(spark: SparkSession, items: Any, task: Any, **options: Any) -> list[Any]:
        def on_the_executor(item: Any) -> Iterator[Any]:
            os.environ["LAKEGC_NOW"] = there  # the next task takes over the driver's again
            yield from task(item)

        return run_tasks(spark, items, on_the_executor, **options)

    swept.patch.setattr(deletion, "run_tasks", elsewhere)
    swept.each_wave(deletion.run_wave)
    assert swept.sweep().outcomes["deleted"] == 3
    assert (swept.left(), swept.waves, swept.looks) == ([], 1, 2)


def test_waves_that_delete_nothing_end_the_sweep_with_an_error(swept: Swept) -> None:
    swept.each_wave(lambda spark, pieces, work, tasks: list(pieces))
    with pytest.raises(IncompleteError, match=r"5 waves of deletes in a row deleted nothing.* 3 objects are left"):
        swept.sweep()
    assert swept.waves == spinning.MOST
    assert len(swept.left()) == 3


def test_the_next_sweep_goes_on_where_one_that_got_nowhere_stopped(swept: Swept) -> None:
    with swept.patch.context() as patch:
        patch.setattr(waves, "run_wave", lambda spark, pieces, work, tasks: list(pieces))
        with pytest.raises(IncompleteError, match="lakegc sweep lake m1"):
            swept.sweep()
    assert swept.sweep().outcomes["deleted"] == 3
    assert swept.left() == []


def test_looks_that_lead_to_nothing_end_the_sweep_with_an_error(swept: Swept) -> None:
    swept.patch.setattr(waves.Waves, "_came_back", lambda *arguments: True)
    with pytest.raises(IncompleteError, match=r"5 looks in a row led to nothing.* 3 objects are left"):
        swept.sweep()
    assert swept.looks == spinning.MOST
    assert len(swept.left()) == 3


def test_a_wave_that_deletes_something_begins_the_count_anew(swept: Swept) -> None:
    def one_row_every_other_time(spark: Any, pieces: list[Piece], work: Any, tasks: Any) -> list[Piece]:
        if swept.waves % 3:
            return list(pieces)
        (start, stop), *more = pieces[0].ranges
        first = Piece(pieces[0].part, ((start, start + 1),))
        assert deletion.run_wave(spark, [first], work, tasks) == []
        left = tuple(each for each in ((start + 1, stop), *more) if each[0] < each[1])
        return [*([Piece(pieces[0].part, left)] if left else []), *pieces[1:]]

    swept.each_wave(one_row_every_other_time)
    assert swept.sweep().outcomes["deleted"] == 3
    assert swept.waves == 9 > spinning.MOST
