"""Which marks count before and after another: damaged ones, broken-off ones, those of a re-created repository."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.previous import (
    FindingsBefore,
    findings_before,
    former_state,
    later_marks,
    previous_findings,
    previous_mark,
    unfinished_mark,
)
from lakegc_core.names import STAGES
from tests.support.lake import Lake
from tests.support.marks import Marked, marker
from tests.support.old_marks import DAY, HEADER, Made, alter, file_of, maker


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


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


def test_another_mark_may_have_found_anything_live_since_the_staged_dump_of_one_that_was_resumed(made: Made) -> None:
    made("earlier", 0, resumed=2)
    made("m1", 1, whole=2, resumed=3)
    assert name(previous_mark(made("m2", 4, stages=0))) == "m1"
    assert previous_findings(made("m2", 4, stages=0)) is None


def test_a_damaged_mark_in_between_may_have_found_anything_live(made: Made, tmp_path: Path) -> None:
    made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path, "expired_addresses"), rows=4)
    assert previous_findings(made("m3", 2, stages=0)) is None


def test_a_mark_of_another_series_in_between_may_have_found_anything_live(made: Made) -> None:
    """Of another version of lakegc, for example: it read the same repository."""
    made("m1", 0)
    made("m2", 1, allow_list=0)
    assert name(previous_mark(made("m3", 2, stages=0))) == "m1"
    assert previous_findings(made("m3", 2)) is None
    made("other", 2.5, repository="another")
    assert name(previous_findings(made("m4", 3, stages=0))) == "m3"


@pytest.mark.parametrize("other", ["a-day-before", "zz"], ids=["sorts-before", "sorts-after"])
def test_who_marks_again_goes_on_with_the_mark_that_was_begun_last_whatever_the_ids_are(
    made: Made, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(HEADER.started_at + 3 * DAY + 3600))
    made(other, 2)
    context = made("m1", 3, stages=2)
    assert unfinished_mark(context) == "m1"
    made("to-come", 4, stages=2)
    assert unfinished_mark(context) == "m1"
    made("m2", 3.01)
    assert unfinished_mark(context) is None


def test_a_mark_that_was_begun_long_ago_is_not_gone_on_with(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(HEADER.started_at + 3 * DAY))
    assert unfinished_mark(made("m1", 2, stages=2)) is None


def test_soon_after_1970_there_is_no_mark_to_go_on_with(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", "1")
    assert unfinished_mark(made("m1", 2, stages=2)) is None


def test_a_mark_that_listed_nothing_is_not_gone_on_with(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that was refused because the repository had no rules: its cutoff would be that of the refusal."""
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(HEADER.started_at + 3600))
    assert unfinished_mark(made("m1", 0, stages=1)) == "m1"
    assert unfinished_mark(made("m2", 0.01, stages=0)) is None


@pytest.mark.parametrize("stage", STAGES[:2])
def test_a_mark_that_lacks_the_manifest_of_an_earlier_stage_is_not_gone_on_with(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(HEADER.started_at + 3600))
    context = made("m1", 0, stages=3)
    assert unfinished_mark(context) == "m1"
    file_of(context.mark, tmp_path, stage).unlink()
    assert unfinished_mark(context) is None


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
    assert (name(found.finished), found.others) == ("m3", False)


def test_a_mark_that_was_begun_earlier_and_resumed_is_a_later_one(made: Made) -> None:
    own = made("m1", 1)
    made("resumed", 0, resumed=2)
    assert name(later_marks(own).finished) == "resumed"
    made("broken-off", 0.5, stages=3, resumed=3)
    assert later_marks(own).others


@pytest.mark.parametrize("stages", [2, 5], ids=["that broke off", "that is complete"])
def test_a_later_mark_that_was_resumed_does_not_know_what_another_one_found_since_its_staged_dump(
    made: Made, stages: int
) -> None:
    own = made("m1", 0)
    made("m2", 1, whole=2, resumed=3)
    found = later_marks(own)
    assert (name(found.finished), found.others) == ("m2", False)
    made("m3", 2, stages=stages)
    found = later_marks(own)
    assert (name(found.finished), found.others) == ("m2", True)


@pytest.mark.parametrize(("stages", "may_have_found_any"), [(1, False), (2, True)])
def test_a_later_mark_that_broke_off_may_have_found_anything_live(
    made: Made, stages: int, may_have_found_any: bool
) -> None:
    own = made("m1", 0)
    made("broken-off", 1, stages=stages)
    assert later_marks(own).others is may_have_found_any
    made("m2", 2)
    assert not later_marks(own).others, "the finished one waited anew for everything"


def test_a_later_mark_that_is_damaged_may_have_found_anything_live(made: Made, tmp_path: Path) -> None:
    own = made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path, "expired_addresses"), rows=4)
    assert later_marks(own).others


