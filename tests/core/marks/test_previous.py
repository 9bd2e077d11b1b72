"""Which marks count before and after another: damaged ones, broken-off ones, those of a re-created repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.previous import former_state, later_marks, previous_findings, previous_mark
from lakegc_core.names import STAGES
from lakegc_core.policy.safety import FULL
from lakegc_core.stages.expired_addresses.stage import _previous
from lakegc_core.stages.swept_report.authorize import confirmed_at
from lakegc_core.store.local import LocalConfig
from tests.core.marks.test_artifacts import HEADER, alter, file_of, manifest
from tests.support.facts import whole_facts

DAY = 86_400.0
Made = Callable[..., Any]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes a mark, so many days after the first one and so many stages long; returns its context. `resumed`: days
    after the first one, if it broke off once the namespace was listed and was resumed then."""

    def make(
        mark_id: str,
        days: float,
        stages: int = 5,
        *,
        resumed: float | None = None,
        heads_unknown: int = 0,
        live: int = 100,
        previous: Any = None,
        **header: Any,
    ) -> Any:
        config = LocalConfig(str(tmp_path))
        own = replace(HEADER, mark_id=mark_id, started_at=HEADER.started_at + days * DAY, **header)
        artifacts = MarkArtifacts(config, mark_id)
        artifacts.begin(own)
        for stage in STAGES[:stages]:
            facts: dict[str, Any] = {}
            if stage == "retention_commits":
                facts = {"former_heads_unknown": heads_unknown}
            if stage == "expired_addresses":
                groups = {group: {"objects": live, "bytes": live} for group in ("listed", "uncommitted", "expired")}
                groups["committed"] = {"objects": live, "bytes": live}
                facts = {**groups, "previous": asdict(previous) if previous else None}
            at = HEADER.started_at + (days if resumed is None or stage == STAGES[0] else resumed) * DAY
            done = replace(
                manifest(stage, artifacts.upstream_digest(stage)), mark_id=mark_id, facts=whole_facts(stage, facts)
            )
            done = replace(done, facts=whole_facts(stage, facts), started_at=at, finished_at=at + 60)
            artifacts.finish(done)
        return SimpleNamespace(
            header=own,
            level=FULL,
            workspace=config,
            home=artifacts.home,
            mark=artifacts,
            artifacts=lambda name: MarkArtifacts(config, name),
        )

    return make


def name(found: MarkArtifacts | None) -> str | None:
    return found.mark_id if found else None


def test_the_newest_finished_mark_before_is_the_previous_one(made: Made) -> None:
    made("m1", 0)
    made("m2", 1)
    made("broken-off", 2, stages=4)
    made("later", 4)
    assert name(previous_mark(made("m3", 3, stages=0))) == "m2"


@pytest.mark.parametrize(("stages", "carried"), [(1, "m1"), (2, None), (4, None)])
def test_a_mark_that_broke_off_after_it_asked_what_is_staged_may_have_found_anything_live(
    made: Made, stages: int, carried: str | None
) -> None:
    made("m1", 0)
    made("broken-off", 1, stages=stages)
    assert name(previous_findings(made("m2", 2, stages=0))) == carried


def test_a_mark_that_was_begun_earlier_and_resumed_later_may_have_found_anything_live(made: Made) -> None:
    made("resumed", 0, resumed=2)
    made("m1", 1)
    assert name(previous_mark(made("m2", 3, stages=0))) == "m1"
    assert previous_findings(made("m2", 3, stages=0)) is None


def test_a_mark_that_was_resumed_does_not_stand_in_its_own_way(made: Made) -> None:
    made("m1", 0)
    assert name(previous_findings(made("m2", 1, stages=4, resumed=2))) == "m1"


def test_a_mark_that_was_resumed_carries_on_nothing_that_a_later_one_may_have_found_live(made: Made) -> None:
    made("m1", 0)
    made("m3", 2)
    assert previous_findings(made("m2", 1, stages=4, resumed=3)) is None


def test_a_damaged_mark_in_between_may_have_found_anything_live(made: Made, tmp_path: Path) -> None:
    made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path, "expired_addresses"), rows=4)
    assert previous_findings(made("m3", 2, stages=0)) is None


def test_a_repository_that_was_created_anew_must_know_the_heads_of_the_old_one(made: Made) -> None:
    made("m1", 0)
    anew = made("m2", 1, stages=0, repository_created=HEADER.repository_created + 5)
    assert previous_mark(anew) is None
    assert name(former_state(anew)) == "m1"


def test_a_mark_that_missed_heads_does_not_make_the_next_one_forget_them(made: Made) -> None:
    made("m1", 0)
    made("m2", 1, heads_unknown=3)
    assert name(former_state(made("m3", 2, stages=0))) == "m1"


def test_marks_of_another_namespace_say_nothing_about_heads(made: Made) -> None:
    made("m1", 0, storage_namespace="s3://elsewhere/ns")
    assert former_state(made("m2", 1, stages=0)) is None


def test_a_sweep_knows_the_newest_finished_mark_after_its_own(made: Made) -> None:
    own = made("m1", 1)
    made("earlier", 0)
    assert later_marks(own).finished is None
    made("m2", 2)
    made("m3", 3)
    made("other", 4, repository="another")
    found = later_marks(own)
    assert (name(found.finished), found.unfinished) == ("m3", False)


def test_a_mark_that_was_begun_earlier_and_resumed_is_a_later_one(made: Made) -> None:
    own = made("m1", 1)
    made("resumed", 0, resumed=2)
    assert name(later_marks(own).finished) == "resumed"
    made("broken-off", 0.5, stages=3, resumed=3)
    assert later_marks(own).unfinished


@pytest.mark.parametrize(("stages", "may_have_found_any"), [(1, False), (2, True)])
def test_a_later_mark_that_broke_off_may_have_found_anything_live(
    made: Made, stages: int, may_have_found_any: bool
) -> None:
    own = made("m1", 0)
    made("broken-off", 1, stages=stages)
    assert later_marks(own).unfinished is may_have_found_any
    made("m2", 2)
    assert not later_marks(own).unfinished, "the finished one waited anew for everything"


def test_a_later_mark_that_is_damaged_may_have_found_anything_live(made: Made, tmp_path: Path) -> None:
    own = made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path, "expired_addresses"), rows=4)
    assert later_marks(own).unfinished


def test_a_mark_whose_header_is_damaged_may_have_read_last(made: Made, tmp_path: Path) -> None:
    own = made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path), cutoff=1.0)
    made("m3", 2)
    assert later_marks(own).unfinished


def test_a_mark_that_had_shrunk_is_no_measure_for_the_next_one_until_it_is_swept(made: Made) -> None:
    """Otherwise a short answer of the server, given twice, would pass the guard the second time."""
    made("m1", 0)
    first = _previous(made("none", 0.5, stages=0))
    assert first and first.mark_id == "m1"
    short = made("m2", 1, live=10, previous=first)
    assert _previous(made("m3", 2, stages=0)) == first
    short.mark.store.write(f"{short.mark.folder}/sweeps/1/plan.json", b"{}")  # somebody has accepted it
    found = _previous(made("m4", 3, stages=0))
    assert found and found.mark_id == "m2"


def test_the_gap_begins_when_the_commits_had_been_read(made: Made) -> None:
    """What was referred to while they were being read may have been let go before the end."""
    context = made("m1", 0)
    context.policy = SimpleNamespace(safety=None)
    read = context.mark.require("retention_commits")
    assert confirmed_at(context) == read.finished_at + FULL.gap.total_seconds() > read.started_at + DAY
