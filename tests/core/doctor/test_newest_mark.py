"""What the newest complete mark knows, and lakeFS's Iceberg tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import clock, pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.newest_mark import examine_newest_mark
from lakegc_core.marks import quarantine
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.names import STAGES
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from lakegc_core.views.history import history_of
from tests.core.doctor.conftest import Patient
from tests.support.marks import finish
from tests.support.old_marks import write_sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AMOUNT = {"objects": 2, "bytes": 30}
STRANGERS = ("copy of m1", "-m1", "..m1", "m1\x1b[31m", "é", "x" * 65)
COMMITS = {"known": 1, "retained": 1, "branches": 1}


def marked(patient: Patient, mark_id: str = "m1", stages: int = len(STAGES), **facts: dict[str, Any]) -> MarkContext:
    """A mark written by hand, with facts by stage."""
    context = begin_mark(patient.open(), mark_id)
    for stage in STAGES[:stages]:
        finish(context, stage, **(COMMITS if stage == "retention_commits" else {}) | facts.get(stage, {}))
    return context


def findings(patient: Patient) -> list[tuple[str, Level]]:
    return [(each.name, each.level) for each in examine_newest_mark(patient.open())]


def test_on_a_sound_repository_that_was_really_marked_nothing_is_found(quick: SparkSession, on_folder: Patient) -> None:
    pipeline.mark(quick, begin_mark(on_folder.open(), "m1"))
    before = on_folder.files()
    assert on_folder.examine().findings == ()
    assert on_folder.files() == before


def test_a_repository_without_a_complete_mark_is_a_note(on_folder: Patient) -> None:
    marked(on_folder, stages=3)
    assert findings(on_folder) == [("no-mark", Level.NOTE)]


def test_commits_that_are_ignored_or_were_to_be_are_told(on_folder: Patient) -> None:
    marked(on_folder, retention_commits={"commits_ignored": ["odd"]})
    context = replace(on_folder.open(), policy=RepositoryPolicy("*", ignore_commits=("odd", "sound")))
    ignored, idle = examine_newest_mark(context)
    assert ignored.name == "ignored-commits" and "1 commit by lakegc.yaml: odd." in ignored.what
    assert idle.name == "ignores-nothing" and idle.what.endswith("did not: sound.")


def test_ranges_that_are_ignored_are_named_and_no_commit_is_called_idle_then(on_folder: Patient) -> None:
    marked(on_folder, committed_addresses={"ranges_ignored": 2, "ranges_ignored_ids": ["aa", "bb"]})
    context = replace(on_folder.open(), policy=RepositoryPolicy("*", ignore_commits=("lost",)))
    (found,) = examine_newest_mark(context)
    assert found.name == "ignored-ranges" and "passed over 2 ranges" in found.what and found.what.endswith("aa, bb.")


def test_marks_that_were_left_in_the_namespace_when_a_workspace_was_set_are_told(
    on_folder: Patient, tmp_path: Path
) -> None:
    marked(on_folder)
    (tmp_path / "ops").mkdir()
    moved = replace(on_folder.open(), workspace=LocalConfig(str(tmp_path / "ops")), home="lake")
    found = next(each for each in examine_newest_mark(moved) if each.name == "left-behind")
    assert found.level == Level.ALARM and "/marks/ hold marks" in found.what
    assert found.why.endswith("Each mark is refused.")
    store = connect(moved.workspace)
    store.write("lake/marks/m2/mark.json", b"{}")
    found = next(each for each in examine_newest_mark(moved) if each.name == "left-behind")
    assert found.level == Level.WARNING and "refused" not in found.why


def test_foreign_objects_are_told_by_folder_with_their_bytes(on_folder: Patient) -> None:
    folders = [{"prefix": "exports/", "objects": 2, "bytes": 30}, {"prefix": "", "objects": 1, "bytes": 5}]
    facts = {"foreign": {"objects": 5, "bytes": 90}, "unknown": AMOUNT, "foreign_prefixes": folders}
    marked(on_folder, expired_addresses=facts)
    assert findings(on_folder) == [("foreign-objects", Level.NOTE), ("unknown-names", Level.NOTE)]
    outside, below = examine_newest_mark(on_folder.open())
    assert outside.what.startswith("3 objects (60 bytes) outside data/")
    assert "exports/ 2 objects, 30 bytes; (root) 1 objects, 5 bytes" in outside.what
    assert below.what.startswith("2 objects (30 bytes) below data/")


def test_addresses_in_other_places_are_named(on_folder: Patient) -> None:
    marked(on_folder, expired_addresses={"refers_elsewhere": {"lake-b": 3, "lake-a": 4}})
    (finding,) = examine_newest_mark(on_folder.open())
    assert finding.name == "refers-elsewhere" and "7 addresses" in finding.what and "lake-a, lake-b" in finding.what


def test_on_a_folder_addresses_that_name_no_place_are_not_called_another(on_folder: Patient) -> None:
    """There lakeFS writes whole addresses of its own objects too, and they name no bucket."""
    marked(on_folder, expired_addresses={"refers_elsewhere": {"": 3}})
    assert findings(on_folder) == []


def test_what_other_repositories_refer_to_here_is_told(on_folder: Patient) -> None:
    known = {"repositories": 1, "unknown": 0, "named": [], "within": 0.0, "addresses": 12}
    marked(on_folder, expired_addresses={"neighbours": known})
    (finding,) = examine_newest_mark(on_folder.open())
    assert finding.name == "referred-to" and "12 objects" in finding.what and finding.level is Level.NOTE


@pytest.mark.parametrize(
    ("stage", "facts", "name", "level"),
    [
        ("namespace_listing", {"nested": 3}, "guard-namespace", Level.ALARM),
        ("retention_commits", {**COMMITS, "former_heads_unknown": 1}, "guard-known-heads", Level.ALARM),
        ("expired_addresses", {"missing": 9}, "guard-live-in-listing", Level.ALARM),
        (
            "retention_commits",
            {**COMMITS, "holds": ["tag:v9"], "holds_idle": ["tag:v9"]},
            "guard-holds",
            Level.WARNING,
        ),
    ],
)
def test_guards_that_tell_of_the_repository_are_repeated(
    on_folder: Patient, stage: str, facts: dict[str, Any], name: str, level: Level
) -> None:
    marked(on_folder, **{stage: facts})
    assert findings(on_folder) == [(name, level)]


def test_a_guard_that_stops_the_sweep_of_a_first_mark_is_a_note(on_folder: Patient) -> None:
    """A first mark that finds much garbage is no sickness."""
    marked(on_folder, expired_addresses={"expired": AMOUNT, "listed": AMOUNT})
    (finding,) = examine_newest_mark(on_folder.open())
    assert (finding.name, finding.level) == ("guard-blast-radius", Level.NOTE)
    assert finding.why.startswith("This stops every sweep of the mark. The danger: a mistaken rule")
    assert findings(on_folder.policy(sweep=True)) == [("guard-blast-radius", Level.WARNING)], (
        "each night waits for a person's word"
    )


def test_a_backup_that_a_sweep_waits_for_is_a_note(on_folder: Patient) -> None:
    marked(on_folder, expired_addresses={"expired": AMOUNT, "listed": {"objects": 900, "bytes": 9_000}})
    assert findings(on_folder) == []
    (finding,) = examine_newest_mark(on_folder.policy(backup=True, sweep=True).open())
    assert (finding.name, finding.level) == ("guard-backup", Level.NOTE)
    assert "asks for a backup before a sweep, and this mark has none" in finding.what


def test_a_guard_that_stops_the_sweep_and_tells_of_something_odd_is_a_warning(on_folder: Patient) -> None:
    marked(on_folder, namespace_listing={"clock_skew": 5_000.0})
    assert findings(on_folder) == [("guard-clocks", Level.WARNING)]


def test_guards_are_not_told_of_a_mark_of_which_all_garbage_is_gone(on_folder: Patient) -> None:
    """A person accepted them then."""
    context = marked(on_folder, expired_addresses={"expired": AMOUNT, "listed": AMOUNT})
    write_sweep(context.mark, deleted=2)
    assert findings(on_folder) == []


def test_what_the_mark_knew_of_neighbours_is_not_repeated(on_folder: Patient) -> None:
    """`namespaces` asks anew, as a sweep does."""
    unread = {"repositories": 1, "unknown": 1, "named": [["far", "…"]], "within": 1.0, "addresses": 0}
    marked(on_folder, expired_addresses={"neighbours": unread | {"unread": ["far"]}})
    assert findings(on_folder.policy(sweep=True)) == []


def test_candidates_that_could_not_be_asked_about_are_a_warning(on_folder: Patient) -> None:
    marked(on_folder, expired_addresses={"waiting": {"objects": 3, "bytes": 70}})
    (finding,) = examine_newest_mark(on_folder.open())
    assert (finding.name, finding.level) == ("not-asked-about", Level.WARNING)
    assert "3 candidates (70 bytes)" in finding.what and "scale.asking_share" in finding.do


def test_copies_that_outlived_their_time_are_named(on_folder: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    context = marked(on_folder)
    quarantine.begin(context, "m1", 1, 86_400.0)
    assert findings(on_folder) == []
    later = clock.now() + timedelta(days=3.1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert findings(on_folder) == [("quarantine-overdue", Level.WARNING)]


def test_a_raised_limit_of_one_sweep_is_noted_and_a_lower_one_is_not(on_folder: Patient) -> None:
    marked(on_folder)
    assert findings(on_folder.policy(blast_radius=0.25)) == [("blast-radius-raised", Level.NOTE)]
    assert findings(on_folder.policy(blast_radius=0.05)) == []


def test_an_old_mark_is_named_with_its_age(on_folder: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    marked(on_folder)
    later = clock.now() + timedelta(days=15)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert findings(on_folder) == [("old-mark", Level.NOTE)]


def test_a_mark_of_a_repository_that_was_created_anew_elsewhere_does_not_count(on_folder: Patient) -> None:
    context = marked(on_folder)
    (on_folder.folder / context.mark.folder / "mark.json").write_text("{}") if on_folder.folder else None
    assert findings(on_folder) == [("no-mark", Level.NOTE)]


def test_tables_of_lakefs_iceberg_catalog_are_named_as_not_judged(on_folder: Patient) -> None:
    on_folder.repository.upload("main", "_lakefs_tables/iceberg/namespaces/a/tables/t", b"pointer")
    assert findings(on_folder.at(repositories=(RepositoryPolicy(match="*"),))) == [
        ("iceberg-tables", Level.NOTE),
        ("no-mark", Level.NOTE),
    ]


def test_folders_among_the_marks_that_are_no_marks_are_named_and_stop_nothing(
    quick: SparkSession, on_folder: Patient
) -> None:
    context = begin_mark(on_folder.open(), "m1")
    assert on_folder.folder is not None
    for name in STRANGERS:
        stranger = on_folder.folder / context.home / "marks" / name
        stranger.mkdir(parents=True)
        (stranger / "mark.json").write_text("{}")
    pipeline.mark(quick, context)
    (finding,) = examine_newest_mark(on_folder.open())
    assert (finding.name, finding.level) == ("strangers", Level.NOTE)
    assert all(repr(name) in finding.what for name in STRANGERS), finding.what
    assert [mark["state"] for mark in list_marks(on_folder.open())] == ["complete"]
    assert [mark["mark_id"] for mark in history_of(on_folder.open())["marks"]] == ["m1"]
