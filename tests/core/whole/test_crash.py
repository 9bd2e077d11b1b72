"""A collector may die anywhere. Start it again: nothing is forgotten, nothing half-done is believed, all sums agree.

Here the store dies, under the real stages in this process, and a few collectors are really killed; a kill at every
step is in `test_kills`, for which there is more time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import IncompleteError, MarkError, RefusedError
from lakegc_core.names import NO_ANSWER
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.tables.parts import PartWriter
from tests.support import crash_lake
from tests.support.crash_lake import ARTIFACTS, LATER, MARK, Lake, dies, killed
from tests.support.crashing import AFTER, BEFORE, EVERYWHERE
from tests.support.policies import role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTS = 60  # more than there are kinds of steps

SLOW = (pytest.mark.slow, pytest.mark.safety)


@pytest.fixture(scope="module")
def now() -> Iterator[Callable[[], float]]:
    """The present of collector and sandbox, which stands still; `forward` moves it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAKEGC_UNSAFE", "yes")
        environment.setenv("LAKEGC_NOW", str(time.time()))
        yield lambda: float(environment_now())


def environment_now() -> str:
    return os.environ.get("LAKEGC_NOW", str(time.time()))


@pytest.fixture(scope="module")
def marked(spark: SparkSession, now: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake, kept as it was at first (`fresh`) and with its mark (`marked`)."""
    with crash_lake.lake(spark, tmp_path_factory.mktemp("crash"), clock=now) as lake:
        lake.keep("fresh")
        lake.mark()
        lake.keep("marked")
        yield lake


@pytest.fixture
def fresh(marked: Lake) -> Lake:
    """The lake without a mark."""
    marked.bring_back("fresh")
    return marked


@pytest.fixture
def swept(marked: Lake) -> Iterator[Lake]:
    """The lake with its mark, to be swept."""
    marked.bring_back("marked")
    yield marked
    marked.repository.refs.branches.pop("revived", None)


def forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much later that the lease of who died in this process, which runs on, is free."""
    monkeypatch.setenv("LAKEGC_NOW", str(float(environment_now()) + LATER))


def test_a_mark_that_dies_after_each_of_its_steps_in_turn_is_right_in_the_end(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, script = fresh.stored(), fresh.script(EVERYWHERE)
    for _ in range(STARTS):
        stood = fresh.finished_stages()
        with role("s3-mark.json"):
            died = dies(fresh.mark, script)
        assert stood.items() <= fresh.finished_stages().items(), "a stage whose manifest stood was done again"
        if not died:
            break
        forward(monkeypatch)
    assert not died
    fresh.check_mark(before)
    assert len(script.died_at()) >= 20, script.died_at()
    for stage in fresh.finished_stages():
        assert script.happened().count(f"{stage}/manifest.json") == 1
        assert script.happened().count(f"{stage}/part") > 1, "died between its first part and its manifest"


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_that_dies_after_each_of_its_steps_in_turn_is_right_in_the_end(
    swept: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, right, readable, script = swept.stored(), swept.garbage(), swept.readable(), swept.script(EVERYWHERE)
    results: list[Any] = []
    monkeypatch.setattr("lakegc_core.sweep.planning._ROWS_A_PART", 4)
    for _ in range(STARTS):
        told = swept.final_outcomes()
        with role("s3-sweep.json"):
            died = dies(lambda script: results.append(swept.sweep(script)), script)
        assert told.items() <= swept.final_outcomes().items(), "what was on record was done again"
        if not died:
            break
        forward(monkeypatch)
    assert not died
    assert swept.readable() == readable
    assert before.keys() - swept.stored().keys() == right
    assert len(script.died_at()) >= 18, script.died_at()
    # The report was written before the last deaths, and who starts again finds nothing left to do.
    assert results[-1].planned == 0 and results[-1].trouble == ""
    swept.check_swept(before, right)
    assert set(swept.final_outcomes().values()) <= {"deleted", "already_gone"}


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        # A plan is sealed, and lakeFS's own report of it is half written.
        pytest.param("unified/summary.json", BEFORE, marks=SLOW),
        ("delete objects", AFTER),  # objects gone of which no journal knows
        pytest.param("sweep/outcomes/part", AFTER, marks=SLOW),  # some deleted, some not, all on record
        # All deleted, and not looked again yet.
        pytest.param("sweep/later attempt/look/uncommitted/part", BEFORE, marks=SLOW),
    ],
)
def test_what_comes_back_to_life_while_a_sweep_is_dead_is_rescued_or_called_lost(
    swept: Lake, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    """None of what the dead sweep deleted passes for rescued, with or without a record of its delete."""
    monkeypatch.setattr("lakegc_core.sweep.planning._ROWS_A_PART", 4)
    before, right = swept.stored(), swept.garbage()
    assert dies(swept.sweep, swept.script(step, moment=moment))
    gone = before.keys() - swept.stored().keys()
    swept.revive()
    forward(monkeypatch)
    result = swept.sweep()
    back = right & {entry.address for _, entry in swept.repository.objects("revived")}
    outcomes = swept.final_outcomes()
    assert len(back) == 12
    assert {address for address, outcome in outcomes.items() if outcome == "lost"} == back & gone
    assert {address for address, outcome in outcomes.items() if outcome == "rescued"} == back - gone
    assert back - gone <= swept.stored().keys(), "what was live when the sweep went on is there"
    assert result.lost == len(back & gone) and ("restore them" in result.trouble) == bool(back & gone)
    swept.check_swept(before, right, result)
    assert swept.sweep().trouble == result.trouble, "a retry, which has nothing left to do, is no good news"


def journal(lake: Lake, rows: list[dict[str, Any]]) -> None:
    """Write a part of the journal by hand."""
    folder = f"{ARTIFACTS}/marks/{MARK}/sweeps/1/outcomes"
    writer = PartWriter(LocalConfig(str(lake.root)), folder, OUTCOMES_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=OUTCOMES_SCHEMA))
    writer.close()


def test_an_object_whose_delete_was_never_answered_does_not_pass_for_rescued_in_the_next_sweep(
    swept: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, right = swept.stored(), swept.garbage()
    assert dies(swept.sweep, swept.script("sweep/report.json"))
    rows = [row | {"outcome": NO_ANSWER} for row in swept.journal()]
    for file in swept.artifact("sweeps/1/outcomes").iterdir():
        file.unlink()
    journal(swept, rows)  # as if every answer had been lost
    swept.artifact("sweeps/1/report.json").write_text("{}")
    swept.revive()
    forward(monkeypatch)
    back = right & {entry.address for _, entry in swept.repository.objects("revived")}
    result = swept.sweep()
    assert result.sweep == 2 and before.keys() - swept.stored().keys() == right
    assert {name: count for name, count in result.outcomes.items() if count} == {"lost": 12, "deleted": 5}
    assert result.bytes_deleted == sum(before[address] for address in right - back)


def test_of_two_outcomes_of_one_attempt_the_delete_counts_and_a_planned_object_without_any_is_an_error(
    spark: SparkSession, swept: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, right = swept.stored(), swept.garbage()
    assert dies(swept.sweep, swept.script("sweep/report.json"))
    rows = swept.journal()
    journal(swept, [row | {"outcome": "already_gone"} for row in rows])  # as a task would that ran twice
    record = SweepRecord(spark, swept.begin(), dry_run=False)
    totals = record.totals()
    assert (totals.outcomes["deleted"], totals.outcomes["already_gone"]) == (len(right), 0)
    assert totals.bytes_deleted == sum(before[address] for address in right)
    assert record.check_sums(totals) == len(right)
    for file in swept.artifact("sweeps/1/outcomes").iterdir():
        file.unlink()
    journal(swept, [*rows[1:], *(row | {"address": f"data/another-{row['address'][-8:]}"} for row in rows)])
    with pytest.raises(IncompleteError, match=f"1 of {len(right)} planned objects have no outcome"):
        record.check_sums(record.totals())


def test_a_sweep_that_guards_stop_half_way_does_not_say_that_nothing_was_deleted(
    swept: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dies(swept.sweep, swept.script("sweep/outcomes/part", moment=AFTER))
    monkeypatch.setenv("LAKEGC_NOW", str(float(environment_now()) + 40_000 * 86_400))  # the mark is too old by far
    with pytest.raises(RefusedError, match=r"a sweep of it broke off. Nothing more was deleted.\n  mark-age: "):
        swept.sweep()


# --- real kills: the command, its JVM and its workers ---


@pytest.fixture
def real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Victims live by the machine's clock."""
    monkeypatch.delenv("LAKEGC_NOW")


@pytest.mark.safety
@pytest.mark.slow
def test_a_mark_killed_within_a_stage_is_finished_by_the_next_start(fresh: Lake, real_time: None) -> None:
    before, script = fresh.stored(), fresh.script("committed_addresses/ranges/part", moment=AFTER)
    killed(fresh.marking(script), script)
    stood = fresh.finished_stages()
    assert len(stood) == 3
    fresh.mark()  # at once: the killed one was of this machine, so that it is known to be dead
    assert stood.items() <= fresh.finished_stages().items()
    fresh.check_mark(before)


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_killed_between_a_delete_and_its_record_is_finished_by_the_next_start(
    swept: Lake, real_time: None
) -> None:
    before, right, script = swept.stored(), swept.garbage(), swept.script("delete objects", moment=AFTER, number=4)
    killed(swept.sweeping(script), script)
    gone = before.keys() - swept.stored().keys()
    assert {row["address"] for row in swept.journal()} < gone <= right
    swept.check_swept(before, right, swept.sweep())
    assert before.keys() - swept.stored().keys() == right


def test_a_sweep_that_broke_off_is_closed_without_deleting_more_however_old_its_mark_is(
    spark: SparkSession, swept: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of it is on record, some was deleted by a task that never told, the rest is still there."""
    monkeypatch.setattr("lakegc_core.sweep.planning._ROWS_A_PART", 4)
    before, right = swept.stored(), swept.garbage()
    assert dies(swept.sweep, swept.script("delete objects", moment=AFTER))
    stored = swept.stored()
    gone = before.keys() - stored.keys()
    assert gone and gone < right
    monkeypatch.setenv("LAKEGC_NOW", str(float(environment_now()) + 40_000 * 86_400))
    with pytest.raises(RefusedError, match=f"lakegc sweep {swept.repository.name} {MARK} --close"):
        swept.sweep()
    result = close_sweep(spark, swept.begin())
    assert swept.stored() == stored, "nothing more is deleted"
    found = {name: count for name, count in result.outcomes.items() if count}
    assert found == {"deleted": len(gone), "left": len(right - gone)}
    assert result.bytes_deleted == sum(before[address] for address in gone) and result.trouble == ""
    with pytest.raises(MarkError, match="nothing to close"):
        close_sweep(spark, swept.begin())
