"""What happens to identical re-uploads while a sweep looks: heads of branches move around its staged dump, and while
lakeFS is asked what branches show.

One lake is marked once, at level `none`, as a large repository, where lakeFS is asked only for what is alike an entry
of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakegc_core.references.commits.retained import ListedRefs
from lakegc_core.sweep import look, planning
from tests.interleavings.rig import Lake, Mechanism, Row, Story, row, stopped_by


def _no_heads_before_the_dump(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(look, "write_branches", lambda *arguments: ListedRefs("", []))
    _no_second_look(patch)


def _no_second_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(look.Look, "heads_moved", lambda *arguments: False)


BEFORE = Mechanism("heads are listed before the dump too", _no_heads_before_the_dump)
AGAIN = Mechanism("a look anew when heads moved", _no_second_look)
GROUPS = {BEFORE.name: "before", AGAIN.name: "again"}


def _hidden(found: Lake, branch: str) -> tuple[str, str, str]:
    """A branch of three commits, of which the last holds `a`; a forgotten object of the same content, which a sweep
    would delete. The address of that, and the first two commits."""
    found.upload(branch, "other")
    first = found.commit(branch, days=0)
    found.upload(branch, "another")
    second = found.commit(branch, days=0)
    content = found.content()
    found.repository.upload(branch, "a", content)
    found.commit(branch, days=0)
    return found.forgotten(content), first, second


def _stage(found: Lake, branch: str, address: str) -> None:
    """Stage an address with the content that the head has: lakeFS names it in no dump."""
    entry = found.repository.entry(branch, "a")
    full = found.repository.place.qualify(address)
    found.repository.stage(branch, "a", full, size=entry.size, checksum=entry.e_tag)


@stopped_by(BEFORE)
def test_a_branch_is_reset_hard_after_the_dump_so_that_what_it_hid_is_seen(lake: Lake) -> Row:
    """When the dump was made the head had the same content; now it has not, and the staged object is what reads get."""
    address, first, _ = _hidden(lake, "reset")
    return row(
        "reset",
        "a",
        marked=lambda: _stage(lake, "reset", address),
        dumped=lambda: lake.repository.hard_reset("reset", first),
    )


@stopped_by(AGAIN)
def test_what_a_branch_hid_is_committed_and_left_behind_while_lakefs_is_asked(lake: Lake) -> Row:
    """After the commit the head moves away: only the commit, which counts for its age, refers to the object."""
    address, first, second = _hidden(lake, "behind")

    def leave_behind() -> None:
        lake.repository.hard_reset("behind", first)
        lake.commit("behind", days=0)
        lake.repository.hard_reset("behind", second)

    return row("", address, marked=lambda: _stage(lake, "behind", address), looked=leave_behind)


class WhileTheLookAsks(Story):
    """All rows, marked once, and swept."""

    groups = GROUPS
    large_at = "none"

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        found.options["safety_level"] = "none"
        self.garbage = found.forgotten(found.content())
        found.mark("m1")
        self.saved = found.save()
        self.deleted: dict[bool, bool] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Sweep; let rows act once after the dump, and once after the look has read all."""
        self.lake.rewind(self.saved)
        self.fire("marked")
        dump_staged, take_look, fired = look.dump_staged, planning.take_look, set()

        def once(moment: str) -> None:
            if moment not in fired:
                fired.add(moment)
                self.fire(moment)

        def dumped(*arguments: Any) -> Any:
            found = dump_staged(*arguments)
            once("dumped")
            return found

        def looked(*arguments: Any) -> Any:
            found = take_look(*arguments)
            once("looked")
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(look, "dump_staged", dumped)
            patch.setattr(planning, "take_look", looked)
            self.lake.sweep("m1")
        self.deleted[not off] = self.garbage not in self.lake.stored()


def test_garbage_goes_in_the_same_sweep(story: WhileTheLookAsks, lost: Callable[[str, bool], bool]) -> None:
    assert not lost(test_a_branch_is_reset_hard_after_the_dump_so_that_what_it_hid_is_seen.__name__, True)
    assert story.deleted[True]
