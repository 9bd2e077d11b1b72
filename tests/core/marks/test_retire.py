"""Old marks go, a record of each stays, and no later mark or sweep is told anything else because of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.cli import main
from lakegc_core.errors import MarkError, RefusedError, SettingsError, StoreError
from lakegc_core.marks import lease
from lakegc_core.marks.artifacts import RESTORES, STAMP, MarkArtifacts
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import RepositoryContext, open_mark
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.ledger import write_report
from lakegc_core.marks.previous import former_state, later_marks, previous_findings, previous_mark
from lakegc_core.marks.retire import OldMark, list_retired, reasons_to_keep, retire
from lakegc_core.marks.shelf import marks
from lakegc_core.names import STAGES
from lakegc_core.policy.namespace import ALLOW_LIST_VERSION
from lakegc_core.policy.safety import FULL, LEAST_MARKS, RETIREMENT
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.tables.parts import PartWriter
from lakegc_core.views.report import retirement_report
from lakegc_core.views.screen import retired_screen, retirement_screen
from lakegc_sandbox import Sandbox, SandboxServer
from tests.support.lake import lake
from tests.support.old_marks import DAY, HEADER, START, TODAY, alter, write_mark, write_sweep
from tests.support.replays import environment

Mark = Callable[..., MarkArtifacts]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RepositoryContext]:
    """A repository of a served sandbox, a hundred days after its first mark."""
    with lake(tmp_path) as found, environment({"LAKEGC_NOW": str(START + TODAY * DAY)}):
        found.create("lake", "s3://b/ns")
        yield found.open("lake")


@pytest.fixture
def mark(context: RepositoryContext) -> Mark:
    def make(mark_id: str, day: float, stages: int = 5, **more: Any) -> MarkArtifacts:
        artifacts = context.artifacts(mark_id)
        write_mark(artifacts, day, stages, **more)
        return artifacts

    return make


def complete(mark_id: str, day: float, **more: Any) -> OldMark:
    at = START + day * DAY
    return OldMark(mark_id, at, **{"asked_at": at, "read_at": at, "storage_namespace": "s3://b/ns"} | more)


def reasons(*every: OldMark, keep: int = 2, series: tuple[object, ...] = ()) -> dict[str, str]:
    return reasons_to_keep(every, keep, START + TODAY * DAY, series)


def kept(*every: OldMark, **how: Any) -> set[str]:
    return set(reasons(*every, **how))


def test_the_newest_complete_marks_stay_and_older_ones_may_go() -> None:
    assert kept(*(complete(f"m{day}", day) for day in range(6))) == {"m4", "m5"}


def test_a_young_mark_stays_however_many_there_are() -> None:
    young = [complete(f"m{hour}", TODAY - 8 + hour / 24) for hour in range(1, 9)]
    assert kept(complete("old", 0), *young) == {mark.mark_id for mark in young}
    assert RETIREMENT.total_seconds() == 8 * DAY


def test_an_old_mark_that_was_resumed_lately_is_young() -> None:
    resumed = replace(complete("m1", 1), asked_at=START + (TODAY - 1) * DAY, read_at=None)
    assert "m1" in kept(resumed, complete("m2", 50), complete("m3", 51))


def test_the_newest_stays_of_the_series_that_the_next_mark_has_and_of_no_other() -> None:
    every = [complete(f"m{day}", day, series=(day % 3,)) for day in range(9)]
    assert [kept(*every, series=(series,)) for series in (0, 1, 2, 3)] == [
        {"m6", "m7", "m8"},
        {"m7", "m8"},
        {"m7", "m8"},
        {"m7", "m8"},
    ]


def test_the_newest_mark_whose_heads_were_known_stays_behind_those_that_missed_some() -> None:
    missing = [complete(f"m{day}", day, heads_known=False) for day in range(2, 9)]
    assert kept(complete("m0", 0), complete("m1", 1), *missing) == {"m1", "m7", "m8"}


def test_an_unfinished_mark_goes_only_once_a_complete_one_has_read_after_it() -> None:
    begun = complete("m5", 5, read_at=None)
    assert "m5" in kept(begun, complete("m3", 3), complete("m4", 4))
    assert "m5" not in kept(begun, complete("m6", 6), complete("m7", 7))
    assert kept(begun) == {"m5"}


def test_a_mark_that_one_that_stays_rests_on_stays_too() -> None:
    top = complete("m9", 60, rests_on=("m8", "m7"))
    every = [complete(f"m{day}", 10 + day) for day in range(9)]
    assert kept(*every, top) == {"m9", "m8", "m7"}
    why = reasons(*every, top)
    assert why["m7"] == "mark m9 rests on it"


def test_a_mark_that_was_swept_or_restored_after_a_listing_that_may_be_taken_over_stays() -> None:
    below, top = complete("m5", 50), complete("m6", 60, rests_on=("m5",))
    assert kept(complete("m1", 1, touched_at=START + 49 * DAY), below, top) == {"m5", "m6"}
    assert kept(complete("m1", 1, touched_at=START + 55 * DAY), below, top) == {"m1", "m5", "m6"}


def test_what_was_swept_after_the_last_mark_of_a_former_series_goes_like_any_other() -> None:
    """After an upgrade, or if a repository is made anew under the same name. Nothing goes on from the former marks."""
    former = complete("m1", 1, series=("former",), rests_on=("m0",))
    broke_off = complete("m9", 1.5, series=("former",), read_at=None)
    swept = [complete(f"m{day}", day, series=("now",), touched_at=START + (day + 1) * DAY) for day in range(2, 7)]
    now = complete("m7", 70, series=("now",)), complete("m8", 80, series=("now",), rests_on=("m7",))
    unread = OldMark("unread", asked_at=START + 3 * DAY, touched_at=START + 3 * DAY)
    every = complete("m0", 0, series=("former",)), former, broke_off, unread, *swept, *now
    assert kept(*every, series=("now",)) == {"m7", "m8"}
    carries_on = kept(*every, series=("former",))
    assert carries_on == {"m0", "m1", "m7", "m8", "m9", "unread"}, "they may have found live what m1 found expired"


def test_a_mark_that_was_swept_since_one_whose_sweep_is_not_over_stays_until_it_is() -> None:
    """That sweep asks what others deleted. Without their journals it would count these objects as its own."""
    waits = complete("m1", 1, trouble="sweep 1 of it broke off", is_open=True)
    before, since = complete("m0", 0, touched_at=START + 0.9 * DAY), complete("m2", 2, touched_at=START + 2 * DAY)
    every = (before, waits, since, complete("m3", 3), complete("m4", 4), complete("m5", 5))
    why = reasons(*every)
    assert set(why) == {"m1", "m2", "m4", "m5"}
    assert why["m2"] == "it was swept or restored since mark m1 began, a sweep of which is not over"
    assert kept(*(replace(each, trouble="", is_open=False) for each in every)) == {"m4", "m5"}


def test_a_mark_that_was_swept_since_one_began_that_may_still_be_swept_stays_as_long_as_that_one_may() -> None:
    swept = complete("m1", 1, touched_at=START + 90.5 * DAY)
    every = (swept, complete("m2", 2, touched_at=START + 89.5 * DAY), complete("m90", 90), complete("m91", 91))
    why = reasons(*every)
    assert set(why) == {"m1", "m90", "m91"}
    assert why["m1"] == "it was swept or restored since mark m90 began, which may still be swept"
    later = START + 90 * DAY + FULL.mark_validity.total_seconds()
    assert set(reasons_to_keep(every, 2, later, ())) == {"m90", "m91"}


def test_a_mark_in_trouble_stays_and_says_why() -> None:
    broken = complete("m0", 0, trouble="sweep 1 of it broke off")
    every = (broken, complete("m1", 1), complete("m2", 2))
    assert reasons(*every)["m0"] == "sweep 1 of it broke off"


class FakeContext:
    """What marks tell a later one, on a folder: the marks that it goes on from, by id."""

    def __init__(self, folder: str) -> None:
        self.config = LocalConfig(folder)
        self.home = MarkArtifacts(self.config, "x").home

    def of(self, mark_id: str, day: float) -> Any:
        header = replace(HEADER, mark_id=mark_id, started_at=START + day * DAY, allow_list=ALLOW_LIST_VERSION)
        artifacts = MarkArtifacts(self.config, mark_id)
        return SimpleNamespace(
            header=header,
            mark=artifacts,
            workspace=self.config,
            home=self.home,
            level=FULL,
            artifacts=lambda other: MarkArtifacts(self.config, other),
        )

    def next_mark(self) -> list[str | None]:
        context = self.of("next", TODAY)
        found = (previous_mark(context), previous_findings(context), former_state(context))
        return [each.mark_id if each else None for each in found]

    def sweep_of(self, mark_id: str, day: float) -> tuple[str | None, bool]:
        later = later_marks(self.of(mark_id, day))
        return later.finished.mark_id if later.finished else None, later.others


MARKS = st.lists(
    st.tuples(
        st.integers(0, 99),  # day
        st.sampled_from([5, 5, 5, 0, 1, 2, 4]),  # stages
        st.one_of(st.none(), st.integers(0, 99)),  # resumed
        st.booleans(),  # lakeFS knew all heads
        st.sampled_from([0, 0, 0, 1]),  # allow-lists behind
        st.booleans(),  # damaged
    ),
    min_size=1,
    max_size=7,
    unique_by=lambda each: each[0],
)


def check_nothing_else_is_told(every: list[Any], keep: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as env:
        env.setenv("LAKEGC_UNSAFE", "yes")
        env.setenv("LAKEGC_NOW", str(START + TODAY * DAY))
        told = FakeContext(folder)
        days = {}
        for day, stages, resumed, known, behind, damaged in every:
            artifacts = MarkArtifacts(told.config, f"m{day:02}")
            days[artifacts.mark_id] = day
            late = None if resumed is None else max(day, resumed)
            allow_list = ALLOW_LIST_VERSION - behind
            write_mark(artifacts, day, stages, resumed=late, heads_unknown=int(not known), allow_list=allow_list)
            if damaged and stages == 1:
                alter(Path(folder) / artifacts.folder / "mark.json", repository="other")
        before = told.next_mark()
        whole = [mark for mark, day in days.items() if MarkArtifacts(told.config, mark).manifest(STAGES[-1])]
        sweeps = {mark: told.sweep_of(mark, days[mark]) for mark in whole}
        policy = SimpleNamespace(keep_marks=keep, safety=None)
        context: Any = SimpleNamespace(
            **{name: getattr(told.of("x", 0), name) for name in ("workspace", "home", "artifacts")},
            policy=policy,
            settings=SimpleNamespace(lease="internal"),
            repository=SimpleNamespace(
                id="lake", creation_date=HEADER.repository_created, storage_namespace=HEADER.storage_namespace
            ),
            say=lambda message: None,
        )
        done = retire(context)
        assert set(done.retired) | set(done.kept) == set(days)
        assert told.next_mark() == before
        for mark in set(whole) & set(done.kept):
            assert told.sweep_of(mark, days[mark]) == sweeps[mark]


@settings(max_examples=20)
@given(MARKS, st.integers(LEAST_MARKS, 4))
def test_whatever_is_retired_later_marks_and_sweeps_are_told_the_same(every: list[Any], keep: int) -> None:
    check_nothing_else_is_told(every, keep)


@pytest.mark.slow
@settings(max_examples=300)
@given(MARKS, st.integers(LEAST_MARKS, 4))
def test_the_same_for_many_more_histories(every: list[Any], keep: int) -> None:
    check_nothing_else_is_told(every, keep)


def test_a_retired_mark_leaves_one_record_that_says_what_it_found_and_freed(
    context: RepositoryContext, mark: Mark
) -> None:
    write_sweep(mark("m1", 1, expired=40), deleted=35)
    for day in range(2, 5):
        mark(f"m{day}", day)
    done = retire(context, 2)
    assert list(done.retired) == ["m1", "m2"] and set(done.kept) == {"m3", "m4"}
    assert done.artifacts == 2 * (1 + 5 * 2) + 2 and done.bytes > 1_000
    (level,) = connect(context.workspace).list_level(f"{context.home}/marks/")
    assert sorted(level.prefixes) == [f"{context.home}/marks/{mark_id}/" for mark_id in ("m3", "m4")]
    newest, oldest = list_retired(context)
    assert (newest["mark_id"], oldest["mark_id"]) == ("m2", "m1")
    assert (oldest["expired"], oldest["deleted"], oldest["bytes_deleted"]) == (40, 35, 350)
    record = context.artifacts("m1").retired()
    assert record is not None and set(record["stages"]) == set(STAGES)
    assert record["sweeps"]["1"]["outcomes"]["deleted"] == 35
    assert [each["mark_id"] for each in list_marks(context)] == ["m4", "m3"]
    again = retire(context, 2)
    assert again.retired == {} and again.artifacts == 0 and set(again.kept) == {"m3", "m4"}


def test_a_dry_run_says_the_same_and_leaves_all(context: RepositoryContext, mark: Mark) -> None:
    for day in range(1, 5):
        mark(f"m{day}", day)
    said = retire(context, 2, dry_run=True)
    assert list(said.retired) == ["m1", "m2"] and said.artifacts == 0
    assert marks(context.workspace, context.home) == ["m4", "m3", "m2", "m1"] and list_retired(context) == []


def test_what_the_policy_keeps_counts_and_nobody_may_keep_fewer_than_two(
    context: RepositoryContext, mark: Mark
) -> None:
    for day in range(1, 7):
        mark(f"m{day}", day)
    assert retire(context, dry_run=True).retired == {}  # fourteen are kept
    mine = replace(context, policy=replace(context.policy, keep_marks=5))
    assert list(retire(mine, dry_run=True).retired) == ["m1"]
    with pytest.raises(SettingsError, match="At least 2 marks"):
        retire(context, 1)


def test_unfinished_sweeps_lost_objects_and_strangers_stay(context: RepositoryContext, mark: Mark) -> None:
    write_sweep(mark("broke-off", 1), deleted=1, over=False)
    write_sweep(mark("lost", 2), deleted=1, lost=1)
    write_sweep(stopped := mark("stopped", 2.5), deleted=1)
    stop = encode(sealed({"gone": {"main/a": "data/1"}, "at": START}))
    stopped.store.write(f"{stopped.folder}/sweeps/1/stopped.json", stop)
    connect(context.workspace).write(f"{context.home}/marks/strange/file", b"x")
    mark("m4", 4)
    mark("m5", 5)
    write_sweep(mark("young", TODAY - 1, 3), deleted=1, over=False)
    done = retire(context, 2)
    assert done.retired == {}
    assert done.unclosed == {"broke-off": done.kept["broke-off"]} and "broke off" in done.kept["broke-off"]
    screen = retirement_screen(retirement_report(done))
    assert "Until the sweep of mark broke-off is over, no mark that was swept since is retired." in screen
    assert screen.startswith("lake · nothing to retire, 7 kept\n") and "0 artifacts" not in screen
    assert "lost objects" in done.kept["lost"]
    assert "nobody has accepted that" in done.kept["stopped"]
    assert "no header" in done.kept["strange"]


@pytest.mark.parametrize(("day", "outcome"), [(0.5, "copied"), (2, "missing"), (2, "copied")])
def test_a_mark_that_lost_objects_goes_once_a_restore_has_brought_all_of_them_back(
    context: RepositoryContext, mark: Mark, day: float, outcome: str
) -> None:
    write_sweep(lost := mark("lost", 0), deleted=1, lost=1, day=1)
    at = START + day * DAY
    folder = f"{lost.folder}/{RESTORES}/{datetime.fromtimestamp(at, UTC).strftime(STAMP)}"
    write_report(lost.store, folder, {"outcomes": {outcome: 1}, "taken_back": [], "finished_at": at, "whole": True})
    for each in (4, 5):
        mark(f"m{each}", each)
    assert ("lost" in retire(context, 2).retired) is (day == 2 and outcome == "copied")


def damage(
    context: RepositoryContext, mark: MarkArtifacts, day: float, file: str = "mark.json", **changes: Any
) -> None:
    """Alter a file of a mark; nothing of the mark was written after that day."""
    folder = Path(context.workspace.root.removeprefix("local://")) / mark.folder
    alter(folder / file, **(changes or {"cutoff": 0.0}))
    for path in folder.rglob("*"):
        os.utime(path, (START + day * DAY,) * 2)


def test_a_mark_that_does_not_read_is_retired_like_one_that_did_not_finish(
    context: RepositoryContext, mark: Mark
) -> None:
    swept = mark("damaged", 3, expired=40)
    write_sweep(swept, deleted=35)
    damage(context, swept, 3)
    damage(context, mark("old-format", 3), 3, format=1)
    damage(context, mark("no-listing", 3), 3, "namespace_listing/manifest.json", rows=5)
    for day in (4, 5):
        mark(f"m{day}", day)
    damage(context, mark("later", 5), 6)
    damage(context, mark("young", 3), TODAY - 7)
    done = retire(context, 2)
    assert sorted(done.retired) == ["damaged", "no-listing", "old-format"]
    assert done.kept["later"] == "no complete mark has read lakeFS anew since it did"
    assert done.kept["young"] == "younger than 8 days"
    told = {each["mark_id"]: each for each in list_retired(context)}
    assert (told["damaged"]["started_at"], told["damaged"]["deleted"]) == (None, 35)
    assert (told["damaged"]["expired"], told["old-format"]["expired"]) == (40, 7), "what reads is on record"
    assert told["no-listing"]["started_at"] is not None
    with pytest.raises(MarkError, match="nothing says what belonged to it"):
        open_mark(context, "damaged", retired_too=True)


def test_of_a_broken_off_sweep_of_a_mark_that_does_not_read_the_journal_is_counted_into_the_record(
    context: RepositoryContext, mark: Mark
) -> None:
    broken = mark("damaged", 3)
    write_sweep(broken, deleted=1, over=False)
    rows = [
        {"address": f"data/{n}", "size": 5, "outcome": outcome, "attempt": 1, "at": datetime.fromtimestamp(START, UTC)}
        for n, outcome in enumerate(["deleted", "deleted", "rescued", "failed:503"])
    ]
    writer = PartWriter(broken.config, f"{broken.folder}/sweeps/1/outcomes", OUTCOMES_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=OUTCOMES_SCHEMA))
    writer.close()
    damage(context, broken, 3)
    for day in (4, 5):
        mark(f"m{day}", day)
    assert retire(context, 2).retired["damaged"]["deleted"] == 2
    record = context.artifacts("damaged").retired()
    assert record is not None
    assert record["sweeps"]["1"] == {"broke_off": True, "outcomes": {"deleted": 2}, "bytes_deleted": 10}


def test_a_mark_that_does_not_read_and_lost_objects_stays(context: RepositoryContext, mark: Mark) -> None:
    lost, torn = mark("lost", 3), mark("torn", 3)
    write_sweep(lost, deleted=1, lost=1)
    write_sweep(torn, deleted=1)
    torn.store.write(f"{torn.folder}/sweeps/1/report.json", b"{")
    damage(context, lost, 3)
    damage(context, torn, 3)
    for day in (4, 5):
        mark(f"m{day}", day)
    kept = retire(context, 2).kept
    assert "lost objects" in kept["lost"] and "its journal is counted then" in kept["torn"]
    (Path(context.workspace.root.removeprefix("local://")) / torn.folder / "sweeps/1/report.json").unlink()
    assert "torn" in retire(context, 2).retired


def test_of_a_mark_whose_sweep_has_a_torn_report_retire_says_what_to_do(context: RepositoryContext, mark: Mark) -> None:
    """It counts as what it is for the other marks: the newest complete one carries what is known of every object."""
    for day in (1, 2, 3, 4):
        mark(f"m{day}", day)
    for name in ("m1", "m4"):
        torn = context.artifacts(name)
        write_sweep(torn, deleted=1)
        torn.store.write(f"{torn.folder}/sweeps/1/report.json", b'{"outcomes": {"del')
    done = retire(context, 2)
    assert set(done.retired) == {"m2"}
    assert done.kept["m1"] == (
        "the report of sweep 1 of it cannot be read: remove that file; then close it (lakegc sweep … --close)"
    )


@pytest.mark.parametrize("torn", [False, True])
def test_what_was_swept_while_a_sweep_waits_for_a_person_goes_once_that_one_is_over(
    context: RepositoryContext, mark: Mark, torn: bool
) -> None:
    write_sweep(mark("swept", 2), deleted=2, day=2)
    waits = mark("waits", 1)
    write_sweep(waits, deleted=1, over=torn, day=1)
    report = Path(context.workspace.root.removeprefix("local://")) / waits.folder / "sweeps/1/report.json"
    if torn:
        report.write_bytes(report.read_bytes()[:9])
    for day in (4, 5):
        mark(f"m{day}", day)
    assert set(retire(context, 2).kept) == {"swept", "waits", "m4", "m5"}
    report.unlink(missing_ok=True)
    write_sweep(waits, deleted=1, day=3)
    assert set(retire(context, 2).retired) == {"swept", "waits"}


def test_marks_of_a_namespace_in_which_the_repository_lay_before_go_although_a_sweep_of_one_broke_off(
    context: RepositoryContext, mark: Mark
) -> None:
    """It was created anew; its home in a workspace is the same. Nobody can close that sweep."""
    write_sweep(mark("former", 1, storage_namespace="s3://b/former"), deleted=1, over=False)
    mark("knew", 2, storage_namespace="s3://b/former")
    write_sweep(mark("swept", 3), deleted=2, day=3)
    for day in (5, 6):
        mark(f"m{day}", day)
    done = retire(context, 2)
    assert set(done.retired) == {"former", "knew", "swept"} and not done.unclosed
    record = context.artifacts("former").retired()
    assert record is not None and record["sweeps"]["1"]["broke_off"] is True


def test_a_retired_id_is_not_given_again_and_its_mark_is_not_opened(context: RepositoryContext, mark: Mark) -> None:
    for day in range(1, 4):
        mark(f"m{day}", day)
    retire(context, 2)
    with pytest.raises(MarkError, match="was retired"):
        mark("m1", 90)
    with pytest.raises(MarkError, match="was retired"):
        open_mark(context, "m1")
    assert open_mark(context, "m1", retired_too=True).header.started_at == START + DAY


def test_a_retirement_that_broke_off_is_finished_by_the_next(
    context: RepositoryContext, mark: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 4):
        mark(f"m{day}", day)
    delete_many = LocalStore.delete_many

    def only_headers(store: LocalStore, keys: list[str]) -> list[str]:
        if keys[0].endswith("mark.json"):
            return delete_many(store, keys)
        return ["failed:AccessDenied"] * len(keys)

    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete_many", only_headers)
        with pytest.raises(StoreError, match=r"10 of 10 artifacts of mark m1 could not be deleted"):
            retire(context, 2)
    assert [each["mark_id"] for each in list_retired(context)] == ["m1"]
    assert retire(context, 2).artifacts == 10


def test_folders_that_hold_nothing_are_no_marks_and_are_not_retired_again_every_night(
    context: RepositoryContext, mark: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 4):
        mark(f"m{day}", day)
    monkeypatch.setattr(LocalStore, "remove_empty_folders", lambda store, prefix: None)
    assert list(retire(context, 2).retired) == ["m1"]
    assert "m1" in marks(context.workspace, context.home), "its folder shows"
    said: list[str] = []
    again = retire(replace(context, say=said.append), 2)
    assert (again.retired, again.artifacts) == ({}, 0) and said == []
    assert set(again.kept) == {"m2", "m3"}


def test_a_mark_whose_header_cannot_be_deleted_still_stands_whole(
    context: RepositoryContext, mark: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 4):
        mark(f"m{day}", day)
    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete_many", lambda store, keys: ["failed:AccessDenied"] * len(keys))
        with pytest.raises(StoreError, match="still stands as it was"):
            retire(context, 2)
    context.artifacts("m1").chain()
    assert list(retire(context, 2).retired) == ["m1"]


def test_one_mark_that_cannot_be_deleted_keeps_no_other(
    context: RepositoryContext, mark: Mark, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 6):
        mark(f"m{day}", day)
    delete, refused = LocalStore.delete_many, context.artifacts("m1").folder

    def refusing(store: LocalStore, keys: list[str]) -> list[str]:
        return ["failed:AccessDenied"] * len(keys) if keys[0].startswith(refused) else delete(store, keys)

    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete_many", refusing)
        with pytest.raises(StoreError, match="mark m1 still stands as it was"):
            retire(context, 2)
    assert {each["mark_id"] for each in list_retired(context)} >= {"m2", "m3"}
    assert marks(context.workspace, context.home) == ["m5", "m4", "m1"]
    assert list(retire(context, 2).retired) == ["m1"]


def test_nothing_is_retired_while_another_collector_works(context: RepositoryContext, mark: Mark) -> None:
    for day in range(1, 4):
        mark(f"m{day}", day)
    other = lease.Lease(context.workspace, f"{context.home}/{lease.NAME}", "sweep lake m3")
    other.take()
    with pytest.raises(RefusedError, match="Another collector works"):
        retire(context, 2)
    other.give_back()
    assert list(retire(context, 2).retired) == ["m1"]


def test_a_record_that_was_altered_is_not_believed_and_stops_neither_the_list_nor_a_retirement(
    context: RepositoryContext, mark: Mark
) -> None:
    for day in range(1, 5):
        mark(f"m{day}", day)
    retire(context, 2)
    alter(Path(context.workspace.root.removeprefix("local://")) / context.home / "retired" / "m1.json", stages={})
    left = context.artifacts("m1")
    left.store.write(f"{left.folder}/left-over", b"x")
    assert retire(context, 2).artifacts == 1
    newest, altered = list_retired(context)
    assert (newest["mark_id"], newest["expired"]) == ("m2", 7)
    assert (altered["mark_id"], altered["state"]) == ("m1", "damaged") and "was changed" in altered["problem"]
    assert altered["problem"].split()[0] in retired_screen([newest, altered])


def test_the_command_retires_and_shows_what_was_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox = Sandbox(tmp_path / "srv")
    repository = sandbox.create_repository("lake")
    repository.upload("main", "a", b"1")
    repository.commit("main", "one")
    with SandboxServer(sandbox) as server:
        for name, value in {
            "HOME": str(tmp_path),
            "LAKECTL_SERVER_ENDPOINT_URL": server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
            "LAKEGC_UNSAFE": "yes",
            "LAKEGC_NOW": str(START + TODAY * DAY),
        }.items():
            monkeypatch.setenv(name, value)
        for day in range(1, 4):
            place = MarkArtifacts(LocalConfig(str(tmp_path / "srv" / "lake")), f"m{day}")
            write_mark(place, day, storage_namespace="local://lake")
        assert main(["retire", "lake", "--keep", "2", "--dry-run"]) == 0
        assert "lake · 1 mark would be retired, 2 kept" in capsys.readouterr().out
        assert main(["retire", "lake", "--keep", "2", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [each["mark_id"] for each in told["retired"]] == ["m1"] and told["artifacts_deleted"] == 11
        assert main(["marks", "lake", "--retired"]) == 0
        assert "m1 " in capsys.readouterr().out
        assert main(["retire", "lake", "--keep", "1"]) == 2
