"""What `whatif`, `du` and `explain` say of random histories, against an oracle by brute force and against real marks.

LAKEGC_SEED (default 0) chooses the histories.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.answers.du import du
from lakegc_core.answers.explain import Explanation, explain
from lakegc_core.answers.whatif import SEVERAL, Expected, Wish, whatif
from lakegc_core.answers.workers import Little
from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.marks.artifacts import AUTO, CLEAN, INCREMENTAL
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.names import Stage
from lakegc_core.past.ranges import ORIGINS
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts, ListingFacts
from lakegc_core.policy.scenarios import POINTS
from lakegc_core.tables.parts import read_part
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support import histories, oracle
from tests.support.counted import SEED, numbers, show_something
from tests.support.histories import Player
from tests.support.lake import MIN_AGE, Lake, lake, quick
from tests.support.oracle import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 10**6  # microseconds
TOWNS = 2
TOGETHER = 10  # histories that share a repository
NOTHING_HERE = Little(rows=-1)
DAYS = (-1, 0, 1, 3, 7, 14, 30, 90, 400)


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.slow), "local"])
def here(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    with lake(tmp_path, blockstore=request.param) as found:
        yield found


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as session:
        yield session


def town(here: Lake, seed: int, together: int = TOGETHER) -> Player:
    """A repository with several histories in it, and rules."""
    drawn = [histories.drawn(seed * 1000 + number, histories.user_histories) for number in range(together)]
    player = histories.played(here.sandbox, f"town-{seed}", histories.together(drawn))
    source = random.Random(seed)
    branches = {name: source.choice(DAYS) for name in sorted(player.repository.refs.branches) if source.random() < 0.2}
    player.repository.set_rules(source.choice(DAYS), branches)
    return player


def marked(spark: SparkSession, here: Lake, player: Player, mark_id: str = "one", *, mode: str = AUTO) -> MarkContext:
    server = ServerSettings(here.server.url, ACCESS_KEY, SECRET_KEY)
    stores = (StoreMapping("local://", root=str(here.sandbox.root)),)
    opened = open_repository(Settings(server=server, stores=stores), player.repository.name, client=here.client)
    if not opened.namespace.is_local:
        opened = here.open(player.repository.name)
    context = begin_mark(opened, mark_id, min_age=MIN_AGE, safety_level="none", mode=mode)
    pipeline.mark(spark, context)
    return context


def folder_of(here: Lake, name: str) -> Path:
    """Where a namespace lies."""
    place = here.sandbox.repository(name).place
    return here.sandbox.root / name if place.local_base is not None else here.files(name)


class Right:
    """What is right of a repository, by the oracle."""

    def __init__(self, player: Player, folder: Path) -> None:
        self.world = oracle.world_of(player.repository, int(MIN_AGE.total_seconds() * 10**6))
        heads = [self.world.commits[head].objects for head in self.world.heads.values()]
        self.staged = oracle.named_by_server(self.world, player.repository).shown
        if self.world.local:  # branches are listed there, and what a head shows counts as committed
            self.staged = self.world.shown.difference(*heads)
        self.sizes = {name: (folder / name).stat().st_size for name in self.world.store}
        self.today = self.shown(oracle.counting(self.world, tags=True))
        # Shown by a branch, and named by the server in no call but one that asks for it: a mark does, once it is old.
        self.asked = oracle.live(self.world, tags=True) - self.today - self.staged
        self.garbage = oracle.garbage(self.world, tags=True)

    def shown(self, commits: Collection[str]) -> set[str]:
        """What some commits show."""
        return set[str]().union(*(self.world.commits[commit].objects for commit in commits))

    def amount(self, names: Collection[str]) -> Amount:
        return Amount(len(names), sum(self.sizes[name] for name in names))

    def loose(self, *, young: bool) -> set[str]:
        """What nothing but commits keeps, as far as lakeFS names it; with what is young, or without."""
        return {
            name
            for name in self.world.store.keys() - self.staged
            if not oracle.is_foreign(self.world, name) and (young or not oracle.is_young(self.world, name))
        }

    def more(self, commits: Collection[str], *, young: bool) -> Amount:
        """What is no garbage today because of commits, and would be if only these counted."""
        return self.amount((self.today - self.shown(commits)) & self.loose(young=young))

    def less(self, commits: Collection[str]) -> Amount:
        return self.amount(self.garbage & self.shown(commits))


def later_of(right: Right, wish: Wish) -> World:
    """The world after what somebody wishes, for patterns that are names."""
    assert right.world.rules is not None
    default, branches = right.world.rules
    rules = {"default": default, **branches, **wish.rules}
    kept = {name: days for name, days in rules.items() if days is not None and name != "default"}
    return replace(oracle.without(right.world, wish.without), rules=(rules["default"], kept))


def wish_of(source: random.Random, world: World) -> Wish:
    """Any wish: other rules, fewer refs, tags that are not protected."""
    some = {name: source.choice((*DAYS, None)) for name in source.sample(sorted(world.heads), 3)}
    rules = {**some, **({"default": source.choice(DAYS)} if source.random() < 0.7 else {})}
    refs = [*(f"branch:{name}" for name in sorted(world.heads) if name != "main"), *(f"tag:{n}" for n in world.tags)]
    gone = tuple(source.sample(refs, min(len(refs), source.randrange(4))))
    return Wish(rules if source.random() < 0.8 else {}, gone, source.choice((None, None, False, True)))


def paths_of(player: Player) -> dict[str, set[str]]:
    """The folders, two deep, in which any commit shows an object."""
    found: dict[str, set[str]] = {}
    for commit in player.repository.refs.commits:
        for path, entry in player.repository.objects(commit):
            for name in oracle.names_of(player.repository, entry):
                found.setdefault(name, set()).add("".join(f"{each}/" for each in path.split("/")[:-1][:2]))
    return found


def check_parts(expected: Expected, right: Right, goes: set[str], folders: Mapping[str, set[str]]) -> None:
    """By what keeps it today, and by folder: each part is what it says, and where all are named they are the whole."""
    holders = {each: right_holders(right, each) for each in goes}
    for name, amount in expected.kept_by.items():
        alone = {each for each, names in holders.items() if (names == {name} if name != SEVERAL else len(names) > 1)}
        assert amount == right.amount(alone), name
    for name, amount in expected.folders.items():
        possible = {each for each in goes if name in folders[each]}
        certain = {each for each in possible if len(folders[each]) == 1}
        assert right.amount(certain).bytes <= amount.bytes <= right.amount(possible).bytes, name
    for parts in (expected.kept_by, expected.folders):
        if len(parts) < 10:
            assert sum(parts.values(), NOTHING) == expected.more


def check_whatif(
    spark: SparkSession, context: MarkContext, right: Right, wish: Wish, folders: Mapping[str, set[str]]
) -> None:
    found, later = whatif(spark, context, wish), later_of(right, wish)
    tags = wish.protect_tags is not False
    at_once, end = oracle.counting(later, tags=tags), oracle.counting_in_the_end(right.world, later, tags=tags)
    assert found.today == right.amount(right.garbage)
    assert found.at_once.more == right.more(at_once, young=False)
    assert found.in_the_end.more == right.more(end, young=True)
    assert found.at_once.less == right.less(at_once)
    check_parts(found.at_once, right, (right.today - right.shown(at_once)) & right.loose(young=False), folders)
    check_parts(found.in_the_end, right, (right.today - right.shown(end)) & right.loose(young=True), folders)
    assert found.at_once.garbage == found.today + found.at_once.more - found.at_once.less
    assert later.rules is not None
    for name, curve in found.curves.items():
        for days, point in zip((*POINTS, 10**7), curve, strict=True):
            default, branches = later.rules
            if name == "default":
                other = replace(later, rules=(days, branches))
            else:
                other = replace(later, rules=(default, {**branches, name.removeprefix("branch:"): days}))
            commits = oracle.counting_in_the_end(right.world, other, tags=tags)
            gone = right.loose(young=True) - right.shown(commits)
            gone -= {name for name in right.asked if not oracle.is_young(right.world, name)}
            assert point.kept == right.amount(right.world.store.keys() - gone), (name, days)


def check_du(spark: SparkSession, context: MarkContext, right: Right, sets: list[list[str]]) -> None:
    found = du(spark, context, sets)
    world = right.world
    keepers = {keeper.name: keeper for keeper in found.keepers}
    assert found.objects == right.amount(world.store)
    refs = [*(f"branch:{name}" for name in world.heads), *(f"tag:{name}" for name in world.tags)]
    heads = right.shown([*world.heads.values(), *world.tags.values()])
    for ref in refs:
        later = oracle.without(world, [ref])
        end = oracle.counting_in_the_end(world, later, tags=True)
        assert keepers[ref].only == right.more(end, young=True), ref
        assert keepers[ref].at_once == right.more(oracle.counting(later, tags=True), young=False), ref
        gone = (right.today - right.shown(end)) & right.loose(young=True)
        assert keepers[ref].history == right.amount(gone - heads), ref
    for patterns, together in zip(sets, found.together, strict=True):
        later = oracle.without(world, patterns)
        assert together.at_once == right.more(oracle.counting(later, tags=True), young=False)
        assert together.only == right.more(oracle.counting_in_the_end(world, later, tags=True), young=True)
    assert found.besides.get("unreferenced") in (None, right.amount(right.garbage))


def right_holders(right: Right, name: str, now: int | None = None) -> set[str]:
    """What keeps an object by itself, at the time of the mark or later."""
    world = right.world if now is None else replace(right.world, now=now)
    return oracle.holders(world, {commit for commit, version in world.commits.items() if name in version.objects})


def explained(spark: SparkSession, context: MarkContext, what: str) -> Explanation:
    """The answer, which this process and Spark's tasks give alike."""
    found = explain(not_needed, context, what)
    assert explain(lambda: spark, context, what, little=NOTHING_HERE) == found
    return found


