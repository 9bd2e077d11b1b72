"""Who keeps some commits, and until when, in small random worlds, against the oracle by brute force."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.policy.holders import Holders
from lakegc_core.policy.retention import Rules
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
