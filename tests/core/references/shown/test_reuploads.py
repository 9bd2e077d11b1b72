"""What branches show of candidates, asked for as in a repository too large to be listed whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy import safety
from lakegc_core.references.shown import reuploads
from lakegc_core.tables import joins
from tests.interleavings.rig import OLD, Lake
from tests.interleavings.rig import lake as a_lake
from tests.support.replays import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with a_lake(spark, tmp_path_factory.mktemp("reuploads")) as found:
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        yield found


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set how many requests lakeFS gets; no branch is listed whole."""

    def limit(requests: int = 1000, whole_pages: int = 0) -> None:
        level = replace(safety.LEVELS["none"], requests=requests, whole_pages=whole_pages)
        monkeypatch.setitem(safety.LEVELS, "none", level)

    limit()
    return limit


def marked(lake: Lake, name: str) -> tuple[MarkContext, dict[str, Any]]:
    context = lake.mark(name)
    return context, pipeline.review(context).report


def forgotten(lake: Lake, size: int, number: int = 1) -> set[str]:
    """Objects of one content that were staged once and dropped."""
    return {lake.forgotten(bytes(size)) for _ in range(number)}


def committed(lake: Lake, branch: str, size: int, paths: int = 1) -> None:
    """Objects of this size at the head of a branch."""
    lake._make_branch(branch)
    for number in range(paths):
        lake.repository.upload(branch, f"{size}/{number:03}", bytes(size), age=timedelta(days=OLD))
    lake.commit(branch, days=0)


def hidden(lake: Lake, branch: str, size: int) -> str:
    """An identical re-upload over the head's own object: a branch shows it, and no dump names it."""
    return lake.repository.upload(branch, f"{size}/000", bytes(size), age=timedelta(days=OLD))


def spelled_otherwise(lake: Lake, branch: str, path: str) -> str:
    """An old object that is staged by an address for which the server's dump has no name."""
    content = lake.content()
    address = lake.forgotten(content)
    full = lake.repository.place.qualify(address).replace("s3://", "s3://x@", 1)
    lake.repository.stage(branch, path, full, size=len(content), checksum="0" * 32)
    return address


def expired(context: MarkContext) -> set[str]:
    return set(pipeline.expired_of(context))


def kept(context: MarkContext) -> dict[str, str]:
    """The reason of every kept row, by address."""
    return {row["address"]: row["reason"] for row in rows(context, "expired_addresses", "kept")}


def test_what_a_branch_shows_is_kept_and_what_is_like_it_goes(lake: Lake) -> None:
    for branch in ("one", "two", "three"):
        committed(lake, branch, 500, paths=3)
    live = {hidden(lake, "one", 500), hidden(lake, "three", 500)}
    garbage = forgotten(lake, 500, 5) | forgotten(lake, 700)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert {address for address, reason in kept(context).items() if reason == "staged"} >= live
    assert report["asked"] == {"pages": 3, "heads": 0, "waiting": {"objects": 0, "bytes": 0}}


def test_nothing_is_asked_where_no_head_holds_anything_alike(lake: Lake) -> None:
    committed(lake, "one", 500)
    garbage = forgotten(lake, 700, 3)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert report["asked"]["pages"] == 0


@pytest.mark.safety
@pytest.mark.slow
def test_what_the_requests_do_not_suffice_for_waits_and_comes_first_next_time(lake: Lake, asked: Any) -> None:
    committed(lake, "one", 500)
    committed(lake, "two", 600)
    small, large = forgotten(lake, 500), forgotten(lake, 600, 3)
    asked(requests=1)
    context, report = marked(lake, "first")
    assert expired(context) == large
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == small
    assert report["asked"] == {"pages": 1, "heads": 0, "waiting": {"objects": 1, "bytes": 500}}
    assert report["objects"]["unasked"] == 1
    lake.wait(hours=24)
    more = forgotten(lake, 600)
    context, report = marked(lake, "second")
    assert expired(context) == large | small  # asked for in one of the marks, and not shown then
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == more


