"""Canaries of a mark: what its heads, tags and holds show, smuggled into its subtraction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core.errors import MarkError, StoreError
from lakegc_core.judging import canaries, optimized, subtraction
from lakegc_core.judging.canaries import Shown, held_commits, keys_of, lying, smuggle, some
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.findings import KEPT
from lakegc_core.names import Stage
from lakegc_core.policy import safety
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import ObjectInfo, RefusedObjectError
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.key_scan import Wanted
from tests.interleavings.rig import Lake
from tests.interleavings.rig import lake as a_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """An object on a head, one that a tag alone shows, one that a hold alone keeps, and one of garbage; marked."""
    with pytest.MonkeyPatch.context() as patch, a_lake(spark, tmp_path_factory.mktemp("smuggled")) as found:
        patch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], samples=20))
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        found.upload("main", "head")
        found.commit("main", days=0)
        found.repository.tag("release", found.expired("tagged"))
        found.holds.append(f"commit:{found.expired('held')}")
        found.forgotten(found.content())
        found.mark("m1")
        yield found


def findings(lake: Lake, mark_id: str) -> dict[str, int]:
    """The rows of a mark by dataset, and the canaries of each kind."""
    mark = lake.open().artifacts(mark_id)
    manifest = mark.require(Stage.EXPIRED_ADDRESSES)
    assert "canaries" not in manifest.datasets
    assert not any("canaries" in part.sums for parts in manifest.datasets.values() for part in parts)
    rows = {name: sum(part.rows for part in manifest.datasets[name]) for name in (Stage.EXPIRED_ADDRESSES, KEPT)}
    return {**rows, **manifest.facts["canaries"]}


def test_clean_and_optimized_marks_try_every_kind_and_hold_none(lake: Lake) -> None:
    sound = {Stage.EXPIRED_ADDRESSES: 1, KEPT: 0, "branch": 1, "held": 1, "tag": 1}
    assert findings(lake, "m1") == sound
    lake.mark("m2")
    assert lake.open().artifacts("m2").require(Stage.NAMESPACE_LISTING).facts["rests_on"]
    assert findings(lake, "m2") == sound


def test_an_optimized_mark_that_does_not_find_what_marks_below_read_fails(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that changed lies in those ranges: without canaries, nothing would tell."""
    index_rows = optimized.index_rows

    def of_nothing(kind: int, layer: str, held: Wanted, sought: Wanted, rows: pa.RecordBatch) -> Any:
        return index_rows(kind, layer, Wanted(()), sought, rows)

    monkeypatch.setattr(optimized, "index_rows", of_nothing)
    with pytest.raises(MarkError, match="the mark is blind, and fails"):
        lake.mark("m3")
    assert lake.open().artifacts("m3").require(Stage.NAMESPACE_LISTING).facts["rests_on"]


def test_a_clean_mark_that_does_not_find_what_it_read_fails_and_names_the_path(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = subtraction.scan

    def finding_nothing(spark: Any, feeds: Any, schema: Any, wanted: Any, **options: Any) -> Any:
        return scan(spark, feeds, schema, Wanted(()), **options)

    monkeypatch.setattr(subtraction, "scan", finding_nothing)
    monkeypatch.setitem(lake.options, "mode", CLEAN)
    with pytest.raises(MarkError, match=r"lakeFS shows '(head|tagged|held)' there.*mark-is-blind"):
        lake.mark("m4")
    assert lake.open().artifacts("m4").manifest(Stage.EXPIRED_ADDRESSES) is None


def test_a_hold_by_commit_names_no_branch_of_that_name_and_no_commit_that_does_not_count(lake: Lake) -> None:
    lake.repository.create_branch("beef", "main")
    lake.upload("beef", "staged")
    (held,) = (each.removeprefix("commit:") for each in lake.holds)
    header = SimpleNamespace(repository="lake", ignore_commits=())
    context: Any = SimpleNamespace(client=lake.open().client, header=header)
    assert list(held_commits(context, ["commit:beef", f"commit:{held}"])) == [held]
    header.ignore_commits = (held,)
    assert list(held_commits(context, [f"commit:{held}"])) == []


@pytest.mark.parametrize("uri", ["s3://b/ns", "s3://b", "gs://b/ns", "https://a.blob.core.windows.net/c/ns"])
def test_an_address_in_another_spelling_than_its_key_is_no_canary(uri: str) -> None:
    """lakeFS shows an entry of the text `data/…?x` as it is, and lakegc protects that text alone."""
    namespace = Namespace(uri)
    key = "data/gk0s9d8l4vsc738qvrb0/ct9ec9u20l6s739ltvk0"
    odd = [f"{uri}/{key}?x", f"{uri}/{key}?", f"{uri}/{key.replace('/gk0', '%2Fgk0')}", f"{uri}/other/{key}"]
    assert keys_of(namespace, [f"{uri}/{key}", *odd]) == [key, None, None, None, None]


def test_a_mark_asks_no_store_for_its_canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The role of a mark (s3-mark.json) may not read data."""
    key = "data/gk0s9d8l4vsc738qvrb0/ct9ec9u20l6s739ltvk0"
    monkeypatch.setattr(canaries, "_refs", lambda *_: {"branch": iter(["c1"])})
    monkeypatch.setattr(canaries, "on_refs", lambda *_: [Shown("branch", "lake", "c1", "a", f"s3://b/ns/{key}")])
    context: Any = SimpleNamespace(
        level=safety.FULL,
        namespace=Namespace("s3://b/ns"),
        mark=SimpleNamespace(out=lambda stage: DatasetFolder(LocalConfig(str(tmp_path)), stage)),
    )
    own: Any = None
    found = smuggle(context, own)
    assert [*found.found] == [key] and found.objects.rows == 1


def test_an_object_that_the_store_lacks_is_no_canary_and_one_that_it_lists_but_does_not_show_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, listed = (ObjectInfo(key, 1, datetime.now(UTC), "e", None) for key in "ac")
    answers: list[Any] = [there, None, RefusedObjectError("its key is a customer's", listed)]
    store = SimpleNamespace(try_heads=lambda keys: answers[: len(keys)])
    monkeypatch.setattr(canaries, "connect", lambda _: store)
    context: Any = SimpleNamespace(data=None)
    assert lying(context, ["a", "b", "c"]) == {"a": there, "c": listed}
    answers[1:] = [StoreError("busy")] * 2
    with pytest.raises(StoreError, match="busy"):
        lying(context, ["a", "b", "c"])


def test_a_few_are_chosen_of_many_and_all_of_few() -> None:
    assert some(range(3)) == [0, 1, 2]
    chosen = [some(range(50)) for _ in range(100)]
    assert all(len({*each}) == 5 for each in chosen) and len({number for each in chosen for number in each}) > 25
