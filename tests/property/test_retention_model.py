"""Which commits count and which objects may go, in small random worlds that hold no repository: pure functions only.

What belongs here: `retention` and the rule for candidates against the oracle, many thousand times. Reading
lakeFS, Spark and stores do not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.retention import NamedCommits, retain
from lakegc_core.policy.xids import xid_times
from tests.support import oracle
from tests.support.oracle import Version, World
from tests.support.small_worlds import BYTES, HOUR, graph_of, rules_of, world

EXAMPLES, WORLDS = 200, 4  # hypothesis is slow to begin an example, so each holds several worlds
COUNTS: Counter[str] = Counter()


def kept(world: World, *, tags: bool, margin: int = 0) -> set[str]:
    """What lakegc keeps; the commits come in the order of their ids, as in lakeFS."""
    graph, heads, tagged = graph_of(world)
    rules = rules_of(world)
    found = retain(graph, NamedCommits(heads, tagged if tags else []), rules, world.now, margin=margin)
    return {graph.commit_ids[row] for row in found}


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
