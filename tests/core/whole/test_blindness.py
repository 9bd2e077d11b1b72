"""Marks and looks are made blind, each in one way: nothing is deleted, and the table says what stops it.

Nobody asks branches what they show: that would find most of the objects. A row that is stopped by a guard, or by a
check of the look, comes to no canary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.errors import LakegcError
from lakegc_core.judging import subtraction
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.elsewhere import ELSEWHERE_SCHEMA
from lakegc_core.policy import safety
from lakegc_core.references.of_neighbours import KEYS_SCHEMA
from lakegc_core.references.ranges.held_paths import HeldByPath
from lakegc_core.references.ranges.range_files import ENTRIES_SCHEMA
from lakegc_core.sweep import look, planning
from lakegc_core.tables import key_scan
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import flagged
from lakegc_core.tables.key_scan import Wanted
from tests.core.sweep.test_canaries import no_branches, no_commits_that_are_kept_for, replaced
from tests.interleavings.rig import Lake, without_guards
from tests.interleavings.rig import lake as a_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = "far"
DUMP = "/repositories/lake/gc/prepare_uncommited"
Blind = Callable[[pytest.MonkeyPatch, Lake], object]
Prepare = Callable[[Lake], object]
MARK = r"Commit \w+ counts \({}\), and lakeFS shows .*the mark is blind, and fails"
SWEEP = r"would be deleted \({}\)\. Mark or look is blind"


@dataclass(frozen=True)
class Way:
    """One way to be blind. `told`: what the error says; `prepare`: what the lake needs for it before its mark; `at`:
    from when on it is blind."""

    blind: Blind
    told: str
    prepare: Prepare = lambda lake: None
    at: str = "sweep"


@pytest.fixture
def lake(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """An object on a head, one that a tag alone shows, a staged one, and one of garbage."""
    level = replace(safety.LEVELS["none"], samples=20, clock_skew=safety.FULL.clock_skew)
    monkeypatch.setitem(safety.LEVELS, "none", level)
    without_guards("heads-and-tags", "known-heads", "shrink")(monkeypatch)
    with a_lake(spark, tmp_path_factory.mktemp("blind")) as found:
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        found.upload("main", "head")
        found.commit("main", days=0)
        found.repository.tag("release", found.expired("tagged"))
        found.upload("work", "staged")
        found.forgotten(found.content())
        yield found


def answers(lake: Lake, path: str, *answer: Any) -> None:
    """The server answers so to requests of a path."""
    lake.server.fault = lambda method, asked, query: answer if asked.endswith(path) else None


def dump_is_empty(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    answers(lake, DUMP, 201, {"run_id": "g0", "continuation_token": "", "gc_uncommitted_location": ""})


def dump_of_another_repository(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    found = lake.open(FAR).client.prepare_uncommitted(FAR)
    place = {"run_id": found.run_id, "continuation_token": "", "gc_uncommitted_location": found.locations[0]}
    answers(lake, DUMP, 201, place)


def another_repository(lake: Lake) -> None:
    """It has imported an object of this one, and is marked; an object of its own is staged."""
    content = lake.content()
    address = lake.repository.place.qualify(lake.forgotten(content))
    other = lake.sandbox.create_repository(FAR, f"s3://{FAR}", age=timedelta(days=99))
    other.set_rules(7)
    other.import_objects("main", {"imported": (address, len(content))})
    other.upload("main", "own", lake.content(), age=timedelta(days=9))
    lake.wait(hours=1)
    lake.mark("n1", name=FAR)


def hold_by_path(lake: Lake) -> None:
    lake.holds.append("path:legal/**")
    lake.expired("legal/a")


def nothing_is_held(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    none = HeldByPath(Dataset(ENTRIES_SCHEMA), Dataset(ELSEWHERE_SCHEMA), ())
    patch.setattr(look, "held_by_path", lambda *arguments: none)


def no_neighbours(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    read = look.read_references
    patch.setattr(look, "read_references", lambda *arguments: replace(read(*arguments), keys=Dataset(KEYS_SCHEMA)))


def no_hash_twice_the_same(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    count, hash_strings = itertools.count(1), key_scan.hash_strings
    patch.setattr(key_scan, "hash_strings", lambda texts: hash_strings(texts) ^ next(count))


def mark_finds_no_hash(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    scan = subtraction.scan

    def finding_nothing(spark: Any, feeds: Any, schema: Any, wanted: Wanted, **options: Any) -> Any:
        return scan(spark, feeds, schema, Wanted(()), **options)

    patch.setattr(subtraction, "scan", finding_nothing)


def look_finds_no_hash(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    patch.setattr(planning, "flagged", lambda spark, rows, name, wanted: flagged(spark, rows, name, Wanted(())))


def clock_is_ahead(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    lake.ahead = timedelta(days=2).total_seconds()
    lake.wait()


def another_server(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    ask = LakeFSClient.repository
    patch.setattr(
        LakeFSClient,
        "repository",
        lambda client, name: replace(found := ask(client, name), creation_date=found.creation_date + 1),
    )


def forgets(*reasons: str) -> Blind:
    return lambda patch, lake: no_commits_that_are_kept_for(*reasons)(patch)


def look_reads_no_commits(patch: pytest.MonkeyPatch, lake: Lake) -> None:
    patch.setattr(look.Reads, "read", lambda *arguments, **named: Dataset(ENTRIES_SCHEMA))


WAYS: Mapping[str, Way] = {
    "the dump is empty": Way(dump_is_empty, SWEEP.format("staged")),
    "the look reads no commits": Way(look_reads_no_commits, SWEEP.format("new")),
    "the look forgets heads": Way(forgets("head:main"), SWEEP.format("new")),
    "the look finds no hash": Way(look_finds_no_hash, SWEEP.format("staged")),
    "holds by path are dropped": Way(nothing_is_held, SWEEP.format("held path"), hold_by_path),
    "neighbours' marks are not read": Way(no_neighbours, SWEEP.format("neighbour"), another_repository),
    "the mark forgets heads": Way(forgets("head:main", "rules"), MARK.format("branch"), at="mark"),
    "the mark forgets tags": Way(forgets("tag:release"), MARK.format("tag"), at="mark"),
    "no hash is twice the same in the mark": Way(no_hash_twice_the_same, MARK.format("(branch|tag)"), at="mark"),
    "the mark finds no hash": Way(mark_finds_no_hash, MARK.format("(branch|tag)"), at="mark"),
    "the dump is another repository's": Way(
        dump_of_another_repository, "which is not below s3://lake. What it wrote cannot be read", another_repository
    ),
    "the clock is ahead": Way(clock_is_ahead, "clocks: "),
    "lakeFS is another server": Way(another_server, "is not the one that was marked"),
}
QUICK = ("holds by path are dropped", "the mark forgets heads", "no hash is twice the same in the mark")


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, id=name, marks=() if name in QUICK else pytest.mark.slow) for name, way in WAYS.items()],
)
def test_who_is_blind_deletes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    way.prepare(lake)
    lake.wait(hours=1)
    no_branches(monkeypatch)
    if way.at == "sweep":
        lake.mark("m1")
        replaced(lake)
    before = lake.stored()
    way.blind(monkeypatch, lake)
    with pytest.raises(LakegcError, match=way.told):
        if way.at == "mark":
            lake.mark("m1")
            lake.wait(hours=2)
        lake.sweep("m1")
    assert lake.stored() == before
