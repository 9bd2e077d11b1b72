"""The rule of retention against lakeFS's own words, its known defect, and an independent definition."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.policy.retention import Graph, NamedCommits, Rules, held_rows, idle_holds, retain, threshold
from tests.support.counted import numbers

DAY = 86_400 * 1_000_000
NOW = 20_000 * DAY
GRAPHS = 5_000
EXAMPLES = 300


@dataclass(frozen=True)
class Commit:
    """A commit as tests write it down; `age` in days."""

    age: float
    parents: tuple[str, ...] = ()
    version: int = 1

    @property
    def created(self) -> int:
        return NOW - int(self.age * DAY)

    @property
    def main(self) -> str | None:
        if not self.parents:
            return None
        return self.parents[0] if self.version else self.parents[-1]


History = Mapping[str, Commit]


def kept(history: History, heads: Mapping[str, str], rules: Rules | None, **given: Any) -> set[str]:
    """What lakegc keeps of a history. `given` as for `reasons`."""
    return set(reasons(history, heads, rules, **given))


def reasons(
    history: History,
    heads: Mapping[str, str],
    rules: Rules | None,
    *,
    tags: Mapping[str, str] | None = None,
    order: Sequence[str] | None = None,
    margin: int = 0,
    server: Sequence[str] = (),
) -> dict[str, str]:
    """What lakegc keeps of a history whose commits stand in this order, each with its reason."""
    names = list(order or history)
    graph, unknown = Graph.build(
        names,
        [f"metarange of {name}" for name in names],
        [history[name].created for name in names],
        [history[name].parents for name in names],
        [history[name].version for name in names],
    )
    assert not unknown
    found = retain(
        graph,
        NamedCommits(
            [(branch, names.index(commit)) for branch, commit in heads.items()],
            [(tag, names.index(commit)) for tag, commit in (tags or {}).items()],
        ),
        rules,
        NOW,
        margin=margin,
        server=[names.index(commit) for commit in server],
    )
    return {names[row]: why for row, why in found.items()}


def shown(history: History, heads: Mapping[str, str], rules: Rules) -> set[str]:
    """lakeFS's promise, word by word: from every branch and every dangling commit down to the root, no stop."""
    mains = {commit.main for commit in history.values()}
    found = set(heads.values())
    starts = [(head, NOW - rules.days(branch) * DAY) for branch, head in heads.items()]
    for name, commit in history.items():
        if name not in mains and name not in heads.values():
            oldest = NOW - rules.default_days * DAY
            starts.append((name, oldest))
            if commit.created > oldest:
                found.add(name)
    for start, oldest in starts:
        child = start
        while (parent := history[child].main) is not None:
            if history[child].created > oldest:  # until then the branch showed the parent
                found.add(parent)
            child = parent
    return found


def random_history(choose: random.Random) -> tuple[dict[str, Commit], dict[str, str], Rules, list[str]]:
    """Up to 14 commits with merges of both versions, dates in any order; branches, rules, and an order of rows."""
    history: dict[str, Commit] = {}
    for number in range(choose.randint(1, 14)):
        known = list(history)
        parents = choose.sample(known, min(len(known), choose.choices((0, 1, 2), (1, 12, 4))[0] if known else 0))
        age = choose.choice((number, 14 - number, choose.randint(-2, 40), choose.uniform(0, 40), 7, 30))
        history[f"c{number}"] = Commit(age, tuple(parents), choose.choice((0, 1, 1)))
    names = list(history)
    branches = {f"b{number}": choose.choice(names) for number in range(choose.randint(1, 5))}
    days = (0, 1, 7, 10, 30, 100, -3)
    rules = Rules(choose.choice(days), {name: choose.choice(days) for name in branches if choose.random() < 0.4})
    order = names[:]
    choose.shuffle(order)
    return history, branches, rules, order


def test_random_histories_keep_exactly_what_the_promise_says(capsys: pytest.CaptureFixture[str]) -> None:
    commits = expired = 0
    for seed in numbers(GRAPHS):
        history, heads, rules, order = random_history(random.Random(seed))
        found = kept(history, heads, rules, order=order)
        assert found == shown(history, heads, rules), f"seed {seed}"
        commits += len(history)
        expired += len(history) - len(found)
    assert expired > GRAPHS / 2, "histories in which nothing expires prove little"
    with capsys.disabled():
        print(f"\nretention: {GRAPHS:,} random histories, {commits:,} commits, {expired:,} of them expired", end="")


