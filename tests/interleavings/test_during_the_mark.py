"""What happens around and between the stages of a mark: order, ages, staged data, commits, rules, names.

The sweep's look would catch much of this too, and is blind here in both directions: the mark has to stand by itself.
Level `standard`, which has no gap. The lake is the same for both directions; each has a mark and a sweep of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from lakegc_core import stages
from lakegc_core.judging import asked, expired
from lakegc_core.lakefs.models import StagedDump
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Stage
from lakegc_core.policy import safety
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.retention import retain
from lakegc_core.references import staged
from lakegc_core.references.commits import commit_walk, retained
from lakegc_core.references.commits.retained import find_retained
from lakegc_core.references.staged import dump_staged
from lakegc_sandbox.api import wire
from tests.interleavings.rig import (
    Lake,
    Mechanism,
    Row,
    Story,
    look_is_blind,
    row,
    stopped_by,
    without_canaries,
    without_guards,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_Retain = Callable[..., dict[int, str]]


def _commits_without(*reasons: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Commits that are kept for these reasons alone are not kept."""

    def forgetful(*arguments: Any, **options: Any) -> dict[int, str]:
        kept = retain(*arguments, **{**options, "server": ()})
        return {number: reason for number, reason in kept.items() if reason not in reasons}

    def off(patch: pytest.MonkeyPatch) -> None:
        earlier = commit_walk.retain
        patch.setattr(commit_walk, "retain", forgetful if earlier is retain else _both(forgetful, earlier))
        without_guards("heads-and-tags")(patch)

    return off


def _both(one: _Retain, other: _Retain) -> _Retain:
    def kept_by_both(*arguments: Any, **options: Any) -> dict[int, str]:
        mine, theirs = one(*arguments, **options), other(*arguments, **options)
        return {number: reason for number, reason in mine.items() if number in theirs}

    return kept_by_both


def _no_dump(patch: pytest.MonkeyPatch) -> None:
    dump = dump_staged

    def nothing(spark: SparkSession, context: MarkContext, folder: str) -> StageOutput:
        return replace(dump(spark, context, folder), datasets={Stage.UNCOMMITTED_ADDRESSES: ()})

    patch.setattr(stages, "dump_staged", nothing)


def _one_dump(patch: pytest.MonkeyPatch) -> None:
    """As in a repository that is too large for all branches to be listed whole: they show what the dump lacks."""

    def dumped(context: MarkContext) -> list[StagedDump]:
        return [context.client.prepare_uncommitted(context.header.repository)]

    patch.setattr(staged, "_dumped", dumped)
    patch.setattr(asked, "find_reuploads", lambda *arguments, **named: None)


def _no_times_in_names(patch: pytest.MonkeyPatch) -> None:
    def never(addresses: pa.Array) -> np.ndarray:  # within a function, so that it travels to the executors by value
        return np.full(len(addresses), np.nan)

    patch.setattr(expired, "xid_times", never)


def _every(answer: bool) -> Callable[[Namespace, pa.Array], pa.Array]:
    return lambda self, addresses: pa.array([answer] * len(addresses), pa.bool_())


def _greedy(**methods: Callable[[Namespace, pa.Array], pa.Array]) -> Callable[[pytest.MonkeyPatch], None]:
    """A namespace of which these methods answer otherwise."""

    def off(patch: pytest.MonkeyPatch) -> None:
        opened = Lake.open

        def greedy(self: Lake, *names: str) -> Any:
            context = opened(self, *names)
            # Made within a function, so that it travels to the executors by value.
            kind = type("Greedy", (type(context.namespace),), methods)
            return replace(context, namespace=kind(context.namespace.uri))

        patch.setattr(Lake, "open", greedy)

    return off