def test_a_class_for_which_no_budget_suffices_does_not_keep_the_others_waiting(lake: Lake, asked: Any) -> None:
    for branch in ("one", "two", "three"):
        committed(lake, branch, 900)
    committed(lake, "four", 500)
    many, few = forgotten(lake, 900, 9), forgotten(lake, 500)
    asked(requests=2)
    context, report = marked(lake, "m")
    assert expired(context) == few
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == many
    assert report["asked"]["waiting"] == {"objects": 9, "bytes": 8100}


def test_more_classes_than_can_be_left_out_for_which_no_budget_suffices_keep_the_others_waiting_only_once(
    lake: Lake, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuploads, "_ROUNDS", 0)
    for branch in ("one", "two", "three"):
        committed(lake, branch, 900)
    committed(lake, "four", 500)
    many, few = forgotten(lake, 900, 9), forgotten(lake, 500)
    asked(requests=2)
    assert not expired(marked(lake, "first")[0])
    context, _ = marked(lake, "second")
    assert expired(context) == few
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == many


def test_empty_objects_come_last(lake: Lake, asked: Any) -> None:
    committed(lake, "one", 0)
    committed(lake, "two", 5)
    forgotten(lake, 0, 20)
    least = forgotten(lake, 5)
    asked(requests=1)
    assert expired(marked(lake, "m")[0]) == least


def beside_liars(lake: Lake) -> set[str]:
    """Garbage beside entries that claim another size than their objects have, one of them staged."""
    repository = lake.repository
    lake._make_branch("liar")
    full = [repository.place.qualify(lake.forgotten(bytes(size))) for size in (300, 400)]
    repository.stage("liar", "a", full[0], size=1, checksum="c" * 32)
    lake.commit("liar", days=0)
    repository.stage("liar", "a", full[1], size=1, checksum="c" * 32)
    return forgotten(lake, 800)


@pytest.mark.safety
@pytest.mark.slow
def test_an_entry_that_claims_another_size_than_its_object_has_may_hide_any_candidate(lake: Lake) -> None:
    garbage = beside_liars(lake)
    clean, _ = marked(lake, "clean")
    assert expired(clean) == garbage
    lake.wait(hours=1)
    optimized, _ = marked(lake, "optimized")
    assert expired(optimized) == garbage


@pytest.mark.safety
@pytest.mark.slow
def test_a_mark_finds_such_an_entry_in_a_commit_since_the_mark_below(lake: Lake) -> None:
    committed(lake, "one", 500)
    marked(lake, "clean")
    lake.wait(hours=1)
    garbage = beside_liars(lake)
    context, report = marked(lake, "optimized")
    assert report["run"]["rests_on"] == ["clean"]
    assert expired(context) == garbage


@pytest.mark.safety
def test_a_mark_finds_such_an_entry_also_beside_one_of_the_same_object_that_claims_its_size(lake: Lake) -> None:
    """Whichever of them it reads first: an address lies in every version of its range."""
    committed(lake, "one", 500)
    marked(lake, "clean")
    lake.wait(hours=1)
    repository = lake.repository
    for number in range(6):
        content, liar = bytes(300 + number), f"liar-{number}"
        first, again = (repository.place.qualify(lake.forgotten(content)) for _ in range(2))
        for branch, size in ((f"honest-{number}", len(content)), (liar, 1)):
            lake._make_branch(branch)
            repository.stage(branch, branch, first, size=size, checksum=md5(content))
            lake.commit(branch, days=0)
        repository.stage(liar, liar, again, size=1, checksum=md5(content))
        assert not repository.uncommitted(liar), "no dump names it"
    garbage = forgotten(lake, 800)
    context, report = marked(lake, "optimized")
    assert report["run"]["rests_on"] == ["clean"]
    assert expired(context) == garbage


