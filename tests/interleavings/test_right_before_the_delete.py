"""What happens in a sweep of one wave: between its look and its only wave of deletes, and between that and its end.

One lake is marked once, at level `none`, so that nothing is waited for. References appear while the sweep plans, which
takes minutes where much is planned; others when all is deleted and the last look is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakegc_core.sweep import waves
from lakegc_core.sweep.call import SweepCall
from lakegc_core.sweep.look import Glance, Look
from lakegc_core.sweep.planning import Planner
from lakegc_core.sweep.result import SweepResult
from tests.interleavings.rig import REGISTRY, Lake, Mechanism, Row, Story, row, stopped_by

_look_is_due = waves.Waves._look_is_due
_look_again = SweepCall._look_again


def _not_before_the_first_wave(patch: pytest.MonkeyPatch) -> None:
    begun: list[Glance] = []  # one a plan

    def look_is_due(sweep: Any, glance: Glance, plan: Any) -> bool:
        if not any(each is glance for each in begun):
            begun.append(glance)
            return False
        return _look_is_due(sweep, glance, plan)

    patch.setattr(waves.Waves, "_look_is_due", look_is_due)


REFS = Mechanism("the glance at refs right before the first delete", _not_before_the_first_wave)
RULES = Mechanism("the glance at rules right before the first delete", _not_before_the_first_wave)
GROUPS = {REFS.name: "refs", RULES.name: "rules"}


@stopped_by(REFS)
def test_a_branch_is_made_of_an_expired_commit_while_the_sweep_plans(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("revived", "a", looked=lambda: lake.repository.create_branch("revived", commit))


@stopped_by(REFS)
def test_a_tag_is_put_on_an_expired_commit_while_the_sweep_plans(lake: Lake) -> Row:
    commit = lake.expired("a")
    return row("v1", "a", looked=lambda: lake.repository.tag("v1", commit))


@stopped_by(REFS)
def test_an_expired_commit_is_cherry_picked_and_its_paths_are_deleted_while_the_sweep_plans(lake: Lake) -> Row:
    commit = lake.expired("a")
    lake.repository.create_branch("picked", "main")

    def looked() -> None:
        lake.repository.cherry_pick("picked", commit)
        lake.repository.delete("picked", "a")
        lake.commit("picked", days=0)

    return row("picked~1", "a", looked=looked)


@stopped_by(REFS)
def test_an_expired_commit_is_cherry_picked_on_a_branch_that_is_merged_and_deleted_while_the_sweep_plans(
    lake: Lake,
) -> Row:
    commit = lake.expired("a")
    lake.repository.create_branch("target", "main")

    def looked() -> None:
        lake.repository.create_branch("side", "target")
        lake.repository.cherry_pick("side", commit)
        lake.repository.delete("side", "a")
        lake.upload("side", "b", days=0)
        lake.commit("side", days=0)
        lake.repository.merge("side", "target")
        lake.repository.delete_branch("side")

    return row("target^2~1", "a", looked=looked)


@stopped_by(REFS)
def test_a_branch_of_an_expired_commit_deletes_its_paths_while_the_sweep_plans(lake: Lake) -> Row:
    commit = lake.expired("a")

    def looked() -> None:
        lake.repository.create_branch("emptied", commit)
        lake.repository.delete("emptied", "a")
        lake.commit("emptied", days=0)

    return row("emptied~1", "a", looked=looked)


@stopped_by(REFS)
def test_a_branch_with_a_longer_rule_is_made_of_a_head_while_the_sweep_plans(lake: Lake) -> Row:
    lake.longer_rule("short")
    lake.repository.set_rules(7, {**(lake.repository.rules or (7, {}))[1], "long": 100})
    return row("long~1", "a", looked=lambda: lake.repository.create_branch("long", "short"))


@stopped_by(REFS)
def test_a_branch_that_a_hold_means_is_made_of_a_head_while_the_sweep_plans(lake: Lake) -> Row:
    lake.longer_rule("not-held")
    lake.holds.append("branch:held-*")
    return row("held-1~1", "a", looked=lambda: lake.repository.create_branch("held-1", "not-held"))


@stopped_by(REFS)
def test_a_branch_whose_rule_is_shorter_than_the_default_is_deleted_while_the_sweep_plans(lake: Lake) -> Row:
    lake.upload("brief", "a")
    commit = lake.commit("brief", days=5)
    lake.upload("brief", "a")
    lake.commit("brief", days=3)
    lake.repository.set_rules(7, {**(lake.repository.rules or (7, {}))[1], "brief": 1})
    return row(commit, "a", looked=lambda: lake.repository.delete_branch("brief"))


@stopped_by(RULES)
def test_a_rule_is_lengthened_while_the_sweep_plans(lake: Lake) -> Row:
    return row("longer~1", "a", looked=lake.longer_rule("longer"))


class OneWave(Story):
    """All rows, marked once; and three objects that come back when all is deleted."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        branch, tag = found.expired("a"), found.expired("a")
        longer = found.longer_rule("too-late")
        self.too_late: dict[str, tuple[str, Callable[[], object]]] = {
            "branch": ("late", lambda: found.repository.create_branch("late", branch)),
            "tag": ("late-tag", lambda: found.repository.tag("late-tag", tag)),
            "rule": ("too-late~1", longer),
        }
        found.options["safety_level"] = "none"
        self.garbage = found.forgotten(found.content())
        found.mark("m1")
        self.saved = found.save()
        self.waves = 0
        self.deleted_in: dict[bool, int] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Sweep in one wave, or in two if the first glance calls for another look."""
        self.lake.rewind(self.saved)
        with self._around(lambda: self.fire("looked")):
            self.lake.sweep("m1")
        assert self.garbage not in self.lake.stored()
        self.deleted_in[not off] = self.waves

    def sweep(self, *kinds: str) -> SweepResult:
        """Sweep; some objects come back when all is deleted."""
        self.lake.rewind(self.saved)
        with self._around(lambda: None, lambda: [self.too_late[kind][1]() for kind in kinds]):
            return self.lake.sweep("m1")

    @contextmanager
    def _around(self, looked: Callable[[], object], deleted: Callable[[], object] = list) -> Iterator[None]:
        """Let something happen once a sweep has planned for the first time, and before its last look."""
        write_plan, run_wave = Planner._write_plan, waves.run_wave
        plans = self.waves = 0

        def plan(*arguments: Any, **more: Any) -> Any:
            nonlocal plans
            found, plans = write_plan(*arguments, **more), plans + 1
            if plans == 1:
                looked()
            return found

        def wave(*arguments: Any) -> Any:
            self.waves += 1
            return run_wave(*arguments)

        def look_again(sweep: Any, attempt: int) -> Look:
            deleted()
            return _look_again(sweep, attempt)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Planner, "_write_plan", plan)
            patch.setattr(waves, "run_wave", wave)
            patch.setattr(SweepCall, "_look_again", look_again)
            yield


@pytest.mark.parametrize("name", [name for name, (_, stopped) in REGISTRY.items() if stopped in (REFS, RULES)])
def test_one_change_alone_is_enough_for_another_look(story: OneWave, name: str) -> None:
    story.acting = {name}
    story.tell(frozenset())
    assert story.lake.reads(story.rows[name].ref, story.rows[name].path), "lost"
    assert story.waves == 1, "the garbage that is left goes after the other look"


def test_all_other_garbage_goes_in_one_wave(story: OneWave, lost: Callable[[str, bool], bool]) -> None:
    assert not lost(test_a_tag_is_put_on_an_expired_commit_while_the_sweep_plans.__name__, True)
    assert story.deleted_in[True] == 1


def _comes_too_late(story: OneWave, kind: str) -> None:
    found = story.sweep(kind)
    assert not story.lake.reads(story.too_late[kind][0], "a")
    assert found.lost == 1 and "restore them, and report this" in found.trouble
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SweepCall, "_record_lost", lambda *arguments: None)
        assert not story.sweep(kind).lost, "nobody would know"


def test_a_branch_is_made_of_an_expired_commit_after_the_last_delete(story: OneWave) -> None:
    _comes_too_late(story, "branch")


def test_a_tag_is_put_on_an_expired_commit_after_the_last_delete(story: OneWave) -> None:
    _comes_too_late(story, "tag")


def test_a_rule_is_lengthened_after_the_last_delete(story: OneWave) -> None:
    _comes_too_late(story, "rule")
