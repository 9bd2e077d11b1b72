"""What happens between a mark and the end of its sweep: the gap, the look, the glances while objects are deleted.

One lake is marked once at level `full`. Then the story goes on, for each mechanism that is switched off from the same
state: a first sweep at once, which may delete nothing; one that breaks off a day later; one that resumes it after
nine more days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.policy import safety
from lakegc_core.sweep import deletion, look, planning
from lakegc_core.sweep.call import SweepCall
from lakegc_core.sweep.result import SweepResult
from lakegc_sandbox import ScanError
from tests.interleavings.rig import Lake, Mechanism, Row, Story, look_is_blind, row, stopped_by
from tests.support.tasks import run_here

if TYPE_CHECKING:
    from datetime import timedelta


def _full(**limits: timedelta | int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setitem(safety.LEVELS, "full", replace(safety.LEVELS["full"], **limits))  # type: ignore[arg-type]


GAP = Mechanism("the gap", _full(gap=0 * safety.FULL.gap))
LOOK = Mechanism("the look", look_is_blind)
SUSPECTS = Mechanism(
    "suspects", lambda patch: patch.setattr(planning, "find_reuploads", lambda *arguments, **named: None)
)
REFS = Mechanism("the glance at refs", lambda patch: patch.setattr(look.Glance, "changed_refs", lambda self: None))
RULES = Mechanism("the glance at rules", lambda patch: patch.setattr(look.Glance, "rules_changed", lambda self: False))
VALIDITY = Mechanism("a look's validity", _full(look_validity=1000 * safety.FULL.look_validity))
AFTERWARDS = Mechanism(
    "the look after the last delete",
    lambda patch: patch.setattr(SweepCall, "_record_lost", lambda *arguments: None),
)
GROUPS = {
    GAP.name: "gap",
    LOOK.name: "look",
    SUSPECTS.name: "suspects",
    **{each.name: "while deleting" for each in (REFS, RULES, VALIDITY, AFTERWARDS)},
}


# --- stopped by the gap: the mark and a look at once after it see nothing ---


@stopped_by(GAP)
def test_an_object_is_overwritten_while_its_commit_waits_for_hooks(lake: Lake) -> Row:
    """The commit's own object is hidden below the newer one, and no commit refers to it yet."""
    lake.upload("flight", "a")
    finish = lake.repository.begin_commit("flight", "slow hooks")
    lake.upload("flight", "a", days=0)
    return row("flight@", "a", first_sweep_over=finish)


@stopped_by(GAP)
def test_an_object_is_deleted_while_its_commit_waits_for_hooks(lake: Lake) -> Row:
    lake.upload("flight-2", "a")
    finish = lake.repository.begin_commit("flight-2", "slow hooks")
    lake.repository.delete("flight-2", "a")
    return row("flight-2@", "a", first_sweep_over=finish)


@stopped_by(GAP)
def test_a_branch_is_created_with_slow_hooks_and_its_source_goes(lake: Lake) -> Row:
    """The new branch's commit was found before the hooks ran; meanwhile nothing refers to it."""
    lake.upload("source", "a")
    lake.commit("source")
    finish = lake.repository.begin_branch("created-late", "source")
    lake.repository.delete_branch("source")
    return row("created-late", "a", first_sweep_over=finish)


@stopped_by(GAP)
def test_a_multipart_upload_with_an_old_date_is_staged_after_the_look(lake: Lake) -> Row:
    """Its name and its date are those of the day it was begun; it is listed as soon as it is complete."""
    stage = lake.dropped("big")
    lake.upload("multipart", "other")
    return row("multipart", "big", first_sweep_over=lambda: stage("multipart"))


@stopped_by(GAP)
def test_a_staged_object_is_moved_during_the_scan_of_the_mark_and_again_of_the_look(lake: Lake) -> Row:
    """A shallow copy to a path behind the scan, then the source deleted ahead of it: the dump shows neither."""
    move, back = _moving(lake, "mover", while_scanning=("namespace_listing", "marked"))
    return row("mover", "a", namespace_listing=move, marked=back)


def _moving(lake: Lake, branch: str, while_scanning: tuple[str, ...]) -> tuple[Callable[[], None], Callable[[], None]]:
    lake.upload(branch, "m")
    lake.upload(branch, "z")

    def scanned(scanned_branch: str, path: str) -> None:
        ahead = "z" in dict(lake.repository.objects(branch))
        if ahead and scanned_branch == branch and path > "m" and lake.moment in while_scanning:
            lake.repository.copy(branch, "a", branch, "z", shallow=True)
            lake.repository.delete(branch, "z")

    def back() -> None:
        lake.repository.copy(branch, "z", branch, "a", shallow=True)
        lake.repository.delete(branch, "a")

    return lambda: lake.scanning.append(scanned), back