def imported(lake: Lake, branch: str, size: int, path: str = "a") -> None:
    """An entry at the head of a branch whose object lies in another bucket."""
    lake._make_branch(branch)
    source = f"s3://elsewhere/{branch}/{path}"
    lake.repository.stage(branch, path, source, size=size, checksum=md5(bytes(size)))
    lake.commit(branch, days=0)


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def uploaded(lake: Lake, branch: str, size: int, path: str = "a") -> str:
    """An upload of the bytes that the head shows at this path already."""
    address = lake.repository.upload(branch, path, bytes(size), age=timedelta(days=OLD))
    assert not lake.repository.uncommitted(branch), "no dump names it"
    return address


@pytest.mark.parametrize("most", [joins.MOST, 0])
def test_what_a_branch_shows_over_an_imported_entry_is_kept_and_what_is_like_it_goes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(joins, "MOST", most)  # of more sizes Spark joins
    imported(lake, "one", 500)
    committed(lake, "two", 600)
    live = {uploaded(lake, "one", 500)}
    garbage = forgotten(lake, 500, 3) | forgotten(lake, 700)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert {address for address, reason in kept(context).items() if reason == "staged"} == live
    assert report["asked"]["pages"] == 1


def test_what_a_branch_shows_over_an_entry_without_an_address_is_kept(lake: Lake) -> None:
    """A client linked none, and uploads the same bytes now."""
    lake._make_branch("one")
    lake.repository.stage("one", "a", "", size=500, checksum=md5(bytes(500)))
    lake.commit("one", days=0)
    live, garbage = uploaded(lake, "one", 500), forgotten(lake, 500)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert kept(context)[live] == "staged"
    assert report["asked"]["pages"] == 1


@pytest.mark.safety
@pytest.mark.slow
def test_optimized_marks_find_imported_entries_of_the_marks_below_and_of_their_own(lake: Lake) -> None:
    imported(lake, "below", 500)
    marked(lake, "clean")
    lake.wait(hours=1)
    imported(lake, "own", 600)
    live = {uploaded(lake, "below", 500), uploaded(lake, "own", 600)}
    garbage = forgotten(lake, 500) | forgotten(lake, 600)
    context, report = marked(lake, "optimized")
    assert report["run"]["rests_on"] == ["clean"]
    assert expired(context) == garbage
    assert {address for address, reason in kept(context).items() if reason == "staged"} == live


@pytest.mark.safety
@pytest.mark.slow
def test_a_look_finds_an_entry_that_was_imported_after_the_mark(lake: Lake) -> None:
    garbage, address = forgotten(lake, 500), lake.forgotten(bytes(500))
    context, _ = marked(lake, "m")
    assert expired(context) == garbage | {address}
    lake.wait(hours=1)
    imported(lake, "one", 500)
    repository = lake.repository
    repository.stage("one", "a", repository.place.qualify(address), size=500, checksum=md5(bytes(500)))
    assert lake.sweep("m").outcomes == {"deleted": 1, "already_gone": 0, "rescued": 1, "unconfirmed": 0}
    assert repository.read("one", "a") == bytes(500)


def test_where_too_many_entries_lie_nothing_is_called_garbage(lake: Lake, asked: Any) -> None:
    repository = lake.repository
    for branch in ("liar", "other"):
        lake._make_branch(branch)
        full = repository.place.qualify(lake.forgotten(bytes(300)))
        repository.stage(branch, "a", full, size=1, checksum="c" * 32)
        lake.commit(branch, days=0)
    garbage = forgotten(lake, 800)
    asked(requests=1)
    context, _ = marked(lake, "m")
    assert not expired(context)
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == garbage


def test_a_small_repository_is_listed_whole_whatever_clients_claim(lake: Lake, asked: Any) -> None:
    repository = lake.repository
    committed(lake, "one", 500)
    entry = repository.entry("one", "500/000")
    full = repository.place.qualify(lake.forgotten(bytes(7)))
    repository.stage("one", "500/000", full, size=500, checksum=entry.e_tag)  # hidden behind an honest entry
    garbage = forgotten(lake, 800)
    asked(whole_pages=100)
    context, _ = marked(lake, "m")
    assert expired(context) == garbage


