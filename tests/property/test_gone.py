"""What `gone` and `verify` say of random histories, before and after a sweep, against an oracle by brute force.

LAKEGC_SEED (default 0) chooses the histories.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.answers.gone import gone
from lakegc_core.answers.verify import verify
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from tests.property.test_answers import Right, folder_of, marked, right_holders, town
from tests.support import oracle
from tests.support.counted import SEED, numbers
from tests.support.histories import Player
from tests.support.lake import Lake, lake, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GLOBS = {"**": ".*", "a": "a", "c/*": "c/[^/]*", "*": "[^/]*"}
GUARDS = ("blast-radius", "shrink", "live-in-listing")
ACCEPTED = dict.fromkeys(GUARDS, "a random history")
SECOND = 10**6  # microseconds


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path, blockstore="local") as found:
        yield found


@pytest.fixture
def small(spark: SparkSession) -> Iterator[SparkSession]:
    with quick(spark) as session:
        yield session


@dataclass(frozen=True)
class Stood:
    """What ever stood at some paths: `surely` by addresses that read one way, `perhaps` by all their readings; `named`:
    the branches that show each now."""

    surely: set[str]
    perhaps: set[str]
    named: dict[str, set[str]]


def stood_at(player: Player, expression: str) -> Stood:
    repository = player.repository
    found = Stood(set(), set(), {})
    refs = [*repository.refs.commits, *repository.refs.branches]
    for ref in refs:
        for path, entry in repository.objects(ref):
            if re.fullmatch(expression, path, re.DOTALL):
                names = set(oracle.names_of(repository, entry))
                found.perhaps.update(names)
                found.surely.update(names if "://" not in entry.address else ())
                if ref in repository.refs.branches:
                    for name in names:
                        found.named.setdefault(name, set()).add(f"branch:{ref}")
    return found


def check_standing(each: Mapping[str, Any], right: Right, stood: Stood) -> None:
    """Who keeps an object, and until when: nobody but these, and each of them."""
    name = each["address"]
    told = {keeper["name"] for keeper in each["keepers"] if keeper["why"] not in ("unreferenced", "young", "foreign")}
    keepers = right_holders(right, name) | stood.named.get(name, set())
    assert keepers <= told, name
    assert told - keepers <= {"staged", "unasked", "unknown", "the mark"}, name
    assert each["paths"], (name, "stood at a path")
    for keeper in each["keepers"]:
        assert keeper["sooner"], "something is said of each"
    if each["until"] is not None and not stood.named.get(name) and right_holders(right, name):
        ends = round(datetime.fromisoformat(each["until"]).timestamp() * SECOND)
        assert right_holders(right, name, ends - SECOND) and not right_holders(right, name, ends + SECOND), name
    if name in right.garbage:
        assert [keeper["why"] for keeper in each["keepers"]] == ["unreferenced"], name
    if each["until"] is not None:
        assert name in right.loose(young=True), name


def check(spark: SparkSession, context: MarkContext, player: Player, right: Right, glob: str) -> Counter[str]:
    found, stood = gone(spark, context, glob, 2000), stood_at(player, GLOBS[glob])
    there = {each["address"] for each in found.standing}
    vanished = {each["address"] for each in found.vanished}
    assert found.there == len(there) and found.gone == len(vanished) and not there & vanished
    assert not stood.surely - there - vanished, (glob, "is not told of")
    assert not (there | vanished) - stood.perhaps, (glob, "never stood there")
    assert there == (there | vanished) & right.world.store.keys()
    assert found.bytes == right.amount(there).bytes
    for each in found.standing:
        check_standing(each, right, stood)
    assert (found.statement is None) == bool(found.open) and (
        not found.open or found.there or found.outside or not found.objects
    )
    return Counter({"there": found.there, "gone": found.gone})


def check_town(spark: SparkSession, here: Lake, seed: int, globs: list[str], together: int) -> Counter[str]:
    player = town(here, seed, together)
    name = player.repository.name
    context = marked(spark, here, player)
    before = Right(player, folder_of(here, name))
    counts = sum((check(spark, context, player, before, glob) for glob in globs), Counter[str]())
    try:
        swept = pipeline.sweep(spark, context, accepted=ACCEPTED)
    except RefusedError:  # another repository lies below its data/
        return counts
    after = Right(player, folder_of(here, name))
    taken = before.world.store.keys() - after.world.store.keys()
    assert taken == before.garbage
    found = gone(spark, context, globs[0], 2000)
    assert {each["address"] for each in found.vanished if each["mark_id"] == "one"} == taken & stood_at(
        player, GLOBS[globs[0]]
    ).perhaps
    (sweep,) = found.sweeps or ({"statement": swept.statement},)
    assert sweep["statement"] == swept.statement
    if swept.planned:
        proof = verify(spark, context, "one")
        assert proof.is_whole and proof.sweeps[0].stated is not None
        assert proof.sweeps[0].stated["outcomes"]["by_outcome"]["deleted"] == len(taken)
    return counts + Counter({"towns": 1, "taken": len(taken)})


def test_gone_and_verify_say_of_a_random_history_what_the_oracle_says(small: SparkSession, here: Lake) -> None:
    counts = check_town(small, here, SEED, ["**", "c/*"], 3)
    assert counts["there"] and counts["taken"]


@pytest.mark.slow
def test_gone_and_verify_say_of_many_random_histories_what_the_oracle_says(
    small: SparkSession, here: Lake, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    counts = Counter[str]()
    for seed in numbers(2, slow=True):
        try:
            counts += check_town(small, here, seed, list(GLOBS), 10)
        except BaseException as error:
            error.add_note(f"In town {seed}.")
            raise
    tally("accounts of what is gone", counts)
