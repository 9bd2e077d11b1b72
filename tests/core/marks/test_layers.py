"""What an optimized mark rests on, what makes it a clean one, and that a damaged mark below is never believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakegc_core
from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import CorruptFileError, MarkError
from lakegc_core.inventory import carried as inventory
from lakegc_core.marks import layers
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL, MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.layers import Basis, all_layers, choose, is_little, will_be_little
from lakegc_core.marks.sweeps import STOPPED
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.references.ranges.range_files import INDEX
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_sandbox import Repository
from tests.support.crowded import large_index
from tests.support.lake import NOW, Lake, lake, quick
from tests.support.old_marks import DAY, START, write_mark
from tests.support.units import layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

At = Callable[..., MarkContext]


@pytest.fixture(scope="module")
def marked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Repository, Path]]:
    """A repository with a clean mark and, a day later, an optimized one."""
    with lake(tmp_path_factory.mktemp("layers")) as served, quick(spark), pytest.MonkeyPatch.context() as patch:
        repository = served.create("lake")
        repository.set_rules(7)
        for number in range(6):
            repository.upload("main", f"old/{number}", bytes(number), age=timedelta(days=40))
        repository.commit("main", "old", date=NOW - timedelta(days=40))
        repository.create_branch("side", "main")
        repository.upload("side", "aside", b"aside", age=timedelta(days=40))
        repository.commit("side", "aside", date=NOW - timedelta(days=40))
        repository.upload("main", "forgotten", b"forgotten", age=timedelta(days=30))
        repository.delete("main", "forgotten")
        pipeline.mark(spark, served.begin("lake", "m0"))
        repository.upload("main", "new", b"new", age=timedelta(days=2))
        repository.commit("main", "new", date=NOW)
        patch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=1)).timestamp()))
        pipeline.mark(spark, served.begin("lake", "m1"))
        yield served, repository, served.files("lake") / "_lakefs/retention/gc/lakegc/marks"


@pytest.fixture
def begin(marked: tuple[Lake, Repository, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[At]:
    """Begins a mark on a day from NOW; afterwards the marks are what they were."""
    served, _, home = marked
    shutil.copytree(home, tmp_path / "marks")

    def mark(day: float = 2, mark_id: str = "next", **options: object) -> MarkContext:
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=day)).timestamp()))
        return served.begin("lake", mark_id, **options)

    yield mark
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "marks", home)


def ids(basis: Basis) -> list[str]:
    return [layer.mark_id for layer in basis.layers]


def a_part(home: Path, mark_id: str, stage: str, dataset: str = "") -> Path:
    return next((home / mark_id / stage / dataset).glob("part-*"))


def test_a_mark_rests_on_those_before_it_and_finds_the_same_garbage(
    marked: tuple[Lake, Repository, Path], begin: At, spark: SparkSession
) -> None:
    assert ids(choose(begin())) == ["m1", "m0"]
    first, second = (begin(mark_id=name).mark.require(STAGES[0]).facts for name in ("m0", "m1"))
    assert not first["rests_on"] and "the first of its kind" in first["why_clean"]
    assert [name for name, _ in second["rests_on"]] == ["m0"] and second["units_listed"] < second["units"]
    found = {name: list(pipeline.expired_of(begin(mark_id=name))) for name in ("m0", "m1")}
    assert found["m0"] == found["m1"] and len(found["m0"]) == 1


def test_of_a_large_index_the_rows_that_count_are_put_down_first_and_the_same_is_found(
    begin: At, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, put_down, put = {}, list[str](), DatasetFolder.put

    def noted(folder: DatasetFolder, name: str, *more: Any) -> Dataset:
        put_down.append(name)
        return put(folder, name, *more)

    monkeypatch.setattr(DatasetFolder, "put", noted)
    for day, name, way in ((2, "next-small", nullcontext), (3, "next-large", large_index)):
        context = begin(day, name, mode=INCREMENTAL)
        with way():
            pipeline.mark(spark, context)
        found[name] = sorted(pipeline.expired_of(context))
        assert context.mark.require(STAGES[0]).facts["rests_on"], "an optimized mark"
        assert put_down.count("indexed") == (name == "next-large")
    assert found["next-small"] == found["next-large"] == sorted(pipeline.expired_of(begin(mark_id="m1")))


def test_a_clean_mark_is_made_when_asked_for_and_when_it_is_due(begin: At) -> None:
    assert choose(begin(mode=CLEAN)) == Basis((), "asked for")
    context = begin(mark_id="other")
    weekly = replace(context, policy=RepositoryPolicy("*", clean_every=2))
    assert "2 marks rest on one another" in choose(weekly).why_clean
    wanted = replace(weekly, header=replace(context.header, mode=INCREMENTAL))
    assert ids(choose(wanted)) == ["m1", "m0"], "asked for, although a clean one is due"


def test_where_every_mark_is_to_be_a_clean_one_that_is_the_reason(
    marked: tuple[Lake, Repository, Path], begin: At
) -> None:
    context = begin()
    shutil.rmtree(marked[2] / "m1")
    nightly = replace(context, policy=RepositoryPolicy("*", clean_every=1))
    assert choose(nightly).why_clean == "every mark is to be a clean one (clean_every: 1)"


def test_whether_a_mark_will_be_little_work_is_told_before_spark_is_started(
    marked: tuple[Lake, Repository, Path], begin: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = begin(mark_id="other", mode=CLEAN)
    assert will_be_little(clean), "of few objects"
    monkeypatch.setattr(layers, "LITTLE", 7)
    assert not will_be_little(clean), "of many"
    shutil.rmtree(marked[2] / "other")
    context = begin()
    assert will_be_little(context), "it rests on others"
    weekly = replace(context, policy=RepositoryPolicy("*", clean_every=2))
    assert not will_be_little(weekly)
    assert will_be_little(replace(weekly, header=replace(context.header, mode=INCREMENTAL)))
    seal = marked[2] / "m1" / STAGES[4] / "manifest.json"
    whole = seal.read_text()
    seal.write_text(whole[:-9])
    assert not will_be_little(context), "a mark that cannot be read"
    seal.unlink()
    assert not will_be_little(context), "a mark that did not come to its end"
    for mark_id in ("m0", "m1"):
        shutil.rmtree(marked[2] / mark_id)
    assert not will_be_little(context), "no mark at all"


def test_a_sweep_is_little_work_where_the_mark_listed_little(begin: At, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = begin(mark_id="m1").mark
    listed = mark.facts(ListingFacts).objects
    monkeypatch.setattr(layers, "LITTLE", listed)
    assert is_little(mark)
    monkeypatch.setattr(layers, "LITTLE", listed - 1)
    assert not is_little(mark)


def test_another_version_another_place_and_another_repository_are_not_rested_on(begin: At) -> None:
    context = begin()
    for other in ({"version": "0.0.0"}, {"block_prefix": "meta"}, {"repository_created": 1}, {"allow_list": 0}):
        assert choose(replace(context, header=replace(context.header, **other))).why_clean, other
    assert context.header.version == lakegc_core.__version__


def test_a_mark_of_another_series_made_since_makes_the_next_one_a_clean_one(
    marked: tuple[Lake, Repository, Path], begin: At
) -> None:
    """Journals since an older mark may be retired: they are kept for what goes on from the newest one."""
    context = begin()
    day = ((NOW + timedelta(days=1.5)).timestamp() - START) / DAY
    write_mark(MarkArtifacts(context.workspace, "m2", context.home), day, stages=1)
    assert ids(choose(context)) == ["m1", "m0"], "it asked lakeFS for nothing"
    shutil.rmtree(marked[2] / "m2")
    write_mark(MarkArtifacts(context.workspace, "m2", context.home), day)
    assert choose(context).why_clean == "mark m2 asked lakeFS after mark m1 had read"


def test_objects_that_were_restored_since_make_the_next_mark_a_clean_one(
    marked: tuple[Lake, Repository, Path], begin: At
) -> None:
    folder = marked[2] / "m0/restores" / (NOW + timedelta(days=1, hours=2)).strftime("%Y%m%dT%H%M%S%f")
    folder.mkdir(parents=True)
    (folder / "begun.json").write_text("{}")
    assert "objects of mark m0 were restored since" in choose(begin()).why_clean


def test_no_mark_rests_on_one_whose_sweep_a_ring_stopped(marked: tuple[Lake, Repository, Path], begin: At) -> None:
    folder = marked[2] / "m0/sweeps/1"
    folder.mkdir(parents=True)
    (folder / STOPPED).write_bytes(encode(sealed({"gone": {"main/a": "data/1"}})))
    assert "a ring stopped a sweep of mark m0" in choose(begin()).why_clean


@pytest.mark.parametrize("name", ["copy of 20250331T120000000000", "20250331", "99999999T999999999999"])
def test_a_folder_among_the_restores_that_is_none_is_passed_over(
    marked: tuple[Lake, Repository, Path], begin: At, name: str
) -> None:
    (marked[2] / "m0/restores" / name).mkdir(parents=True)
    assert choose(begin()).why_clean == ""


def test_a_mark_that_began_to_ask_and_did_not_end_makes_the_next_one_clean(
    marked: tuple[Lake, Repository, Path], begin: At
) -> None:
    shutil.rmtree(marked[2] / "m1" / STAGES[4])
    assert "did not come to its end" in choose(begin()).why_clean


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[3], STAGES[4]])
def test_a_part_that_is_missing_or_shorter_makes_the_next_mark_a_clean_one(
    marked: tuple[Lake, Repository, Path], begin: At, stage: str
) -> None:
    part = a_part(marked[2], "m0", stage)
    part.write_bytes(part.read_bytes()[:-1])
    assert "is missing, or not as long" in choose(begin()).why_clean
    part.unlink()
    assert "is missing, or not as long" in choose(begin()).why_clean


def test_a_manifest_that_was_altered_makes_the_next_mark_a_clean_one(
    marked: tuple[Lake, Repository, Path], begin: At
) -> None:
    manifest = marked[2] / "m0" / STAGES[0] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"units_listed": ', '"units_listed": 1'))
    assert "was changed after it was written" in choose(begin()).why_clean


@pytest.mark.parametrize(("stage", "dataset"), [(STAGES[0], ""), (STAGES[3], INDEX), (STAGES[3], "ranges")])
def test_a_damaged_part_fails_the_mark_that_rests_on_it_and_the_one_after_is_clean(
    marked: tuple[Lake, Repository, Path], begin: At, spark: SparkSession, stage: str, dataset: str
) -> None:
    _, repository, home = marked
    part = a_part(home, "m0" if dataset != "ranges" else "m1", stage, dataset)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    if "side" in repository.refs.branches:
        repository.delete_branch("side")  # whose objects have to be looked for
    with pytest.raises(CorruptFileError, match="is not the file that its manifest names"):
        pipeline.mark(spark, begin())
    later = begin(3, "later")
    pipeline.mark(spark, later)
    assert "did not come to its end" in later.mark.require(STAGES[0]).facts["why_clean"]
    assert len(list(pipeline.expired_of(later))) == 2


@pytest.mark.slow
def test_what_an_older_mark_s_sweep_was_told_to_delete_again_is_not_subtracted_from_a_newer_listing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with lake(tmp_path) as served, quick(spark), pytest.MonkeyPatch.context() as patch:
        repository = served.create("lake")
        repository.set_rules(7)
        for number in range(3):
            repository.upload("main", f"old/{number}", b"old", age=timedelta(days=40))
        repository.commit("main", "old", date=NOW - timedelta(days=40))
        for name in ("one", "two"):
            repository.upload("main", name, b"forgotten", age=timedelta(days=30))
            repository.delete("main", name)

        def at(hours: float, mark_id: str, **options: Any) -> MarkContext:
            patch.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=hours)).timestamp()))
            return served.begin("lake", mark_id, **options)

        for hour in (0, 1):
            pipeline.mark(spark, at(hour, f"m{hour}"))
        pipeline.sweep(spark, at(5, "m0"))
        pipeline.mark(spark, at(10, "m2", mode=CLEAN))
        again = pipeline.sweep(spark, at(12, "m1"))
        pipeline.mark(spark, last := at(20, "m3"))
        facts = last.mark.require(STAGES[4]).facts["listed"]
        lying = inventory.find(spark, all_layers(last)).as_frame().select("address").collect()

    assert again.outcomes, "the second sweep had something to do"
    assert last.mark.require(STAGES[0]).facts["rests_on"], "m3 rests on m2"
    assert facts["objects"] == len(lying) == 3


def test_a_dataset_that_a_manifest_does_not_name_is_no_empty_one(tmp_path: Path) -> None:
    below = layer(tmp_path, {})
    assert below.dataset(Stage.EXPIRED_ADDRESSES, inventory.OBJECTS_SCHEMA, inventory.LEARNT).rows == 0
    with pytest.raises(MarkError, match="has no dataset gone"):
        below.dataset(Stage.NAMESPACE_LISTING, inventory.GONE_SCHEMA, inventory.GONE)


def test_commits_that_are_ignored_only_now_make_the_next_mark_a_clean_one(begin: At) -> None:
    context = begin()
    other = replace(context, header=replace(context.header, ignore_commits=("odd",)))
    assert "another ignore_commits" in choose(other).why_clean and not choose(context).why_clean