# --- stopped by the look: content comes back to life after the mark ---


@stopped_by(LOOK)
def test_a_branch_is_made_of_an_expired_commit(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("revived", "a", broken_off=lambda: lake.repository.create_branch("revived", commit))


@stopped_by(LOOK)
def test_a_tag_is_put_on_an_expired_commit(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("v1", "a", broken_off=lambda: lake.repository.tag("v1", commit))


@stopped_by(LOOK)
def test_a_branch_is_reset_hard_to_an_expired_commit(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.upload("reset", "b")
    lake.commit("reset")
    return row("reset", "a", broken_off=lambda: lake.repository.hard_reset("reset", commit))


@stopped_by(LOOK)
def test_a_deletion_of_long_ago_is_reverted(lake: Lake) -> Row:
    lake.upload("reverted", "a")
    lake.commit("reverted")
    lake.repository.delete("reverted", "a")
    lake.commit("reverted", days=50)
    lake.upload("reverted", "b", days=50)
    lake.commit("reverted", days=40)
    return row("reverted", "a", broken_off=lambda: lake.repository.revert("reverted", "reverted~1"))


@stopped_by(LOOK)
def test_an_expired_commit_is_cherry_picked(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.upload("picked", "b")
    lake.commit("picked")
    return row("picked", "a", broken_off=lambda: lake.repository.cherry_pick("picked", commit))


@stopped_by(LOOK)
def test_an_expired_commit_is_merged(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.upload("merged", "b")
    lake.commit("merged")
    return row("merged", "a", broken_off=lambda: lake.repository.merge(commit, "merged"))


@stopped_by(LOOK)
def test_an_expired_commit_with_the_content_of_the_head_is_merged(lake: Lake) -> Row:
    """The head then shows the object of the expired commit in place of its own."""
    content = lake.content()
    commit = lake.expired("a", content)
    lake.upload("merged-2", "a", content)
    lake.commit("merged-2")
    return row("merged-2", "a", broken_off=lambda: lake.repository.merge(commit, "merged-2"))


@stopped_by(LOOK)
def test_a_commit_is_reverted_whose_parent_has_the_content_of_the_head(lake: Lake) -> Row:
    """The head then shows the object of the parent, which has expired, in place of its own."""
    content = lake.content()
    for days, data in ((60, content), (50, b""), (40, content)):
        lake.upload("reverted-2", "a", data, days=days)
        lake.commit("reverted-2", days=days)
    return row("reverted-2", "a", broken_off=lambda: lake.repository.revert("reverted-2", "reverted-2~1"))


@stopped_by(LOOK)
def test_an_expired_metarange_is_committed_again(lake: Lake) -> Row:
    commit = lake.expired("a")
    metarange = lake.repository.refs.commits[commit].meta_range_id
    lake.upload("recorded", "b")
    lake.commit("recorded")
    return row("recorded", "a", broken_off=lambda: lake.repository.commit_metarange("recorded", "as it was", metarange))


@stopped_by(LOOK)
def test_an_object_of_an_expired_commit_is_copied_shallowly(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.upload("copied", "b")
    return row("copied", "c", broken_off=lambda: lake.repository.copy("copied", "c", commit, "a", shallow=True))


@stopped_by(LOOK)
def test_a_forgotten_object_is_staged_by_its_address(lake: Lake) -> Row:
    stage = lake.dropped("a")
    lake.upload("staged", "b")
    return row("staged", "a", broken_off=lambda: stage("staged"))


@stopped_by(LOOK)
def test_a_rule_is_lengthened_after_the_mark(lake: Lake) -> Row:
    return row("longer~1", "a", broken_off=lake.longer_rule("longer"))


@stopped_by(LOOK)
def test_the_dump_of_the_mark_swallows_an_error(lake: Lake) -> Row:
    """The server takes a failing database for the end of a branch: its dump is short and says nothing of it."""
    lake.upload("short", "a")

    def scanned(branch: str, path: str) -> None:
        if branch == "short" and lake.moment == "namespace_listing":
            raise ScanError

    return row("short", "a", namespace_listing=lambda: lake.scanning.append(scanned))


@stopped_by(LOOK)
def test_a_staged_object_is_moved_during_the_scan_of_the_mark(lake: Lake) -> Row:
    move, _ = _moving(lake, "mover-2", while_scanning=("namespace_listing",))
    return row("mover-2", "a", namespace_listing=move)


@stopped_by(LOOK)
def test_a_branch_is_made_and_deleted_during_the_dump_which_drops_the_page(lake: Lake) -> Row:
    """The server counts rows anew when a branch vanishes, and does not upload a page that counts none."""
    lake.upload("zz-1", "a")
    lake.upload("zz-3", "b")
    made: list[str] = []

    def scanned(branch: str, path: str) -> None:
        if not made:
            made.append("zz-2")  # no listing of branches shows it
            lake.upload("zz-2", "b")
        elif branch == "zz-1" and "zz-2" in lake.repository.refs.branches:
            lake.repository.delete_branch("zz-2")

    def begin() -> None:
        made.clear()
        if sum(name < "zz-1" for name in lake.repository.refs.branches) % 2:
            lake.upload("zz-0", "b")  # so that a page of two branches begins with zz-1
        lake.scanning.append(scanned)

    return row("zz-1", "a", namespace_listing=begin)


@stopped_by(SUSPECTS)
def test_an_address_is_staged_with_the_content_that_the_head_has(lake: Lake) -> Row:
    """lakeFS takes the entry for the head's own and dumps nothing, though reads of the branch go to the new object."""
    content = lake.content()
    repository = lake.repository
    repository.create_branch("again", "main")
    repository.upload("again", "a", content)
    checksum = repository.entry("again", "a").e_tag
    lake.commit("again")
    address = repository.place.qualify(lake.forgotten(content))
    return row(
        "again", "a", broken_off=lambda: repository.stage("again", "a", address, size=len(content), checksum=checksum)
    )


# --- stopped while objects are deleted ---


@stopped_by(REFS)
def test_a_branch_is_made_of_an_expired_commit_while_objects_are_deleted(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("revived-2", "a", deleting=lambda: lake.repository.create_branch("revived-2", commit))


@stopped_by(REFS)
def test_a_tag_is_put_on_an_expired_commit_while_objects_are_deleted(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("v2", "a", deleting=lambda: lake.repository.tag("v2", commit))


@stopped_by(RULES)
def test_a_rule_is_lengthened_while_objects_are_deleted(lake: Lake) -> Row:
    return row("longer-2~1", "a", deleting=lake.longer_rule("longer-2"))


@stopped_by(VALIDITY)
def test_a_forgotten_object_is_staged_by_its_address_during_a_sweep_of_hours(lake: Lake) -> Row:
    stage = lake.dropped("a")
    lake.upload("staged-2", "b")
    return row("staged-2", "a", deleting=lambda: stage("staged-2"))


# --- the story ---


class AfterTheMark(Story):
    """All rows, marked once."""

    groups = GROUPS
    large_at = "full"

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        self.garbage = found.forgotten(found.content())
        self.stage_late = found.dropped("late")
        found.options["safety_level"] = "full"
        found.mark("m1", self.fire)
        self.saved = found.save()
        self.results: dict[bool, SweepResult] = {}
        self.deleted: dict[bool, bool] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Sweep at once; a day later, breaking off; after nine more days."""
        self.lake.rewind(self.saved)
        self.fire("marked")
        if not off or GAP.name in off:
            self.lake.sweep("m1")
            self.fire("first_sweep_over")
        if GAP.name in off:
            return
        self.lake.wait(hours=25)
        if not off:
            with pytest.raises(_Killed), _tasks_of_the_sweep(self._kill):
                self.lake.sweep("m1")
        self.lake.wait(days=9)
        self.fire("broken_off")
        acts = iter([self._an_hour_passes, lambda: self.stage_late("main")])
        with _tasks_of_the_sweep(lambda: next(acts, _nothing)()) as patch:
            if AFTERWARDS.name in off:
                AFTERWARDS.off(patch)
            self.results[not off] = self.lake.sweep("m1")
        self.deleted[not off] = self.garbage not in self.lake.stored()

    def _kill(self) -> None:
        raise _Killed

    def _an_hour_passes(self) -> None:
        self.fire("deleting")
        self.lake.wait(minutes=61)


class _Killed(Exception):
    pass


def _nothing() -> None:
    pass


@contextmanager
def _tasks_of_the_sweep(before: Callable[[], object]) -> Iterator[pytest.MonkeyPatch]:
    """Let something happen before each wave of deletes, after it was decided what goes."""

    def wave(*arguments: Any, **options: Any) -> Any:
        before()
        return run_here(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deletion, "run_tasks", wave)
        yield patch


def test_an_address_staged_in_the_last_second_is_deleted_and_the_sweep_says_so(
    story: AfterTheMark, lost: Callable[[str, bool], bool]
) -> None:
    """No client can stop this one. Without the look after the last delete nobody would know."""
    lost(test_a_tag_is_put_on_an_expired_commit_while_objects_are_deleted.__name__, True)
    lost(test_a_tag_is_put_on_an_expired_commit_while_objects_are_deleted.__name__, False)
    assert story.results[True].lost == 1
    assert "restore them, and report this" in story.results[True].trouble
    assert not story.results[False].lost


def test_garbage_goes_in_the_same_sweep(story: AfterTheMark, lost: Callable[[str, bool], bool]) -> None:
    lost(test_a_tag_is_put_on_an_expired_commit.__name__, True)
    assert story.deleted[True]
