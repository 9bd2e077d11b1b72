"""What a mark lists although a sweep recorded it as deleted: only what the store still shows, and only once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.inventory import came_back
from lakegc_core.inventory.came_back import SCHEMA, CameBack, find_came_back
from lakegc_core.inventory.carried import OBJECTS_SCHEMA
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import GONE
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import Stage
from lakegc_core.policy.facts import Amount, TakenBack
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.tables.dataset import Dataset
from tests.support.accounts import Town, key
from tests.support.lake import NOW, lake, quick
from tests.support.marks import parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NONE = Dataset(SCHEMA)


@pytest.fixture
def town(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[Town, MarkContext]]:
    """Two objects, and a mark that has listed both."""
    with lake(tmp_path / "lake") as served, quick(spark):
        found = Town(spark, served, tmp_path / "backup")
        found.litter(0, 10)
        found.litter(1, 11)
        yield found, found.mark("m1")


def journal(mark: MarkContext, minutes: float, *outcomes: tuple[int, str]) -> None:
    """Outcomes of the sweep of another mark, so long after the mark began."""
    at = NOW + timedelta(minutes=60 + minutes)
    rows = [{"address": key(each), "size": 9, "outcome": what, "attempt": 1, "at": at} for each, what in outcomes]
    parts(mark, f"{mark.home}/marks/m0/sweeps/1/outcomes", OUTCOMES_SCHEMA, rows)


def found_in(town: Town, mark: MarkContext) -> CameBack:
    return replace(find_came_back(town.spark, mark, all_layers(mark)[0], Dataset(OBJECTS_SCHEMA)), objects=NONE)


def test_what_was_recorded_as_deleted_before_the_listing_came_back(town: tuple[Town, MarkContext]) -> None:
    found, mark = town
    journal(mark, -70, (0, "deleted"), (1, "failed:503"), (2, "deleted"))
    back = (TakenBack("m0", 1, 1, 9),)
    assert found_in(found, mark) == CameBack(NONE, Amount(1, 10), (key(0),), back)


@pytest.mark.parametrize("few", [True, False])
def test_of_all_that_was_ever_deleted_only_what_lies_there_is_written(
    town: tuple[Town, MarkContext], monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    found, mark = town
    journal(mark, -70, *((number, "deleted") for number in range(9)))
    if not few:
        monkeypatch.setattr(came_back, "MOST", 1)
    assert found_in(found, mark).amount == Amount(2, 21)
    written = mark.mark.out(Stage.EXPIRED_ADDRESSES).below("recorded_gone").listed(GONE)
    assert sorted(row["address"] for rows in written.batches() for row in rows.to_pylist()) == [key(0), key(1)]


def test_what_was_deleted_since_the_listing_has_not_come_back_unless_the_store_shows_it(
    town: tuple[Town, MarkContext],
) -> None:
    """Clocks differ: so it is asked where the delete is of the hour before the listing."""
    found, mark = town
    journal(mark, -30, (0, "deleted"), (1, "deleted"))
    found.remove(key(1))
    assert found_in(found, mark).amount == Amount(1, 10)


def test_where_no_sweep_is_on_record_nothing_is_asked(town: tuple[Town, MarkContext]) -> None:
    found, mark = town
    assert found_in(found, mark) == CameBack()


def test_a_journal_that_does_not_read_says_nothing(town: tuple[Town, MarkContext], tmp_path: Path) -> None:
    found, mark = town
    journal(mark, -70, (0, "deleted"))
    (file,) = (tmp_path / "lake").rglob("m0/sweeps/1/outcomes/*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    assert found_in(found, mark) == CameBack()
