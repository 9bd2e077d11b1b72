"""Facts come back from a manifest whole, or not at all: what is missing must never count as "nothing"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lakegc_core.errors import MarkError
from lakegc_core.policy.facts import (
    CommitsFacts,
    CommittedFacts,
    ExpiredFacts,
    ListingFacts,
    StagedFacts,
    StageFacts,
    read_facts,
)
from tests.support.facts import whole_facts

KINDS: tuple[type[StageFacts], ...] = (ListingFacts, StagedFacts, CommitsFacts, CommittedFacts, ExpiredFacts)
Path = tuple[str, ...]


NONE_CAME_BACK = {"came_back": {"objects": 0, "bytes": 0}, "came_back_examples": [], "taken_back": []}


def written(kind: type[StageFacts]) -> dict[str, Any]:
    """Facts as a manifest holds them."""
    found: dict[str, Any] = json.loads(json.dumps(whole_facts(kind.stage)))
    if kind is ExpiredFacts:
        groups = {name: found[name] for name in ("listed", "committed", "uncommitted", "held", "expired")}
        found["previous"] = json.loads(json.dumps({"mark_id": "m0", "expired_addresses": groups}))
    return found


def keys_of(value: Mapping[str, Any]) -> Iterator[Path]:
    for key, below in value.items():
        yield (key,)
        if isinstance(below, dict):
            yield from ((key, *path) for path in keys_of(below))


def changed(value: dict[str, Any], path: Path, *instead: object) -> dict[str, Any]:
    """A copy without the key at `path`, or with something else there."""
    copy: dict[str, Any] = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    del at[path[-1]]
    if instead:
        at[path[-1]] = instead[0]
    return copy


LATER = {("young_until",), ("first_since",), ("canaries",)}  # for people alone; marks of before lack it
EVERY = [(kind, path) for kind in KINDS for path in keys_of(written(kind)) if path not in LATER]


NEIGHBOURS: dict[str, Any] = written(ExpiredFacts)["neighbours"]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_facts_are_read_as_they_were_written(kind: type[StageFacts]) -> None:
    # Marks from before there were these keys say nothing of them.
    unsaid = {"origins": None, "staged_lost": None, "swept_before": 0, "prices": {"heads": 1000.0, "pages": 50.0}}
    unsaid |= {"given_up": 0, "unconfirmed": None}
    neighbours = NEIGHBOURS | {"known": None, "unread": [], "ignored": 0}
    unsaid |= {"accepted": {"objects": 0, "bytes": 0}, "neighbours": neighbours}
    said: dict[str, Any] = unsaid | NONE_CAME_BACK if kind is ExpiredFacts else {}
    if kind is CommitsFacts:
        said = {"commits_ignored": [], "commits_odd": None}
    if kind is ListingFacts:
        said = {"nested_file": ""}
    if kind is CommittedFacts:
        said = {"ranges_ignored": 0, "ranges_ignored_ids": []}
    assert json.loads(json.dumps(read_facts(kind, written(kind)).as_json())) == written(kind) | said


def test_the_origins_of_a_manifest_are_read_whole_or_not_at_all() -> None:
    cause = {"cause": "deleted", "branch": "exp", "gone": 7, "objects": 2, "bytes": 20}
    origins = {"causes": [cause], "folders": [], "found": {"objects": 2, "bytes": 20}, "unread": 1}
    back = {"mark_id": "m1", "sweep": 1, "objects": 2, "bytes": 20}
    came = {"came_back": {"objects": 2, "bytes": 20}, "came_back_examples": ["data/a"], "taken_back": [back]}
    found = written(ExpiredFacts) | {"origins": origins, "staged_lost": 3, "swept_before": 2} | came
    found |= {"prices": {"heads": 2500.5, "pages": 80.0}, "accepted": {"objects": 4, "bytes": 40}}
    found["neighbours"] = NEIGHBOURS | {"known": ["far"], "unread": ["near"], "ignored": 1}
    found |= {"given_up": 1, "unconfirmed": [[5.0, {"objects": 1, "bytes": 10}]]}
    assert json.loads(json.dumps(read_facts(ExpiredFacts, found).as_json())) == found
    for path in keys_of({"origins": origins}):
        if len(path) > 1:
            with pytest.raises(MarkError, match="Make a new mark"):
                read_facts(ExpiredFacts, changed(found, path))


@pytest.mark.parametrize(("kind", "path"), EVERY)
def test_a_manifest_that_lacks_a_key_is_refused(kind: type[StageFacts], path: Path) -> None:
    with pytest.raises(MarkError, match=rf"stage {kind.stage} .*{path[-1]}.*Make a new mark"):
        read_facts(kind, changed(written(kind), path))


@pytest.mark.parametrize(("kind", "path"), EVERY)
def test_a_value_of_another_kind_is_refused(kind: type[StageFacts], path: Path) -> None:
    with pytest.raises(MarkError, match="are not those of this version"):
        read_facts(kind, changed(written(kind), path, [{"a": 1}]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_stands_as_a_text_is_refused(kind: type[StageFacts]) -> None:
    whole = written(kind)
    number = next(path for path in keys_of(whole) if isinstance(whole[path[0]], int | float))
    with pytest.raises(MarkError, match=number[0]):
        read_facts(kind, changed(whole, number, "7"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_nobody_knows_is_refused(kind: type[StageFacts]) -> None:
    with pytest.raises(MarkError, match="more"):
        read_facts(kind, {**written(kind), "more": 1})


def test_a_key_that_nobody_knows_is_refused_below_the_top_too() -> None:
    whole = written(ExpiredFacts)
    with pytest.raises(MarkError, match=r"listed\.more"):
        read_facts(ExpiredFacts, {**whole, "listed": {"objects": 1, "bytes": 1, "more": 1}})
