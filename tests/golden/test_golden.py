"""Recordings of a real lakeFS server, marked and swept: exactly their garbage goes, and nothing else.

`LAKEGC_GOLDEN=DIR` replays the recordings of another folder.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.answers.explain import AT_ONCE, Explained, explain_each
from lakegc_core.answers.holder_walk import MOST
from lakegc_core.answers.workers import Little
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.pipeline import Review
from lakegc_core.stages import swept_report
from tests.support.golden_replay import Recording, recordings
from tests.support.recorded_world import RecordedWorld
from tests.support.replays import Replay, replayed, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = Little(rows=10**9, commits=10**9, files=10**9)
SECOND = 1_500_000  # microseconds; recordings tell when a commit was made to the second
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
        """A recording without tags has none to protect: its one mark is both."""
        tags = self.replay.recording.results("{repo}/tags")
        return self.mark("plain", False) if tags else self.protected


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
    metadata = f"{story.replay.recording.metadata_prefix}/"
    listed = [
        row
        for row in story.replay.recording.listing
        if not row.key.startswith(metadata) and row.key not in story.replay.unheld
    ]
    for (_, review), tagged in ((story.protected, "live_because_tagged_only"), (story.plain, None)):
        objects, size = review.report["objects"], review.report["bytes"]
        groups = ("committed", "uncommitted", "foreign", "young", "expired")
        assert objects["listed"] == len(listed) == sum(objects[group] for group in groups)
        assert size["listed"] == sum(row.size for row in listed) == sum(size[group] for group in groups)
        assert objects["committed"] == len(story.of("live_committed") | (story.of(tagged) if tagged else set()))
        assert objects["uncommitted"] == len(story.of("live_staged_only"))
        assert objects["foreign"] == len(story.of("foreign") - story.replay.unheld)
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


@pytest.mark.slow
def test_explain_says_of_every_object_what_the_recording_says(story: Story) -> None:
    recording, recorded = story.replay.recording, RecordedWorld(story.replay.recording)
    assert recorded.counting >= story.of("active_commits"), "the oracle agrees with the recording"
    listed, told = [row for row in recording.listing if row.key not in story.replay.unheld], 0
    for start in range(0, len(listed), AT_ONCE):
        some = listed[start : start + AT_ONCE]
        found = explain_each(not_needed, story.protected[0], [row.key for row in some], little=EVERYTHING)
        for row, each in zip(some, found, strict=True):
            assert (each.address, each.size) == (row.key, row.size)
            check_holders(recorded, each)
            check_past(recorded, each)
            check_verdict(story, each)
            told += 1
    assert told == len({row.key for row in listed})


def not_needed() -> SparkSession:
    raise AssertionError("Spark is started for what this process can read")


def check_holders(recorded: RecordedWorld, each: Explained) -> None:
    """All that keeps it by itself, until when, and the paths in the ranges that are read for them."""
    showing = recorded.showing.get(each.address, frozenset())
    right = recorded.holders(showing)
    named = [holder["name"] for holder in each.holders]
    assert set(named) <= right and len(set(named)) == len(named) == min(len(right), MOST), each.address
    assert each.holders_in_all == len(right), each.address
    for holder in each.holders:
        assert holder["commit"] in showing
        if holder["until"] is not None:
            ends = round(datetime.fromisoformat(holder["until"]).timestamp() * 10**6)
            assert holder["name"] in recorded.holders(showing, ends - SECOND), each.address
            assert holder["name"] not in recorded.holders(showing, ends + SECOND), each.address
    if right:
        assert set(each.paths) == recorded.paths(each.address, showing & recorded.counting, most=4), each.address


def check_past(recorded: RecordedWorld, each: Explained) -> None:
    """The last commit of what nothing keeps, and what became of it."""
    showing = recorded.showing.get(each.address, frozenset())
    if each.holders or not showing:
        assert each.past is None and bool(each.paths) == bool(showing), each.address
        return
    assert each.past is not None, each.address
    said = (each.past["commit"], each.past["cause"], each.past["by"])
    assert said in recorded.pasts(showing), each.address
    assert set(each.paths) <= recorded.paths(each.address, showing)
    assert set(each.paths) & recorded.paths(each.address, {said[0]}), each.address


_REASONS = {
    "garbage_when_tags_are_protected": "unreferenced",
    "live_staged_only": "staged",
    "foreign": "foreign",
    "young": "young",
}


def check_verdict(story: Story, each: Explained) -> None:
    """What the mark says of it: the group of the outcome that it is in."""
    groups = [group for group in _REASONS if each.address in story.of(group)]
    committed = each.address in story.of("live_committed") | story.of("live_because_tagged_only")
    is_metadata = each.address.startswith(f"{story.replay.recording.metadata_prefix}/")
    assert len(groups) + committed == (0 if is_metadata else 1), each.address
    assert bool(each.holders) == committed, each.address
    assert each.reason == (_REASONS[groups[0]] if groups else None), each.address
    assert (each.since is None) == (each.reason is None)
    assert each.staged == (groups == ["live_staged_only"]), each.address
    assert not (each.held or each.neighbour or each.swept)
    if each.address in story.of("live_because_tagged_only"):
        assert all(holder["name"].startswith("tag:") for holder in each.holders), each.address


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
