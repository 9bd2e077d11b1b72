"""Where garbage comes from: the last path and commit that showed it, and what became of it then."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ScaleSettings
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.names import Stage
from lakegc_core.past.origins import DATASETS
from lakegc_core.past.ranges import LOOKED, ORIGINS
from lakegc_core.policy import causes
from lakegc_core.policy.facts import Amount, Cause, ExpiredFacts, Folder, ListingFacts, OriginFacts
from lakegc_core.stages import swept_report
from lakegc_core.store.base import connect
from lakegc_core.tables.parts import read_part
from lakegc_sandbox import Repository
from tests.support.lake import MIN_AGE, NOW, Lake, lake, quick, saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, HOUR = timedelta(days=1), 3600


@dataclass(frozen=True)
class Marking:
    """A lake with one repository, whose rule is 7 days, and marks of it."""

    spark: SparkSession
    lake: Lake
    repo: Repository

    def mark(self, mark_id: str, *, mode: str = CLEAN, entries: int = 0, policy: Any = None) -> MarkContext:
        """A mark, an hour after the one before."""
        os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + HOUR)
        context = self.lake.open("lake", scale=ScaleSettings(origin_entries=entries))
        context = replace(context, policy=policy or RepositoryPolicy(match="*"))
        mark = begin_mark(context, mark_id, min_age=MIN_AGE, safety_level="none", mode=mode)
        pipeline.mark(self.spark, mark)
        return mark

    def commit(self, branch: str, age: int, **files: bytes | None) -> str:
        """A commit of so many days ago; None deletes a path."""
        addresses = ""
        for name, data in files.items():
            path = name.replace("_", "/")
            if data is None:
                self.repo.delete(branch, path)
            else:
                addresses = self.repo.upload(branch, path, data, age=age * DAY)
        self.repo.commit(branch, "files", date=NOW - age * DAY)
        return addresses


@contextmanager
def marking(spark: SparkSession, folder: Path) -> Iterator[Marking]:
    with lake(folder) as served, quick(spark):
        repo = served.create("lake")
        repo.set_rules(7)
        yield Marking(spark, served, repo)


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Iterator[Marking]:
    """A lake of the test's own."""
    with marking(spark, tmp_path) as found:
        yield found


@dataclass(frozen=True)
class Marked:
    """A lake whose mark `first` found one object, `old`, and `rewind`, which makes the lake again what it was."""

    here: Marking
    old: str
    first: MarkContext
    rewind: Callable[[], None]


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marked]:
    """The mark, made once."""
    with marking(spark, tmp_path_factory.mktemp("origins")) as here:
        old = here.commit("main", 60, a=b"1")
        here.commit("main", 50, a=b"2")
        yield Marked(here, old, here.mark("m1"), saved(here.lake, "lake"))


@pytest.fixture
def marked(once: Marked) -> Marked:
    """The lake right after its mark."""
    once.rewind()
    return once


def rows(mark: MarkContext, dataset: str) -> list[dict[str, Any]]:
    parts, folder = (
        mark.mark.require(Stage.EXPIRED_ADDRESSES).datasets[dataset],
        mark.mark.stage_folder(Stage.EXPIRED_ADDRESSES, dataset),
    )
    return [row for part in parts for batch in read_part(mark.workspace, folder, part) for row in batch.to_pylist()]


def origins(mark: MarkContext) -> dict[str, tuple[str, str, str]]:
    """Path, cause and branch by address."""
    return {row["address"]: (row["path"], row["cause"], row["branch"]) for row in rows(mark, ORIGINS)}


def facts(mark: MarkContext) -> OriginFacts:
    found = mark.mark.facts(ExpiredFacts).origins
    assert found is not None
    return found


