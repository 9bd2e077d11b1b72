"""What the commands say of a backup that cannot begin, and of a restore without a backup."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakegc_core.cli import copying, main, opening
from lakegc_core.cli.copying import copy_report, copy_screen
from lakegc_core.copies import backup, undo
from lakegc_core.copies.backup import readable_place
from lakegc_core.copies.copied import CopyResult
from lakegc_core.errors import BucketNotFoundError, SettingsError
from lakegc_core.marks.backups import BACKUP
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from tests.core.cli.conftest import Desk
from tests.support.lake import NO_SPARK

UNDONE = CopyResult("restore", "lake", "m1", "s3://b/ns", {"copied": 2, "missing": 1}, 20, [], 1.0, is_undo=True)


def test_a_backup_to_a_place_that_cannot_be_written_to_is_told_before_spark_is_started(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(opening, "spark_of", started)
    desk.mark("m1", garbage=["data/a"])
    (tmp_path / "file").write_bytes(b"")
    assert main(["backup", "lake", "m1", f"{tmp_path}/file/x"]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/file is a file, not a folder. Name a folder that can be written to." in said
    assert main(["backup", "lake", "m1", f"{tmp_path}/folder"]) == 1
    assert "Spark was started" in capsys.readouterr().err


def test_a_backup_to_a_bucket_that_is_not_there_writes_nothing(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise BucketNotFoundError("there is no such bucket")

    monkeypatch.setattr(backup, "check_bucket", missing)
    desk.mark("m1", garbage=["data/a"])
    assert main(["backup", "lake", "m1", f"{tmp_path}/spare"]) == 1
    assert "there is no such bucket" in capsys.readouterr().err and not (tmp_path / "spare").exists()


def test_a_backup_without_a_place_goes_where_lakegc_yaml_says(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(opening, "spark_of", started)
    monkeypatch.chdir(tmp_path)
    desk.mark("m1", garbage=["data/a"])
    assert main(["backup", "lake", "m1"]) == 2
    said = capsys.readouterr().err
    assert "DEST is missing" in said and "or set `backup_to` for lake in lakegc.yaml (settings: none" in said
    policy = f'{{match: "*", backup_to: "{tmp_path}/spare/{{repository}}"}}'
    (tmp_path / "lakegc.yaml").write_text(f"repositories: [{policy}]")
    assert main(["backup", "lake", "m1"]) == 1
    assert "Spark was started" in capsys.readouterr().err
    assert (tmp_path / "spare/lake/_lakegc/lake/m1/begun.json").is_file()
    assert main(["backup", "lake", "m1", ""]) == 2, "as of an unset variable of a script"
    assert "'' is no place" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([], "nothing lies there"),
        (["exports/a", "note.txt"], "it holds exports/, note.txt, and nothing below data/"),
        (["data/a", "_lakegc/other/m1/manifest.json"], "it holds those of other"),
    ],
)
def test_a_place_without_a_backup_is_told_with_what_lies_there_before_anything_begins(
    desk: Desk,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    there: list[str],
    says: str,
) -> None:
    monkeypatch.setattr(opening, "spark_of", NO_SPARK)
    mark = desk.mark("m1", garbage=["data/a"])
    mark.mark.store.write(f"{mark.mark.folder}/{BACKUP}", encode({"place": "s3://spare/lake"}))
    place = LocalConfig(str(tmp_path / "place"))
    Path(place.path).mkdir()
    for key in there:
        connect(place).write(key, b"x")
    assert main(["restore", "lake", "m1", place.path]) == 2
    said = capsys.readouterr().err
    assert f"local://{place.path} holds no backup of repository lake: {says}. Nothing was brought back." in said
    assert said.endswith("The backup of this mark was made to s3://spare/lake.\n")
    assert not list(mark.mark.store.list(f"{mark.home}/lease"))


@pytest.mark.parametrize("there", ["data/a", "0123456789abcdef" * 2])
def test_a_place_where_another_tool_may_have_put_a_backup_is_read(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    place = LocalConfig(str(tmp_path / "place"))
    connect(place).write(there, b"x")
    assert readable_place(desk.mark("m1", garbage=["data/a"]), place.path) == (place, None)


def test_a_store_that_keeps_nothing_is_told_before_anything_begins(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = desk.mark("m1", garbage=["data/a"])
    assert main(["restore", "lake", "m1"]) == 2
    said = capsys.readouterr().err
    assert "keeps nothing of what a sweep deletes" in said and "lakegc restore lake m1 SRC" in said
    assert not list(mark.mark.store.list(f"{mark.mark.folder}/restores/"))


def test_a_mark_of_a_former_format_is_opened_for_a_restore_and_for_no_backup(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = desk.mark("m1").mark
    header = json.loads(mark.store.read(f"{mark.folder}/mark.json")) | {"format": 3}
    del header["digest"]
    mark.store.write(f"{mark.folder}/mark.json", encode(sealed(header)))
    assert main(["backup", "lake", "m1", f"{tmp_path}/spare"]) == 1
    assert "has format 3" in capsys.readouterr().err
    assert main(["restore", "lake", "m1"]) == 2
    assert "keeps nothing of what a sweep deletes" in capsys.readouterr().err


def test_the_screen_says_what_is_back_and_what_neither_quarantine_nor_the_store_keeps() -> None:
    screen = copy_screen(UNDONE, copy_report(UNDONE))
    assert "  2 copied: 2 of 3 are back at their place\n" in screen and screen.endswith("\n  in s3://b/ns")
    assert "1 objects   neither quarantine nor the store keeps them" in screen and "backup" not in screen
    assert "  what nothing refers to is garbage still: a sweep of a later mark deletes it again\n" in screen
    assert "  `du` and `whatif` need a mark that begins an hour from now or later: clocks may differ\n" in screen
    saved = replace(UNDONE, verb="backup", is_undo=False)
    assert "garbage still" not in copy_screen(saved, copy_report(saved))


@pytest.mark.parametrize(("count", "told"), [(10, False), (11, True)])
def test_the_screen_of_a_copy_says_if_it_leaves_problems_out(count: int, told: bool) -> None:
    result = replace(UNDONE, problems=[{"address": f"data/{number}", "problem": "x"} for number in range(count)])
    screen = copy_screen(result, copy_report(result))
    assert ("    … and more: see --json\n" in screen) is told and screen.count("    data/") == 10


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ({"copied": 1}, "1 copied: it is back at its place"),
        ({"copied": 3}, "3 copied: all 3 are back at their place"),
        ({"copied": 0, "already_there": 3}, "0 copied, 3 were already there: all 3 are back at their place"),
        ({"copied": 0, "already_there": 1, "different": 1}, "0 copied, 1 was already there: 1 of 2 is back at their"),
    ],
)
def test_the_screen_of_a_second_restore_says_what_was_already_there(outcomes: dict[str, int], says: str) -> None:
    again = replace(UNDONE, outcomes=outcomes)
    assert f"  {says}" in copy_screen(again, copy_report(again))
    assert "back at their" not in copy_screen(replace(again, is_undo=False), copy_report(again))


def test_a_restore_that_is_told_no_place_names_the_backup_on_record_before_it_asks_for_anything(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise SettingsError("Spark is started")

    monkeypatch.setattr(copying, "at_work", started)
    monkeypatch.setattr(undo, "check_keeps", lambda _: None)
    monkeypatch.setattr(undo, "check_swept", lambda _: None)
    desk.mark("m1", garbage=["data/a"])
    for place, told in (("s3://spare/lake", True), (None, False)):
        monkeypatch.setattr(copying, "backup_place", lambda _, found=place: found)
        assert main(["restore", "lake", "m1"]) == 2
        said = capsys.readouterr().err
        assert ("this mark has a backup; if not all comes back: lakegc restore lake m1 s3://spare/lake" in said) == told


def test_a_restore_of_a_mark_that_was_never_swept_ends_before_spark_is_started(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "spark_of", NO_SPARK)
    monkeypatch.setattr(undo, "check_keeps", lambda _: None)  # a store that may keep something
    desk.mark("m1", garbage=["data/a"])
    assert main(["restore", "lake", "m1"]) == 1
    assert capsys.readouterr().err.endswith("Mark m1 of lake was never swept: there is nothing to bring back.\n")
    for number in range(2, 6):
        swept = desk.mark(f"m{number}", garbage=["data/a"])
        connect(swept.workspace).write(f"{swept.mark.folder}/sweeps/1/plan.json", b"{}")
    assert main(["restore", "lake", "m1"]) == 1
    assert capsys.readouterr().err.endswith("there is nothing to bring back. Marks that were: m5, m4, m3.\n")