ORDER = Mechanism("listing before staged dump before commits", lambda patch: None)  # see `Story.tell`
AGE = Mechanism("the minimum age", lambda patch: patch.setitem(CHOICES, "min_age", timedelta(0)))
NAMES = Mechanism("the time in an object's name", _no_times_in_names)
STAGED = Mechanism("what the mark saw staged", _no_dump)
ANEW = Mechanism("a dump is begun anew where a branch was deleted and a page is empty", _one_dump)
SUSPECTS = Mechanism(
    "suspects at the mark",
    lambda patch: patch.setattr(asked, "find_reuploads", lambda *arguments, **named: None),
)
HEADS = Mechanism("heads are retained", _commits_without("head:cleared"))
DANGLING = Mechanism("dangling commits are retained", _commits_without("dangling"))
HISTORY = Mechanism("what a branch showed lately is retained", _commits_without("rules"))
LISTINGS = Mechanism("two listings of branches that agree", lambda patch: patch.setattr(retained, "_TRIES", 1))
MEMORY = Mechanism(
    "rules never shrink at once",
    lambda patch: patch.setitem(safety.LEVELS, "standard", replace(safety.STANDARD, rules_memory=timedelta(0))),
)
TAGS = Mechanism("tags are protected", lambda patch: patch.setitem(CHOICES, "protect_tags", False))
HOLDS = Mechanism("holds", lambda patch: patch.setattr(Lake, "held", lambda self: ()))
ALLOWED = Mechanism("the list of places where lakeFS writes data", _greedy(collectable=_every(True)))
GIVEN = Mechanism("the list of names that lakeFS gives", _greedy(unknown=_every(False)))
CHOICES: dict[str, Any] = {"safety_level": "standard"}
GROUPS = {
    each.name: "marking"
    for each in (
        ORDER,
        AGE,
        NAMES,
        STAGED,
        ANEW,
        SUSPECTS,
        HEADS,
        DANGLING,
        HISTORY,
        LISTINGS,
        MEMORY,
        TAGS,
        HOLDS,
        ALLOWED,
        GIVEN,
    )
}


# --- order ---


@stopped_by(ORDER)
def test_an_object_is_committed_between_the_two_readings(lake: Lake) -> Row:
    """Staged when commits are read too early, committed when the dump is taken too late: in neither."""
    lake.upload("moved", "a")
    return row("moved", "a", between_staged_and_commits=lambda: lake.commit("moved", days=0))


@stopped_by(ORDER)
def test_an_upload_with_an_old_date_is_completed_between_dump_and_listing(lake: Lake) -> Row:
    """A multipart upload bears the date at which it was begun; listed after the dump it looks like old garbage."""
    repository, content = lake.repository, lake.content()
    lake.upload("completed", "b")
    address = repository.place.qualify(repository.place.names.data_address(lake.now - 3 * 86_400))

    def complete() -> None:
        repository.put(address, content, age=timedelta(days=3))
        repository.stage("completed", "a", address, size=len(content), checksum="0" * 32)

    return row("completed", "a", between_listing_and_staged=complete)


# --- ages ---


@stopped_by(AGE)
def test_an_upload_is_not_staged_yet(lake: Lake) -> Row:
    return _linked_after_the_sweep(lake, "fresh", hours=1)


@stopped_by(AGE)
def test_an_upload_is_linked_at_the_end_of_its_day(lake: Lake) -> Row:
    """lakeFS lets a client link an address for 24 hours."""
    return _linked_after_the_sweep(lake, "linked", hours=23.5)


def _linked_after_the_sweep(lake: Lake, branch: str, hours: float, hours_in_store: float | None = None) -> Row:
    """An object that is so many hours old when the mark begins, by its name and, unless told otherwise, its date."""
    lake.upload(branch, "b")
    content, repository, addresses = lake.content(), lake.repository, []

    def upload() -> None:
        addresses.append(repository.physical_address(branch, age=timedelta(hours=hours)))
        repository.put(addresses[-1], content, age=timedelta(hours=hours_in_store or hours))

    def link() -> None:
        repository.stage(branch, "a", addresses[-1], size=len(content), checksum="0" * 32)

    return row(branch, "a", begins=upload, swept=link)


@stopped_by(NAMES)
def test_a_fresh_upload_gets_an_old_date_in_the_store(lake: Lake) -> Row:
    """Tools that copy keep dates; the name that lakeFS gave out an hour ago tells."""
    return _linked_after_the_sweep(lake, "dated", hours=1, hours_in_store=30 * 24)


