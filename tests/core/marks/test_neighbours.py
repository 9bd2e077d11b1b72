"""Which marks of other repositories count, and of which repositories too little is known."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import NeighbourSettings
from lakegc_core.errors import RefusedError, SettingsError, StoreError
from lakegc_core.marks import neighbours
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import open_mark
from lakegc_core.marks.neighbours import Neighbour, Sighting, neighbours_of, sight, sightings, what_is_known
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig
from tests.support.lake import NOW, Lake
from tests.support.neighbourhood import garbage, imported, mark, neighbourhood, warning
from tests.support.waiting import STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEK = NeighbourSettings()
AT = NOW.timestamp() + 7 * 86_400.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with neighbourhood(tmp_path) as found:
        yield found


def test_a_repository_that_was_never_marked_is_named_and_stops_nothing(quick: SparkSession, served: Lake) -> None:
    garbage(served)
    review = mark(quick, served, "lake", "m1")
    assert review.authorized
    assert "1 of the 1 other repositories" in warning(review).description
    assert "far (no complete mark)" in warning(review).description
    assert pipeline.sweep(quick, open_mark(served.open("lake"), "m1")).outcomes["deleted"] == 1


def test_a_strict_sweep_is_refused_until_every_neighbour_is_marked(quick: SparkSession, served: Lake) -> None:
    strict = {"neighbours": NeighbourSettings(strict=True)}
    garbage(served)
    assert not mark(quick, served, "lake", "m1", **strict).authorized
    context = open_mark(served.open("lake", **strict), "m1")
    with pytest.raises(RefusedError, match="neighbours: 1 of the 1 other repositories"):
        pipeline.sweep(quick, context)
    mark(quick, served, "far", "f1")
    assert pipeline.sweep(quick, context).outcomes["deleted"] == 1


def test_a_mark_that_is_not_whole_or_is_of_a_former_repository_does_not_count(
    quick: SparkSession, served: Lake
) -> None:
    mark(quick, served, "far", "f1")
    [far] = neighbours_of(served.open("lake"))
    assert sight(far, AT).mark_id == "f1"
    assert sight(far, AT, before=NOW.timestamp()).mark_id == ""
    assert sight(replace(far, created=far.created + 1), AT).mark_id == ""
    (served.files("far") / HOME / "marks/f1/expired_addresses/manifest.json").unlink()
    assert sight(far, AT) == Sighting("far")


def test_a_mark_that_is_dated_later_than_now_is_a_problem_and_an_older_one_counts(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(quick, served, "far", "f1")
    monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + 2 * 86_400.0))
    mark(quick, served, "far", "f2")
    [far] = neighbours_of(served.open("lake"))
    found = sight(far, NOW.timestamp())
    assert found.mark_id == "f1" and "a clock that was wrong dated its mark f2 " in found.problem
    assert sight(far, AT) == replace(found, mark_id="f2", marked_at=found.marked_at + 2 * 86_400.0, problem="")


def test_a_mark_that_is_dated_later_than_now_is_no_problem_once_another_was_begun_after_it_by_the_stores_clock(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(mark_id: str, seconds: float) -> None:
        """Date the header of a mark, as the store does."""
        os.utime(served.files("far") / HOME / "marks" / mark_id / "mark.json", (seconds, seconds))

    with monkeypatch.context() as later:
        later.setenv("LAKEGC_NOW", str(NOW.timestamp() + 30 * 86_400.0))
        mark(quick, served, "far", "f9")
    mark(quick, served, "far", "f1")
    [far] = neighbours_of(served.open("lake"))
    at, copied = NOW.timestamp(), NOW.timestamp() + 2 * 3600.0
    for first, last, problem in (
        (at, at - 10.0, True),
        (at, at, True),
        (at, at + 0.5, False),
        (copied, copied + 0.5, True),  # both, to another workspace: their dates tell the order of the copies alone
    ):
        begun("f9", first)
        begun("f1", last)
        found = sight(far, NOW.timestamp())
        assert found.mark_id == "f1" and bool(found.problem) is problem
        assert bool(what_is_known([found], WEEK, NOW.timestamp()).unknown) is problem

    def refuse(*_: Any) -> None:
        raise StoreError("no HEADs for you")

    begun("f9", at)
    begun("f1", at + 0.5)
    assert not sight(far, NOW.timestamp()).problem
    monkeypatch.setattr(neighbours, "heads", refuse)
    assert "its mark f9" in sight(far, NOW.timestamp()).problem, "who does not know, says so"


def test_headers_that_do_not_read_are_a_problem_only_where_they_may_be_newer(quick: SparkSession, served: Lake) -> None:
    for mark_id in ("f1", "f2", "f3"):
        mark(quick, served, "far", mark_id, mode="clean")
    [far] = neighbours_of(served.open("lake"))
    for mark_id, problem in (("f1", False), ("f3", True)):
        file = served.files("far") / HOME / "marks" / mark_id / "mark.json"
        file.write_bytes(b"{}")
        found = sight(far, AT)
        assert found.mark_id in ("f2", "f3")
        assert bool(found.problem) == problem and not found.unread
    (served.files("far") / HOME / "marks/f2/mark.json").write_bytes(b"{}")
    found = sight(far, AT)
    assert found.unread and not found.mark_id
    assert (what_is_known([found], WEEK, AT).unread, what_is_known([Sighting("far")], WEEK, AT).unread) == (
        ("far",),
        (),
    )
    ignored = NeighbourSettings(ignore=("far",))
    assert what_is_known([found], ignored, AT).unread == ()
    for refused, unread in ((("f1",), True), (("f1", "f2", "f3"), False)):  # a store that refuses all tells of none
        for mark_id in refused:
            file = served.files("far") / HOME / "marks" / mark_id / "mark.json"
            file.unlink()
            file.symlink_to("elsewhere")  # which is not followed
        found = sight(far, AT)
        assert found.unread is unread and found.problem and not found.mark_id


def test_places_that_cannot_be_reached_are_named(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(namespace: Namespace, *_: object, **__: object) -> LocalConfig:
        raise SettingsError("no such store")

    monkeypatch.setattr(neighbours, "config_for", no_place)
    [far] = neighbours_of(served.open("lake"))
    assert sight(far, AT) == Sighting("far", problem="its store is not known: no such store")


def test_a_store_that_does_not_answer_is_not_waited_for(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.create("deaf")
    over, patience, answer = Event(), list[float | None](), neighbours.sight

    def sight_in_the_end(each: Neighbour, now: float) -> Sighting:
        assert each.name != "deaf" or over.wait(STARTS)
        return answer(each, now)

    def wait_for(waiting: dict[Any, str], timeout: float | None, return_when: str) -> Any:
        """Those that answer have all the time they need; the time of the deaf one is up at once."""
        patience.append(timeout)
        return wait(waiting, 0 if set(waiting.values()) == {"deaf"} else STARTS, return_when)

    monkeypatch.setattr(neighbours, "sight", sight_in_the_end)
    monkeypatch.setattr(neighbours, "wait", wait_for)
    try:
        found = {each.name: each.problem for each in sightings(quick, neighbours_of(served.open("lake")), AT)}
    finally:
        over.set()
    assert found == {"far": "", "deaf": "its store did not answer within 90 s"} and patience == [90.0, 90.0]


def test_many_neighbours_are_asked_for_by_tasks(
    quick: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        served.create(f"more-{number}")
    imported(served, garbage(served))
    mark(quick, served, "far", "f1")
    others = neighbours_of(served.open("lake"))
    here = sightings(quick, others, AT)
    monkeypatch.setattr(neighbours, "_FEW", 1)
    assert sightings(quick, others, AT) == here
    assert [each.name for each in here if each.refers] == ["far"]


def test_neighbours_that_are_too_old_count_as_unknown_unless_they_are_to_be_ignored() -> None:
    day = 86_400.0
    found = [
        Sighting("new", "m", marked_at=93 * day),
        Sighting("old", "m", marked_at=92 * day),
        Sighting("broken", "m", marked_at=99 * day, problem="torn"),
        Sighting("archive-1"),
    ]
    facts = what_is_known(found, NeighbourSettings(ignore=("archive-*",)), now=100 * day)
    assert facts.ignored == sum(each.name.startswith("archive-") for each in found) > 0
    assert facts.named == (("broken", "torn"), ("old", "last marked 8.0 days ago"))
    assert (facts.repositories, facts.unknown, facts.within) == (4, 2, 7 * day)
    many = what_is_known([Sighting(f"{number:03}") for number in range(300)], WEEK, 0)
    assert (many.unknown, len(many.named)) == (300, 3)


def test_thousands_of_namespaces_of_a_bucket_share_one_client(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real stores
    from lakegc_core.store.factory import config_for

    monkeypatch.setattr(neighbours, "config_for", config_for)
    for number in range(3):
        served.create(f"more-{number}")
    found = neighbours_of(served.open("lake"))
    assert len({each.config for each in found}) == 1
    assert {each.home for each in found} == {f"bucket/{each.name}/{HOME}".removeprefix("bucket/") for each in found}