def test_a_mark_whose_header_is_damaged_may_have_read_last(made: Made, tmp_path: Path) -> None:
    own = made("m1", 0)
    alter(file_of(made("m2", 1).mark, tmp_path), cutoff=1.0)
    made("m3", 2)
    assert later_marks(own).others


# --- marks that cannot be read ---


def written(context: Any, tmp_path: Path, days: float) -> None:
    """The files of a mark were last written so many days after the first mark."""
    for file in (tmp_path / context.mark.folder).rglob("*"):
        os.utime(file, (HEADER.started_at + days * DAY,) * 2)


def test_a_mark_that_does_not_read_counts_once_and_not_for_ever(made: Made, tmp_path: Path) -> None:
    """Before, no mark after it confirmed anything, however old it was."""
    made("m1", 0)
    damaged = made("m2", 1)
    alter(file_of(damaged.mark, tmp_path, "expired_addresses"), rows=4)
    written(damaged, tmp_path, 1)
    found = findings_before(made("m3", 2))
    assert found.mark is None and found.why.startswith("mark m2 says nothing of what was live: ")
    assert name(previous_findings(made("m4", 3, stages=0))) == "m3"


@pytest.mark.parametrize("stage", STAGES[:-1])
def test_a_complete_mark_that_lacks_a_manifest_counts_as_one_that_does_not_read(
    made: Made, tmp_path: Path, stage: str
) -> None:
    """Before, it stopped all marks until a person removed it."""
    own = made("m1", 0)
    damaged = made("m2", 1)
    file_of(damaged.mark, tmp_path, stage).unlink()
    written(damaged, tmp_path, 1)
    missing = f"its manifest of {stage} is missing, and that of expired_addresses stands"
    assert later_marks(own).others
    context = made("m3", 2)
    assert findings_before(context) == FindingsBefore(None, f"mark m2 says nothing of what was live: {missing}")
    assert name(previous_mark(context)) == "m1"
    assert name(previous_findings(made("m4", 3, stages=0))) == "m3"
    shutil.rmtree(tmp_path / own.mark.folder)
    assert findings_before(context).why == f"the first that can be read; mark m2 cannot: {missing}"


def test_a_mark_of_another_version_is_passed_over_like_a_damaged_one(made: Made, tmp_path: Path) -> None:
    old = made("m1", 0)
    alter(file_of(old.mark, tmp_path), format=1)
    written(old, tmp_path, 0)
    why = findings_before(made("m2", 1)).why
    assert why.startswith("the first that can be read; mark m1 cannot: Mark m1 has format 1")
    assert name(previous_findings(made("m3", 2, stages=0))) == "m2"


def test_a_mark_that_does_not_read_and_is_still_written_to_may_find_anything_live(made: Made, tmp_path: Path) -> None:
    made("m1", 0)
    damaged = made("m2", 1)
    alter(file_of(damaged.mark, tmp_path), cutoff=1.0)
    written(damaged, tmp_path, 1)
    made("m3", 2)
    assert name(previous_findings(made("m4", 3, stages=0))) == "m3"
    written(damaged, tmp_path, 2)
    assert previous_findings(made("m4", 3, stages=0)) is None


def test_a_sweep_trusts_a_mark_that_came_after_one_that_does_not_read(made: Made, tmp_path: Path) -> None:
    own = made("m1", 0)
    damaged = made("m2", 1)
    alter(file_of(damaged.mark, tmp_path, "expired_addresses"), rows=4)
    written(damaged, tmp_path, 1)
    assert later_marks(own).others
    made("m3", 2)
    found = later_marks(own)
    assert (name(found.finished), found.others) == ("m3", False)


# --- marks of a served repository ---


@pytest.fixture
def marked(served: Lake, monkeypatch: pytest.MonkeyPatch) -> Marked:
    return marker(served, monkeypatch)


def before(context: MarkContext) -> tuple[str | None, str | None]:
    """The ids of the mark it is compared with, and of the one whose findings it carries on."""
    found = previous_mark(context), previous_findings(context)
    return found[0] and found[0].mark_id, found[1] and found[1].mark_id


def test_the_first_mark_has_none_before_it(marked: Marked) -> None:
    assert before(marked(1, 0)) == (None, None)


def test_a_mark_that_ended_before_its_staged_dump_stands_in_nobodys_way(marked: Marked) -> None:
    marked(1)
    marked(2, 1)
    assert before(marked(3, 0)) == ("m1", "m1")


@pytest.mark.parametrize(
    "other", [{"repository_created": 1}, {"allow_list": 0}, {"storage_namespace": "s3://bucket/else"}], ids=str
)
def test_a_mark_of_another_repository_or_allow_list_is_not_carried_on(marked: Marked, other: dict[str, object]) -> None:
    marked(1)
    context = marked(2, 0)
    assert before(context) == ("m1", "m1")
    assert before(replace(context, header=replace(context.header, **other))) == (None, None)
