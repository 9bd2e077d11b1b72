"""Budgets of sweeps: what is planned, what is left to a later sweep, and that nothing goes beyond them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core import clock
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.stages import swept_report
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep import budget as module
from lakegc_core.sweep import deletion, waves
from lakegc_core.sweep.budget import Budget, Cut, dealt, largest_first
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA, PLAN_SCHEMA, Deletion, Piece, Wave, run_wave
from lakegc_core.sweep.failures import failed_before
from lakegc_core.sweep.result import SweepResult
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Source
from lakegc_core.tables.parts import PartWriter, bytes_of
from tests.support.accounts import DELETES, REFUSES, SILENT, Town, behaving, key
from tests.support.lake import NO_SPARK, NOW, lake, quick, saved
from tests.support.night_stores import MIDWAY, dying
from tests.support.proxy import Answer, Forward, Request, proxy
from tests.support.servers import seaweedfs
from tests.support.swept import ACCEPTED
from tests.support.tasks import run_here
from tests.support.towns import Crash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_a_command_is_given_counts_instead_of_lakegc_yaml_and_the_time_of_day_is_the_next_one() -> None:
    now = datetime(2026, 11, 26, 6, 0, tzinfo=UTC)
    told = BudgetSettings(most_bytes=10, until=time(22, 0))
    assert Budget.of(told, now) == Budget(10, until=datetime(2026, 11, 26, 22, tzinfo=UTC).timestamp())
    given = BudgetSettings(most_objects=5, until=time(6, 0))
    assert Budget.of(told, now, given) == Budget(10, 5, datetime(2026, 11, 27, 6, tzinfo=UTC).timestamp())
    assert not Budget.of(BudgetSettings(), now).is_limited


# --- what is planned ---


def written(folder: DatasetFolder, rows: list[dict[str, Any]]) -> Source:
    writer = PartWriter(folder.config, folder.path, PLAN_SCHEMA, bytes_of)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=PLAN_SCHEMA))
    return Source(folder.config, folder.path, writer.close()[0], "")


def sizes_of(dataset: Dataset) -> dict[str, int]:
    return {row["address"]: row["size"] for batch in dataset.batches() for row in batch.to_pylist()}


SIZES = st.lists(st.integers(0, 9) | st.sampled_from([10**12, 2**40]), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 5), st.none() | st.integers(1, 25) | st.just(2**41), st.none() | st.integers(1, 6))
def test_no_plan_is_beyond_its_budget_the_largest_go_first_and_after_some_calls_all_are_gone(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], width: int, most_bytes: int | None, most: int | None
) -> None:
    """Parts are of neighbouring sizes, as a plan's are. What is larger than the budget is not planned at all."""
    config = LocalConfig(str(tmp_path_factory.mktemp("plan")))
    budget = Budget(most_bytes, most)
    left = {f"data/{number:03}": size for number, size in enumerate(sizes) if size <= (most_bytes or size)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_tasks", run_here)
        for call in count():
            if not left:
                break
            plan, journal = (DatasetFolder(config, f"{call}/{name}") for name in ("plan", "outcomes"))
            rows = [
                {"address": each, "size": left[each], "last_modified": NOW, "etag": None, "since": NOW}
                for each in sorted(left, key=lambda each: -left[each])
            ]
            parts = [written(plan, rows[at : at + width]) for at in range(0, len(rows), width)]
            planned = Dataset(PLAN_SCHEMA, tuple(largest_first(parts)))
            kept = sizes_of(Cut(plan, journal, 1, NOW).within(NO_SPARK, planned, budget))
            over = sizes_of(journal.listed(OUTCOMES_SCHEMA))
            assert kept | over == left and not kept.keys() & over.keys()
            assert 0 < len(kept) <= (most or len(kept)) and sum(kept.values()) <= (most_bytes or sum(kept.values()))
            assert min(kept.values()) >= max(over.values(), default=0)
            left = over


def test_tasks_that_have_runs_of_pieces_begin_with_the_first_ones() -> None:
    assert dealt("abcdefg", 3) == list("adgbecf")
    assert dealt("abc", None) == list("abc") and dealt("", 3) == []


# --- sweeps ---

WEEK = 7 * 24 * 60  # in minutes


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Town]]:
    """Five objects of 10 to 14 bytes that nothing refers to, and their mark `m1`; a call makes the town so again."""
    folder = tmp_path_factory.mktemp("town")
    with lake(folder / "lake") as served, quick(spark):
        found = Town(spark, served, folder / "backup")
        for number in range(5):
            found.litter(number, 10 + number)
        found.mark("m1")
        rewind, minutes = saved(served, "lake"), found.minutes

        def again() -> Town:
            rewind()
            found.minutes = minutes
            return found

        yield again


