"""Staging compaction: the same bytes are uploaded again over what was compacted. The dump names the later object and
branches show it, and yet the next commit brings the earlier one back.

One lake, on a server that compacts, is marked and swept at level `none`, as a large repository; then all is committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakegc_core.judging import asked
from lakegc_core.references.shown import reuploads
from lakegc_core.sweep import planning
from tests.interleavings.rig import OLD, Lake, Mechanism, Row, Story, row, stopped_by


def _nothing_waits(module: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """In a mark, or in a look, the server passes for one that does not compact."""

    def off(patch: pytest.MonkeyPatch) -> None:
        find = module.find_reuploads

        def found(*arguments: Any, **named: Any) -> Any:
            with pytest.MonkeyPatch.context() as within:
                within.setattr(reuploads, "may_compact", lambda context: False)
                return find(*arguments, **named)

        patch.setattr(module, "find_reuploads", found)

    return off


def _neither(patch: pytest.MonkeyPatch) -> None:
    _nothing_waits(asked)(patch)
    _nothing_waits(planning)(patch)


LOOK = Mechanism("the look leaves waiting what may be compacted", _nothing_waits(planning))
BOTH = Mechanism("mark and look leave waiting what may be compacted", _neither)
GROUPS = {LOOK.name: "look", BOTH.name: "both"}


def _again(found: Lake, branch: str, content: bytes) -> None:
    """Compact the branch, and upload these bytes to `a` once more."""
    found.repository.compact(branch)
    found.repository.upload(branch, "a", content, age=timedelta(days=OLD / 2))


@stopped_by(BOTH)
def test_the_same_bytes_are_uploaded_again_over_what_was_compacted(lake: Lake) -> Row:
    """It was so before the mark, and the object is committed after the sweep."""
    content = lake.content()
    lake.repository.create_branch("compacted", "main")
    lake.repository.upload("compacted", "a", content, age=timedelta(days=OLD))
    _again(lake, "compacted", content)
    return row("compacted", "a", swept=lambda: lake.commit("compacted", days=0))


@stopped_by(LOOK)
def test_a_forgotten_object_is_staged_compacted_and_uploaded_again_after_the_mark(lake: Lake) -> Row:
    content = lake.content()
    full = lake.repository.place.qualify(lake.forgotten(content))
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    lake.repository.create_branch("revived", "main")

    def revive() -> None:
        lake.repository.stage("revived", "a", full, size=len(content), checksum=checksum)
        _again(lake, "revived", content)

    return row("revived", "a", marked=revive, swept=lambda: lake.commit("revived", days=0))


class OnAServerThatCompacts(Story):
    """One lake, marked and swept in each direction."""

    groups = GROUPS
    large_at = "none"

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        found.options["safety_level"] = "none"
        found.sandbox.version, found.sandbox.version_context = "1.100.0", "lakeFS-Enterprise"
        self.garbage = found.forgotten(found.content())
        self.saved = found.save()
        self.deleted: dict[bool, bool] = {}

    def tell(self, off: frozenset[str]) -> None:
        self.lake.rewind(self.saved)
        self.lake.mark("m1")
        self.fire("marked")
        self.lake.sweep("m1")
        self.fire("swept")
        self.deleted[not off] = self.garbage not in self.lake.stored()


def test_garbage_goes_on_a_server_that_compacts(
    story: OnAServerThatCompacts, lost: Callable[[str, bool], bool]
) -> None:
    lost(test_the_same_bytes_are_uploaded_again_over_what_was_compacted.__name__, True)
    assert story.deleted[True]