# --- what is staged ---


@stopped_by(STAGED)
def test_a_staged_object_is_dropped_after_the_dump_and_staged_again(lake: Lake) -> Row:
    """What was staged when the mark looked is not in the plan, whatever became of it."""
    content, branch = lake.content(), "dropped-and-back"
    repository = lake.repository
    repository.create_branch(branch, "main")
    full = repository.place.qualify(repository.upload(branch, "a", content, age=timedelta(days=60)))
    return row(
        branch,
        "a",
        between_staged_and_commits=lambda: repository.delete(branch, "a"),
        swept=lambda: repository.stage(branch, "a", full, size=len(content), checksum="0" * 32),
    )


@stopped_by(ANEW)
def test_a_branch_vanishes_and_the_dump_drops_the_page(lake: Lake) -> Row:
    """The server counts rows anew when a branch vanishes, and does not upload a page that counts none."""
    lake.upload("zz-1", "a")
    lake.upload("zz-2", "b")
    lake.upload("zz-3", "b")

    def scanned(branch: str, path: str) -> None:
        names = sorted(lake.repository.refs.branches)
        if branch == names[0] and sum(name < "zz-1" for name in names) % 2:
            lake.upload("zz-0", "b")  # so that a page of two branches begins with zz-1
        if branch == "zz-1" and "zz-2" in names:
            lake.repository.delete_branch("zz-2")

    return row("zz-1", "a", begins=lambda: lake.scanning.append(scanned))


@stopped_by(SUSPECTS)
def test_an_identical_object_is_uploaded_again(lake: Lake) -> Row:
    """lakeFS's dump does not name it, though reads of the branch go to the new object."""
    lake.uploaded_again("same")
    return row("same", "a")


# --- commits and rules ---


@stopped_by(HEADS)
def test_an_object_is_deleted_after_its_commit_and_the_deletion_is_taken_back(lake: Lake) -> Row:
    lake.upload("cleared", "a")
    lake.commit("cleared")
    lake.repository.delete("cleared", "a")
    return row("cleared", "a", swept=lambda: lake.repository.reset("cleared"))


@stopped_by(DANGLING)
def test_a_branch_is_deleted_right_after_its_commit(lake: Lake) -> Row:
    lake.upload("brief", "a")
    commit = lake.commit("brief", days=0)
    return row(commit, "a", begins=lambda: lake.repository.delete_branch("brief"))


@stopped_by(HISTORY)
def test_a_branch_is_made_of_an_active_commit_after_the_sweep(lake: Lake) -> Row:
    """The version was the branch's own until three days ago, and its rule keeps seven."""
    lake.upload("active", "a")
    commit = lake.commit("active")
    lake.upload("active", "a")
    lake.commit("active", days=3)
    return row("from-active", "a", swept=lambda: lake.repository.create_branch("from-active", commit))


@stopped_by(LISTINGS)
def test_a_branch_is_renamed_between_two_pages_of_the_listing(lake: Lake) -> Row:
    """It was made of an expired commit after the dump of all references, and the first listing shows neither name."""
    commit, repository = lake.expired("a"), lake.repository

    def between_pages(method: str, path: str, query: Mapping[str, str]) -> None:
        if "aa-early" in repository.refs.branches:
            return
        if path.endswith("/dump") and method == "POST":
            lake.moment = "dumped"
        if path.endswith("/branches") and lake.moment == "dumped" and "zz-late" not in repository.refs.branches:
            repository.create_branch("zz-late", commit)
        elif path.endswith("/branches") and lake.moment == "dumped" and query.get("after"):
            repository.create_branch("aa-early", commit)
            repository.delete_branch("zz-late")

    def begin() -> None:
        lake.server.fault = between_pages

    return row("aa-early", "a", begins=begin)


