"""Walks that begin with what a mark knew of commits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core import pipeline
from lakegc_core.names import Json
from lakegc_core.policy.retention import Rules, rules_of
from lakegc_core.policy.scenarios import Known
from lakegc_core.references.commits.known_walk import KnowingWalk, KnownCommits, NewCommits
from tests.support.lake import NOW, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class _Telling(KnowingWalk):
    """Tells what is known."""

    def decide(self, known: Known) -> Iterator[Json]:
        ids = known.graph.commit_ids
        yield {
            "heads": {name: ids[row] for name, row in known.heads},
            "tags": {name: ids[row] for name, row in known.tags},
            "kept": sorted(ids[row] for row in known.kept),
            "commits": len(ids),
            "now": known.now,
        }


def test_a_walk_knows_what_the_mark_knew_whatever_was_committed_since(spark: SparkSession, tmp_path: Path) -> None:
    with lake(tmp_path) as served, quick(spark):
        repo = served.create("lake")
        repo.set_rules(7)
        repo.upload("main", "a", b"1")
        first = repo.commit("main", "a", date=NOW - timedelta(days=30)).id
        repo.tag("v1", first)
        repo.upload("main", "a", b"2")
        head = repo.commit("main", "b", date=NOW - timedelta(days=20)).id
        context = served.begin("lake", "m1")
        pipeline.mark(spark, context)
        commits = KnownCommits.of(context)
        same = list(NewCommits(commits=commits, dump=served.client.dump("lake").commits_metarange_id).run())
        repo.create_branch("brief", head)
        repo.upload("brief", "b", b"1")
        repo.commit("brief", "that no ref shows any more")
        repo.delete_branch("brief")
        brief = list(NewCommits(commits=commits, dump=served.client.dump("lake").commits_metarange_id).run())
        repo.upload("main", "a", b"3")
        repo.commit("main", "c")
        (told,) = _Telling(commits=commits).run()
    assert (same, brief) == ([{"new": 0}], [{"new": 1}])
    assert (told["heads"], told["tags"]) == ({"main": head}, {"v1": first})
    assert {first, head} <= set(told["kept"]) and told["commits"] == 3
    assert told["now"] == int(NOW.timestamp()) * 10**6


def test_rules_are_read_as_facts_have_them() -> None:
    assert rules_of({"default": 7, "branches": {"main": 30}}) == Rules(7, {"main": 30})
    assert rules_of(None) is None