@settings(max_examples=EXAMPLES)
@given(st.randoms(use_true_random=False), st.integers(0, 2 * DAY))
def test_a_margin_tags_and_the_servers_list_only_ever_keep_more(choose: random.Random, margin: int) -> None:
    history, heads, rules, order = random_history(choose)
    exact = shown(history, heads, rules)
    names = list(history)
    tags = {f"t{number}": choose.choice(names) for number in range(3)}
    server = choose.sample(names, choose.randint(0, len(names)))
    found = kept(history, heads, rules, tags=tags, order=order, margin=margin, server=server)
    assert found >= exact | set(tags.values()) | set(server)
    assert kept(history, heads, rules, tags=tags, order=order, server=server) == exact | set(tags.values()) | set(
        server
    )


@pytest.mark.parametrize("order", [("p", "c1", "c2"), ("c2", "c1", "p"), ("c1", "c2", "p"), ("c2", "p", "c1")])
def test_t17_a_commit_shown_by_one_branch_until_yesterday_is_kept_in_any_order_of_ids(
    order: Sequence[str],
) -> None:
    history = {"p": Commit(100), "c1": Commit(90, ("p",)), "c2": Commit(1, ("p",))}
    assert kept(history, {"main": "c1", "feature": "c2"}, Rules(30), order=order) == {"p", "c1", "c2"}
    assert kept(history, {"main": "c1", "feature": "c1"}, Rules(30), order=order) == {"c1", "c2", "p"}  # c2 dangles
    old = history | {"c2": Commit(60, ("p",))}
    assert kept(old, {"main": "c1", "feature": "c2"}, Rules(30), order=order) == {"c1", "c2"}


def test_the_worked_example_of_lakefs_keeps_what_each_branch_showed_within_its_own_days() -> None:
    history = {
        "root": Commit(40),
        "m1": Commit(30, ("root",)),
        "m2": Commit(20, ("m1",)),
        "m3": Commit(10, ("m2",)),
        "d1": Commit(15, ("m1",)),
        "d2": Commit(8, ("d1",)),
        "d3": Commit(3, ("d2",)),
    }
    rules = Rules(14, {"main": 21, "dev": 7})
    assert kept(history, {"main": "m3", "dev": "d3"}, rules) == {"m3", "m2", "m1", "d3", "d2"}


def test_the_first_commit_at_or_before_the_threshold_stays_and_the_comparison_is_strict() -> None:
    history = {"a": Commit(50), "b": Commit(10, ("a",)), "c": Commit(5, ("b",))}
    assert kept(history, {"main": "c"}, Rules(11)) == {"a", "b", "c"}
    assert kept(history, {"main": "c"}, Rules(10)) == {"b", "c"}  # b is not younger than the threshold
    assert kept(history, {"main": "c"}, Rules(10), margin=1) == {"a", "b", "c"}


@pytest.mark.parametrize("days", [0, -1, -1_000_000])
def test_t19_zero_and_negative_days_keep_heads_alone(days: int) -> None:
    history = {"a": Commit(3), "b": Commit(2, ("a",)), "c": Commit(1, ("b",)), "loose": Commit(1, ("a",))}
    assert kept(history, {"main": "c"}, Rules(days)) == {"c"}


def test_t19_a_branch_rule_of_zero_is_a_rule_and_wins_over_the_default() -> None:
    history = {"a": Commit(3), "b": Commit(2, ("a",))}
    assert kept(history, {"main": "b"}, Rules(30, {"main": 0})) == {"b"}
    assert kept(history, {"main": "b"}, Rules(30, {"other": 0})) == {"a", "b"}


@pytest.mark.parametrize("days", [1_000_001, 2**31 - 1, 2**63, 10**30])
def test_t19_more_days_than_a_calendar_has_keep_everything(days: int) -> None:
    history = {"a": Commit(15_000), "b": Commit(14_000, ("a",)), "loose": Commit(19_999, ("a",))}
    assert kept(history, {"main": "b"}, Rules(days)) == {"a", "b", "loose"}
    assert threshold(NOW, days, 0) < -(10**17)


def test_t20_a_long_branch_rule_does_not_keep_a_dangling_commit() -> None:
    history = {"a": Commit(60), "b": Commit(1, ("a",)), "loose": Commit(20, ("a",))}
    assert kept(history, {"main": "b"}, Rules(7, {"main": 7, "gone": 400})) == {"a", "b"}
    assert kept(history, {"main": "b"}, Rules(21, {"main": 0})) == {"a", "b", "loose"}


