"""Traps that need a repository of their own: without rules, under another prefix, beside another, by another clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.names import STAGES
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.guards import BY_NAME, Verdict
from lakegc_core.policy.safety import FULL
from lakegc_core.references.commits.retained import find_retained
from lakegc_core.stages import namespace_listing
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Layout
from tests.support.facts import whole_facts
from tests.support.lake import NO_SPARK, NOW, Lake, lake, leave, quick
from tests.support.replays import KEEP_ALL, environment, rows
from tests.support.servers import rclone_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def fast(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark):
        yield spark


@dataclass(frozen=True)
class Odd:
    """A mark of a repository without rules whose metadata lies where data does."""

    context: MarkContext
    replaced: str
    garbage: str
    expired: list[str]


@pytest.fixture(scope="module")
def odd(fast: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    with lake(tmp_path_factory.mktemp("odd"), layout=Layout(range_modulus=3, prefix="data/meta")) as served:
        repository = served.create("odd")
        replaced = repository.upload("main", "a", b"first", age=timedelta(days=90))
        repository.commit("main", "first", date=NOW - timedelta(days=90))
        repository.upload("main", "a", b"second", age=timedelta(days=80))
        repository.commit("main", "second", date=NOW - timedelta(days=80))
        garbage = leave(repository, "data/left-behind-000000000", 20)
        for key in ("1" * 64, "dummy", "refs_manifest.json"):
            leave(repository, f"data/meta/{key}", 90)
        context = served.begin("odd", "m1", rules=KEEP_ALL)
        pipeline.mark(fast, context)
        yield Odd(context, replaced, garbage, list(pipeline.expired_of(context)))


def judged(context: MarkContext, guard: str) -> Verdict:
    """What a guard says of a mark whose listing stands, if the other stages find nothing."""
    listing = context.mark.require("namespace_listing")
    found = {stage: replace(listing, facts=whole_facts(stage)) for stage in STAGES} | {"namespace_listing": listing}
    evidence = Evidence(context.header, found, FULL, context.header.started_at)
    return BY_NAME[guard].evaluate(evidence)


def test_t11_without_rules_no_committed_object_expires(odd: Odd) -> None:
    facts = odd.context.mark.require("retention_commits").facts
    assert facts["rules"] is None
    assert facts["retained"] == facts["known"] == 3
    assert odd.replaced not in odd.expired
    assert odd.expired == [odd.garbage]
    careful = replace(odd.context, header=replace(odd.context.header, rules="required"))
    with pytest.raises(RefusedError, match=f"--rules {KEEP_ALL}"):
        find_retained(NO_SPARK, careful, "here", former=None)


def test_t40_under_another_prefix_ranges_are_found_and_never_candidates(odd: Odd) -> None:
    """The worst prefix there is: below data/, where every name might be collected."""
    assert odd.context.header.block_prefix == "data/meta"
    assert odd.context.mark.require("committed_addresses").facts["entries"] == 2
    assert odd.expired == [odd.garbage]
    assert not [row for row in rows(odd.context, "namespace_listing") if "/meta/" in row["address"]]


@pytest.fixture
def found(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as served:
        yield served


def test_t24_a_repository_inside_another_or_on_the_same_place_stops_both(fast: SparkSession, found: Lake) -> None:
    found.create("outer")
    found.create("inner", "s3://bucket/outer/data/inner")
    found.create("twin", "s3://bucket/outer/")
    found.create("outer2")
    for name, others in (("outer", "inner, twin"), ("inner", "outer, twin")):
        context = found.begin(name, "m1")
        namespace_listing(fast, context)
        verdict = judged(context, "namespace")
        assert verdict.stops
        assert f"that of {others}:" in verdict.description
        assert not BY_NAME["namespace"].may_be_accepted
    context = found.begin("outer2", "m1")
    namespace_listing(fast, context)
    assert judged(context, "namespace").passed


def test_t31_a_collector_whose_clock_is_ahead_of_the_stores_is_stopped(fast: SparkSession, tmp_path: Path) -> None:
    """By the collector's clock an upload of 23 hours ago would be old enough, and its client may still link it."""
    ahead = 2 * 3600
    with rclone_s3(tmp_path / "store") as server, lake(tmp_path / "lake", clock=time.time) as served:
        config = server.config("ns")
        served.sandbox.create_repository("far", "s3://far/ns", store=config)
        opened = replace(served.open("far"), data=config, workspace=LocalConfig(str(tmp_path / "marks")))
        began = time.time()
        with environment({"LAKEGC_NOW": str(began + ahead)}):  # which stands still
            context = begin_mark(opened, "m1")
            namespace_listing(fast, context)
        skew = context.mark.require("namespace_listing").facts["clock_skew"]
        assert -2 <= skew + ahead <= time.time() - began + 2
        assert judged(context, "clocks").stops
