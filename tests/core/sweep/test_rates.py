"""How long a sweep will take, by the reports of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_core.config.settings import RepositoryPolicy, ScaleSettings
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode
from lakegc_core.names import STAGES, Json
from lakegc_core.store.base import connect
from lakegc_core.sweep.rates import earlier, estimate
from tests.support.lake import NOW, lake
from tests.support.marks import finish


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake")
        found = served.begin("lake", "m1")
        for stage in STAGES:
            finish(found, stage)
        yield found


def report(context: MarkContext, number: int, sent: Json | None, **more: Json) -> None:
    told = {"outcomes": {}, "finished_at": 1.0} | ({} if sent is None else {"sent": sent}) | more
    connect(context.workspace).write(f"{context.mark.folder}/sweeps/{number}/report.json", encode(told))


def test_earlier_sweeps_tell_the_rate_and_the_large_ones_most_of_it(context: MarkContext) -> None:
    assert list(earlier(context)) == [] and estimate(context, 10, 1.0) == {}
    report(context, 1, None)  # by an earlier version
    report(context, 2, {"objects": 0, "requests": 0, "seconds": 0.0})
    report(context, 3, {"objects": 9_000, "requests": 1, "seconds": 80.0})
    report(context, 4, {"objects": 1_000, "requests": 1, "seconds": 20.0})
    report(context, 5, {"objects": "many"})  # cannot be read
    report(context, 6, {"objects": 10, "requests": 1, "seconds": 20.0})  # of few, which tells no rate
    now = NOW.timestamp()
    assert estimate(context, 500, 20.0, now + 22) == {
        "seconds": 45.0,
        "looks": 40.0,
        "objects_a_second": 100.0,
        "sweeps": 2,
        "objects_until": 200,
    }, "a look before and one after, each as long as the dry run"


def test_a_plan_of_nothing_takes_two_looks_whenever_the_budget_ends(context: MarkContext) -> None:
    report(context, 1, {"objects": 9_000, "requests": 1, "seconds": 90.0})
    expected = {"seconds": 40.0, "looks": 40.0, "objects_a_second": 100.0, "sweeps": 1}
    assert estimate(context, 0, 20.0, NOW.timestamp() + 22) == estimate(context, 0, 20.0) == expected


def test_small_sweeps_tell_how_long_a_small_one_takes_and_nothing_of_a_large_one(context: MarkContext) -> None:
    report(context, 1, {"objects": 3, "requests": 1, "seconds": 2.0})
    report(context, 2, {"objects": 30, "requests": 1, "seconds": 4.0})
    assert estimate(context, 300, 10.0) == {"seconds": 24.0, "looks": 20.0, "sweeps": 2}
    assert estimate(context, 300, 10.0, NOW.timestamp() + 12)["objects_until"] == 150
    assert estimate(context, 100_000, 10.0) == {}
    slow = replace(context, settings=replace(context.settings, scale=ScaleSettings(delete_rate=10)))
    assert estimate(slow, 300, 10.0)["seconds"] == 50.0, "no faster than lakegc.yaml allows"


def test_sweeps_that_copied_first_tell_nothing_of_those_that_do_not(context: MarkContext) -> None:
    report(context, 1, {"objects": 1_000, "requests": 1, "seconds": 10.0}, quarantine={})
    report(context, 2, {"objects": 50, "requests": 1, "seconds": 50.0}, quarantine={"age": 60.0, "until": 61.0})
    assert list(earlier(context)) == [(1_000, 10.0)]
    week = RepositoryPolicy(match="*", quarantine=timedelta(days=7))
    assert list(earlier(replace(context, policy=week))) == [(50, 50.0)]
