"""Small random worlds that hold no repository: commit graphs of any shape, with references, rules and a store.

They are made of bytes, so that a search for a failing one can shrink it. What is right of a world belongs in `oracle`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from lakegc_core.policy.retention import Graph, Rules
from tests.support.choices import Choices
from tests.support.oracle import DAY, Version, World

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


def graph_of(world: World) -> tuple[Graph, list[tuple[str, int]], list[tuple[str, int]]]:
    """The graph as lakegc has it, and names with rows of branches and tags. The commits come in the order of their ids,
    as in lakeFS."""
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
    heads, tags = ([(name, row[commit]) for name, commit in refs.items()] for refs in (world.heads, world.tags))
    return graph, heads, tags


def rules_of(world: World) -> Rules | None:
    """The rules as lakegc has them."""
    return None if world.rules is None else Rules(*world.rules)
