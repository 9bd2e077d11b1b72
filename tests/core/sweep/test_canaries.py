"""Canaries: a sweep that is blind to what lakeFS shows deletes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.errors import RefusedError
from lakegc_core.judging import asked
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import open_mark
from lakegc_core.policy import safety
from lakegc_core.references.commits import commit_walk
from lakegc_core.sweep import planning
from lakegc_core.sweep.canaries import choose
from tests.interleavings.rig import Lake, look_is_blind, no_canaries_in_marks, without_guards
from tests.interleavings.rig import lake as a_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Blind = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def lake(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    """An object on a head, one that a tag alone shows, a staged one, and one of garbage."""
    monkeypatch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], samples=20))
    without_guards("heads-and-tags", "known-heads", "shrink")(monkeypatch)
    with a_lake(spark, tmp_path_factory.mktemp("canaries")) as found:
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        found.upload("main", "head")
        found.commit("main", days=0)
        found.repository.tag("release", found.expired("tagged"))
        found.upload("work", "staged")
        found.forgotten(found.content())
        yield found


def replaced(lake: Lake) -> None:
    """Some hours after the mark, another object comes to the path of the head, and is committed."""
    lake.wait(hours=3)
    lake.repository.upload("main", "head", lake.content(), age=timedelta(minutes=5))
    lake.commit("main", days=0)
    lake.wait(hours=1)


def no_commits_that_are_kept_for(*reasons: str) -> Blind:
    """Commits that are kept for these reasons do not count."""
    retain = commit_walk.retain

    def forgetful(*arguments: Any, **options: Any) -> dict[int, str]:
        kept = retain(*arguments, **{**options, "server": ()})
        return {row: why for row, why in kept.items() if why not in reasons}

    return lambda patch: patch.setattr(commit_walk, "retain", forgetful)


def no_branches(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks branches what they show: that would find each of these objects."""
    for where in (asked, planning):
        patch.setattr(where, "find_reuploads", lambda *arguments, **named: None)


def test_a_sound_sweep_tries_canaries_of_every_kind_and_plans_none(lake: Lake) -> None:
    before = lake.stored()
    lake.mark("m1")
    replaced(lake)
    found = lake.sweep("m1")
    assert found.canaries == {"new": 1, "staged": 1, "tag": 1}
    assert found.outcomes["deleted"] == 1 and found.outcomes.get("rescued", 0) == 0
    assert len(before - lake.stored()) == 1


def test_a_look_of_which_nothing_is_believed_deletes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """More ways to be blind are in `whole/test_blindness.py`."""
    lake.mark("m1")
    replaced(lake)
    before = lake.stored()
    look_is_blind(monkeypatch)
    with pytest.raises(RefusedError, match="Mark or look is blind"):
        lake.sweep("m1")
    assert lake.stored() == before


@pytest.mark.parametrize("reason", ["head:main", "tag:release"])
def test_a_mark_and_a_look_that_are_blind_to_the_same_delete_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    no_branches(monkeypatch)
    no_canaries_in_marks(monkeypatch)
    no_commits_that_are_kept_for(reason, "rules")(monkeypatch)
    lake.mark("m1")
    lake.wait(hours=2)
    before = lake.stored()
    with pytest.raises(RefusedError, match="Mark or look is blind"):
        lake.sweep("m1")
    assert lake.stored() == before


def test_what_lakefs_does_not_show_any_more_waits_and_stops_no_sweep(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old object of an expired commit is staged when canaries are chosen, and no more when the look begins."""
    stage = lake.dropped("again")
    lake.mark("m1")
    lake.wait(hours=2)
    stage("work")
    (again,) = (each for each in lake.stored() if lake.repository.entry("work", "again").address == each)
    chosen = []

    def then_dropped(*arguments: Any) -> Any:
        chosen.append(choose(*arguments))
        lake.repository.delete("work", "again")
        return chosen[0]

    monkeypatch.setattr(planning, "choose", then_dropped)
    found = lake.sweep("m1")
    assert again in chosen[0].addresses
    assert (found.outcomes["deleted"], found.outcomes["unconfirmed"]) == (1, 1) and again in lake.stored()


@pytest.mark.parametrize("gone", [True, False])
def test_what_a_tag_showed_that_is_asked_for_by_its_commit_stops_a_sweep_only_while_the_tag_is_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """Of an expired commit, tagged when canaries are chosen. The commit shows it afterwards, too."""
    commit = lake.expired("old")
    lake.mark("m1")
    lake.wait(hours=2)
    lake.repository.tag("v@1", commit)

    def then_untagged(*arguments: Any) -> Any:
        chosen = choose(*arguments)
        assert commit in {each.ref for each in chosen.found}
        if gone:
            lake.repository.delete_tag("v@1")
        else:
            look_is_blind(monkeypatch)
        return chosen

    monkeypatch.setattr(planning, "choose", then_untagged)
    if not gone:
        with pytest.raises(RefusedError, match="Mark or look is blind"):
            lake.sweep("m1")
        return
    found = lake.sweep("m1")
    assert (found.outcomes["deleted"], found.outcomes["unconfirmed"]) == (1, 1)


def test_a_ref_that_is_gone_meanwhile_has_no_canary(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.mark("m1")
    tags, branches = LakeFSClient.tags, LakeFSClient.branches
    lake.wait(hours=2)

    def with_one_that_is_gone(ask: Any) -> Any:
        return lambda client, repository: [*(each := list(ask(client, repository))), replace(each[0], name="gone")]

    with monkeypatch.context() as patch:
        patch.setattr(LakeFSClient, "tags", with_one_that_is_gone(tags))
        patch.setattr(LakeFSClient, "branches", with_one_that_is_gone(branches))
        chosen = choose(open_mark(lake.open(), "m1"), [("gone", "head"), ("main", "head"), ("main", "none")])
    assert chosen.kinds == {"branch": 1, "staged": 1, "tag": 1}
