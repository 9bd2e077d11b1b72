"""What is asked before anything is deleted, and what a review shows and writes."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core import clock, pipeline
from lakegc_core.cli import main, marking, opening
from lakegc_core.config.settings import Settings
from lakegc_core.copies.copied import CopyResult
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode
from lakegc_core.marks.shelf import marks
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import Verdict
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep.result import SweepResult
from lakegc_core.views.words import comes_back, undo
from tests.core.cli.conftest import Desk
from tests.support.lake import NO_SPARK, NOW, lake


def test_the_question_before_a_sweep_says_what_goes_and_whether_the_store_can_bring_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(tmp_path, monkeypatch, [Verdict("clocks", True, "ERROR", "fine")], "Not confirmed. Nothing was")
    assert found == [
        "Delete up to 1,200 objects (5.0 MB) of local://lake, which mark m1 found? The store cannot bring them back."
    ]


@pytest.mark.parametrize(
    ("guard", "accepted", "questions", "says"),
    [
        ("blast-radius", {}, 0, "blast-radius: too much"),
        ("blast-radius", {"blast-radius": "it was meant"}, 1, "Not confirmed"),
        ("known-heads", {"known-heads": "no matter"}, 0, "known-heads: too much"),
        ("neighbours", {}, 1, "Not confirmed"),
    ],
)
def test_nobody_is_asked_about_a_sweep_that_a_guard_stops_for_certain(
    guard: str, accepted: dict[str, str], questions: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(tmp_path, monkeypatch, [Verdict(guard, False, "ERROR", "too much")], says, accepted)
    assert len(found) == questions


def by_hand(folder: Path) -> Any:
    """As much of a mark as the question before its sweep needs."""
    store = LocalConfig(str(folder))
    return SimpleNamespace(
        data=store,
        workspace=store,
        mark=SimpleNamespace(folder="marks/m1", mark_id="m1", store=connect(store), retired=lambda: None),
        header=SimpleNamespace(repository="lake", storage_namespace="local://lake", mark_id="m1"),
        policy=SimpleNamespace(quarantine=None),
    )


def asked(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdicts: list[Verdict],
    says: str,
    accepted: Mapping[str, str] | None = None,
) -> list[str]:
    """The questions before the sweep of a mark with these verdicts, to which somebody says no. The error says so."""
    questions: list[str] = []

    def no(question: str) -> bool:
        questions.append(question)
        return False

    monkeypatch.setattr(marking, "ask", no)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    context = by_hand(folder)
    report = {"objects": {"expired": 1_200}, "bytes": {"expired": 5_000_000}}
    review: Any = SimpleNamespace(report=report, verdicts=verdicts)
    with pytest.raises(RefusedError, match=says):
        marking._confirm(argparse.Namespace(dry_run=False, yes=False), context, review, accepted or {})
    return questions


@pytest.mark.parametrize(
    ("versioned", "soft_delete", "said"),
    [
        (False, timedelta(days=7), "`lakegc restore lake m1` brings them back for 7 days: the store's soft delete."),
        (True, None, "`lakegc restore lake m1` brings them back until the store's own rules let old versions expire."),
        (None, None, "The store does not say whether they can be brought back."),
        (False, timedelta(0), "The store cannot bring them back."),
    ],
)
def test_each_kind_of_store_says_how_long_it_keeps_what_is_deleted(
    versioned: bool | None, soft_delete: timedelta | None, said: str
) -> None:
    assert comes_back(versioned, soft_delete, undo("lake", "m1")) == said
    backup = comes_back(versioned, soft_delete, undo("lake", "m1"), backup=undo("lake", "m1", "s3://spare"))
    assert backup == "`lakegc restore lake m1 s3://spare` brings them back: the mark has a backup."


@pytest.mark.parametrize(
    ("undeletes", "said"),
    [
        (False, "The store's soft delete keeps them for 7 days, but lakegc cannot bring them back: the account"),
        (
            None,
            "`lakegc restore lake m1` brings them back for 7 days: the store's soft delete, unless the account",
        ),
    ],
)
def test_soft_delete_of_an_account_with_a_hierarchical_namespace_is_not_promised(
    undeletes: bool | None, said: str
) -> None:
    assert comes_back(False, timedelta(days=7), undo("lake", "m1"), undeletes=undeletes).startswith(said)


def test_the_question_is_asked_where_lakegc_may_not_write_into_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    def refused(store: LocalStore) -> None:
        raise StoreError("retentionPolicyNotMet")

    monkeypatch.setattr(marking, "ask", yes)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(LocalStore, "probe", refused)
    review: Any = SimpleNamespace(verdicts=[], report={"objects": {"expired": 1}, "bytes": {"expired": 5}})
    marking._confirm(argparse.Namespace(dry_run=False, yes=False), by_hand(tmp_path), review, {})
    assert "The store does not say whether they can be brought back." in asked[0]


def test_a_review_writes_the_addresses_alone_to_stdout(desk: Desk, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    desk.mark("m1", garbage=["data/a", "data/ö"])
    assert main(["review", "lake", "m1", "--addresses", "-"]) == 0
    assert capfdbinary.readouterr().out == "data/a\ndata/ö\n".encode()


def test_addresses_and_json_do_not_share_stdout(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "lake", "m1", "--addresses", "-", "--json"]) == 2
    assert "both write to stdout" in capsys.readouterr().err


def test_a_review_writes_the_addresses_to_a_file_and_says_where_it_is(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.mark("m1", garbage=["data/a", "data/ö"])
    monkeypatch.chdir(tmp_path)
    assert main(["review", "lake", "m1", "--addresses", "list"]) == 0
    assert f"2 addresses written to {tmp_path}/list" in capsys.readouterr().err
    assert (tmp_path / "list").read_bytes() == "data/a\ndata/ö\n".encode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is always full")
@pytest.mark.parametrize("name", ["--addresses", "--html"])
def test_a_file_that_cannot_be_written_is_named_with_the_cause(
    name: str, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.mark("m1", garbage=["data/a"])
    assert main(["review", "lake", "m1", name, "/dev/full"]) == 2
    expected = f"lakegc: {name} /dev/full cannot be written: No space left on device. Name another file.\n"
    assert capsys.readouterr().err == expected


def swept(context: MarkContext, number: int, **outcomes: int) -> None:
    """A sweep of a mark that is over; without outcomes, one that broke off."""
    folder = context.artifacts(context.header.mark_id).folder
    store = connect(context.workspace)
    store.write(f"{folder}/sweeps/{number}/plan.json", b"{}")
    if outcomes:
        report = {"sweep": number, "outcomes": outcomes, "bytes_deleted": 10, "finished_at": NOW.timestamp()}
        store.write(f"{folder}/sweeps/{number}/report.json", encode(report))


def ending(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a review says below the artifacts of the mark."""
    assert main(["review", "lake", "m1"]) == 0
    return capsys.readouterr().out.partition("  artifacts ")[2].splitlines()[2:]