@stopped_by(MEMORY)
def test_a_rule_is_shortened_by_mistake(lake: Lake) -> Row:
    """An earlier mark saw the longer one; it is set right after the sweep."""
    lake.upload("mistaken", "a")
    lake.commit("mistaken")
    lake.upload("mistaken", "a")
    lake.commit("mistaken", days=30)
    lake.repository.set_rules(7, {"mistaken": 100})
    return row("mistaken~1", "a", begins=lambda: lake.repository.set_rules(7))


@stopped_by(TAGS)
def test_a_commit_is_only_kept_by_a_tag(lake: Lake) -> Row:
    """lakeFS's own collector takes its objects."""
    lake.repository.tag("v1", lake.expired("a"))
    return row("v1", "a")


@stopped_by(HOLDS)
def test_a_commit_is_held(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.holds.append(f"commit:{commit}")
    return row(commit, "a")


@stopped_by(HOLDS)
def test_the_history_of_a_branch_is_held(lake: Lake) -> Row:
    lake.upload("held", "a")
    lake.commit("held")
    lake.upload("held", "a")
    lake.commit("held", days=30)
    lake.holds.append("branch:held")
    return row("held~1", "a")


@stopped_by(HOLDS)
def test_a_path_is_held_in_every_commit(lake: Lake) -> Row:
    commit = lake.expired("legal/a")
    lake.holds.append("path:legal/**")
    return row(commit, "legal/a")


# --- names ---


@stopped_by(ALLOWED)
def test_somebody_elses_file_lies_in_the_namespace(lake: Lake) -> Row:
    lake.repository.files.write("exports/report.csv", lake.content(), lake.now - 60 * 86_400)
    return row("", "exports/report.csv")


@stopped_by(GIVEN)
def test_somebody_elses_file_lies_among_the_data(lake: Lake) -> Row:
    lake.repository.files.write("data/raw/customers.csv", lake.content(), lake.now - 60 * 86_400)
    return row("", "data/raw/customers.csv")


# --- the story ---


class DuringTheMark(Story):
    """All rows on one lake, and what an earlier mark saw of it."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        self.garbage = found.forgotten(found.content())
        found.options = CHOICES
        found.mark("m0", stages=3)
        found.wait(days=1)
        self.saved = found.save()
        self.deleted: dict[bool, bool] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Mark, and sweep as soon as level `standard` lets."""
        found = self.lake
        found.rewind(self.saved)
        with pytest.MonkeyPatch.context() as patch:
            look_is_blind(patch)
            without_canaries(patch)
            patch.setattr(wire, "MAX_PER_PAGE", 7)
            self.fire("begins")
            if ORDER.name in off:
                self._backwards(patch)
            found.mark("m1", self._stage_has_ended if ORDER.name not in off else lambda stage: None)
            found.wait(minutes=20)
            found.sweep("m1")
        self.fire("swept")
        self.deleted[not off] = self.garbage not in found.stored()

    def _stage_has_ended(self, stage: str) -> None:
        if stage == "namespace_listing":
            self.fire("between_listing_and_staged")
        if stage == "uncommitted_addresses":
            self.fire("between_staged_and_commits")

    def _backwards(self, patch: pytest.MonkeyPatch) -> None:
        """Read commits, then what is staged, and only then let the mark list; its stages get what was read."""
        context, found = self.lake.begin("m1"), self.lake
        folders = {stage: context.mark.stage_folder(stage) for stage in (Stage.RETENTION_COMMITS, DUMP)}
        commits = find_retained(found.spark, context, folders[Stage.RETENTION_COMMITS], former=None)
        self.fire("between_staged_and_commits")
        staged = dump_staged(found.spark, context, folders[DUMP])
        self.fire("between_listing_and_staged")
        patch.setattr(stages, "find_retained", lambda *arguments, **options: commits)
        patch.setattr(stages, "dump_staged", lambda *arguments: staged)


DUMP = Stage.UNCOMMITTED_ADDRESSES


def test_garbage_goes_in_these_sweeps_too(story: DuringTheMark, lost: Callable[[str, bool], bool]) -> None:
    lost(test_a_path_is_held_in_every_commit.__name__, True)
    assert story.deleted[True]