def not_needed() -> SparkSession:
    raise AssertionError("Spark is started for a handful of rows")


def check_explain(spark: SparkSession, context: MarkContext, right: Right, name: str) -> None:
    found = explained(spark, context, name)
    (found,) = found.objects
    assert (found.address, found.size) == (name, right.sizes.get(name))
    assert {each["name"] for each in found.holders} == right_holders(right, name), name
    for each in found.holders:
        until = each["until"]
        if until is not None:
            ends = round(datetime.fromisoformat(until).timestamp() * 10**6)
            assert each["name"] in right_holders(right, name, ends - SECOND)
            assert each["name"] not in right_holders(right, name, ends + SECOND)
    assert (found.reason == "unreferenced") == (name in right.garbage)
    assert bool(found.paths) == any(name in version.objects for version in right.world.commits.values())
    showing = {commit for commit, version in right.world.commits.items() if name in version.objects}
    if found.past is None:
        assert found.holders or not showing
        return
    past = found.past
    assert not found.holders
    assert (past["commit"], past["cause"], past["by"]) in oracle.pasts(right.world, showing)
    if past["by"]:
        assert past["by"] in oracle.path(right.world, right.world.heads[past["branch"]])


def origins_of(context: MarkContext) -> dict[str, dict[str, Any]]:
    """What a mark says of the past of objects, by address."""
    parts, folder = (
        context.mark.require(Stage.EXPIRED_ADDRESSES).datasets[ORIGINS],
        context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, ORIGINS),
    )
    rows = [row for part in parts for batch in read_part(context.workspace, folder, part) for row in batch.to_pylist()]
    found = {row["address"]: row for row in rows}
    assert len(found) == len(rows), "each object has one past"
    return found