@pytest.fixture
def town(once: Callable[[], Town]) -> Town:
    """The town right after its mark."""
    return once()


@pytest.fixture
def mark(town: Town) -> MarkContext:
    """Its mark, which nobody has swept."""
    return open_mark(town.lake.open("lake"), "m1")


def sweep(town: Town, mark: MarkContext, **limits: Any) -> SweepResult:
    town.later(1)
    return swept_report(town.spark, mark, accepted=ACCEPTED, budget=Budget(**limits))


def left(town: Town) -> list[int]:
    return [number for number in range(5) if key(number) in town.lying()]


def test_a_sweep_stops_at_its_budget_with_the_largest_gone_and_an_optimized_mark_finds_the_rest(
    town: Town, mark: MarkContext
) -> None:
    found = sweep(town, mark, most_bytes=30)
    assert (found.outcomes["deleted"], found.bytes_deleted, found.planned) == (2, 27, 2)
    assert found.over_budget == {"objects": 3, "bytes": 33} and left(town) == [0, 1, 2]
    again = sweep(town, mark, most_objects=1)
    assert (again.sweep, again.bytes_deleted, left(town)) == (2, 12, [0, 1])
    town.later(60)
    optimized = town.mark("m2", INCREMENTAL)
    assert optimized.mark.facts(ListingFacts).rests_on[0][0] == "m1"
    last = sweep(town, optimized)
    assert (last.outcomes["deleted"], last.over_budget, left(town)) == (2, {}, [])
    assert town.told() == (5, 60)


def test_a_dry_run_says_what_the_budget_leaves_and_how_long_it_takes_once_a_sweep_is_on_record(
    town: Town, mark: MarkContext
) -> None:
    def dry(**limits: Any) -> SweepResult:
        return swept_report(town.spark, mark, accepted=ACCEPTED, dry_run=True, budget=Budget(**limits))

    first = dry(most_objects=2)
    assert (first.planned, first.planned_bytes, first.estimate) == (2, 27, {})
    assert first.over_budget == {"objects": 3, "bytes": 33}
    sweep(town, mark, most_objects=1)
    found = dry(until=clock.now().timestamp()).estimate
    assert found["sweeps"] == 1 and found["seconds"] > found["looks"] > 0 and found["objects_until"] == 0