def test_a_review_of_a_mark_that_nobody_swept_names_the_sweep(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.mark("m1", garbage=["data/a"])
    assert ending(capsys)[0].startswith("next")


@pytest.mark.parametrize(
    ("stopping", "says"),
    [
        (["neighbours"], "next: lakegc sweep lake m1   (it asks anew what `neighbours` asked)"),
        (["blast-radius"], 'next, if that was meant: lakegc sweep lake m1 --accept blast-radius --because "…"'),
        (
            ["blast-radius", "neighbours"],
            'next, if that was meant: lakegc sweep lake m1 --accept blast-radius --because "…"   '
            "(it asks anew what `neighbours` asked)",
        ),
    ],
)
def test_a_review_has_nobody_accept_what_the_sweep_may_find_settled(desk: Desk, stopping: list[str], says: str) -> None:
    verdicts = [Verdict(each, False, "ERROR", "…") for each in stopping]
    found = pipeline.Review({}, verdicts, {})
    assert marking._next_step(desk.mark("m1", garbage=["data/a"]), found, reviewed=True) == f"\n{says}"


def test_a_review_of_a_swept_mark_says_when_it_was_swept_and_what_was_deleted(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    swept(desk.mark("m1", garbage=["data/a"]), 1, deleted=1, rescued=2, already_gone=0)
    assert ending(capsys) == ["swept 2025-03-31 12:00 UTC (sweep 1): 1 object deleted, 10 B · 2 rescued"]


@pytest.mark.parametrize("as_json", [False, True])
def test_nobody_is_asked_about_a_mark_of_which_nothing_is_left_to_sweep(
    desk: Desk, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    swept(desk.mark("m1", garbage=["data/a", "data/b"]), 1, deleted=1, already_gone=1)
    assert main(["sweep", "lake", "m1", *(["--json"] if as_json else [])]) == 0
    out = capsys.readouterr().out
    if as_json:
        assert [each["outcomes"] for each in json.loads(out)["swept"]] == [{"deleted": 1, "already_gone": 1}]
    else:
        assert out.splitlines() == [
            "swept 2025-03-31 12:00 UTC (sweep 1): 1 object deleted, 10 B · 1 already_gone",
            "nothing is left to sweep of mark m1",
            "next: lakegc mark lake",
        ]


def test_of_a_mark_whose_objects_were_brought_back_it_is_said_that_they_are_there(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    context = desk.mark("m1", garbage=["data/a", "data/b"])
    swept(context, 1, deleted=2)
    back = [
        {"mark_id": "m1", "sweep": 1, "objects": 1, "bytes": 10},
        {"mark_id": "m0", "sweep": 1, "objects": 1, "bytes": 9},
    ]
    report = {"finished_at": NOW.timestamp(), "outcomes": {"copied": 2}, "taken_back": back}
    folder = f"{context.mark.folder}/restores/20250401T000000000000"
    connect(context.workspace).write(f"{folder}/report.json", encode(report))
    assert main(["sweep", "lake", "m1"]) == 0
    said = (
        "nothing is left to sweep of mark m1 but 1 object (10 B) that a drill or a restore brought back: only a sweep"
    )
    assert said in capsys.readouterr().out


def test_nobody_is_asked_about_a_mark_that_found_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep runs all the same: it keeps what a person accepted for later marks."""
    monkeypatch.setattr(marking, "ask", lambda question: pytest.fail(question))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(opening, "spark_of", lambda *_, **__: None)
    given = list[Mapping[str, Any]]()

    def sweep(*_: Any, **more: Any) -> SweepResult:
        given.append(more["accepted"])
        return SweepResult("lake", "m1", 0, {"deleted": 0}, 0, 0, 0.1, None, versioned=False, price=None)

    monkeypatch.setattr(pipeline, "sweep", sweep)
    desk.mark("m1", sound=True)
    assert main(["sweep", "lake", "m1", "--quiet", "--accept", "shrink", "--because", "a clean-up"]) == 0
    assert given == [{"shrink": "a clean-up"}]


@pytest.mark.parametrize("then", ["an object is left", "a sweep broke off"])
def test_somebody_is_asked_about_a_mark_of_which_something_may_be_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], then: str
) -> None:
    monkeypatch.setattr(marking, "ask", lambda question: False)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    context = desk.mark("m1", garbage=["data/a", "data/b"], sound=True)
    swept(context, 1, deleted=1, unconfirmed=int(then == "an object is left"))
    if then == "a sweep broke off":
        swept(context, 2)
    assert main(["sweep", "lake", "m1", "--quiet"]) == 3
    assert "Not confirmed" in capsys.readouterr().err


def test_a_review_names_the_sweep_again_where_deletes_failed(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    swept(desk.mark("m1", garbage=["data/a"]), 1, **{"deleted": 1, "failed:no_answer": 1})
    assert ending(capsys)[1:] == ["next: lakegc sweep lake m1   (deletes failed: this tries them again)"]


def test_a_review_names_the_sweep_again_where_one_broke_off(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    context = desk.mark("m1", garbage=["data/a"])
    swept(context, 1, deleted=1)
    swept(context, 2)
    shown = ending(capsys)
    assert shown[0].startswith("swept ") and shown[1].startswith(
        "next: lakegc sweep lake m1   (a sweep is not over: if"
    )


@pytest.fixture
def safe(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the operator's word back that this is a throw-away repository."""

    def take_back() -> None:
        for variable in ("LAKEGC_UNSAFE", "LAKEGC_NOW"):
            monkeypatch.delenv(variable, raising=False)

    return take_back


def test_a_mark_of_level_none_is_reviewed_by_anybody(
    desk: Desk, safe: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    desk.mark("m1", garbage=["data/a"])
    safe()
    assert main(["review", "lake", "m1"]) == 0
    assert "1 objects" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["sweep", "lake", "m1", "--yes"], ["sweep", "lake", "m1", "--dry-run"]])
def test_a_mark_of_level_none_is_swept_with_the_operators_word_only(
    desk: Desk, safe: Callable[[], None], capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    desk.mark("m1", garbage=["data/a"])
    safe()
    assert main(command) == 2
    assert "LAKEGC_UNSAFE=yes" in capsys.readouterr().err


def test_a_dry_run_past_a_guard_ends_as_refused_and_one_past_none_as_done(capsys: pytest.CaptureFixture[str]) -> None:
    tried = SweepResult("lake", "m1", 0, {}, 0, 3, 1.0, None, dry_run=True, planned_bytes=9)
    assert marking._end(tried) == 0 and not capsys.readouterr().err
    assert marking._end(replace(tried, refused_by={"blast-radius": "half of it"})) == RefusedError.exit_code
    assert "is refused until a person accepts the guards.\n  blast-radius: half of it" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["mark"], ["run", "--yes"]])
def test_a_mark_of_level_none_is_made_with_the_operators_word_only(
    desk: Desk, safe: Callable[[], None], capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    desk.mark("m1")
    safe()
    for more in ([], ["--mark-id", "m1"]):  # a new one, and one that stands
        assert main([*verb, "lake", "--safety", "none", *more]) == 2
        assert "LAKEGC_UNSAFE=yes" in capsys.readouterr().err


def test_a_repository_without_rules_is_refused_before_anything_is_listed(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        with pytest.raises(RefusedError, match="has no garbage collection rules"):
            pipeline.mark(NO_SPARK, context)
        assert context.mark.manifest(STAGES[0]) is None and context.mark.header() is not None


def test_a_bare_repository_is_refused_before_anything_is_listed_and_says_how_to_leave_it_out(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake").refs.branches.clear()
        with pytest.raises(RefusedError, match="is bare") as refused:
            served.begin("lake", "m1")
        context = served.open("lake")
        assert marks(context.workspace, context.home) == [] and refused.value.exit_code == 3
    said = re.search("`- ({.*})`", str(refused.value))
    assert said is not None
    (tmp_path / "lakegc.yaml").write_text(f"repositories:\n  - {said[1]}\n")
    assert not Settings.load(str(tmp_path / "lakegc.yaml"), {}).policy_for("lake").mark


# --- which mark is made where none is named ---


def marked(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> tuple[str, str]:
    """The id of the mark that a command makes, and what it says meanwhile."""
    assert main(["mark", "lake", "--json", *options]) == code
    out, err = capsys.readouterr()
    return (json.loads(out).get("mark_id", "") if out else ""), err


def break_off(desk: Desk, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The id of a mark that came as far as the commits, which lakeFS does not tell."""

    def fail(method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        return (400, {"message": "not today"}) if "/dump" in path else None

    desk.lake.server.fault = fail
    marked(capsys, *options, code=1)
    desk.lake.server.fault = None
    (newest, *_) = ids(desk)
    return newest


def ids(desk: Desk) -> list[str]:
    """Of all marks, newest first."""
    context = desk.repository()
    return marks(context.workspace, context.home)


def pass_time(hours: float) -> None:
    """The desk puts the time back in the end."""
    os.environ["LAKEGC_NOW"] = str(float(os.environ["LAKEGC_NOW"]) + hours * 3600)


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_broke_off_is_resumed_by_the_same_command(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = break_off(desk, capsys)
    pass_time(11)
    assert main(["sweep", "lake", unfinished, "--yes"]) == 1
    assert f"Go on with the mark: lakegc mark lake --mark-id {unfinished}. In Dagster" in capsys.readouterr().err
    found, said = marked(capsys)
    assert found == unfinished and f"Mark {unfinished} has not come to its end. It is resumed, if that can be" in said
    pass_time(1)
    assert "is complete already" in marked(capsys, "--mark-id", found)[1]
    later, said = marked(capsys)
    assert later != unfinished and "already" not in said, "one that is complete is no mark to resume"


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_broke_off_long_ago_goes_on_if_it_is_named(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = break_off(desk, capsys)
    pass_time(12.1)
    found, said = marked(capsys, "--mark-id", unfinished)
    assert found == unfinished and "already" not in said


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_broke_off_long_ago_is_left(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = break_off(desk, capsys)
    pass_time(12.1)
    found, said = marked(capsys)
    assert found > unfinished and "resumed" not in said


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_was_begun_with_other_choices_is_left_and_said(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = break_off(desk, capsys, "--min-age", "30h")
    pass_time(1)
    found, said = marked(capsys)
    assert found > unfinished and "begun with other settings (min_age)" in said
    assert f"lakegc mark lake --mark-id {unfinished} --min-age 30h" in said


@pytest.mark.usefixtures("sparing")
def test_the_command_that_goes_on_with_a_mark_has_the_option_by_which_it_is_a_clean_one(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = break_off(desk, capsys, "--clean")
    assert main(["review", "lake", unfinished]) == 1
    named = f"Go on with the mark: lakegc mark lake --mark-id {unfinished} --clean. In"
    assert named in capsys.readouterr().err
    assert marked(capsys, "--mark-id", unfinished, "--clean")[0] == unfinished


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_broke_off_and_cannot_be_resumed_stands_in_nobodys_way(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = break_off(desk, capsys)
    mark = desk.repository().artifacts(unfinished)
    file = Path(str(mark.config.root).removeprefix("local://")) / mark.folder / STAGES[0] / "manifest.json"
    file.write_bytes(file.read_bytes()[:50])
    pass_time(1)
    found, said = marked(capsys)
    assert found > unfinished and f"the first that can be read; mark {unfinished} cannot" in said


@pytest.mark.usefixtures("sparing")
def test_a_mark_that_is_named_is_the_one_that_is_made(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    break_off(desk, capsys)
    pass_time(1)
    assert marked(capsys, "--mark-id", "z9")[0] == "z9"


@pytest.mark.usefixtures("sparing")
def test_where_all_is_too_young_the_screens_say_from_when_the_first_of_it_may_go(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """At level `full`, of an object that is three hours old: 25 h after it was written, and a day later."""
    repository = desk.with_an_object()
    repository.upload("main", "dropped", b"123", age=timedelta(hours=3, seconds=-10))
    repository.delete("main", "dropped")
    assert main(["mark", "lake"]) == 0
    said = capsys.readouterr().out
    found, deleted = "2025-04-01 10:01 UTC", "2025-04-02 10:01 UTC"  # up to the minute
    assert said.splitlines()[-2:] == [
        "nothing to sweep yet: all that nothing refers to is too young",
        f"next: lakegc mark lake   (after {found}; a sweep of it may delete the first from {deleted})",
    ]
    remark = f"the first is old enough at {found}, and may be deleted from {deleted}"
    assert re.search(f"kept: too young +1 objects +3 B   {re.escape(remark)}\n", said)
    assert main(["report", "lake"]) == 0
    assert f"nothing yet: {remark}\n" in capsys.readouterr().out
    pass_time(72)
    assert main(["report", "lake"]) == 0
    assert "nothing yet" not in capsys.readouterr().out, "what an old mark says is over"


def test_a_sweep_is_not_closed_by_a_dry_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closes(*_: Any) -> None:
        raise AssertionError("a sweep was closed for good")

    monkeypatch.setattr(opening, "spark_of", lambda *_, **__: None)
    monkeypatch.setattr(pipeline, "close", closes)
    swept(desk.mark("m1", garbage=["data/a"]), 1)
    assert main(["sweep", "lake", "m1", "--close", "--dry-run"]) == 2
    assert "--dry-run changes nothing: give one of both" in capsys.readouterr().err


@pytest.mark.parametrize(("variable", "option"), [("LAKEGC_CLEAN", "--incremental"), ("LAKEGC_INCREMENTAL", "--clean")])
def test_an_option_that_a_variable_contradicts_is_not_passed_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, option: str
) -> None:
    monkeypatch.setenv(variable, "yes")
    assert main(["mark", "lake", "--mark-id", "m9", option]) == 2
    assert "Both --clean and --incremental are given" in (said := capsys.readouterr().err) and variable in said
    assert main(["marks", "lake"]) == 0 and "m9" not in capsys.readouterr().out


def test_no_mark_is_made_for_the_list_of_another_tool_where_nobody_can_be_asked_about_its_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opens(*_: Any) -> None:
        raise AssertionError("lakeFS was asked")

    monkeypatch.setattr(marking, "opened_to_judge", opens)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert main(["sweep", "lake", "unified:run1"]) == 2
    assert "without a terminal it needs --yes" in capsys.readouterr().err


def test_a_run_that_could_not_back_up_all_ends_with_1_also_where_nothing_can_be_swept_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    review: Any = SimpleNamespace(report={"objects": {"expired": 2}, "first_young": None}, authorized=True, verdicts=())
    monkeypatch.setattr(marking, "ready_at", lambda _: clock.now().timestamp() + 60)
    monkeypatch.setattr(marking.screen, "mark_screen", lambda _: "the mark")
    monkeypatch.setattr(marking.pipeline, "review", lambda _: review)
    nothing: Any = None
    for failed in (0, 1):
        saved = CopyResult("backup", "lake", "m1", "s3://b/spare", {"copied": 1, "failed": failed}, 9, [], 1.0)
        monkeypatch.setattr(marking, "due_backup", lambda *_, result=saved: result)
        told: list[Any] = [{"before": "the backup"}]
        options = argparse.Namespace(json=True, dry_run=False)
        assert marking._sweep_marked(options, nothing, review, nothing, nothing, told, {}) == failed
        assert json.loads(capsys.readouterr().out)["backup"]["outcomes"]["failed"] == failed
        assert told == [review.report]


def test_a_run_that_waits_says_until_when_as_other_commands_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    later = NOW.timestamp() + 86_400
    monkeypatch.setattr(marking.screen, "mark_screen", lambda _: "the mark")
    monkeypatch.setattr(marking.clock, "now", lambda: NOW)
    nothing: Any = None
    for ready, garbage, as_json in ((NOW.timestamp(), 0, False), (later, 1, False), (later, 1, True)):
        monkeypatch.setattr(marking, "ready_at", lambda _, at=ready: at)
        report = {"objects": {"expired": garbage}, "first_young": None}
        review: Any = SimpleNamespace(report=report, authorized=True, verdicts=())
        options = argparse.Namespace(json=as_json, dry_run=False)
        assert marking._sweep_marked(options, nothing, review, nothing, nothing, [], {}) == 0
    words, found = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert words.startswith("the mark\nnothing to sweep\nthe mark\n")
    assert re.search(r"^not swept yet: to be confirmed after \d{4}-\d\d-\d\d \d\d:\d\d UTC$", words, re.MULTILINE)
    assert json.loads(found)["sweep_after"].endswith("Z"), "machines read instants"


@pytest.mark.parametrize(
    "more", [["--because", "a clean-up"], ["--accept", "shrink"], ["--accept", "shrink", "--because", " "]]
)
def test_a_reason_and_what_it_is_a_reason_for_go_together(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "lake", "m1", "--yes", *more]) == 2
    assert '--accept GUARD and --because "…" go together' in capsys.readouterr().err
