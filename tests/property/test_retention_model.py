"""Which commits count and which objects may go, in small random worlds that hold no repository: pure functions only.

What belongs here: `retention` and the rule for candidates against the oracle, many thousand times. Reading
lakeFS, Spark and stores do not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from lakegc_core.policy.namespace import Namespace, xid_times
from lakegc_core.policy.retention import Graph, Rules, retain
from tests.support import oracle
from tests.support.choices import Choices
from tests.support.oracle import DAY, Version, World

EXAMPLES, WORLDS = 2_600, 4  # hypothesis is slow to begin an example, so each holds several worlds
BYTES = 170  # of randomness, for one world
NOW = int(datetime(2025, 3, 31, 12, tzinfo=UTC).timestamp()) * 10**6
HOUR = DAY // 24
BRANCHES = ("main", "dev", "feature/x", "_hidden")
DAYS = (7, 0, 1, 2, 30, -1, -400, 365, 2**31 - 1, -(2**31))
AGES = (0, 1, 24, 25, 47, 48, 49, 7 * 24 - 1, 7 * 24, 7 * 24 + 1, 30 * 24, 31 * 24, 366 * 24, -1, -72)  # hours
SLICE = "gqv3epl4fd2o8m3men70"
NAMES = (
    f"data/{SLICE}/ce8co454fd2o8m3menag",
    f"data/{SLICE}/ce8co454fd2o8m3menb0",
    f"data/{SLICE}/ce8co454fd2o8m3menbg,{'signature' * 4}_-signa",
    f"data/!ab/c/{SLICE}/ce8co454fd2o8m3menc0",
    "data/V1StGXR8_Z5jdHi6B-myT",
    "data/repo-main:5e6ff8b9-44c0-4b4f-8d4c-0f3f7c4c9f6e/V1StGXR8_Z5jdHi6B-myT",
    "data/repo-feature/x-5e6ff8b9-44c0-4b4f-8d4c-0f3f7c4c9f6e/V1StGXR8_Z5jdHi6B-myT",
    "0123456789abcdef0123456789abcdef",
    # never candidates
    f"data/{SLICE}/",
    f"data/{SLICE}/customers.csv",
    "data/raw/customers.csv",
    "data/with space/ü%2F+",
    "data/part-00000.parquet",
    "data/other/_lakefs/0123",
    "data/_lakefs/x",
    "0123456789ABCDEF0123456789ABCDEF",
    "0123456789abcdef0123456789abcdef-00001",  # but for blockstore local
    "exports/x.csv",
    "_lakefs/dummy",
    "dataset/x",
)
MADE_NOW = f"data/{SLICE}/d5i1b400000000000000"  # whatever the store says, its name was given out in 2026
COUNTS: Counter[str] = Counter()


def world(data: bytes) -> World:
    """A commit graph of any shape, with references, rules, staged objects and a store."""
    pick = Choices(data)
    names = [*NAMES, MADE_NOW]
    commits: dict[str, Version] = {}
    for number in range(1 + pick.below(12)):
        earlier = list(commits)
        parents = [pick.of(earlier) for _ in range(pick.of((1, 1, 1, 2, 2, 0)) if earlier else 0)]
        commits[f"{pick.below(256):02x}{number}"] = Version(
            parents=tuple(parents),
            created=NOW - pick.of(AGES) * HOUR + pick.of((0, 0, 1, -1)),  # microseconds off the threshold
            objects=frozenset(pick.some(names[:8])),
            main=pick.of((0, 0, 0, -1)),
        )
    ids = list(commits)
    branches = {name: pick.of(DAYS) for name in pick.some(BRANCHES)}
    return World(
        now=NOW,
        commits=commits,
        heads={name: pick.of(ids) for name in ("main", *pick.some(BRANCHES[1:]))},
        tags={name: pick.of(ids) for name in pick.some(("v1", "v2"))},
        rules=None if pick.below(16) == 15 else (pick.of(DAYS), branches),
        shown=frozenset(pick.some(names[:4])),
        store={name: NOW - pick.of(AGES) * HOUR + pick.of((0, 1, -1)) for name in pick.some(names)},
        min_age=pick.of((24, 0, 48, 1)) * HOUR,
        local=bool(pick.below(2)),
    )


def kept(world: World, *, tags: bool, margin: int = 0) -> set[str]:
    """What lakegc keeps; the commits come in the order of their ids, as in lakeFS."""
    ids = sorted(world.commits)
    row = {commit: number for number, commit in enumerate(ids)}
    versions = [world.commits[each] for each in ids]
    graph, unknown = Graph.build(
        ids,
        [f"metarange of {each}" for each in ids],
        [version.created for version in versions],
        [version.parents for version in versions],
        [1 if version.main == 0 else 0 for version in versions],
    )
    assert not unknown
    heads = [(name, row[commit]) for name, commit in world.heads.items()]
    tagged = [(name, row[commit]) for name, commit in world.tags.items()] if tags else []
    rules = None if world.rules is None else Rules(*world.rules)
    return {ids[row] for row in retain(graph, heads, tagged, rules, world.now, margin=margin).kept_by}


def renamed(world: World, names: dict[str, str]) -> World:
    """The same world under other commit ids."""
    commits = {
        names[each]: Version(
            tuple(names[parent] for parent in version.parents), version.created, version.objects, version.main
        )
        for each, version in world.commits.items()
    }
    return World(
        world.now,
        commits,
        {branch: names[commit] for branch, commit in world.heads.items()},
        {tag: names[commit] for tag, commit in world.tags.items()},
        world.rules,
    )


def candidates(world: World) -> set[str]:
    """What lakegc would take by name and age, by its own judgement of both."""
    namespace = Namespace("local://repo" if world.local else "s3://bucket/repo")
    names = sorted(world.store)
    allowed = namespace.deletable(pa.array(names, pa.string()), unknown_names=False).to_pylist()
    written = {name: world.store[name] for name, may in zip(names, allowed, strict=True) if may}
    named = np.nan_to_num(xid_times(pa.array(list(written), pa.string()))) * 10**6
    ages = zip(written, written.values(), named.tolist(), strict=True)
    return {name for name, modified, given_out in ages if max(modified, given_out) < world.now - world.min_age}


def live(world: World, commits: set[str]) -> set[str]:
    """What is staged, and what these commits show."""
    return set(world.shown).union(*(world.commits[commit].objects for commit in commits))


@pytest.fixture(autouse=True)
def counted(tally: Callable[[str, Mapping[str, int]], None]) -> Iterator[None]:
    """Says at the end how many worlds were judged."""
    yield
    tally("retention model", COUNTS)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.binary(min_size=WORLDS * BYTES, max_size=WORLDS * BYTES), seed=st.integers(0, 2**32 - 1))
def test_exactly_the_commits_of_the_oracle_count_whatever_their_ids(data: bytes, seed: int) -> None:
    for start in range(0, len(data), BYTES):
        here = world(data[start : start + BYTES])
        for_tags = (seed + start) % 2 == 0
        try:
            judge(here, tags=for_tags, seed=seed)
        except AssertionError:
            note(f"tags={for_tags} seed={seed} in {here}")
            raise


def judge(here: World, *, tags: bool, seed: int) -> None:
    """Compare one world with the oracle."""
    right = oracle.counting(here, tags=tags)
    assert kept(here, tags=tags) == right
    others = [f"{number:02x}" for number in range(len(here.commits))]
    random.Random(seed).shuffle(others)
    names = dict(zip(here.commits, others, strict=True))
    assert kept(renamed(here, names), tags=tags) == {names[each] for each in right}

    with_margin = kept(here, tags=tags, margin=HOUR)
    assert with_margin >= right
    old, garbage = candidates(here), oracle.garbage(here, tags=tags)
    assert old - live(here, right) == garbage
    assert old - live(here, with_margin) <= garbage
    COUNTS["histories"] += 1
    COUNTS["expired commits"] += len(here.commits) - len(right)
    COUNTS["objects of garbage"] += len(garbage)
