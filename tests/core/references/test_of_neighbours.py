"""What other repositories of the same lakeFS refer to is kept, as their newest complete marks noted it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import NeighbourSettings, RepositoryPolicy, ServerSettings, Settings
from lakegc_core.errors import CorruptFileError, RefusedError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import begin_mark, open_mark, open_repository
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, NOW, Lake, leave
from tests.support.neighbourhood import begin, garbage, imported, kept, mark, neighbourhood, warning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with neighbourhood(tmp_path) as found:
        yield found


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


def test_what_a_neighbour_was_known_to_refer_to_is_kept_while_its_marks_are_out_of_sight(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change of `workspace`, or while its store refuses this role."""
    key = garbage(served)
    far = imported(served, key)
    mark(quick, served, "far", "f1")
    marks, aside = served.files("far") / HOME / "marks", served.files("far") / "aside"
    found = []
    for night, is_seen in enumerate((True, False, False, True)):
        monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + 60 * night))
        if not is_seen and not aside.exists():
            marks.rename(aside)
        elif is_seen and aside.exists():
            aside.rename(marks)
            far.delete("main", f"a/{key}")
            far.commit("main", "gone")
            far.set_rules(-1)
            mark(quick, served, "far", "f2")
            served.create("never-marked")  # of which nothing was ever known
        review = mark(quick, served, "lake", f"m{night}")
        found.append((kept(review), warning(review).passed))
    assert found == [(1, True), (1, False), (1, False), (0, False)]


def test_where_what_was_noted_of_such_a_neighbour_is_damaged_the_mark_fails_and_names_the_way_out(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(served, garbage(served))
    mark(quick, served, "far", "f1")
    mark(quick, served, "lake", "m1")
    (served.files("far") / HOME / "marks").rename(served.files("far") / "aside")
    [part] = (served.files("lake") / HOME / "marks/m1/expired_addresses/neighbours").glob("*.parquet")
    part.write_bytes(b"damaged")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + 60))
    with pytest.raises(CorruptFileError, match=r"referred to here: far\. .*lakegc mark NAME") as failed:
        mark(quick, served, "lake", "m2")
    [pasted] = re.findall(r"ignore: \[(.*)\]", str(failed.value))
    still = {"neighbours": NeighbourSettings(ignore=tuple(pasted.split(", ")))}
    with pytest.raises(CorruptFileError):  # what the error prints ignores nobody until a name is filled in
        mark(quick, served, "lake", "m3", **still)
    ignored = {"neighbours": NeighbourSettings(ignore=("far",))}
    assert kept(mark(quick, served, "lake", "m4", **ignored)) == 0


@pytest.mark.parametrize(
    "bucket",
    [
        "s3://x@bucket/lake/",
        "s3://x:y@bucket/lake/",
        "s3://a@b@bucket/lake/",
        "s3://bucket:/lake/",
        "s3:///bucket/lake/",
        "S3://bucket/lake/",
        "s3://bucket/./lake/",
        "s3://bucket//lake/",
        "s3://x@bucket/q/../lake/",
        "s3://x@bucket/lake/%zz/../",
    ],
)
def test_what_a_neighbour_refers_to_is_kept_however_its_address_is_spelled(
    quick: SparkSession, served: Lake, bucket: str
) -> None:
    key = garbage(served)
    far = served.sandbox.repository("far")
    far.import_objects("main", {"a": (f"{bucket}{key}", 11)})
    mark(quick, served, "far", "f1")
    review = mark(quick, served, "lake", "m1")
    assert (kept(review), review.report["objects"]["expired"]) == (1, 0)
    assert pipeline.sweep(quick, open_mark(served.open("lake"), "m1")).outcomes.get("deleted", 0) == 0
    assert (served.files("lake") / key).exists()


@pytest.mark.parametrize(("ignore", "said"), [((), True), (("far",), False)])
def test_a_neighbour_that_is_ignored_is_not_said_to_be_unknown(
    quick: SparkSession, served: Lake, ignore: tuple[str, ...], said: bool
) -> None:
    mark(quick, served, "far", "f1")
    (served.files("far") / HOME / "marks/f1/mark.json").write_bytes(b"{}")
    context = begin(served, "lake", "m1", neighbours=NeighbourSettings(ignore=ignore))
    told: list[str] = []
    review = pipeline.mark(quick, replace(context, say=told.append))
    assert any("1 are not known, such as far" in each for each in told) is said
    assert warning(review).passed is not said


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
    assert not warning(review).passed and "far (its newest mark cannot be read: " in warning(review).description


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
    with pytest.raises(RefusedError, match="cannot be read"):
        pipeline.sweep(quick, context)
    accepted = {"neighbours": "it is an archive"}
    assert pipeline.sweep(quick, context, accepted=accepted).outcomes["deleted"] == 1