def test_what_was_replaced_left_by_a_branch_and_never_committed_is_told_apart(here: Marking) -> None:
    root = here.repo.refs.branches["main"].commit_id
    replaced = here.commit("main", 60, tables_users_a=b"1" * 100)
    here.commit("main", 50, tables_users_a=b"2" * 10)
    here.repo.create_branch("exp", root)
    left = here.commit("exp", 40, runs_7_model=b"3" * 1000)
    assert origins(here.mark("m1")) == {replaced: ("tables/users/a", "replaced", "main")}
    here.repo.delete_branch("exp")
    dropped = here.repo.upload("main", "tmp", b"4" * 5, age=30 * DAY)
    here.repo.delete("main", "tmp")
    mark = here.mark("m2")
    assert origins(mark) == {
        replaced: ("tables/users/a", "replaced", "main"),
        left: ("runs/7/model", "deleted", "exp"),
    }
    assert dropped not in origins(mark)
    gone = int(NOW.timestamp()) + 2 * HOUR
    assert facts(mark) == OriginFacts(
        causes=(Cause("deleted", "exp", gone, 1, 1000), Cause("replaced", "main", None, 1, 100)),
        folders=(Folder("runs/7/", 1, 1000), Folder("tables/users/", 1, 100)),
        found=Amount(2, 1100),
        unread=0,
    )
    said = [(share.words, share.amount.objects) for share in causes.shares(mark.mark.facts(ExpiredFacts))]
    assert said == [
        ("were left by branch exp, which was gone on 31 March 2025", 1),
        ("were replaced or deleted on branch main", 1),
        ("were never committed", 1),
    ]
    verdicts = {verdict.name: verdict.description for verdict in pipeline.review(mark).verdicts}
    assert "would go" in verdicts["blast-radius"]


@pytest.mark.parametrize("dataset", [ORIGINS, LOOKED])
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"damaged")], ids=["gone", "damaged"])
def test_what_an_earlier_mark_found_and_does_not_read_is_looked_for_anew(
    marked: Marked, dataset: str, damage: Callable[[Path], Any]
) -> None:
    here, first = marked.here, marked.first
    (part,) = first.mark.require(Stage.EXPIRED_ADDRESSES).datasets[dataset]
    damage(here.lake.files("lake") / first.mark.stage_folder(Stage.EXPIRED_ADDRESSES, dataset) / part.name)
    assert origins(here.mark("m2")) == {marked.old: ("a", "replaced", "main")}


