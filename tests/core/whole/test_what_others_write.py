"""What users of lakeFS may write stops no repository: marks and sweeps go on over the worst of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import RefusedError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.sweeps import is_accepted
from lakegc_core.names import Outcome, Stage
from lakegc_core.policy.facts import ExpiredFacts, ListingFacts
from lakegc_core.references.ranges.range_files import RANGES
from lakegc_core.sweep.look import Look
from lakegc_sandbox.files import graveler_writer
from lakegc_sandbox.files.graveler_writer import RangeInfo, Table
from lakegc_sandbox.files.names import Names
from tests.support.lake import NOW, Lake, lake, leave, quick
from tests.support.replays import rows
from tests.support.true_time import nights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE = "data/gk5b63g7lm5ii54909u0"
ODD = ("data/./slice/id", "data//slice/id", "data/../slice/id", f"data/{'n' * 300}/id", "data/id/", "data/\x01\u2028")
MUCH = {"blast-radius": "a small repository"}
NONE = ""  # of a link that gave no address: it names no object


@pytest.fixture
def served(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path, clock=lambda: float(os.environ["LAKEGC_NOW"])) as found, quick(spark):
        found.create("lake").set_rules(7)
        yield found


def marked(spark: SparkSession, served: Lake, day: int) -> MarkContext:
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 86_400 * day)  # until the lake ends
    mark = served.begin("lake", f"m{day}", mode=INCREMENTAL)
    pipeline.mark(spark, mark)
    return mark


@pytest.mark.parametrize("committed", [False, True])
def test_no_address_that_a_user_stages_or_commits_stops_marks_and_sweeps(
    spark: SparkSession, tmp_path: Path, committed: bool
) -> None:
    """At level full. A person accepts once that what they name is gone, and needs no second word for it."""
    with nights(spark, tmp_path) as found:
        repository = found.repository
        found.litter(1)
        found.mark("m0", INCREMENTAL)
        entry = dict(repository.objects("main"))["live/0"]
        for number, address in enumerate(ODD):
            repository.stage_entry("main", f"odd/{number}", replace(entry, address=address))
        for number, address in enumerate((NONE, "ftp://x/y", "nonsense")):
            repository.stage("main", f"odd/linked-{number}", address, size=5, checksum="c" * 32)
        if committed:
            repository.stage_entry("main", "", entry)  # an import of the marker `dir/` commits such a path
            repository.commit("main", "=HYPERLINK(1)\x1b[31m")
        for day in (1, 2):
            found.at(day)
            found.litter(1)
            found.mark(f"m{day}", INCREMENTAL)
            facts = found.context(f"m{day}").mark
            assert facts.facts(ListingFacts).rests_on, "an optimized mark"
            assert facts.facts(ExpiredFacts).missing == len(ODD)
            if day == 1:
                with pytest.raises(RefusedError, match="live-in-listing"):
                    found.sweep("m1", MUCH)
                with pytest.MonkeyPatch.context() as patch, pytest.raises(RefusedError, match="no answer"):
                    patch.setattr(Look, "heads_moved", _fails)
                    found.sweep("m1", MUCH | {"live-in-listing": "given up"})
                mark = found.context("m1").mark
                assert not is_accepted(mark, "live-in-listing"), "a word counts once its sweep has looked"
            accepted = MUCH | ({"live-in-listing": "given up"} if day == 1 else {})
            assert found.sweep(f"m{day}", accepted).outcomes[Outcome.DELETED] == 1
        found.at(3)
        address = dict(repository.objects("main"))["live/1"].address
        (found.files / address[address.index("data/") :]).unlink()
        found.mark("m3", CLEAN)
        with pytest.raises(RefusedError, match=f"live-in-listing: {len(ODD) + 1} live .* A person gave up {len(ODD)} "):
            found.sweep("m3", MUCH)


def test_what_a_person_gives_up_where_nothing_is_to_sweep_needs_no_second_word(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A quiet repository: its first garbage comes a night after the word, and is swept without another one."""
    with nights(spark, tmp_path) as found:
        found.mark("m0", INCREMENTAL)
        address = dict(found.repository.objects("main"))["live/1"].address
        (found.files / address[address.index("data/") :]).unlink()
        found.at(1)
        found.mark("m1", CLEAN)
        assert found.context("m1").mark.facts(ExpiredFacts).expired.objects == 0
        with pytest.raises(RefusedError, match="live-in-listing"):
            found.sweep("m1", {})
        assert found.sweep("m1", {"live-in-listing": "given up"}).outcomes[Outcome.DELETED] == 0
        for day in (2, 3, 4):
            found.at(day)
            found.litter(1)
            found.mark(f"m{day}", INCREMENTAL)
        assert found.sweep("m4", MUCH).outcomes[Outcome.DELETED] > 0


