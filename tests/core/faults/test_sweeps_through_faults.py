"""Sweeps of a store that throttles, breaks off, answers in parts, refuses and stalls: every object is accounted for.

After whatever happened each object has one final outcome, what is on record as gone is gone, nothing live is, and the
next sweep asks for the rest alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lakegc_core.config.settings import ScaleSettings
from lakegc_core.errors import StoreError
from lakegc_core.names import NO_ANSWER, Outcome
from lakegc_core.store import pace
from tests.support.azurite import azurite
from tests.support.npm import NoNetworkError
from tests.support.proxy import Answer, Forward, Hook, Request, answer_lost, cut_off
from tests.support.servers import seaweedfs
from tests.support.store_faults import PROTOCOLS
from tests.support.stormy_lake import PATIENCE, PREFIX, SOON, StormyLake, answering, is_delete, keys_of, stormy_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

XML = {"Content-Type": "application/xml"}
BUSY = PROTOCOLS["seaweedfs"].busy
LOGIN = Answer(200, {"Content-Type": "text/html"}, b"<html><body>Please log in</body></html>")
BROKEN = Answer(200, XML, b"<DeleteResult><Error><Key>data/")
INTERNAL = Answer(500, XML, b"<Error><Code>InternalError</Code></Error>")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StormyLake]:
    folder = tmp_path_factory.mktemp("storm")
    with seaweedfs(folder) as store, stormy_lake(spark, folder, store, garbage=240) as found:
        yield found


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store that throttles is waited for without end; what an earlier sweep has learnt of it is forgotten."""
    monkeypatch.setattr(pace, "PATIENCE", 1e6)
    pace.shared.cache_clear()
    yield
    pace.shared.cache_clear()


def hung_up(request: Request, forward: Forward) -> None:
    """The connection breaks before the server hears of it."""


def refusing(lake: StormyLake, chosen: Callable[[str], bool], code: str) -> Hook:
    """The store deletes the other keys of a batch, and answers with errors for the chosen ones."""

    def hook(request: Request, forward: Forward) -> Answer | None:
        keys = keys_of(request)
        refused = [key for key in keys if chosen(key)]
        outcomes = lake.direct.connect().delete_many([key for key in keys if not chosen(key)])
        assert set(outcomes) <= {"deleted"}
        errors = "".join(f"<Error><Key>{PREFIX}/{key}</Key><Code>{code}</Code></Error>" for key in refused)
        return Answer(200, XML, f"<DeleteResult>{errors}</DeleteResult>".encode())

    return hook


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_through_every_kind_of_fault_accounts_for_all_and_the_next_one_finishes(lake: StormyLake) -> None:
    held = {key for key in lake.dead if key[-2] in "0123"}
    slow = refusing(lake, lambda key: key[-2] in "0123", "SlowDown")
    spoilt = [BUSY, answer_lost, BUSY, hung_up, LOGIN, slow, BUSY, lake.stall, BROKEN, INTERNAL, cut_off, BUSY]
    denied = refusing(lake, held.__contains__, "AccessDenied")
    lake.reset()
    settings, lake.waves = lake.settings, []
    result = lake.sweep(answering(*spoilt, then=denied), batch=20, patience=SOON)
    lake.check(result)
    assert 0 < result.outcomes["failed:AccessDenied"] <= len(held)
    refused = {key for key, outcome in lake.final_outcomes().items() if outcome == "failed:AccessDenied"}
    assert refused <= held and refused & lake.stored(), "what a lost request deleted before may be gone all the same"
    unfinished = {key for key, outcome in lake.final_outcomes().items() if outcome.startswith("failed:")}
    lake.settings = replace(lake.settings, scale=ScaleSettings(delete_parallelism=1, delete_rate=5000))
    again = lake.sweep()
    lake.settings = settings
    lake.check(again, planned=unfinished)
    assert (lake.waves[0], lake.waves[-1]) == ((None, 0), (1, 5000)), "a ceiling is for the tasks that run side by side"
    assert again.sweep == 2 and again.trouble == "" and lake.stored().isdisjoint(lake.dead)