def check_origins(
    context: MarkContext,
    player: Player,
    right: Right,
    former: Mapping[str, str] | None = None,
    kept: Collection[str] = (),
) -> int:
    """The last commit and path of everything that no commit keeps, and what became of it. `former`: heads of branches
    that an earlier mark saw; `kept`: commits that counted then, which may be the last to count although others are
    newer."""
    found, facts = origins_of(context), context.mark.facts(ExpiredFacts).origins
    assert facts is not None and facts.unread == 0
    shown: dict[str, dict[str, set[str]]] = {}
    for commit in player.repository.refs.commits:
        for path, entry in player.repository.objects(commit):
            for name in oracle.names_of(player.repository, entry):
                shown.setdefault(name, {}).setdefault(commit, set()).add(path)
    past = {name for name in right.garbage if name in shown}
    assert past <= found.keys()
    assert not found.keys() & right.today
    for name, each in found.items():
        commits = shown[name]
        assert each["path"] in commits[each["commit_id"]]
        newest = max(oracle.moment(right.world, commit) for commit in commits)
        assert oracle.moment(right.world, each["commit_id"]) == newest or each["commit_id"] in kept
        if each["cause"] == "replaced":
            by = right.world.commits[each["by"]]
            assert each["by"] not in commits or each["commit_id"] in kept
            assert by.parents[by.main] == each["commit_id"]
            assert each["by"] in oracle.path(right.world, ({**(former or {}), **right.world.heads})[each["branch"]])
    assert facts.found == right.amount(past)
    causes = Counter((found[name]["cause"], found[name]["branch"]) for name in past)
    told = {(cause.cause, cause.branch): cause.objects for cause in facts.causes}
    assert told.items() <= causes.items() and (len(told) == 10 or told == causes)
    return len(found)


