"""Slots, who takes part, what is swept, what is overdue: as functions, without a server and without an instance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.models import Repository
from lakegc_core.marks.ids import check_mark_id
from lakegc_dagster import rounds
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.rounds import Marked

NIGHTLY = "0 2 * * *"
NOW = datetime(2026, 11, 21, 13, 45, 10, tzinfo=UTC)
DAY = 86_400.0


def repository(name: str, *, read_only: bool = False) -> Repository:
    return Repository(name, "", f"s3://bucket/{name}", "main", 1_700_000_000, read_only)


def policies(*entries: RepositoryPolicy) -> Settings:
    return Settings(server=ServerSettings("http://lakefs", "key", "secret"), repositories=entries)


@pytest.mark.parametrize(
    ("cron", "now", "slot"),
    [
        (NIGHTLY, NOW, "20261121T0200Z"),
        (NIGHTLY, NOW.replace(hour=1), "20261120T0200Z"),
        (NIGHTLY, NOW.replace(hour=2, minute=0, second=0), "20261121T0200Z"),
        (NIGHTLY, NOW.replace(hour=1, minute=59, second=59), "20261120T0200Z"),
        ("30 */6 * * *", NOW, "20261121T1230Z"),
        ("0 3 * * 0", NOW, "20261115T0300Z"),  # Sundays
        ("0 0 29 2 *", NOW, "20240229T0000Z"),
    ],
)
def test_the_slot_is_the_last_tick_in_utc(cron: str, now: datetime, slot: str) -> None:
    assert rounds.round_id(rounds.latest_slot(cron, now)) == check_mark_id(slot)
    abroad = now.astimezone(timezone(timedelta(hours=9)))
    assert rounds.round_id(rounds.latest_slot(cron, abroad)) == slot


def test_every_moment_of_a_slot_names_the_same_round_and_the_next_one_another() -> None:
    named = {rounds.round_id(rounds.latest_slot(NIGHTLY, NOW + timedelta(minutes=10 * step))) for step in range(73)}
    assert named == {"20261121T0200Z"}
    assert rounds.next_slot(NIGHTLY, NOW) == datetime(2026, 11, 22, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "watched"),
    [
        (NIGHTLY, "20261121T0200Z"),
        ("*/15 * * * *", "20261121T0700Z"),
        ("0 * * * *", "20261121T0700Z"),
        ("0 */4 * * *", "20261121T0400Z"),
        ("0 8 * * *", "20261120T0800Z"),
    ],
)
def test_a_watch_in_the_minute_of_a_slot_looks_for_the_marks_of_one_that_were_asked_for(
    cron: str, watched: str
) -> None:
    assert rounds.round_id(rounds.watched_slot(cron, NOW.replace(hour=8, minute=0, second=3))) == watched


def test_only_ids_of_rounds_name_a_slot() -> None:
    assert rounds.slot_of("20261121T0200Z") == datetime(2026, 11, 21, 2, tzinfo=UTC)
    assert rounds.slot_of("20261121T020000Z") is None
    assert rounds.slot_of("20261121T0915Z-adhoc") is None


@pytest.mark.parametrize("cron", ["", "nightly", "0 2 * *", "0 2 * * * *", "61 2 * * *"])
def test_a_config_with_an_odd_cron_is_refused_at_once(cron: str) -> None:
    with pytest.raises(SettingsError, match="`round_cron` must be a cron expression of five fields"):
        LakegcConfig(round_cron=cron)


def test_every_repository_takes_part_but_those_that_lakegc_yaml_and_lakefs_leave_out() -> None:
    settings = policies(RepositoryPolicy(match="scratch-*", mark=False), RepositoryPolicy(match="*"))
    listed = [
        repository("analytics"),
        repository("scratch-1"),
        repository("Odd Name"),
        repository("mirror", read_only=True),
        repository("web"),
    ]
    choice = rounds.choose(listed, settings)
    assert [each.id for each in choice.taken] == ["analytics", "web"]
    assert set(choice.left_out) == {"scratch-1", "Odd Name", "mirror"}
    assert "mark: false" in choice.left_out["scratch-1"]
    assert "read-only" in choice.left_out["mirror"]


def test_the_first_policy_that_matches_decides() -> None:
    settings = policies(RepositoryPolicy(match="prod-*"), RepositoryPolicy(match="*", mark=False))
    choice = rounds.choose([repository("prod-eu"), repository("dev")], settings)
    assert [each.id for each in choice.taken] == ["prod-eu"]


@pytest.mark.parametrize(
    ("namespace", "store"),
    [
        ("s3://bucket/a/b", "s3://bucket"),
        ("https://acc.blob.core.windows.net/container/ns", "https://acc.blob.core.windows.net"),
        ("local://demo", "local://demo"),
    ],
)
def test_the_store_of_a_namespace_is_what_a_queue_may_limit(namespace: str, store: str) -> None:
    assert rounds.store_of(namespace) == store


def mark(mark_id: str = "m1", day: float = 0, *, ready: float | None = None, expired: int = 5) -> Marked:
    return Marked("analytics", mark_id, day * DAY, day * DAY if ready is None else ready * DAY, expired)


def why(found: Marked | None, now: float = 10, **more: Any) -> str:
    return rounds.why_not_swept(found, now * DAY, **({"busy": None, "requested": None} | more))


def test_the_newest_mark_is_the_one_begun_last_whatever_its_id() -> None:
    assert rounds.newest([mark("z", 1), mark("a", 3), mark("m", 2)]) == mark("a", 3)
    assert rounds.newest([]) is None


def test_a_mark_is_swept_as_soon_as_it_is_ready_and_not_before() -> None:
    assert why(mark(day=8, ready=9)) == ""
    assert "may be swept from 1970-01-12 00:00 UTC" in why(mark(day=8, ready=11))


def test_nothing_is_swept_twice_nor_beside_another_run_nor_without_a_mark() -> None:
    assert "run r1 is at work" in why(mark(), busy="r1")
    assert "swept, or refused, by run r2" in why(mark(), requested="r2")
    assert "no complete mark" in why(None)
    assert "nothing to sweep" in why(mark(expired=0))


def test_partitions_go_once_no_repository_holds_their_mark() -> None:
    known = ["20260101T0200Z", "20260102T0200Z", "20261120T0200Z", "20260103T0200Z", "adhoc", "adhoc-2"]

    def gone(**more: Any) -> list[str]:
        sets: dict[str, Any] = {"held": set(), "retired": set(), "busy": set()} | more
        return rounds.partitions_to_remove(known, now=NOW.timestamp(), **sets)

    assert gone() == ["20260101T0200Z", "20260102T0200Z", "20260103T0200Z"]  # the young one and those by hand stay
    assert gone(retired={"adhoc"})[-1] == "adhoc"
    assert gone(held={"20260101T0200Z", "adhoc"}, retired={"adhoc"}) == ["20260102T0200Z", "20260103T0200Z"]
    assert gone(busy={"20260102T0200Z"}) == ["20260101T0200Z", "20260103T0200Z"]


def test_a_repository_is_overdue_unless_it_was_marked_since_the_slot_or_is_newer() -> None:
    slot = datetime.fromtimestamp(100 * DAY, UTC)

    def late(found: Marked | None, created: float = 0, **runs: str) -> str:
        return rounds.overdue("analytics", created, found, slot, **{"busy": None} | runs)

    assert late(mark(day=100.1)) == ""
    assert "marked last as m1, 2.0 days before" in late(mark(day=98))
    assert "never marked" in late(None)
    assert late(None, created=100.5 * DAY) == ""
    assert late(mark(day=98), busy="r1") == ""
    for found in (mark(day=98), None):
        assert "Run r1 has not ended for more than a day" in late(found, stuck="r1")
        assert "Run r1 has not ended" in late(found, stuck="r1", busy="r2-which-is-queued-behind-it")
    assert late(mark(day=100.1), stuck="r1") == ""


@pytest.mark.parametrize(
    ("cron", "seconds"),
    [(NIGHTLY, 300), ("0 3 * * 0", 300), ("*/2 * * * *", 120), ("* * * * *", 60), ("0,1 5 * * *", 60)],
)
def test_the_sensor_looks_every_five_minutes_or_as_often_as_slots_come(cron: str, seconds: int) -> None:
    assert rounds.tick_seconds(cron) == seconds


@pytest.mark.parametrize(
    ("cron", "minutes"), [(NIGHTLY, 60), ("0 */2 * * *", 60), ("0 * * * *", 30), ("*/15 * * * *", 7.5)]
)
def test_a_sweep_waits_for_more_garbage_for_an_hour_and_never_until_the_next_round(cron: str, minutes: float) -> None:
    assert rounds.patience(cron) == timedelta(minutes=minutes)