def _fails(*arguments: object) -> bool:
    raise RefusedError("no answer")


def described_by_clients(patch: pytest.MonkeyPatch) -> None:
    """Every other metarange describes its ranges as a client did before 1.0 that knew ASCII and could not count."""
    write, written = graveler_writer.write_metarange, [0]

    def wrongly(info: RangeInfo) -> RangeInfo:
        first, last = (key.decode("ascii", "replace").encode() for key in (info.min_key, info.max_key))
        return replace(info, min_key=first, max_key=last, count=info.count * 3)

    def described(ranges: Iterable[RangeInfo], entity: str | None = None) -> Table:
        written[0] += entity is None
        wrong = entity is None and written[0] % 2 == 1
        return write(map(wrongly, ranges) if wrong else ranges, entity)

    patch.setattr(graveler_writer, "write_metarange", described)


def test_no_range_that_a_client_described_wrongly_stops_marks_and_sweeps_or_hides_what_is_held(
    spark: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    described_by_clients(monkeypatch)
    served = replace(served, policies=(RepositoryPolicy("lake", holds=("path:3/é/**",)),))
    repository = served.sandbox.repository("lake")
    paths = [f"{number}/{letter}/x" for number in range(5) for letter in "aéü"]
    old, new = (NOW - timedelta(days=days) for days in (60, 30))
    first = {path: repository.upload("main", path, b"old", age=timedelta(days=60)) for path in paths}
    repository.commit("main", "old", date=old)
    now = {path: repository.upload("main", path, b"now!", age=timedelta(days=30)) for path in paths[3:]}
    repository.commit("main", "new", date=new)
    for day in range(3):
        mark = marked(spark, served, day)
        for row in rows(mark, Stage.COMMITTED_ADDRESSES, RANGES):
            assert row["count"] == len(
                graveler.read_range((served.files("lake") / "_lakefs" / row["range_id"]).read_bytes())
            )
        assert bool(mark.mark.facts(ListingFacts).rests_on) == (day > 0), "an optimized mark after the first"
        assert pipeline.sweep(spark, mark).outcomes[Outcome.DELETED] == (0 if day else len(now) - 1)
        repository.upload("main", f"{day}/new é", b"new")
        repository.commit("main", f"another {day}")
    there = {path for path, address in first.items() if (served.files("lake") / address).exists()}
    assert there == {*paths[:3], "3/é/x"}
    assert all((served.files("lake") / address).exists() for address in now.values())


@pytest.mark.parametrize("there", [False, True])
def test_what_was_given_out_after_a_mark_had_listed_is_asked_for_at_the_next_one(
    spark: SparkSession, served: Lake, there: bool
) -> None:
    """A client may link an upload in an old slice, of which no optimized mark makes a new listing."""
    repository = served.sandbox.repository("lake")
    repository.set_rules(1)
    leave(repository, f"{SLICE}/ca5b63g7lm5ii5490900", 30)
    repository.upload("main", "sound", b"sound", age=timedelta(days=9))
    repository.commit("main", "sound")
    marked(spark, served, 0)
    late = f"{SLICE}/{Names(1).xid(int(NOW.timestamp()) + 86_400 + 60)}"
    entry = dict(repository.objects("main"))["sound"]
    repository.stage_entry("main", "late", replace(entry, address=late))
    repository.commit("main", "linked during the mark", date=NOW + timedelta(days=1))
    assert marked(spark, served, 1).mark.facts(ExpiredFacts).missing == 0, "it may just not be listed yet"
    if there:
        leave(repository, late, -1)
    second = marked(spark, served, 2).mark
    assert second.facts(ListingFacts).rests_on and second.facts(ExpiredFacts).missing == (not there)
    repository.delete("main", "late")
    repository.commit("main", "no longer", date=NOW + timedelta(days=2))
    third = marked(spark, served, 5)
    assert third.mark.facts(ListingFacts).rests_on, "an optimized mark"
    assert (late in set(pipeline.expired_of(third))) == there
