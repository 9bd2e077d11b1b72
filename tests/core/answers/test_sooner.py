"""What keeps an object, until when, and what would let it go sooner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakegc_core.answers.explain import Explained
from lakegc_core.answers.sooner import Keeper, Terms, ends, keeper_json, keepers_of
from lakegc_core.clock import instant
from lakegc_core.policy.retention import Rules
from tests.support.lake import NOW

DAY = 86_400.0
AT = NOW.timestamp()
TERMS = Terms(
    Rules(14, {"main": 30, "fast": 0}),
    gap=DAY,
    min_age=25 * 3600.0,
    memory=7 * DAY,
    marked_at=AT,
    sweep="lakegc sweep lake m1",
)
NOTHING = Explained(
    address="data/a",
    paths=("a",),
    size=1,
    written=instant(AT - 2 * DAY),
    holders=(),
    holders_in_all=0,
    past=None,
    staged=False,
    held=False,
    neighbour=False,
    neighbours=(),
    reason=None,
    since=None,
    kept_by_name=False,
    swept=(),
    restored=(),
    quarantine=None,
    backup=None,
)


def holder(name: str, why: str, days: int | None = None, until: float | None = None) -> dict[str, Any]:
    told = None if until is None else instant(until)
    return {"name": name, "why": why, "commit": "c", "days": days, "until": told}


def keepers(*holders: dict[str, Any], branches: tuple[str, ...] = (), **more: Any) -> list[Keeper]:
    return keepers_of(replace(NOTHING, holders=holders, holders_in_all=len(holders), **more), branches, TERMS, 0.0)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            holder("branch:main", "shows"),
            "(its rule of 30 days counts from then on); or delete branch main (the default rule of 14 days then counts",
        ),
        (
            holder("branch:dev", "history", 14, AT),
            "less than 14 days for branch dev; or delete branch dev (the default rule of 14 days then counts",
        ),
        (holder("tag:v1", "shows"), "delete tag v1"),
        (holder("hold:tag:v*", "hold"), "remove the hold tag:v* from lakegc.yaml"),
        (holder("commits of deleted branches", "dangling", 14, AT), "set a default rule of less than 14 days"),
        (holder("no rules, so that every commit counts", "all"), "set GC rules in lakeFS"),
        (holder("branch:fast", "history", 0, AT), "nothing: it goes by itself"),
    ],
)
def test_each_kind_of_holder_has_its_own_way_to_go_sooner(told: dict[str, Any], says: str) -> None:
    (found,) = keepers(told)
    assert says in found.sooner and (found.name, found.why) == (told["name"], told["why"])
    assert keeper_json(found)["until"] == told["until"]


def test_where_there_are_no_rules_no_rule_is_named_and_no_days() -> None:
    each = replace(NOTHING, holders=(holder("branch:main", "shows"), holder("branch:dev", "history", 14, AT)))
    shows, history = keepers_of(each, (), replace(TERMS, rules=None), 0.0)
    stays = "or delete branch {} (every commit stays without rules)"
    assert shows.sooner.startswith("delete it on branch main and commit (every commit stays without rules); or")
    assert shows.sooner.endswith(stays.format("main")) and history.sooner.endswith(stays.format("dev"))


@pytest.mark.parametrize(
    ("longer_end", "until"), [(60 * DAY, 30 * DAY), (36 * DAY, 7 * DAY), (2 * DAY, 2 * DAY)], ids=str
)
def test_what_a_rule_keeps_that_was_shortened_goes_by_the_shorter_one_once_the_longer_one_is_forgotten(
    longer_end: float, until: float
) -> None:
    """By the rule of 60 days that the mark knew, and of 30 days that lakeFS has by now."""
    found = keepers(holder("branch:main", "history", 60, AT + longer_end))
    assert found[0].sooner.startswith("nothing: lakeFS's rule is shorter by now; the longer one counts for up to 7d")
    assert ends(found, TERMS) == (AT + until, AT + until + DAY)
    dangling = keepers(holder("commits of deleted branches", "dangling", 44, AT + longer_end))
    assert ends(dangling, TERMS) == (AT + until, AT + until + DAY)
    for days in (30, 14):
        (other,) = keepers(holder("branch:main", "history", days, AT + longer_end))
        assert other.until == AT + longer_end and not other.sooner.startswith("nothing"), "it was not shortened"


def test_where_no_rule_is_remembered_the_next_mark_goes_by_the_shorter_one() -> None:
    each = replace(NOTHING, holders=(holder("branch:main", "history", 60, AT + 36 * DAY),), holders_in_all=1)
    (found,) = keepers_of(each, (), replace(TERMS, memory=0.0), 0.0)
    assert found.until == AT + 6 * DAY and "the next mark goes by it" in found.sooner


def test_a_branch_that_shows_an_object_which_no_commit_of_it_does_has_it_staged() -> None:
    found = keepers(holder("branch:main", "shows"), branches=("main", "dev"), staged=True)
    assert [(each.name, each.why) for each in found] == [("branch:main", "shows"), ("branch:dev", "staged")]
    assert "reset it on branch dev" in found[1].sooner
    assert [each.why for each in keepers(staged=True, held=True, neighbour=True)] == [
        "staged",
        "held_by_path",
        "neighbour",
    ]


def test_an_object_goes_after_the_last_of_its_rules_and_the_gap_and_never_while_something_stands() -> None:
    rules = holder("branch:main", "history", 30, AT + 3 * DAY), holder("branch:dev", "history", 14, AT + DAY)
    assert ends(keepers(*rules), TERMS) == (AT + 3 * DAY, AT + 4 * DAY)
    assert ends(keepers(*rules, holder("tag:v1", "shows")), TERMS) == (None, None)
    assert ends([], TERMS) == (None, None)


def test_garbage_waits_the_gap_since_it_was_found_and_what_is_young_its_age_and_the_gap() -> None:
    garbage = keepers(reason="unreferenced", since=instant(AT - DAY / 2))
    assert ends(garbage, TERMS) == (AT + DAY / 2, AT + DAY / 2) and "lakegc sweep lake m1" in garbage[0].sooner
    back = {"mark_id": "m1", "outcome": "copied", "at": instant(AT)}
    assert "a new mark" in keepers(reason="unreferenced", since=instant(AT - DAY / 2), restored=(back,))[0].sooner
    young = keepers(reason="young")
    assert ends(young, TERMS) == (AT - 2 * DAY + 25 * 3600, AT - DAY + 25 * 3600)
    named = keepers_of(replace(NOTHING, reason="young"), (), TERMS, AT)
    assert named[0].until == AT + 25 * 3600
    age, name = keepers(reason="young", kept_by_name=True)
    assert (age.until, name.until) == (young[0].until, None) and "collect_unknown_names" in name.sooner


def test_garbage_that_was_brought_back_goes_with_the_sweep_of_a_mark_that_began_after_that() -> None:
    back = {"mark_id": "m0", "outcome": "copied", "at": instant(AT - 1)}
    (before,) = keepers(reason="unreferenced", since=instant(AT), restored=(back,))
    assert before.until == AT + DAY and before.sooner == "nothing: sweep it, lakegc sweep lake m1"
    (after,) = keepers(reason="unreferenced", since=instant(AT), restored=(back, back | {"at": instant(AT + 1)}))
    assert ends([after], TERMS) == (None, None) and after.sooner.startswith("make a new mark, and sweep that")


@pytest.mark.parametrize("reason", ["foreign", "unknown", "unasked", "held", "neighbour", "staged"])
def test_every_other_verdict_of_a_mark_has_its_advice_and_no_end(reason: str) -> None:
    (found,) = keepers(reason=reason)
    assert found.until is None and found.sooner and found.why == reason


def test_what_the_mark_does_not_know_waits_for_another_mark() -> None:
    (found,) = keepers()
    assert found.until is None and found.sooner.startswith("make a mark")
