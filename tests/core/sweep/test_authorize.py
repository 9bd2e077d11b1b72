"""Whether a mark may be swept, and from when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import MarkError, RefusedError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.quarantine import place_of
from lakegc_core.names import STAGES
from lakegc_core.policy.causes import copies
from lakegc_core.policy.guards import GUARDS, Verdict
from lakegc_core.policy.safety import FULL, PATIENCE, STANDARD, Level
from lakegc_core.store.base import HeadAnswer, connect
from lakegc_core.store.local.store import LocalStore
from lakegc_core.sweep.authorize import (
    _marks_with_copies,
    best_swept_at,
    check_look_delay,
    confirmed_at,
    judge,
    more_confirmed_at,
    ready_at,
    refusal,
    remember_accepted,
)
from lakegc_core.sweep.read_sample import Sample
from tests.support.lake import NOW, Lake
from tests.support.marks import finish
from tests.support.old_marks import DAY, Made, maker, write_mark


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return maker(tmp_path)


def test_the_gap_begins_when_the_commits_had_been_read(made: Made) -> None:
    """What was referred to while they were being read may have been let go before the end."""
    context = made("m1", 0)
    context.policy = SimpleNamespace(safety=None)
    read = context.mark.require("retention_commits")
    assert confirmed_at(context) == read.finished_at + FULL.gap.total_seconds() > read.started_at + DAY


# --- a served mark ---


def whole(served: Lake, level: Level = FULL, mark_id: str = "m1", **expired: Any) -> MarkContext:
    """A mark, all of whose stages were done at NOW."""
    context = served.begin("lake", mark_id, safety_level=level.name, min_age=timedelta(hours=25))
    for stage in STAGES:
        finish(context, stage, **expired) if stage == STAGES[-1] else finish(context, stage)
    return context


def test_the_sweep_judges_only_a_whole_and_unaltered_mark(served: Lake) -> None:
    context = whole(served)
    assert [verdict.name for verdict in judge(context)] == [guard.name for guard in GUARDS]
    (served.files("lake") / context.mark.stage_folder(STAGES[1]) / "manifest.json").unlink()
    with pytest.raises(MarkError, match="uncommitted_addresses of mark m1 is not finished"):
        judge(context)


def test_what_is_learnt_at_the_sweep_counts_and_a_backup_that_lakegc_yaml_demands(served: Lake) -> None:
    context = whole(served)

    def failed(context: MarkContext = context, **more: Any) -> set[str]:
        return {verdict.name for verdict in judge(context, **more) if verdict.stops}

    before = failed()
    assert not before & {"reads", "clocks", "backup"}
    assert failed(sample=Sample((("main", "a"),), {"main/a": 410})) - before == {"reads"}
    assert failed(skew=7200.0) - before == {"clocks"}
    wanted = RepositoryPolicy(match="*", backup=True)
    assert failed(replace(context, policy=wanted)) == before, "there is nothing to back up"
    found = whole(served, mark_id="m2", expired={"objects": 1, "bytes": 1})
    assert failed(replace(found, policy=wanted)) - failed(found) == {"backup"}


def test_of_the_marks_that_have_copies_of_what_is_gone_few_are_named_that_have_a_copy_of_each(served: Lake) -> None:
    context = served.begin("lake", "m9", safety_level="full", min_age=timedelta(hours=25))
    lying = {"m2": ("data/a", "data/b"), "m3": ("data/a",), "m4": ("data/other",), "m5": ("data/b",), "m6": ("data/c",)}
    for mark_id, keys in lying.items():
        for key in keys:
            connect(place_of(context, mark_id)).write(key, b"abc")

    def named(*missing: str) -> tuple[str, ...]:
        mark = replace(context, header=replace(context.header, mark_id=f"of-{len(missing)}"))
        write_mark(mark.mark, 8, missing=missing)
        return _marks_with_copies(mark)

    assert named("data/a", "data/b", "data/nowhere") == ("m2",)
    assert named("data/a", "data/c") == ("m6", "m3")
    assert named("data/nowhere") == ()


def test_a_quarantine_that_refuses_to_answer_may_have_copies_and_hides_no_other(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = served.begin("lake", "m9", safety_level="full", min_age=timedelta(hours=25))
    for mark_id in ("m2", "m3"):
        connect(place_of(context, mark_id)).write("data/a", b"abc")
    real = LocalStore.try_heads

    def refusing(store: LocalStore, keys: Sequence[str]) -> list[HeadAnswer]:
        refused = StoreError("403 Forbidden")
        return [refused for _ in keys] if "/m3/" in store.root else real(store, keys)

    monkeypatch.setattr(LocalStore, "try_heads", refusing)
    mark = replace(context, header=replace(context.header, mark_id="m8"))
    write_mark(mark.mark, 8, missing=("data/a",))
    assert _marks_with_copies(mark) == ("m2", "m3")
    assert "lakegc restore lake m3" in copies("lake", _marks_with_copies(mark))


def test_a_look_waits_until_uploads_of_the_time_of_the_listing_are_staged(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = whole(served, STANDARD)
    delay = STANDARD.look_delay.total_seconds()
    assert delay > 60
    for late, refused in ((0, True), (delay - 1, True), (delay, False)):
        monkeypatch.setenv("LAKEGC_NOW", str(NOW.timestamp() + late))
        if refused:
            with pytest.raises(
                RefusedError, match=r"listed too short a time ago.*minutes or later: from 20.* 12:15 UTC"
            ):
                check_look_delay(context)
        else:
            check_look_delay(context)


@pytest.mark.parametrize(
    ("expired", "confirmed", "waits"), [(5, 0, True), (5, 2, False), (0, 0, False)], ids=["new", "some old", "none"]
)
def test_a_mark_is_ready_when_the_gap_of_what_it_found_is_over(
    served: Lake, expired: int, confirmed: int, waits: bool
) -> None:
    context = whole(
        served, expired={"objects": expired, "bytes": 1}, confirmed={"objects": confirmed, "bytes": 0}, asked_at=None
    )
    gap = FULL.gap.total_seconds()
    assert ready_at(context) - NOW.timestamp() == (gap if waits else FULL.look_delay.total_seconds())


def test_the_time_from_which_more_may_go_is_that_of_the_first_then_that_of_the_last_and_then_none(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap, start = FULL.gap.total_seconds(), NOW.timestamp()
    found = {"objects": 5, "bytes": 1}
    context = whole(served, expired=found, asked_at=start + 90, first_since=start + 1 - 3_600)
    for now, then in ((0.0, gap - 3_540), (gap - 3_599, gap + 120), (gap + 90, None)):
        monkeypatch.setenv("LAKEGC_NOW", str(start + now))
        at = more_confirmed_at(context)
        assert (at if at is None else at - start) == then, "up to the minute, so that it works then"


def test_what_the_mark_of_the_night_before_found_is_waited_for_no_longer_than_its_own_gap(served: Lake) -> None:
    """A mark that is faster than the one before is some minutes short of the gap, and not another day."""
    few_minutes = 300.0
    found = {"objects": 5, "bytes": 1}
    carried = NOW.timestamp() - FULL.gap.total_seconds() + few_minutes
    context = whole(served, expired=found, asked_at=None, first_since=carried)
    delay = FULL.look_delay.total_seconds()
    assert ready_at(context) - NOW.timestamp() == max(few_minutes, delay)
    lengthy = whole(served, mark_id="m2", expired=found, asked_at=None, first_since=carried + 3_600)
    assert ready_at(lengthy) - NOW.timestamp() == few_minutes + 3_600 > delay


@pytest.mark.parametrize(("lacking", "waited"), [((300,), 300), ((300, 86_400), 300), ((3_601,), 0), ((), 0)], ids=str)
def test_old_garbage_does_not_have_a_mark_swept_before_that_of_the_night_before_is_ready(
    served: Lake, lacking: Sequence[int], waited: int
) -> None:
    """What a lock keeps is confirmed in each mark. The sensor sweeps a mark once: what lacked minutes of the gap then
    had to wait for the mark of the next night."""
    night_before = NOW.timestamp() - FULL.gap.total_seconds()
    context = whole(
        served,
        expired={"objects": 6, "bytes": 6},
        confirmed={"objects": 1, "bytes": 1},
        unconfirmed=[[night_before + each, {"objects": 5, "bytes": 5}] for each in lacking],
        asked_at=None,
        first_since=night_before - DAY,
    )
    assert best_swept_at(context, PATIENCE) == max(ready_at(context), NOW.timestamp() + waited)
    assert best_swept_at(context, timedelta(0)) == ready_at(context)
    assert ready_at(context) <= NOW.timestamp()


def test_a_stricter_lakegc_yaml_lengthens_the_gap(served: Lake) -> None:
    context = whole(served, STANDARD)
    said = replace(context, policy=RepositoryPolicy(match="*", safety="full"))
    assert confirmed_at(said) - confirmed_at(context) == pytest.approx(
        FULL.gap.total_seconds() - context.level.look_delay.total_seconds()
    )


def test_a_refusal_names_every_guard_that_stops_and_says_whether_anything_was_deleted(served: Lake) -> None:
    context = whole(served)
    verdicts = [
        Verdict("order", False, "ERROR", "out of order"),
        Verdict("shrink", False, "ERROR", "half is gone", accepted_because="dropped"),
        Verdict("holds", False, "WARN", "a hold holds nothing"),
        Verdict("namespace", True, "ERROR", "fine"),
    ]
    said = refusal(context, verdicts)
    assert said == "Mark m1 of lake is not swept. Nothing was deleted.\n  order: out of order"
    assert "broke off. Nothing more was deleted." in refusal(context, verdicts, begun=True)


def test_a_stricter_lakegc_yaml_sets_the_limits_of_the_guards(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakegc_core.policy.safety import NONE

    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    context = whole(served, NONE)
    monkeypatch.setenv("LAKEGC_NOW", str(context.header.started_at + 15 * DAY))

    def failed(safety: str | None) -> set[str]:
        policy = RepositoryPolicy(match="*", safety=safety)
        return {verdict.name for verdict in judge(replace(context, policy=policy)) if verdict.stops}

    assert failed("full") - failed(None) == {"mark-age"}


def test_a_word_for_a_mark_that_is_not_the_newest_is_said_to_count_for_its_sweep_alone(made: Made) -> None:
    verdicts = [Verdict(name, False, "ERROR", "much", accepted_because="I know") for name in ("shrink", "mark-age")]
    old, new = made("m1", 0), made("m2", 1)
    said = list[str]()
    for mark in (old, new):
        mark.say = said.append
        remember_accepted(mark, verdicts)
    (found,) = said
    assert "mark m2 is newer, so what you accept (shrink) counts for this sweep alone" in found
    remember_accepted(old, verdicts, of_mark=False)
    assert said == [found], "another tool's list says nothing of the mark anyway"
