"""What would be retained if something were otherwise, in small random worlds, against the oracle by brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakegc_core.policy.retention import Rules
from lakegc_core.policy.scenarios import (
    ALL_DAYS,
    NEVER,
    POINTS,
    SHARED,
    Change,
    Known,
    curves_of,
    freed_at_once,
    owner_columns,
    owner_of,
    owners,
    set_columns,
    whatif_columns,
    with_days,
)
from tests.support import oracle
from tests.support.oracle import World
from tests.support.small_worlds import BYTES, graph_of, rules_of, world

SEARCH = settings(
    max_examples=100,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def known_of(here: World, *, tags: bool) -> Known:
    """What a mark knows of a world. Nothing is held."""
    graph, heads, tagged = graph_of(here)
    right = oracle.counting(here, tags=tags)
    kept = [row for row, commit in enumerate(graph.commit_ids) if commit in right]
    return Known(graph, heads, tagged, rules_of(here), tags, (), kept, (), here.now, 0)


def kept(known: Known, column: np.ndarray) -> set[str]:
    return {commit for commit, value in zip(known.graph.commit_ids, column.tolist(), strict=True) if value != NEVER}


@SEARCH
@given(data=st.binary(min_size=BYTES, max_size=BYTES), tags=st.booleans())
def test_what_goes_without_each_branch_and_tag_at_once_and_in_the_end_is_what_the_oracle_says(
    data: bytes, tags: bool
) -> None:
    here = world(data)
    known = known_of(here, tags=tags)
    found = owners(known)
    today = oracle.counting(here, tags=tags)
    assert set(found.columns) == set(owner_columns(known.judged_by))
    assert kept(known, found.columns["least"]) == today
    end = owner_of(found.columns["least"], found.columns["most"])
    refs = [*(f"branch:{name}" for name in here.heads), *(f"tag:{name}" for name in here.tags if tags)]
    for ref in refs if here.rules else ():
        number = found.names.index(ref)
        later = oracle.without(here, [ref])
        ids = np.array(known.graph.commit_ids)
        assert set(ids[end == number]) == today - oracle.counting_in_the_end(here, later, tags=tags)
        # Objects lie in several commits: of each two, what both show.
        for some in itertools.product(range(len(ids)), repeat=2):
            shown = {name: np.array([column[list(some)].min()]) for name, column in found.columns.items()}
            gone = freed_at_once(found.names, shown)[0] == number
            both = set(ids[list(some)])
            assert gone == (bool(both & today) and not both & oracle.counting(later, tags=tags))
    assert set(np.unique(end)) <= {SHARED, NEVER, *range(len(found.names))}


@SEARCH
@given(data=st.binary(min_size=BYTES, max_size=BYTES), tags=st.booleans(), some=st.sets(st.sampled_from("mdf_v")))
def test_what_goes_without_several_together_is_what_the_oracle_says(data: bytes, tags: bool, some: set[str]) -> None:
    here = world(data)
    known = known_of(here, tags=tags)
    patterns = [f"{kind}:{letter}*" for letter in sorted(some) for kind in ("branch", "tag")]
    gone = {f"branch:{name}" for name in here.heads if name[0] in some}
    gone |= {f"tag:{name}" for name in here.tags if name[0] in some}
    found, later = set_columns(known, [patterns]), oracle.without(here, gone)
    assert kept(known, found["now 0"]) == oracle.counting(later, tags=tags)
    assert kept(known, found["end 0"]) == oracle.counting_in_the_end(here, later, tags=tags)


@SEARCH
@given(
    data=st.binary(min_size=BYTES, max_size=BYTES),
    tags=st.tuples(st.booleans(), st.booleans()),
    days=st.tuples(st.sampled_from((-1, 0, 1, 7, 30, 400)), st.sampled_from((-1, 0, 1, 7, 30, 400))),
    gone=st.sets(st.sampled_from(("branch:dev", "branch:feature/x", "tag:v1"))),
)
def test_other_rules_refs_and_tags_keep_what_the_oracle_says_and_so_does_each_point_of_each_curve(
    data: bytes, tags: tuple[bool, bool], days: tuple[int, int], gone: set[str]
) -> None:
    here = world(data)
    known = known_of(here, tags=tags[0])
    default, of_main = days
    rules = Rules(default, {"main": of_main})
    longest = Rules(max(default, 7), {"main": max(of_main, 7)})
    change = Change(rules, longest, tags[1], tuple(gone))
    found = whatif_columns(known, change)
    later = replace(oracle.without(here, gone), rules=(default, {"main": of_main}))
    remembered = replace(later, rules=(longest.default_days, longest.branch_days))
    assert kept(known, found["today"]) == oracle.counting(here, tags=tags[0])
    assert kept(known, found["at_once"]) == oracle.counting(remembered, tags=tags[1])
    assert kept(known, found["in_the_end"]) == oracle.counting_in_the_end(here, later, tags=tags[1])
    assert curves_of(rules) == {"curve default": "", "curve branch:main": "main"}
    for name, branch in curves_of(rules).items():
        for number, point in enumerate((*POINTS, ALL_DAYS)):
            other = with_days(rules, branch, point)
            right = oracle.counting_in_the_end(
                here, replace(later, rules=(other.default_days, other.branch_days)), tags=tags[1]
            )
            assert {c for c, value in zip(known.graph.commit_ids, found[name], strict=True) if value <= number} == right


def test_without_rules_every_commit_counts_and_nobody_keeps_any_alone_but_that() -> None:
    here = replace(world(bytes(BYTES)), rules=None)
    known = known_of(here, tags=True)
    found = owners(known)
    assert kept(known, found.columns["least"]) == set(here.commits)
    assert curves_of(None) == {}


def test_what_ran_out_while_the_mark_was_made_nobody_keeps() -> None:
    here = replace(world(bytes(range(BYTES))), rules=(400, {}))
    known = known_of(here, tags=True)
    assert known.kept
    gone = replace(known, kept=known.kept[1:])
    assert kept(gone, owners(gone).columns["least"]) == {known.graph.commit_ids[row] for row in gone.kept}


@pytest.mark.parametrize("column", ["today", "at_once", "in_the_end"])
def test_no_change_changes_nothing(column: str) -> None:
    here = replace(world(bytes(range(BYTES))), rules=(7, {"main": 30}))
    known = known_of(here, tags=True)
    found = whatif_columns(known, Change(rules_of(here), rules_of(here), True))
    assert kept(known, found[column]) == oracle.counting(here, tags=True)
