"""Who keeps some commits, and until when, in small random worlds, against the oracle by brute force."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.policy.holders import Holders
from lakegc_core.policy.retention import Graph, Rules
from lakegc_core.policy.scenarios import EVERYTHING, UNNAMED, Known
from tests.core.policy.test_scenarios import SEARCH, known_of
from tests.support import oracle
from tests.support.oracle import DAY, World
from tests.support.small_worlds import BYTES, world


def keeping(here: World, commits: set[str], now: int) -> set[str]:
    """The branches, tags and what else keeps one of some commits by itself at a time."""
    assert here.rules is not None
    default, branches = here.rules
    later = replace(here, now=now)
    found = {f"tag:{tag}" for tag, commit in here.tags.items() if commit in commits}
    for name, head in here.heads.items():
        if commits & ({head} | oracle.shown_after(later, head, now - branches.get(name, default) * DAY)):
            found.add(f"branch:{name}")
    for each in oracle.dangling(here):
        own = {each} if here.commits[each].created > now - default * DAY else set()
        if commits & (own | oracle.shown_after(later, each, now - default * DAY)):
            found.add(UNNAMED)
    return found


@SEARCH
@given(data=st.binary(min_size=BYTES, max_size=BYTES), some=st.sets(st.integers(0, 11), min_size=1, max_size=4))
def test_what_keeps_some_commits_keeps_them_until_it_says_so(data: bytes, some: set[int]) -> None:
    here = replace(world(data), rules=world(data).rules or (7, {}))
    known = known_of(here, tags=True)
    rows = {each for each in some if each < len(known.graph.commit_ids)}
    commits = {known.graph.commit_ids[row] for row in rows}
    found = Holders(known).of(rows)
    assert {holder.name for holder in found} == keeping(here, commits, here.now)
    for holder in found:
        assert holder.row in rows
        if holder.until is not None:
            assert holder.name in keeping(here, commits, holder.until - 1)
            assert holder.name not in keeping(here, commits, holder.until)


@SEARCH
@given(data=st.binary(min_size=BYTES, max_size=BYTES), some=st.sets(st.integers(0, 11), min_size=1, max_size=4))
def test_the_past_is_the_newest_commit_and_what_a_branch_was_built_upon_it(data: bytes, some: set[int]) -> None:
    here = world(data)
    known = known_of(here, tags=True)
    rows = {each for each in some if each < len(known.graph.commit_ids)}
    past = Holders(known).past(rows)
    if past is None:
        assert not rows
        return
    ids = known.graph.commit_ids
    moments = {row: oracle.moment(here, ids[row]) for row in rows}
    assert past.row in rows and moments[past.row] == max(moments.values())
    on_branches = {commit for head in here.heads.values() for commit in oracle.path(here, head)}
    built = {
        commit
        for commit, version in here.commits.items()
        if version.parents and version.parents[version.main] == ids[past.row] and commit in on_branches
    } - {ids[row] for row in rows}
    assert (past.cause == "replaced") == bool(built)
    if past.cause == "replaced":
        assert ids[past.by] in built and ids[past.by] in oracle.path(here, here.heads[past.branch])


def blamed(rules: Rules | None, **heads: int) -> tuple[str, int]:
    """Which branch is said to have replaced what row 1 shows, and in which row. Row 0 is the oldest; 1, 2 and 3 follow
    one another, 4 is built upon 1, too."""
    graph = Graph([f"{row:064}" for row in range(5)], [""] * 5, [10 * row for row in range(5)], [-1, 0, 1, 2, 1])
    past = Holders(Known(graph, list(heads.items()), (), rules, True, (), (), (), 10**15, 0)).past({1})
    assert past is not None and past.cause == "replaced"
    return past.branch, past.by


def test_of_the_branches_that_share_a_history_the_one_with_the_longest_rule_replaced_what_it_showed() -> None:
    assert blamed(Rules(7, {"main": 30}), dev=3, main=3) == ("main", 2)
    assert blamed(Rules(7, {"main": 30}), dev=3, main=2) == ("main", 2)
    assert blamed(Rules(7, {"dev": 3}), dev=3, main=2) == ("main", 2)


def test_of_the_commits_that_branches_built_upon_another_that_of_the_longest_rule_replaced_it() -> None:
    assert blamed(Rules(7, {"main": 30}), dev=2, main=4) == ("main", 4)
    assert blamed(Rules(7, {"dev": 30}), dev=2, main=4) == ("dev", 2)


def test_among_equal_rules_the_branch_with_the_longest_history_replaced_and_then_the_first_by_name() -> None:
    for rules in (Rules(7), None):
        assert blamed(rules, dev=2, main=3) == ("main", 2)
        assert blamed(rules, main=3, dev=3) == ("dev", 2)


def test_many_branches_and_a_long_history_are_gone_through_once() -> None:
    count = 30_000
    graph = Graph([f"{row:064}" for row in range(count)], [""] * count, list(range(count)), list(range(-1, count - 1)))
    heads = [(f"b{number:04}", count - 1 - number % 7) for number in range(1_000)]
    known = Known(graph, heads, (), Rules(7, {"b0999": 30}), True, (), (), (), 10**15, 0)
    began = time.process_time()
    past = Holders(known).past({5})
    assert past is not None and (past.by, past.branch) == (6, "b0999")
    assert time.process_time() - began < 5, "linear in commits and branches: a walk for each branch takes minutes"


class Counted(list[int]):
    """Numbers, and how often one of them was asked for."""

    asked = 0

    def __getitem__(self, place: Any) -> Any:
        self.asked += 1
        return super().__getitem__(place)


def test_who_keeps_a_commit_is_found_by_one_walk_through_what_many_branches_share() -> None:
    count = 2_000
    parents = Counted(range(-1, count - 1))
    graph = Graph([f"{row:064}" for row in range(count)], [""] * count, list(range(count)), parents)
    heads = [(f"b{number:03}", count - 1 - number % 7) for number in range(500)]
    rules = Rules(7, {f"b{number:03}": 8 + number % 30 for number in range(0, 500, 3)})
    tell = Holders(Known(graph, heads, (), rules, True, (), (), (), count, 0))
    parents.asked = 0
    assert len(tell.of({5})) == len(heads)
    assert parents.asked < 3 * count + len(heads)


def test_a_rule_beyond_all_dates_has_no_end_and_without_rules_everything_is_kept() -> None:
    here = replace(world(bytes(range(BYTES))), rules=(2**31 - 1, {}))
    known = known_of(here, tags=True)
    rows = set(range(len(known.graph.commit_ids)))
    assert {holder.until for holder in Holders(known).of(rows)} == {None}
    without = replace(known, judged_by=None)
    assert EVERYTHING in {holder.name for holder in Holders(without).of(rows)}
    assert Holders(without).of(set()) == []


def test_a_hold_and_the_servers_list_are_named() -> None:
    here = replace(world(bytes(BYTES)), rules=(7, {}))
    known: Known = replace(known_of(here, tags=True), holds=("branch:ma*",), server=(0,), judged_by=Rules(-1))
    assert {"hold:branch:ma*", "lakeFS's own list"} <= {holder.name for holder in Holders(known).of({0})}