def test_a_small_repository_is_listed_whole_over_however_many_ranges_it_is_spread(
    lake: Lake, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its branches are too long to be asked for by one thread each, and its ranges are many and short."""
    monkeypatch.setattr(reuploads, "_WHOLE_BRANCH_ENTRIES", 0)
    monkeypatch.setattr(lake.repository._trees, "_modulus", 1)  # each entry has a range of its own
    for branch in ("one", "two", "three"):
        committed(lake, branch, 500, paths=9)
    live = {hidden(lake, "one", 500), hidden(lake, "three", 500)}
    lake._make_branch("without-ranges")
    for branch, path in (("one", "!first"), ("one", "500/000a"), ("two", "zzz"), ("without-ranges", "any")):
        live.add(spelled_otherwise(lake, branch, path))
    garbage = forgotten(lake, 500, 3)
    asked(whole_pages=6)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert {address for address, reason in kept(context).items() if reason == "staged"} >= live
    assert report["asked"]["pages"] >= 3


def test_a_series_begins_when_lakefs_was_asked(lake: Lake) -> None:
    committed(lake, "one", 500)
    forgotten(lake, 500)
    context, _ = marked(lake, "m")
    facts = context.mark.require("expired_addresses").facts
    (row,) = rows(context, "expired_addresses")
    assert row["since"].timestamp() == pytest.approx(facts["asked_at"], abs=1e-3)
    assert facts["asked_at"] >= context.mark.require("retention_commits").finished_at


def test_neither_odd_claims_nor_dear_classes_keep_affordable_ones_waiting(lake: Lake, asked: Any) -> None:
    repository = lake.repository
    lake._make_branch("liar")
    full = repository.place.qualify(lake.forgotten(bytes(300)))
    repository.stage("liar", "a", full, size=1, checksum="c" * 32)
    lake.commit("liar", days=0)
    for number in range(4):
        committed(lake, f"dear-{number}", 900)
    committed(lake, "cheap", 500)
    dear, cheap = forgotten(lake, 900, 3), forgotten(lake, 500)
    asked(requests=4)
    context, _ = marked(lake, "m")
    assert expired(context) == cheap
    assert {address for address, reason in kept(context).items() if reason == "unasked"} == dear


@pytest.mark.parametrize("name", ["", "data/of/a-client"], ids=["by lakeFS's name", "by another"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "optimized"])
def test_an_entry_of_an_object_that_was_not_listed_yet_may_hide_any_candidate(
    lake: Lake, clean: bool, name: str
) -> None:
    """Its claim was compared with nothing, and no later optimized mark reads its range again."""
    repository = lake.repository
    lake._make_branch("liar")
    if not clean:
        marked(lake, "below")
        lake.wait(hours=1)

    def link(size: int, name: str = "") -> None:
        address = repository.upload("main", "for-its-object", bytes(size))
        repository.delete("main", "for-its-object")
        if name:
            (file,) = lake.folder.rglob(address.rpartition("/")[2])
            client = Path(str(file).removesuffix(address)) / name
            client.parent.mkdir()
            address, _ = name, file.rename(client)
        repository.stage("liar", "a", repository.place.qualify(address), size=7, checksum="c" * 32)

    def while_marking(stage: str) -> None:
        if stage == "namespace_listing":
            link(300, name)
            lake.commit("liar", days=0)

    lake.mark("m1", while_marking)
    lake.wait(hours=1)
    link(400)
    lake.wait(hours=1)  # it must be no young object, or it would be kept for that
    garbage = forgotten(lake, 800)
    context, report = marked(lake, "m2")
    assert report["run"]["rests_on"]
    assert expired(context) == garbage