FAULTS: dict[str, Callable[[StormyLake], Hook]] = {
    "a storm that passes": lambda lake: answering(*[BUSY] * 30),
    "answers lost": lambda lake: answering(*[answer_lost] * 12),
    "dropped in the middle of the answer": lambda lake: answering(*[cut_off] * 12),
    "dropped before the server hears of it": lambda lake: answering(*[hung_up] * 12),
    "a page of something else": lambda lake: answering(*[LOGIN] * 12),
    "XML that breaks off": lambda lake: answering(*[BROKEN] * 12),
    "stalls": lambda lake: answering(*[lake.stall] * 6),
    "single keys throttled": lambda lake: answering(*[refusing(lake, lambda key: key[-2] in "02468", "SlowDown")] * 6),
    "internal errors": lambda lake: answering(*[INTERNAL] * 12),
    "nothing but lost answers": lambda lake: answering(then=answer_lost),
    "nothing but a page of something else": lambda lake: answering(then=LOGIN),
}


@pytest.mark.safety
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_sweep_through_one_kind_of_fault_is_finished_by_the_next(lake: StormyLake, fault: str) -> None:
    lake.reset()
    result = lake.sweep(FAULTS[fault](lake), patience=SOON if fault == "stalls" else PATIENCE)
    lake.check(result)
    unfinished = {key for key, outcome in lake.final_outcomes().items() if outcome.startswith("failed:")}
    assert bool(unfinished) == bool(result.failed)
    if fault == "a storm that passes":
        assert not unfinished, "throttling is no failure"
    if fault == "nothing but lost answers":
        assert result.outcomes[NO_ANSWER] == len(lake.dead) and lake.stored().isdisjoint(lake.dead)
    if fault == "nothing but a page of something else":
        assert result.outcomes[Outcome.DELETED] == len(lake.dead), "each key is asked for by itself"
    if unfinished:
        lake.check(lake.sweep(), planned=unfinished)
    assert lake.stored().isdisjoint(lake.dead)


@pytest.mark.safety
@pytest.mark.slow
def test_a_storm_that_does_not_end_fails_by_its_name_and_the_next_sweep_asks_again(
    lake: StormyLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.reset()
    monkeypatch.setattr(pace, "PATIENCE", 0.0)
    result = lake.sweep(answering(then=lambda request, forward: BUSY))
    pace.shared.cache_clear()
    assert result.outcomes["failed:SlowDown"] == len(lake.dead) and lake.stored() >= lake.dead
    lake.check(result)
    again = lake.sweep()
    lake.check(again)
    assert again.trouble == ""


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_whose_journal_cannot_be_written_breaks_off_and_is_taken_up(lake: StormyLake) -> None:
    lake.reset()

    def no_journal(request: Request, forward: Forward) -> Answer | None:
        if request.method == "PUT" and re.search("/outcomes/part-", request.path):
            return Answer(403, XML, b"<Error><Code>AccessDenied</Code></Error>")
        return forward(request)

    with pytest.raises(StoreError, match="AccessDenied"):
        lake.sweep(no_journal)
    assert lake.final_outcomes() == {} and lake.stored().isdisjoint(lake.dead)
    result = lake.sweep()
    lake.check(result)
    assert result.sweep == 1 and result.trouble == ""


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_whose_lease_cannot_be_read_any_more_stops_before_the_next_call(lake: StormyLake) -> None:
    """Without proof that it is alone, a task sends nothing."""
    lake.reset()
    reads = 0

    def no_lease(request: Request, forward: Forward) -> Answer | None:
        nonlocal reads
        if request.method == "GET" and request.path.endswith("lease.json"):
            reads += 1
            if reads > 4:
                return Answer(403, XML, b"<Error><Code>AccessDenied</Code></Error>")
        return forward(request)

    first = len(lake.proxy.requests)
    with pytest.raises(StoreError, match="AccessDenied"):
        lake.sweep(no_lease)
    sent = sum(is_delete(request) for request in lake.proxy.requests[first:])
    assert 0 < sent <= 4
    done = lake.final_outcomes()
    assert len(done) == 40 * sent, "what was done is on record"
    result = lake.sweep()
    lake.check(result)
    assert lake.stored().isdisjoint(lake.dead)


@pytest.mark.safety
@pytest.mark.slow
def test_a_sweep_of_azure_through_a_storm_and_lost_answers(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("azure")
    busy = PROTOCOLS["azurite"].busy
    try:
        with azurite(folder) as store, stormy_lake(spark, folder, store, garbage=120) as lake:
            result = lake.sweep(answering(busy, busy, answer_lost, cut_off, busy, hung_up, LOGIN), batch=20)
            lake.check(result)
            unfinished = {key for key, outcome in lake.final_outcomes().items() if outcome.startswith("failed:")}
            if unfinished:
                lake.check(lake.sweep(), planned=unfinished)
            assert lake.stored().isdisjoint(lake.dead)
    except NoNetworkError as error:
        pytest.skip(str(error))
