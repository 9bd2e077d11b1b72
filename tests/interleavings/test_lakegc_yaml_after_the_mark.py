"""lakegc.yaml became stricter after the mark: at the sweep the stricter of both counts, in every setting.

One lake is marked at level `none`, with a minimum age of an hour, without protecting tags. Then lakegc.yaml says more.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lakegc_core.errors import RefusedError
from lakegc_core.sweep import sweep, what_counts
from lakegc_core.sweep.result import SweepResult
from tests.interleavings.rig import Lake, Mechanism, Row, Story, row, stopped_by

HOUR = timedelta(hours=1)
STRICT = {"safety": "standard", "min_age": 25 * HOUR, "protect_tags": True}

STRICTER = Mechanism(
    "the stricter of mark and lakegc.yaml",
    lambda patch: patch.setattr(sweep, "as_swept", lambda context: context),
)
GRACE = Mechanism(
    "the grace period, asked at the sweep",
    lambda patch: patch.setattr(sweep, "check_min_age", lambda context: None),
)
GROUPS = {STRICTER.name: "stricter", GRACE.name: "grace"}


@stopped_by(STRICTER)
def test_tags_are_protected_after_the_mark(lake: Lake) -> Row:
    lake.repository.tag("v1", lake.expired("a"))
    return row("v1", "a")


@stopped_by(STRICTER)
def test_the_minimum_age_is_made_longer_after_the_mark(lake: Lake) -> Row:
    """An upload of two hours, which its client links when the sweep is over."""
    link = _upload_of_two_hours(lake, "linked")
    return row("main", "linked", swept=link)


@stopped_by(STRICTER)
def test_a_rule_was_shortened_by_mistake_and_the_level_is_made_stricter_after_the_mark(lake: Lake) -> Row:
    """Level `none` has no memory of rules; that of `standard` knows the longer one, which an earlier mark saw."""
    return row("mistaken~1", "a", begins=lake.longer_rule("mistaken"), seen=lambda: lake.repository.set_rules(7))


@stopped_by(STRICTER)
def test_a_commit_expired_within_the_margin_and_the_level_is_made_stricter_after_the_mark(lake: Lake) -> Row:
    """The server counts days of its own time zone; level `none` adds no hour to them."""
    lake.upload("margin", "a")
    lake.commit("margin")
    lake.upload("margin", "a")
    lake.commit("margin", days=7)
    return row("margin~1", "a")


@stopped_by(GRACE)
def test_a_mark_of_an_unsafe_minimum_age_is_swept_without_saying_so(lake: Lake) -> Row:
    """The mark was made with LAKEGC_UNSAFE=yes, and is swept by somebody who says nothing of the kind."""
    link = _upload_of_two_hours(lake, "linked-2")
    return row("main", "linked-2", refused=link)


def _upload_of_two_hours(lake: Lake, path: str) -> Callable[[], object]:
    """An object that was uploaded two hours ago and is not linked; what is returned links it."""
    content, repository = lake.content(), lake.repository
    address = repository.upload("main", path, content, age=2 * HOUR)
    repository.delete("main", path)
    full = repository.place.qualify(address)
    return lambda: repository.stage("main", path, full, size=len(content), checksum="0" * 32)


class LooseMark(Story):
    """All rows, marked once, and swept by a stricter lakegc.yaml."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        super().__init__(found)
        self.garbage = found.forgotten(found.content())
        self.fire("begins")
        found.options |= {"safety_level": "none", "min_age": HOUR, "protect_tags": False}
        found.mark("m0", stages=3)
        self.fire("seen")
        found.wait(minutes=10)
        found.mark("m1")
        found.wait(minutes=20)
        self.saved = found.save()
        self.results: dict[bool, SweepResult] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Sweep without LAKEGC_UNSAFE, as far as the mark's minimum age goes; then with it, by a strict lakegc.yaml."""
        self.lake.rewind(self.saved)
        self.lake.policy.clear()
        if not off or GRACE.name in off:
            self._sweep_safely(refused=not off)
            self.fire("refused")
        if GRACE.name in off:
            return
        self.lake.policy |= STRICT
        self.results[not off] = self.lake.sweep("m1")
        self.fire("swept")
        assert self.garbage not in self.lake.stored()

    def _sweep_safely(self, *, refused: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(what_counts, "unsafe_allowed", lambda: False)
            if not refused:
                self.lake.sweep("m1")
                return
            sentence = "minimum age of 1h, but this lakeFS lets a client link an upload for 24h.* --min-age 24h"
            with pytest.raises(RefusedError, match=sentence):
                self.lake.sweep("m1")


def test_what_the_longer_minimum_age_keeps_is_unconfirmed_and_what_is_retained_is_rescued(
    story: LooseMark, lost: Callable[[str, bool], bool]
) -> None:
    assert not lost(test_tags_are_protected_after_the_mark.__name__, True)
    outcomes: dict[str, Any] = dict(story.results[True].outcomes)
    assert outcomes["unconfirmed"] == 1, "the upload of two hours; the other one is linked by now"
    assert outcomes["rescued"] == 4
