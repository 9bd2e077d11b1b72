"""What only holds keep, from lakegc.yaml to the screen of a mark, and which of them hold nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies.backup import backup, restore
from lakegc_core.marks.context import begin_mark
from lakegc_core.pipeline import Review
from lakegc_core.store.base import connect
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import mark_screen, sweep_screen
from tests.support.lake import MIN_AGE, NOW, Lake, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = timedelta(days=60)
EXPIRED = {"legal/a": b"1" * 101, "legal/\né": b"2" * 102, "tables/b": b"3" * 103}


@dataclass(frozen=True)
class World:
    """A lake with a commit that nothing retains, another that a hold may, and what each shows: addresses by path."""

    spark: SparkSession
    lake: Lake
    expired: dict[str, str]
    held_commit: str

    def mark(self, mark_id: str, *holds: str) -> Review:
        """A mark under these holds."""
        context = replace(self.lake.open("lake"), policy=RepositoryPolicy(match="*", holds=holds))
        return pipeline.mark(self.spark, begin_mark(context, mark_id, min_age=MIN_AGE, safety_level="none"))


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with lake(tmp_path_factory.mktemp("held")) as served, quick(spark):
        repo = served.create("lake")
        repo.set_rules(7)
        root = repo.refs.branches["main"].commit_id
        repo.upload("main", "live/c", b"4" * 104, age=DAYS)
        repo.commit("main", "live")
        commits = []
        expired: dict[str, str] = {}
        for name, contents in (("old", EXPIRED), ("other", {"other/d": b"5" * 105})):
            repo.create_branch(name, root)
            expired |= {path: repo.upload(name, path, data, age=DAYS) for path, data in contents.items()}
            commits.append(repo.commit(name, name, date=NOW - DAYS).id)
            repo.delete_branch(name)
        yield World(spark, served, expired, commits[1])


def sums_up(found: Review) -> bool:
    groups = ("committed", "uncommitted", "held", "foreign", "young", "expired")
    return all(
        sum(found.report[kind][group] for group in groups) == found.report[kind]["listed"]
        for kind in ("objects", "bytes")
    )


def warning(found: Review) -> str:
    """What the guard over holds says against them; empty where it holds."""
    (verdict,) = (each for each in found.verdicts if each.name == "holds")
    assert found.authorized
    return "" if verdict.passed else verdict.description


def test_objects_that_only_a_hold_by_path_keeps_are_not_called_committed(world: World) -> None:
    found = world.mark("by-path", "path:legal/**")
    objects, size = found.report["objects"], found.report["bytes"]
    assert (objects["held"], size["held"]) == (2, 203)
    assert (objects["committed"], objects["expired"]) == (1, 2)
    assert sums_up(found) and not warning(found)
    screen = mark_screen(found.report)
    assert "kept: held                        2 objects      203 B   by path:legal/**" in screen


def test_what_a_held_commit_shows_is_committed_and_the_line_says_how_many_commits(world: World) -> None:
    found = world.mark("by-commit", f"commit:{world.held_commit[:8]}")
    assert found.report["objects"]["held"] == 0 and found.report["objects"]["committed"] == 2
    assert sums_up(found) and not warning(found)
    assert "the 1 commit held counts as committed" in mark_screen(found.report)


def test_holds_that_hold_nothing_are_named_and_others_are_not(world: World) -> None:
    idle = ["branch:mian", "commit:ffffffffff", "path:lgeal/**", "path:live", "tag:v*"]
    found = world.mark("idle", *idle, "branch:main", "path:live/*", "path:tables/**")
    assert f"5 of 8 holds hold nothing: {', '.join(idle[:2])}, tag:v*, path:lgeal/**, path:live." in warning(found)
    assert found.report["holds"] == sorted([*idle, "branch:main", "path:live/*", "path:tables/**"])


def test_what_a_hold_keeps_that_was_added_after_the_mark_is_held_and_not_called_live_again(world: World) -> None:
    context = begin_mark(world.lake.open("lake"), "swept", min_age=MIN_AGE, safety_level="none")
    assert pipeline.mark(world.spark, context).report["objects"]["expired"] == len(world.expired)
    holds = ("path:legal/**", "path:tables/*", f"commit:{world.held_commit[:8]}")
    held = replace(context, policy=RepositoryPolicy(match="*", holds=holds))
    result = pipeline.sweep(world.spark, held, accepted=dict.fromkeys(["blast-radius"], "x"))
    assert {name: count for name, count in result.outcomes.items() if count} == {"held": len(world.expired)}
    assert "4 objects   kept: a hold keeps them now" in sweep_screen(sweep_report(result))


def test_objects_come_back_by_the_paths_under_which_old_commits_showed_them(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No hold is by path here."""
    context = begin_mark(world.lake.open("lake"), "plain", min_age=MIN_AGE, safety_level="none")
    pipeline.mark(world.spark, context)
    place = str(tmp_path_factory.mktemp("backup"))
    assert backup(world.spark, context, place).outcomes["copied"] == len(world.expired)
    gone = [world.expired["legal/\né"], world.expired["tables/b"]]
    connect(context.data).delete_many(gone)
    assert restore(world.spark, context, place, paths=["legal/??"]).outcomes["copied"] == 1
    assert connect(context.data).read(gone[0]) == EXPIRED["legal/\né"]
    by_address = restore(world.spark, context, place, paths=[gone[1].replace("data/", "da?a/")])
    assert by_address.outcomes["copied"] == 1
