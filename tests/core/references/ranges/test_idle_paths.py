"""Which holds by path hold nothing: what was not looked through to its end is not called idle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.names import Json, Stage
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA
from lakegc_core.references.ranges import idle_paths
from tests.support.path_world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_hold_whose_paths_only_retained_commits_show_is_not_idle(spark: SparkSession, world: World) -> None:
    globs = ["lgeal/**", "legal/**", "tables/4", "**/3", "**/nothing", "legal/2024/??b.pdf"]
    found = idle_paths.idle_paths(spark, world.context, globs)
    assert found.idle == ("**/nothing", "lgeal/**", "tables/4")
    assert found.untold == ()
    assert idle_paths.idle_paths(spark, world.context, []).idle == ()


@pytest.mark.parametrize(
    ("limit", "most", "idle"), [("MOST_RANGES", 1, ("lgeal/**",)), ("MOST_METARANGES", 0, ()), ("MOST_RANGES", 0, ())]
)
def test_what_was_not_looked_through_to_the_end_is_not_called_idle(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, idle: tuple[str, ...]
) -> None:
    monkeypatch.setattr(idle_paths, limit, most)
    monkeypatch.setattr(idle_paths, "run_tasks", lambda spark, items, task, width: list(task(items[0])))
    found = idle_paths.idle_paths(spark, world.context, ["**/nothing", "lgeal/**"])
    assert found.idle == idle
    assert set(found.untold) == {"**/nothing", "lgeal/**"} - set(idle)


def test_of_a_hold_that_may_match_in_a_lost_range_nobody_can_tell(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark passes such a range over where only ignored commits have it."""
    (world.lake.files("lake") / "_lakefs" / world.ranges[-1]["range_id"]).unlink()
    monkeypatch.setattr(idle_paths, "run_tasks", lambda spark, items, task, width: list(task(items[0])))
    found = idle_paths.idle_paths(spark, world.context, ["tables/3?", "tables/3*", "lgeal/**"])
    assert (found.idle, found.untold) == (("lgeal/**",), ("tables/3*", "tables/3?"))


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1])])
def test_of_a_hold_that_may_match_in_a_lost_metarange_nobody_can_tell(
    spark: SparkSession, world: World, damage: Callable[[Path], Any]
) -> None:
    """This search needs nothing: the stage that does says what is lost, of which commit, and what to do."""
    head = next(each["metarange_id"] for each in commits_of(world) if each["kept_by"].startswith("head"))
    file = world.lake.files("lake") / "_lakefs" / head
    whole = file.read_bytes()
    damage(file)
    try:
        found = idle_paths.idle_paths(spark, world.context, ["tables/3?", "**/nothing"])
    finally:
        file.write_bytes(whole)
    assert (found.idle, found.untold) == ((), ("**/nothing", "tables/3?"))


def commits_of(world: World) -> list[Json]:
    return [*world.context.mark.dataset(Stage.RETENTION_COMMITS, COMMITS_SCHEMA).dicts("metarange_id", "kept_by")]
