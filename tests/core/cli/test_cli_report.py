"""The verb `report`: a page of one repository, and one of all."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli import entry, history
from lakegc_core.config.settings import Settings
from lakegc_core.errors import StoreError
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.context import RepositoryContext, begin_mark, open_repository
from lakegc_core.stages import swept_report
from lakegc_sandbox import Repository
from tests.core.cli.conftest import Desk
from tests.support.lake import MIN_AGE, NOW, leave
from tests.support.pages import read
from tests.support.swept import ACCEPTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE = "data/gk5b63g7lm5ii54909u0"


@pytest.fixture
def repository(desk: Desk) -> Repository:
    """With an object that is shown, and three that nothing refers to."""
    found = desk.with_an_object()
    for number in range(3):
        leave(found, f"{SLICE}/ca5b63g7lm5ii54909{number}0", 30)
    return found


def marked(spark: SparkSession, desk: Desk, mark_id: str, *, swept: bool = False) -> None:
    context = begin_mark(desk.repository(), mark_id, min_age=MIN_AGE, safety_level="none", mode=CLEAN)
    pipeline.mark(spark, context)
    if swept:
        swept_report(spark, context, accepted=ACCEPTED)


def test_a_mark_of_the_future_is_not_the_newest_for_reports_history_and_metrics(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.mark("m1", garbage=["data/a"])
    with monkeypatch.context() as ahead:
        ahead.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=26)).timestamp()))
        desk.mark("m2", garbage=["data/a", "data/b"])
    assert entry.main(["report", "lake", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mark"]["mark_id"] == "m1" and found["history"]["garbage"] == {"objects": 1, "bytes": 10}
    assert entry.main(["history", "lake", "--metrics", str(tmp_path / "metrics")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("lake · last mark less than a minute ago · 1 objects")
    assert shown[1].split()[0] == "m2" and shown[1].endswith("by a clock that was wrong or replaced: not the newest")
    metrics = (tmp_path / "metrics").read_text(encoding="utf-8")
    assert 'lakegc_garbage_objects{repository="lake"} 1\n' in metrics
    assert f'lakegc_last_mark_timestamp_seconds{{repository="lake"}} {NOW.timestamp()}\n' in metrics
    assert entry.main(["review", "lake", "m2", "--json"]) == 0
    (age,) = (each for each in json.loads(capsys.readouterr().out)["guards"] if each["name"] == "mark-age")
    assert not age["passed"] and "will begin in 26h" in age["description"]


def test_the_page_of_a_repository_is_that_of_its_newest_complete_mark(
    sparing: SparkSession, desk: Desk, repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    assert entry.main(["report", "lake", "--html", str(file), "--quiet"]) == 1
    assert "has no complete mark" in capsys.readouterr().err and not file.exists()
    marked(sparing, desk, "m1", swept=True)
    leave(repository, f"{SLICE}/ca5b63g7lm5ii54909a0", 20, b"left")
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 86_400)  # until the lake ends
    marked(sparing, desk, "m2")
    assert entry.main(["report", "lake", "--html", str(file), "--quiet"]) == 0
    assert "lake · last mark less than a minute ago · 1 objects" in capsys.readouterr().out
    shown = read(file.read_text(encoding="utf-8")).text
    for part in (
        "lake · mark m2",
        "1 object (4 B) of repository lake is garbage. 1 sweep freed 33 B.",
        "31 March 2025, 12:00 UTC: 33 B in 3 objects found",
        "1 April 2025, 12:00 UTC: 4 B in 1 object found",
        "lakegc du lake shows what each branch and tag keeps",
    ):
        assert part in shown
    # The page that the mark has left beside its artifacts tells the same.
    (beside,) = (tmp_path / "lake").rglob("m2/report.html")
    assert "1 sweep freed 33 B." in read(beside.read_text(encoding="utf-8")).text


def test_answers_are_on_the_page_and_in_the_json_where_they_are_asked_for(
    sparing: SparkSession, desk: Desk, repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked(sparing, desk, "m1")
    file = tmp_path / "page.html"
    assert entry.main(["report", "lake", "--html", str(file), "--answers", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usage"]["keepers"][0]["name"] == "branch:main"
    assert found["curves"]["default"][0] == {"days": 1, "kept": {"objects": 1, "bytes": 5}}
    assert (found["mark"]["mark_id"], found["history"]["garbage"]) == ("m1", {"objects": 3, "bytes": 33})
    shown = read(file.read_text(encoding="utf-8")).text
    assert "branch:main" in shown and "By the days of default" in shown and "--answers" not in shown


def test_one_page_shows_all_repositories_and_one_that_does_not_read_hides_no_other(
    sparing: SparkSession,
    desk: Desk,
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    marked(sparing, desk, "m1", swept=True)
    for name in ("empty", "far"):
        desk.lake.sandbox.create_repository(name, f"local://{name}").upload("main", "a", b"1")

    def opened(settings: Settings, name: str, **more: Any) -> RepositoryContext:
        if name == "far":
            raise StoreError("s3://bucket/<far>: no answer")
        return open_repository(settings, name, **more)

    monkeypatch.setattr(history, "open_repository", opened)
    file = tmp_path / "all.html"
    assert entry.main(["report", "--all", "--html", str(file), "--json", "--quiet"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["repository"] for each in found["repositories"]] == ["empty", "far", "lake"]
    assert (found["totals"]["deleted"], found["totals"]["bytes_deleted"], found["garbage"]["bytes"]) == (3, 33, 0)
    shown = read(file.read_text(encoding="utf-8")).text
    for part in (
        "Garbage in 3 repositories",
        "Nothing in 1 marked repository is garbage. 1 sweep freed 33 B",
        "1 repository cannot be read",
        "no complete mark",
    ):
        assert part in shown
    assert "farcannot be read: s3://bucket/<far>: no answer" in shown
    assert "<far>" not in file.read_text(encoding="utf-8")


def test_only_sweeps_since_a_moment_count_if_that_is_asked(
    sparing: SparkSession, desk: Desk, repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marked(sparing, desk, "m1", swept=True)
    os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + 10 * 86_400)  # until the lake ends
    file = tmp_path / "page.html"
    assert entry.main(["report", "lake", "--html", str(file), "--since", "2d", "--quiet"]) == 0
    assert "No sweep has deleted anything since 8 April 2025." in read(file.read_text(encoding="utf-8")).text


def test_without_a_file_it_shows_the_history_and_says_how_to_get_the_page(
    sparing: SparkSession, desk: Desk, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    marked(sparing, desk, "m1")
    assert entry.main(["report", "lake"]) == 0
    said = capsys.readouterr()
    assert "lake · last mark" in said.out and "--html FILE writes this as a page" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lake", "--all"], "not both"),
        (["--all", "--answers", "--html", "page.html"], "name it"),
        (["lake", "--answers"], "give --html FILE or --json"),
        (["lake", "--html", "no/such/folder/page.html"], "a folder that exists"),
    ],
)
def test_what_nobody_can_mean_ends_with_2_before_any_work(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["report", *arguments, "--quiet"]) == 2
    assert says in capsys.readouterr().err