def test_no_wave_is_sent_from_the_instant_on_and_the_sweep_is_over_with_an_outcome_for_each(
    town: Town, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a wave, each request looks at the time: see test_deletion.py."""
    sent: list[float] = []
    until = clock.now().timestamp() + 90

    def wave(spark: SparkSession, pieces: list[Piece], work: Deletion, tasks: int | None) -> Wave:
        (piece,) = pieces
        sent.append(work.until)
        town.later(1)
        found = run_wave(spark, [replace(piece, left=((0, 2),))], replace(work, until=work.until + 60), tasks)
        return Wave([replace(piece, left=((2, 5),))], found.requests)

    with monkeypatch.context() as patch:
        patch.setattr(waves, "run_wave", wave)
        found = sweep(town, mark, until=until)
    assert (found.outcomes["deleted"], found.planned, found.over_budget["objects"]) == (2, 5, 3)
    assert sent == [until] and len(left(town)) == 3
    assert sweep(town, mark).outcomes["deleted"] == 3 and town.told() == (5, 60)


def test_requests_are_counted_over_all_waves_and_calls_go_on_where_they_were_spent(
    town: Town, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (deletion, waves):
        monkeypatch.setattr(room, "BATCH", 2)
    found = [sweep(town, mark, most_requests=1) for _ in range(3)]
    assert [each.outcomes["deleted"] for each in found] == [2, 2, 1]
    assert [each.over_budget.get("objects", 0) for each in found] == [3, 1, 0]
    assert town.told() == (5, 60) and left(town) == []


def test_a_sweep_that_was_killed_goes_on_with_the_rest_of_its_own_budget(town: Town, mark: MarkContext) -> None:
    with pytest.raises(Crash), dying(MIDWAY):
        sweep(town, mark, most_objects=4)
    assert len(left(town)) == 3
    found = sweep(town, mark)
    assert (found.sweep, found.outcomes["deleted"], found.planned) == (1, 4, 4)
    assert left(town) == [0] and sweep(town, mark).outcomes["deleted"] == 1


@pytest.mark.parametrize("limits", [{"most_objects": 1}, {"until": 0.0}])
def test_a_narrower_budget_of_the_next_call_holds_and_what_went_without_a_record_counts_all_the_same(
    town: Town, mark: MarkContext, limits: dict[str, Any]
) -> None:
    with pytest.raises(Crash), dying(MIDWAY):
        sweep(town, mark)
    for part in (town.lake.files("lake") / mark.mark.folder / "sweeps/1/outcomes").iterdir():
        part.unlink()
    before = len(left(town))
    found = sweep(town, mark, **limits)
    assert before - len(left(town)) <= limits.get("most_objects", 0)
    assert found.outcomes["deleted"] == 5 - len(left(town)) and found.outcomes["over_budget"] == len(left(town))
    assert sweep(town, mark).outcomes["deleted"] == len(left(town)) or not left(town)
    assert town.told() == (5, 60) and left(town) == []


def test_a_delete_without_an_answer_stays_one_when_the_budget_is_spent(
    town: Town, mark: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (deletion, waves):
        monkeypatch.setattr(room, "BATCH", 1)
    with behaving(lambda address: SILENT):
        found = sweep(town, mark, most_requests=2)
    assert (found.outcomes["failed:no_answer"], found.over_budget["objects"]) == (2, 3)
    assert "the budget kept 3 others back" in found.trouble and "sweep again" not in found.trouble
    again = sweep(town, mark, most_objects=1)
    assert (again.outcomes["deleted"], again.over_budget["objects"]) == (3, 2), "the store was asked for the two"
    assert sweep(town, mark).outcomes["deleted"] == 2 and town.told() == (5, 60)


def test_what_earlier_sweeps_failed_to_delete_is_tried_last_and_is_not_hidden_by_the_budget(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two largest are locked, and would fill the budget every night."""
    for room in (deletion, waves):
        monkeypatch.setattr(room, "BATCH", 1)
    locked = {key(3), key(4)}

    def counts(found: SweepResult) -> tuple[int, ...]:
        return tuple(found.outcomes.get(each, 0) for each in ("deleted", "failed:AccessDenied", "over_budget"))

    with behaving(lambda address: REFUSES if address in locked else DELETES):
        assert counts(sweep(town, town.mark("m1"), most_objects=2)) == (0, 2, 3)
        other = town.mark("m2")
        assert counts(sweep(town, other, most_objects=2)) == (2, 2, 1) and left(town) == [0, 3, 4]
        assert counts(sweep(town, other, most_requests=1)) == (1, 2, 0) and left(town) == [3, 4]
        town.later(WEEK - 42)  # after they were tried, the sweeps that only named them were less than a week ago
        assert (found := failed_before(town.spark, other)) is None or found.isEmpty()
        town.later(42 - WEEK)
        assert counts(sweep(town, other, most_objects=2)) == (0, 2, 0), "there is room to try them"
    assert counts(sweep(town, other, most_objects=2)) == (2, 0, 0)


# --- requests, as a real store counts them ---


def test_a_store_that_throttles_gets_no_more_requests_than_there_are_and_a_repeated_task_sends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEGC_NOW", raising=False)  # a real store lives by the machine's clock, not by the town's
    monkeypatch.setattr(deletion, "BATCH", 2)
    addresses = [f"data/{number:021}" for number in range(10)]
    old = datetime(2020, 1, 1, tzinfo=UTC)
    rows = [{"address": each, "size": 1, "last_modified": old, "etag": None, "since": old} for each in addresses]
    artifacts = LocalConfig(str(tmp_path / "artifacts"))
    source = written(DatasetFolder(artifacts, "plan"), rows)
    turns = count()

    def now_and_then(request: Request, forward: Forward) -> Answer:
        if request.method == "POST" and next(turns) % 2:
            return Answer(503, {"Content-Type": "application/xml"}, b"<Error><Code>SlowDown</Code></Error>")
        return forward(request)

    with seaweedfs(tmp_path) as server, proxy(server.endpoint) as between:
        config = server.config("lake", endpoint_url=between.endpoint)
        store = config.connect()
        for each in addresses:
            store.write(each, b"x")
        between.hook = now_and_then
        now = clock.now().timestamp()
        work = Deletion(config, DatasetFolder(artifacts, "o"), 1, Namespace("s3://b/lake"), now, now + 3600, None)

        def sent() -> int:
            return sum(request.method == "POST" for request in between.requests)

        (told,) = work.run(Piece(source, most_requests=3))
        assert told["requests"] == sent() == 3 and 0 < sum(stop - start for start, stop in told["left"]) < 10
        between.hook = lambda request, forward: forward(request)
        with monkeypatch.context() as patch:
            patch.setattr(deletion, "_is_repeated", lambda: True)
            (again,) = work.run(Piece(source, tuple(told["left"]), most_requests=3))
        assert again == told | {"asked": True} and sent() == 3
        (last,) = work.run(Piece(source, tuple(told["left"]), asked_before=True))
        assert last["left"] == [] and last["asked"]
        assert [key for batch in store.list("data/") for key in batch["address"].to_pylist()] == []
