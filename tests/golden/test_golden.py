"""Recordings of a real lakeFS server, marked and swept: exactly their garbage goes, and nothing else.

`LAKEGC_GOLDEN=DIR` replays the recordings of another folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.answers.explain import explain
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.pipeline import Review
from lakegc_core.stages.swept_report.stage import swept_report
from tests.support.golden_replay import Recording, recordings
from tests.support.lake import quick as tuned
from tests.support.replays import Replay, replayed, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.golden


@dataclass
class Story:
    """One recording, marked with tags protected and without."""

    replay: Replay
    spark: SparkSession

    @property
    def outcome(self) -> dict[str, object]:
        return self.replay.recording.outcome

    def of(self, group: str) -> set[str]:
        """A group of the outcome, as a set."""
        return set(self.replay.recording.outcome[group] or ())

    def mark(self, mark_id: str, tags: bool) -> tuple[MarkContext, Review]:
        context = self.replay.begin(mark_id, protect_tags=tags)
        return context, pipeline.mark(self.spark, context)

    @cached_property
    def protected(self) -> tuple[MarkContext, Review]:
        return self.mark("protected", True)

    @cached_property
    def plain(self) -> tuple[MarkContext, Review]:
        return self.mark("plain", False)


@pytest.fixture(scope="module", params=recordings(), ids=lambda folder: folder.name)
def story(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """One recording after the other, each laid out once."""
    with replayed(Recording.load(request.param), tmp_path_factory.mktemp("golden")) as replay:
        yield Story(replay, spark)


def expired(mark: tuple[MarkContext, Review]) -> set[str]:
    found = list(pipeline.expired_of(mark[0]))
    assert len(found) == len(set(found)), "an address stands twice among the expired"
    return set(found)


def test_with_tags_protected_exactly_the_garbage_expires(story: Story) -> None:
    assert expired(story.protected) == story.of("garbage_when_tags_are_protected")
    assert story.protected[1].authorized


def test_without_tag_protection_exactly_what_lakefs_promises_expires(story: Story) -> None:
    assert expired(story.plain) == story.of("garbage")
    assert story.plain[1].authorized


def test_nothing_live_foreign_or_young_ever_expires(story: Story) -> None:
    for mark in (story.protected, story.plain):
        for group in ("live_committed", "live_staged_only", "foreign", "young"):
            assert not expired(mark) & story.of(group), group
    assert not expired(story.protected) & story.of("live_because_tagged_only")


def test_the_counts_of_the_report_are_those_of_the_recording_and_add_up(story: Story) -> None:
    listed = [row for row in story.replay.recording.listing if not row.key.startswith("_lakefs/")]
    for (_, review), tagged in ((story.protected, "live_because_tagged_only"), (story.plain, None)):
        objects, size = review.report["objects"], review.report["bytes"]
        groups = ("committed", "uncommitted", "foreign", "young", "expired")
        assert objects["listed"] == len(listed) == sum(objects[group] for group in groups)
        assert size["listed"] == sum(row.size for row in listed) == sum(size[group] for group in groups)
        assert objects["committed"] == len(story.of("live_committed") | (story.of(tagged) if tagged else set()))
        assert objects["uncommitted"] == len(story.of("live_staged_only"))
        assert objects["foreign"] == len(story.of("foreign"))
        assert objects["young"] == len(story.of("young"))
        assert objects["missing"] == len(story.of("live_missing_in_store"))
        assert review.report["commits"]["known"] == len(story.replay.recording.commits)


def test_the_commits_that_count_are_the_promised_ones_and_with_tags_also_theirs(story: Story) -> None:
    promised = story.of("active_commits")
    tagged = {tag["commit_id"] for tag in story.replay.recording.results("{repo}/tags")}
    assert {row["commit_id"] for row in rows(story.plain[0], "retention_commits")} == promised
    assert {row["commit_id"] for row in rows(story.protected[0], "retention_commits")} == promised | tagged
    assert promised >= story.of("active_by_server")


def test_the_lists_for_people_hold_exactly_the_expired_addresses(story: Story, tmp_path: Path) -> None:
    context = story.protected[0]
    lists = story.replay.read_below(f"{context.mark.folder}/deleted.text/")
    found = [line for name, data in lists.items() if name.endswith(".txt") for line in data.decode().splitlines()]
    assert sorted(found) == sorted(story.of("garbage_when_tags_are_protected"))
    with (tmp_path / "addresses").open("wb") as out:
        assert pipeline.write_addresses(context, out) == len(found)
    assert sorted((tmp_path / "addresses").read_text(encoding="utf-8").splitlines()) == sorted(found)


_EXPLAINED = ("garbage_when_tags_are_protected", "live_committed", "live_because_tagged_only", "live_staged_only")


@pytest.mark.slow
def test_explain_says_of_objects_what_the_recording_says(story: Story) -> None:
    """LAKEGC_EXPLAINED (2): how many of each group."""
    context, most = story.protected[0], int(os.environ.get("LAKEGC_EXPLAINED", "2"))
    with tuned(story.spark) as spark:
        for group in (
            "garbage_when_tags_are_protected",
            "live_committed",
            "live_because_tagged_only",
            "live_staged_only",
        ):
            for address in sorted(story.of(group), key=hash_of)[:most]:
                (found,) = explain(spark, context, address).objects
                assert found.address == address and found.size is not None
                kept = bool(found.holders), found.staged
                assert (found.reason == "unreferenced") == (group == "garbage_when_tags_are_protected"), address
                if group == "garbage_when_tags_are_protected":
                    assert kept == (False, False), address
                elif group == "live_staged_only":
                    assert found.staged and not found.holders, address
                else:
                    assert found.holders, address
                if group == "live_because_tagged_only":
                    assert all(holder["name"].startswith("tag:") for holder in found.holders), address


def hash_of(address: str) -> str:
    """Orders addresses anyhow, always the same."""
    return hashlib.sha256(address.encode()).hexdigest()


def test_a_repository_without_rules_is_refused_unless_every_commit_shall_count(story: Story) -> None:
    if story.replay.rules is None:  # it has rules: they were found, and nothing had to be said about their absence
        assert story.protected[1].manifests["retention_commits"].facts["rules"] is not None
        return
    context = story.replay.begin("refused", rules="required")
    with pytest.raises(RefusedError, match="--rules keep-all-commits") as refused:
        pipeline.mark(story.spark, context)
    assert refused.value.exit_code == 3
    assert context.mark.manifest("expired_addresses") is None


def test_a_sweep_deletes_exactly_the_garbage_and_a_second_one_nothing(story: Story) -> None:
    context = story.protected[0]
    garbage = story.of("garbage_when_tags_are_protected")
    _ = story.plain  # marked while all of it is still there
    before = story.replay.files()
    assert garbage <= before.keys()

    swept = swept_report(story.spark, context)
    after = story.replay.files()
    assert {key: size for key, size in before.items() if key not in garbage} == after
    assert swept.failed == 0
    assert swept.outcomes["deleted"] == len(garbage)
    assert swept.bytes_deleted == sum(before[key] for key in garbage)

    again = swept_report(story.spark, context)
    assert story.replay.files() == after
    assert not any(again.outcomes.values())
    assert again.bytes_deleted == 0


def test_the_report_in_lakefs_own_layout_names_exactly_what_was_to_be_deleted(story: Story) -> None:
    garbage = story.of("garbage_when_tags_are_protected")
    report = story.replay.read_below(f"_lakefs/retention/gc/unified/{story.protected[0].header.mark_id}/")
    text = [data for name, data in report.items() if re.fullmatch(r"deleted\.text/part-[^/]*", name)]
    if not garbage:
        assert not any(text)
        return
    tables = [data for name, data in report.items() if re.fullmatch(r"deleted/[^/]*\.parquet", name)]
    parquet = [address for data in tables for address in pq.read_table(io.BytesIO(data))["address"].to_pylist()]
    lines = [line for data in text for line in data.decode().splitlines()]
    assert sorted(parquet) == sorted(lines) == sorted(garbage)
    assert "deleted/_SUCCESS" in report
    assert f'"num_deleted_objects": {len(garbage)}' in report["summary.json"].decode()