def check_path(spark: SparkSession, context: MarkContext, player: Player, right: Right) -> None:
    """All versions of a path, of all commits."""
    commits = list(player.repository.refs.commits)
    path = next(path for commit in reversed(commits) for path, _ in player.repository.objects(commit))
    found = explained(spark, context, path)
    shown = {
        name
        for commit in commits
        for each, entry in player.repository.objects(commit)
        if each == path
        for name in oracle.names_of(player.repository, entry)
    }
    assert {each.address for each in found.objects} <= shown
    assert shown & right.world.store.keys() <= {each.address for each in found.objects}
    assert all(each.paths == (path,) for each in found.objects)


def check_town(spark: SparkSession, here: Lake, seed: int, wishes: int) -> Counter[str]:
    player = town(here, seed)
    context, right, source = (
        marked(spark, here, player),
        Right(player, folder_of(here, player.repository.name)),
        random.Random(seed),
    )
    before = {str(path) for path in folder_of(here, player.repository.name).rglob("*") if path.is_file()}
    folders = paths_of(player)
    for _ in range(wishes):
        check_whatif(spark, context, right, wish_of(source, right.world), folders)
    names = sorted(right.world.heads)
    check_du(spark, context, right, [[f"branch:{name}" for name in source.sample(names, 3)] for _ in range(2)])
    lakefs = [name for name in sorted(right.world.store) if not oracle.is_foreign(right.world, name)]
    for name in source.sample(lakefs, min(len(lakefs), 3 * wishes)):
        check_explain(spark, context, right, name)
    check_path(spark, context, player, right)
    pasts = check_origins(context, player, right)
    after = {str(path) for path in folder_of(here, player.repository.name).rglob("*") if path.is_file()}
    assert after == before, "an answer leaves nothing behind"
    return Counter(
        {"towns": 1, "what-ifs": wishes, "refs": len(names), "objects": len(right.world.store), "pasts": pasts}
    )


def test_every_answer_on_a_random_history_is_what_the_oracle_says(small: SparkSession, here: Lake) -> None:
    check_town(small, here, SEED, 1)


def test_an_optimized_mark_knows_the_past_of_what_became_garbage_since(small: SparkSession, here: Lake) -> None:
    player, source, now = town(here, SEED), random.Random(SEED), float(os.environ["LAKEGC_NOW"])
    os.environ["LAKEGC_NOW"] = str(now - 0.001)
    marked(small, here, player, mode=CLEAN)
    kept = oracle.counting(oracle.world_of(player.repository, 0), tags=True)
    heads = {name: branch.commit_id for name, branch in player.repository.refs.branches.items()}
    branches = sorted(heads.keys() - {"main"})
    for name in source.sample(branches, len(branches) // 2):
        player.repository.delete_branch(name)
    os.environ["LAKEGC_NOW"] = str(now)
    context = marked(small, here, player, "two", mode=INCREMENTAL)
    assert context.mark.facts(ListingFacts).rests_on
    right = Right(player, folder_of(here, player.repository.name))
    show_something(check_origins(context, player, right, heads, kept))


@pytest.mark.slow
def test_every_answer_on_many_random_histories_is_what_the_oracle_says(
    small: SparkSession, here: Lake, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    counts = Counter[str]()
    for seed in numbers(TOWNS, slow=True):
        try:
            counts += check_town(small, here, seed, 4)
        except BaseException as error:
            error.add_note(f"In town {seed}.")
            raise
    tally(f"answers on {here.sandbox.blockstore}", counts)
