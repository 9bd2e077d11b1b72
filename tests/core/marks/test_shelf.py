"""Marks as they stand: what is read of them, when, and what counts as complete, unfinished or unreadable."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.errors import MarkError, StoreError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.shelf import Shelf, Standing, marks, retired_marks, strangers, unreadable_until
from lakegc_core.policy.safety import FULL
from lakegc_core.store.local import LocalConfig
from tests.support.old_marks import DAY, HEADER, START, Made, alter, file_of, maker


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


def states(shelf: Shelf) -> dict[str, tuple[bool, bool, bool, bool]]:
    """Of each mark: is it begun, complete, unfinished, at fault."""
    return {
        each.mark_id: (each.is_begun, each.is_complete, each.is_unfinished, each.fault is not None) for each in shelf
    }


def test_a_mark_is_complete_or_unfinished_or_does_not_read(made: Made, tmp_path: Path) -> None:
    made("complete", 0)
    made("unfinished", 1, stages=4)
    alter(file_of(made("header", 2).mark, tmp_path), cutoff=1.0)
    alter(file_of(made("first", 3).mark, tmp_path, "namespace_listing"), rows=4)
    context = made("last", 4)
    alter(file_of(context.mark, tmp_path, "expired_addresses"), rows=4)
    (tmp_path / context.home / "marks" / "empty").mkdir()
    assert states(Shelf.of(context)) == {
        "complete": (True, True, False, False),
        "unfinished": (True, False, True, False),
        "header": (True, False, False, True),
        "first": (True, True, False, True),
        "last": (True, False, False, True),
        "empty": (False, False, False, False),
    }


def test_a_wrong_clock_is_a_fault_where_clocks_are_judged(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(START + DAY))
    mark = made("m1", 3).mark
    assert Standing(mark).fault is None and "which is to come" in str(Standing(mark, FULL).fault)
    assert Standing(mark, FULL).asked_until == unreadable_until(mark)


@pytest.mark.parametrize(("skew", "is_fault"), [(600.0, False), (-600.0, False), (601.0, True), (-601.0, True)])
def test_a_clock_that_was_right_at_the_listing_alone_is_a_fault(made: Made, skew: float, is_fault: bool) -> None:
    found = Standing(made("m1", 0, stages=3, skew=skew).mark, FULL).fault
    assert (f"differed by {skew:.0f} s" in str(found)) is is_fault is (found is not None)


def test_a_mark_asked_last_when_its_last_stage_began_and_never_if_it_only_listed(made: Made) -> None:
    assert Standing(made("m1", 0, resumed=2).mark).asked_until >= START + 2 * DAY
    assert Standing(made("m2", 0, stages=1).mark).asked_until == 0.0


def test_the_newest_complete_mark_is_found_whatever_the_order_of_ids(made: Made, tmp_path: Path) -> None:
    made("a", 2)
    made("b", 1)
    made("c", 3, stages=4)
    alter(file_of(made("d", 4).mark, tmp_path), cutoff=1.0)
    context = made("e", 0)
    shelf = Shelf.of(context)
    found = shelf.newest_complete(lambda header, each: True)
    assert found is not None and found.mark_id == "a"
    assert shelf.newest_complete(lambda header, each: header.started_at > START + 9 * DAY) is None


def test_a_mark_on_which_the_question_does_not_read_vouches_for_nothing(made: Made) -> None:
    made("m1", 0)
    context = made("m2", 1)

    def wanted(header: Any, each: Standing) -> bool:
        if header.mark_id == "m2":
            raise MarkError("other facts")
        return True

    found = Shelf.of(context).newest_complete(wanted)
    assert found is not None and found.mark_id == "m1"


def test_an_error_of_the_store_is_no_state_of_a_mark(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a mark of which nobody could ask would pass for one that is damaged."""

    def fail(mark: MarkArtifacts, **options: Any) -> None:
        raise StoreError("no answer")

    standing = Standing(made("m1", 0).mark, FULL)
    with monkeypatch.context() as patch:
        patch.setattr(MarkArtifacts, "header", fail)
        for question in (lambda: standing.is_complete, lambda: standing.fault, lambda: standing.asked_until):
            with pytest.raises(StoreError):
                question()
    assert standing.is_complete and standing.fault is None


def test_each_file_is_read_once_and_the_next_shelf_sees_what_came_meanwhile(made: Made, tmp_path: Path) -> None:
    context = made("m1", 0)
    last, aside = file_of(context.mark, tmp_path, "expired_addresses"), tmp_path / "aside"
    last.rename(aside)
    shelf = Shelf.of(context, FULL)
    assert states(shelf)["m1"] == (True, False, True, False)
    aside.rename(last)
    made("m2", 1)
    assert states(shelf) == {"m1": (True, False, True, False)}
    assert states(Shelf.of(context, FULL)) == dict.fromkeys(("m2", "m1"), (True, True, False, False))


def test_a_mark_that_does_not_read_and_has_no_files_vouches_for_nothing(made: Made) -> None:
    assert unreadable_until(made("m1", 0, stages=0).artifacts("nothing")) == math.inf


def test_folders_and_records_of_other_names_are_no_marks(tmp_path: Path) -> None:
    config = LocalConfig(str(tmp_path))
    home = MarkArtifacts(config, "x").home
    for folder in ("marks/Copy of m1", "marks/m1", "retired"):
        (tmp_path / home / folder).mkdir(parents=True)
    for record in ("m0.json", "m0.txt", "Copy of m0.json"):
        (tmp_path / home / "retired" / record).touch()
    assert (marks(config), strangers(config), retired_marks(config)) == (["m1"], ["Copy of m1"], ["m0"])


def test_the_marks_of_a_home_are_listed_newest_id_first(tmp_path: Path) -> None:
    config = LocalConfig(str(tmp_path))
    for mark_id in ("20261120T020000Z", "20261121T020000Z", "test"):
        MarkArtifacts(config, mark_id).begin(replace(HEADER, mark_id=mark_id))
    assert marks(config) == ["test", "20261121T020000Z", "20261120T020000Z"]
    assert marks(config, "elsewhere") == []