@pytest.mark.slow
def test_a_mark_reads_the_newest_first_and_later_marks_the_rest(here: Marking) -> None:
    addresses = [here.commit("main", 60 - number, a=b"%d" % number) for number in range(5)]
    found = []
    for number in range(6):
        mark = here.mark(f"m{number}", entries=1)
        found.append(sorted(addresses.index(address) for address in origins(mark)))
        words = [share.words for share in causes.shares(mark.mark.facts(ExpiredFacts))]
        later = "were never committed, or in commits that later marks read"
        assert (later in words) == (len(origins(mark)) < 4)
    assert found == [[3], [2, 3], [1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_file_of_an_old_commit_that_is_gone_or_damaged_stops_no_mark(here: Marking) -> None:
    from lakegc_core.lakefs.files import graveler

    addresses = [here.commit("main", 60 - number, a=b"%d" % number) for number in range(4)]
    metaranges = [here.repo.refs.commits[commit].meta_range_id for commit in here.repo.refs.commits]
    old = [each for each in metaranges if each][:2]
    folder = here.lake.files("lake") / "_lakefs"
    (range_id,) = graveler.read_metarange((folder / old[0]).read_bytes())["range_id"].to_pylist()
    (folder / range_id).write_bytes(b"damaged")
    (folder / old[1]).unlink()
    mark = here.mark("m1")
    assert origins(mark).keys() == {addresses[2]}
    assert mark.mark.facts(ExpiredFacts).expired.objects == 3


def test_what_a_hold_keeps_has_its_past_once_the_hold_is_gone(here: Marking) -> None:
    kept = here.commit("main", 60, legal_a=b"1")
    here.commit("main", 50, legal_a=None, b=b"2")
    held = RepositoryPolicy(match="*", holds=("path:legal/**",))
    assert origins(here.mark("m1", policy=held)) == {kept: ("legal/a", "replaced", "main")}
    mark = here.mark("m2")
    assert origins(mark) == {kept: ("legal/a", "replaced", "main")} and facts(mark).found == Amount(1, 1)


def test_optimized_marks_look_for_what_became_garbage_since(here: Marking) -> None:
    root = here.repo.refs.branches["main"].commit_id
    first = here.commit("main", 60, tables_a=b"1")
    second = here.commit("main", 50, tables_a=b"22")
    here.repo.create_branch("exp", root)
    left = here.commit("exp", 40, runs_model=b"3" * 1000)
    clean = here.mark("m1")
    assert origins(clean) == {first: ("tables/a", "replaced", "main")}
    here.commit("main", 30, tables_a=b"333")
    one = here.mark("m2", mode=INCREMENTAL)
    assert one.mark.facts(ListingFacts).rests_on
    known = {first: ("tables/a", "replaced", "main"), second: ("tables/a", "replaced", "main")}
    assert origins(one) == known
    here.repo.delete_branch("exp")
    two = here.mark("m3", mode=INCREMENTAL)
    assert origins(two) == known | {left: ("runs/model", "deleted", "exp")}
    said = [(share.words, share.amount.objects) for share in causes.shares(two.mark.facts(ExpiredFacts))]
    assert said == [
        ("were left by branch exp, which was gone on 31 March 2025", 1),
        ("were replaced or deleted on branch main", 2),
    ]
    assert origins(here.mark("m4")) == origins(two)


def test_marks_read_no_range_for_paths_twice_note_only_what_they_read_and_carry_on_what_was_found(
    here: Marking,
) -> None:
    for number in range(4):
        here.commit("main", 60 - number, a=b"%d" % number, b=b"same")
    marks = [here.mark("m1")]
    for number in range(2):
        here.commit("main", 50 - number, a=b"%d" % (10 + number))
        marks.append(here.mark(f"o{number}", mode=INCREMENTAL))
    read = [{row["id"] for row in rows(mark, LOOKED)} for mark in marks]
    assert all(read) and sum(map(len, read)) == len(set.union(*read))
    for file in here.lake.files("lake").glob("_lakefs/*"):
        if file.name in set.union(*read):
            file.unlink()  # a second reading of it would find nothing
    last = here.mark("m5", mode=INCREMENTAL)
    assert origins(last) == origins(marks[-1]) and not rows(last, LOOKED)
    again = here.mark("m6")
    assert origins(again) == origins(last) and facts(again) == facts(last)
    assert {row["id"] for row in rows(again, LOOKED)} == set.union(*read)


def test_what_comes_back_after_a_sweep_and_a_mark_has_its_past_again(marked: Marked) -> None:
    here, data = marked.here, connect(marked.first.data).read(marked.old)
    before = origins(marked.first)
    assert swept_report(here.spark, marked.first).outcomes["deleted"] == 1
    assert origins(here.mark("m2")) == {}
    here.repo.files.write(marked.old, data, float(os.environ["LAKEGC_NOW"]))
    for mark_id in ("m3", "m4"):
        assert origins(here.mark(mark_id)) == before


def test_a_mark_that_did_not_look_is_passed_over(marked: Marked) -> None:
    here = marked.here
    private = here.mark("m2", mode=INCREMENTAL, policy=RepositoryPolicy(match="*", origins=False))
    assert private.mark.facts(ExpiredFacts).origins is None and not origins(private)
    assert origins(here.mark("m3", mode=INCREMENTAL)) == {marked.old: ("a", "replaced", "main")}


def test_the_garbage_is_written_as_a_table_with_where_it_was_last_shown(here: Marking) -> None:
    old = here.commit("main", 60, a=b"12345")
    path = 'strange "path",\nwith lines'
    here.repo.upload("main", path, b"1", age=50 * DAY)
    here.repo.commit("main", "a", date=NOW - 50 * DAY)
    strange = here.repo.entry("main", path).address.rpartition("lake/")[2]
    here.repo.delete("main", path)
    here.commit("main", 40, a=None, b=b"")
    never = here.repo.upload("main", "tmp", b"4" * 5, age=30 * DAY)
    here.repo.delete("main", "tmp")
    here.mark("m1")
    mark = here.mark("m2", mode=INCREMENTAL)
    out = io.BytesIO()
    assert pipeline.write_csv(here.spark, mark, out) == 3
    found = {row["address"]: row for row in csv.DictReader(io.StringIO(out.getvalue().decode(), newline=""))}
    assert {address: (row["path"], row["cause"], row["branch"]) for address, row in found.items()} == {
        old: ("a", "replaced", "main"),
        strange: (path, "replaced", "main"),
        never: ("", "", ""),
    }
    assert found[old]["size"] == "5" and found[old]["last_modified"] == "2025-01-30T12:00:00.000Z"
    assert found[old]["by"] in here.repo.refs.commits


def test_where_paths_are_private_no_artifact_has_any(here: Marking) -> None:
    here.commit("main", 60, secret_a=b"1")
    here.commit("main", 50, secret_a=b"2")
    lost = here.commit("main", 1, secret_lost=b"3")
    (here.lake.files("lake") / lost).unlink()
    mark = here.mark("m1", policy=RepositoryPolicy(match="*", origins=False))
    found = mark.mark.facts(ExpiredFacts)
    assert (found.origins, found.missing, found.missing_paths) == (None, 1, ())
    assert not any(mark.mark.require(Stage.EXPIRED_ADDRESSES).datasets[name] for name in DATASETS)
    report = pipeline.review(mark).report
    assert report["origins"] is None and "secret" not in str(report)
