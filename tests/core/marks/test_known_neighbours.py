"""What other repositories of the same lakeFS refer to, as a mark and its sweep find it out; and what nobody knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import NeighbourSettings, RepositoryPolicy, ServerSettings, Settings
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import neighbours
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import MarkContext, begin_mark, open_mark, open_repository
from lakegc_core.marks.elsewhere import ANYWHERE, may_refer, merged
from lakegc_core.marks.neighbours import Sighting, neighbours_of, sight, sightings, what_is_known
from lakegc_core.policy import guards
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.parts import read_part
from lakegc_sandbox import Repository, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, NOW, Lake, lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = NeighbourSettings()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    """Repository `lake`, which has garbage, and `far`, which may have imported it."""
    with lake(tmp_path) as found:
        for name in ("lake", "far"):
            found.create(name).set_rules(7)
        found.sandbox.repository("lake").upload("main", "kept", b"kept", age=timedelta(days=50))
        yield found


def garbage(served: Lake, number: int = 1) -> str:
    return leave(served.sandbox.repository("lake"), f"data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3m{number:02}ag", days=50)


def imported(served: Lake, *keys: str, branch: str = "main", path: str = "a", name: str = "far") -> Repository:
    """Another repository that has imported these objects of `lake`."""
    repository = served.sandbox.repository(name)
    repository.import_objects(branch, {f"{path}/{key}": (f"s3://bucket/lake/{key}", 11) for key in keys})
    return repository


def begin(served: Lake, name: str, mark_id: str, mode: str = "auto", **more: Any) -> MarkContext:
    options: Any = {"min_age": MIN_AGE, "safety_level": "none", "mode": mode}
    return begin_mark(served.open(name, **more), mark_id, **options)


def mark(spark: SparkSession, served: Lake, name: str, mark_id: str, **more: Any) -> pipeline.Review:
    return pipeline.mark(spark, begin(served, name, mark_id, **more))


def warning(review: pipeline.Review) -> guards.Verdict:
    return next(each for each in review.verdicts if each.name == "neighbours")


def kept(review: pipeline.Review) -> int:
    count: int = review.report["objects"]["neighbour"]
    return count


# --- what is kept ---


def test_what_a_neighbours_mark_refers_to_is_no_garbage_until_its_next_mark_refers_to_it_no_more(
    quick: SparkSession, served: Lake
) -> None:
    key, other = garbage(served), garbage(served, 2)
    far = imported(served, key)
    mark(quick, served, "far", "f1")
    review = mark(quick, served, "lake", "m1")
    assert (kept(review), review.report["objects"]["expired"]) == (1, 1)
    assert warning(review).passed
    assert pipeline.sweep(quick, open_mark(served.open("lake"), "m1")).outcomes["deleted"] == 1
    assert far.read("main", f"a/{key}")
    assert not (served.files("lake") / other).exists()
    far.delete("main", f"a/{key}")
    far.commit("main", "gone")
    far.set_rules(-1)
    mark(quick, served, "far", "f2")
    assert kept(mark(quick, served, "lake", "m2")) == 0, "the range that held it is not retained any more"


def test_what_a_neighbour_holds_by_path_counts_as_well(quick: SparkSession, served: Lake) -> None:
    key = garbage(served)
    far = served.sandbox.repository("far")
    far.create_branch("old", "main")
    imported(served, key, branch="old", path="legal")
    far.delete_branch("old")
    far.set_rules(-1)
    mark(quick, served, "far", "f1")
    assert kept(mark(quick, served, "lake", "m1")) == 0
    held = RepositoryPolicy(match="far", holds=("path:legal/**",))
    mark(quick, served, "far", "f2", repositories=(held,))
    assert kept(mark(quick, served, "lake", "m2")) == 1


def test_marks_of_a_neighbour_are_found_where_lakegc_yaml_puts_them(
    quick: SparkSession, served: Lake, tmp_path: Path
) -> None:
    workspace = f"local:/{tmp_path}/marks"
    more: Any = {"repositories": (RepositoryPolicy(match="far", workspace=workspace),)}
    imported(served, garbage(served))
    placed = LocalConfig(str(tmp_path / "marks"))
    context = replace(served.open("far", **more), workspace=placed, home="far")
    pipeline.mark(quick, begin_mark(context, "f1", min_age=MIN_AGE, safety_level="none"))
    assert kept(mark(quick, served, "lake", "m1", **more)) == 1


def test_a_mark_reads_on_where_the_newest_of_a_neighbour_was_damaged(quick: SparkSession, served: Lake) -> None:
    one, two = garbage(served), garbage(served, 2)
    imported(served, one)
    mark(quick, served, "far", "f1", mode="clean")
    imported(served, two, path="b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKEGC_NOW", str(NOW.timestamp() + 60))
        mark(quick, served, "far", "f2", mode="clean")
    [part] = (served.files("far") / HOME / "marks/f2/committed_addresses/elsewhere").glob("*.parquet")
    part.write_bytes(b"damaged")
    review = mark(quick, served, "lake", "m1")
    assert kept(review) == 1
    assert not warning(review).passed and "far (its newest mark does not read: " in warning(review).description


def test_on_local_what_a_neighbour_has_only_staged_counts_too(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp()))
    with SandboxServer(Sandbox(tmp_path, clock=NOW.timestamp, seed=1)) as server:
        for name in ("lake", "far"):
            repository = server.sandbox.create_repository(name, age=timedelta(days=100))
            repository.set_rules(7)
            repository.upload("main", "own", b"own", age=timedelta(days=50))
        mine = server.sandbox.repository("lake")
        key = leave(mine, "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag", days=50)
        far = server.sandbox.repository("far")
        far.stage("main", "linked", mine.place.qualify(key), size=11, checksum="0" * 32)
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        for name in ("far", "lake"):
            context = open_repository(settings, name, client=LakeFSClient(settings.server))
            review = pipeline.mark(quick, begin_mark(context, "m1", min_age=MIN_AGE, safety_level="none"))
        assert kept(review) == 1


# --- what is not known ---


def test_a_repository_that_was_never_marked_is_named_and_stops_nothing(quick: SparkSession, served: Lake) -> None:
    garbage(served)
    review = mark(quick, served, "lake", "m1")
    assert review.authorized
    assert "1 of the 1 other repositories" in warning(review).description
    assert "far (no complete mark)" in warning(review).description
    assert pipeline.sweep(quick, open_mark(served.open("lake"), "m1")).outcomes["deleted"] == 1


def test_a_strict_sweep_is_refused_until_every_neighbour_is_marked(quick: SparkSession, served: Lake) -> None:
    strict = {"neighbours": NeighbourSettings(strict=True)}
    garbage(served)
    assert not mark(quick, served, "lake", "m1", **strict).authorized
    context = open_mark(served.open("lake", **strict), "m1")
    with pytest.raises(RefusedError, match="neighbours: 1 of the 1 other repositories"):
        pipeline.sweep(quick, context)
    mark(quick, served, "far", "f1")
    assert pipeline.sweep(quick, context).outcomes["deleted"] == 1


def test_a_strict_sweep_is_refused_where_the_look_cannot_read_what_a_neighbour_noted(
    quick: SparkSession, served: Lake
) -> None:
    strict = {"neighbours": NeighbourSettings(strict=True)}
    imported(served, garbage(served))
    garbage(served, 2)
    mark(quick, served, "far", "f1")
    assert mark(quick, served, "lake", "m1", **strict).authorized
    for part in (served.files("far") / HOME / "marks/f1/committed_addresses/elsewhere").glob("*.parquet"):
        part.write_bytes(b"damaged")
    context = open_mark(served.open("lake", **strict), "m1")
    with pytest.raises(RefusedError, match="does not read"):
        pipeline.sweep(quick, context)
    accepted = {"neighbours": "it is an archive"}
    assert pipeline.sweep(quick, context, accepted=accepted).outcomes["deleted"] == 1


def test_a_mark_that_is_not_whole_or_is_of_a_former_repository_does_not_count(
    quick: SparkSession, served: Lake
) -> None:
    mark(quick, served, "far", "f1")
    [far] = neighbours_of(served.open("lake"))
    assert sight(far).mark_id == "f1"
    assert sight(far, before=NOW.timestamp()).mark_id == ""
    assert sight(replace(far, created=far.created + 1)).mark_id == ""
    (served.files("far") / HOME / "marks/f1/expired_addresses/manifest.json").unlink()
    assert sight(far) == Sighting("far")


def test_headers_that_do_not_read_are_a_problem_only_where_they_may_be_newer(quick: SparkSession, served: Lake) -> None:
    for mark_id in ("f1", "f2", "f3"):
        mark(quick, served, "far", mark_id, mode="clean")
    [far] = neighbours_of(served.open("lake"))
    for mark_id, problem in (("f1", False), ("f3", True)):
        file = served.files("far") / HOME / "marks" / mark_id / "mark.json"
        file.write_bytes(b"{}")
        found = sight(far)
        assert found.mark_id in ("f2", "f3")
        assert bool(found.problem) == problem


def test_places_that_cannot_be_reached_are_named(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(namespace: Namespace, *_: object, **__: object) -> LocalConfig:
        raise SettingsError("no such store")

    monkeypatch.setattr(neighbours, "config_for", no_place)
    [far] = neighbours_of(served.open("lake"))
    assert sight(far) == Sighting("far", problem="its store is not known: no such store")


def test_a_store_that_does_not_answer_is_not_waited_for(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.create("deaf")
    monkeypatch.setattr(neighbours, "_PATIENCE", 0.3)
    answer = neighbours.sight
    monkeypatch.setattr(
        neighbours, "sight", lambda each: time.sleep(2) or answer(each) if each.name == "deaf" else answer(each)
    )
    found = {each.name: each.problem for each in sightings(quick, neighbours_of(served.open("lake")))}
    assert found == {"far": "", "deaf": "its store did not answer within 0 s"}


def test_many_neighbours_are_asked_for_by_tasks(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        served.create(f"more-{number}")
    imported(served, garbage(served))
    mark(quick, served, "far", "f1")
    others = neighbours_of(served.open("lake"))
    here = sightings(quick, others)
    monkeypatch.setattr(neighbours, "_FEW", 1)
    assert sightings(quick, others) == here
    assert [each.name for each in here if each.refers] == ["far"]


def test_neighbours_that_are_too_old_count_as_unknown_unless_they_are_to_be_ignored() -> None:
    day = 86_400.0
    found = [
        Sighting("new", "m", marked_at=93 * day),
        Sighting("old", "m", marked_at=92 * day),
        Sighting("broken", "m", marked_at=99 * day, problem="torn"),
        Sighting("archive-1"),
    ]
    facts = what_is_known(found, NeighbourSettings(ignore=("archive-*",)), now=100 * day)
    assert facts.named == (("broken", "torn"), ("old", "last marked 8.0 days ago"))
    assert (facts.repositories, facts.unknown, facts.within) == (4, 2, 7 * day)
    many = what_is_known([Sighting(f"{number:03}") for number in range(300)], WEEK, 0)
    assert (many.unknown, len(many.named)) == (300, 3)


def test_thousands_of_namespaces_of_a_bucket_share_one_client(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real stores
    from lakegc_core.store.factory import config_for

    monkeypatch.setattr(neighbours, "config_for", config_for)
    for number in range(3):
        served.create(f"more-{number}")
    found = neighbours_of(served.open("lake"))
    assert len({each.config for each in found}) == 1
    assert {each.home for each in found} == {f"bucket/{each.name}/{HOME}".removeprefix("bucket/") for each in found}


# --- what is noted ---


def test_entries_elsewhere_are_noted_by_their_range_and_counted_by_bucket(quick: SparkSession, served: Lake) -> None:
    far = served.sandbox.repository("far")
    far.upload("main", "own", b"own", age=timedelta(days=50))
    far.commit("main", "own")
    far.import_objects("main", {"x": ("s3://bucket/lake/data/1", 1), "y": ("s3://elsewhere/y", 1)})
    mark(quick, served, "far", "f1")
    artifacts = served.open("far").artifacts("f1")
    manifest = artifacts.require("committed_addresses")
    rows = [
        row["address"]
        for part in manifest.datasets["elsewhere"]
        for batch in read_part(artifacts.config, artifacts.stage_folder("committed_addresses", "elsewhere"), part)
        for row in batch.to_pylist()
    ]
    assert sorted(rows) == ["s3://bucket/lake/data/1", "s3://elsewhere/y"]
    assert artifacts.require("expired_addresses").facts["refers_elsewhere"] == {"bucket": 1, "elsewhere": 1}


def test_too_many_buckets_are_counted_together_and_may_be_any() -> None:
    some = merged([{"a": 1, "b": 2}, {"a": 3}])
    assert some == {"a": 4, "b": 2}
    namespace = Namespace("s3://c/lake")
    assert not may_refer(namespace, some)
    assert may_refer(namespace, merged([{f"bucket-{number}": 2 for number in range(51)}]))
    assert merged([{f"bucket-{number}": 2 for number in range(51)}]) == {ANYWHERE: 102}
