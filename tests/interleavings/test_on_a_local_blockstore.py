"""Blockstore `local`: the server's dump forgets much of what is staged there, and every branch is listed instead.

The sweep's look lists them too, and is blind here in both directions: the mark has to stand by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakegc_core.references import staged
from lakegc_sandbox import ScanError
from tests.interleavings.rig import Lake, Mechanism, Row, Story, look_is_blind, row, stopped_by, without_canaries

LISTED = Mechanism(
    "branches are listed",
    lambda patch: patch.setattr(staged, "_list_branches", lambda *arguments: ([], [])),
)
GROUPS = {LISTED.name: "listed"}


@stopped_by(LISTED)
def test_an_object_is_linked_on_local(lake: Lake) -> Row:
    """Its address is a full one, in a form that the server does not take for its own namespace's."""
    stage = lake.dropped("a")
    lake.upload("linked", "b")
    stage("linked")
    return row("linked", "a")


@stopped_by(LISTED)
def test_an_identical_object_is_uploaded_again_on_local(lake: Lake) -> Row:
    lake.uploaded_again("same")
    return row("same", "a")


@stopped_by(LISTED)
def test_the_dump_swallows_an_error_on_local(lake: Lake) -> Row:
    lake.upload("short", "a")

    def scanned(branch: str, path: str) -> None:
        if branch == "short":
            raise ScanError

    lake.scanning.append(scanned)
    return row("short", "a")


class OnLocal(Story):
    """One lake, marked and swept at level `standard` in each direction."""

    groups = GROUPS
    blockstore = "local"

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        found.options["safety_level"] = "standard"
        self.garbage = found.forgotten(found.content())
        self.saved = found.save()
        self.deleted: dict[bool, bool] = {}

    def tell(self, off: frozenset[str]) -> None:
        self.lake.rewind(self.saved)
        with pytest.MonkeyPatch.context() as patch:
            look_is_blind(patch)
            without_canaries(patch)
            self.lake.mark("m1")
            self.lake.wait(minutes=20)
            self.lake.sweep("m1")
        self.deleted[not off] = self.garbage not in self.lake.stored()


def test_garbage_goes_on_local(story: OnLocal, lost: Callable[[str, bool], bool]) -> None:
    lost(test_an_object_is_linked_on_local.__name__, True)
    assert story.deleted[True]