def test_t20_a_dangling_commit_is_judged_by_its_own_date_and_its_ancestors_by_the_default() -> None:
    history = {"a": Commit(90), "x": Commit(80, ("a",)), "y": Commit(5, ("x",)), "head": Commit(85, ("a",))}
    assert kept(history, {"main": "head"}, Rules(7)) == {"head", "y", "x"}


def test_t18_merges_of_version_zero_follow_their_last_parent() -> None:
    history = {"one": Commit(50), "two": Commit(50), "merge": Commit(1, ("one", "two"), version=0)}
    assert kept(history, {"main": "merge"}, Rules(7)) == {"merge", "two"}
    history["merge"] = Commit(1, ("one", "two"), version=1)
    assert kept(history, {"main": "merge"}, Rules(7)) == {"merge", "one"}


def test_t19_dates_in_the_future_and_out_of_order_are_taken_as_they_are() -> None:
    history = {"a": Commit(-5), "b": Commit(50, ("a",)), "c": Commit(-1, ("b",))}
    assert kept(history, {"main": "c"}, Rules(7)) == {"c", "b"}
    assert kept(history, {"main": "c"}, Rules(0)) == {"c", "b"}  # shown still, by a commit of tomorrow


def test_without_rules_every_commit_counts() -> None:
    history = {"a": Commit(9_000), "b": Commit(8_000, ("a",)), "loose": Commit(7_000)}
    assert kept(history, {"main": "b"}, None) == {"a", "b", "loose"}


def test_each_commit_says_why_it_is_kept() -> None:
    history = {"a": Commit(90), "b": Commit(80, ("a",)), "c": Commit(1, ("b",)), "x": Commit(2), "s": Commit(50)}
    found = reasons(history, {"main": "c"}, Rules(7), tags={"v1": "a"}, server=["s"])
    assert found == {"c": "head:main", "b": "rules", "a": "tag:v1", "x": "dangling", "s": "server"}


def test_a_branch_that_moved_meanwhile_keeps_both_of_its_heads() -> None:
    graph, _ = Graph.build(["a", "b"], ["", ""], [NOW - 90 * DAY] * 2, [[], ["a"]], [1, 1])
    assert set(retain(graph, NamedCommits([("main", 0), ("main", 1)]), Rules(0), NOW)) == {0, 1}


def test_holds_keep_what_their_patterns_name_and_those_that_name_nothing_are_told() -> None:
    ids = ["ab1", "ab2", "cd3"]
    graph, _ = Graph.build(ids, [""] * 3, [NOW] * 3, [[], ["ab1"], ["ab2"]], [1] * 3)
    heads, tags = [("main", 2), ("mine", 0)], [("v1", 0), ("release/2.0\n", 1)]

    def held(*holds: str) -> tuple[set[str], list[str]]:
        rows = held_rows(graph, heads, tags, holds)
        return {ids[row] for _, row in rows}, idle_holds(rows, [*holds, "path:never/**"])

    assert held("commit:ab") == ({"ab1", "ab2"}, []), "the beginning of several ids holds all of them"
    assert held("commit:ab2", "commit:ff") == ({"ab2"}, ["commit:ff"])
    assert held("branch:ma?n", "branch:Main") == ({"ab1", "ab2", "cd3"}, ["branch:Main"])
    assert held("tag:v[0-9]", "tag:v[!0-9]") == ({"ab1"}, ["tag:v[!0-9]"])
    assert held("tag:rel*0?") == ({"ab2"}, []), "names have no folders"
    assert held("path:x") == (set(), []), "holds by path are not about commits"


def test_a_main_parent_that_the_dump_lacks_is_named() -> None:
    _, unknown = Graph.build(["b"], [""], [NOW], [["lost", "other"]], [1])
    assert unknown == {"lost"}
    _, unknown = Graph.build(["b"], [""], [NOW], [["lost", "other"]], [0])
    assert unknown == {"other"}
    graph, unknown = Graph.build(["b", "c"], [""] * 2, [NOW] * 2, [[""], ["lost"]], [1] * 2)
    assert (unknown, graph.orphans) == ({"lost"}, {1: "lost"}), "lakeFS takes an empty one for none"
