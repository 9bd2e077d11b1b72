"""Shared and nested namespaces, and what is known of repositories that may refer here."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_core.config.settings import NeighbourSettings
from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.namespaces import _spelling
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.namespace import Namespace
from tests.core.doctor.conftest import Patient, worst
from tests.support.marks import finish

SOUND: dict[str, dict[str, int]] = {Stage.RETENTION_COMMITS: {"known": 1, "retained": 1, "branches": 1}}


def beside(patient: Patient, name: str, namespace: str) -> None:
    patient.server.sandbox.create_repository(name, namespace, age=timedelta(days=5)).set_rules(7)


def mark_by_hand(patient: Patient, name: str, mark_id: str = "", **facts: object) -> MarkContext:
    """A complete mark of a repository, written without Spark."""
    context = begin_mark(open_repository(patient.settings, name, client=patient.client), mark_id or f"{name}-1")
    for stage in STAGES:
        finish(context, stage, **facts if stage == STAGES[-1] else SOUND.get(stage, {}))
    return context


@pytest.mark.parametrize("place", ["local://lake", "local://lake/inside", "local://lake/data/inside"])
def test_another_repository_in_the_same_place_is_an_alarm(on_folder: Patient, place: str) -> None:
    beside(on_folder, "other", place)
    finding = on_folder.finding("shared-namespace")
    assert finding.level is Level.ALARM and "other" in finding.what


@pytest.mark.parametrize(
    "place", ["{lakefs}/{repository}/backups", "{lakefs}/{repository}", "{lakefs}", "{lakefs}/other/b"]
)
def test_backups_that_would_lie_in_the_data_of_a_repository_are_an_alarm(on_folder: Patient, place: str) -> None:
    beside(on_folder, "other", "local://other")
    assert on_folder.folder is not None
    there = place.replace("{lakefs}", str(on_folder.folder.parent))
    finding = on_folder.policy(backup_to=there).finding("backup-place")
    assert finding.level is Level.ALARM and "would overlap with" in finding.what


def test_backups_in_a_place_of_their_own_are_nothing(on_folder: Patient, tmp_path: Path) -> None:
    patient = on_folder.policy(backup_to=str(tmp_path / "spare" / "{repository}"))
    assert [each.name for each in patient.examine().findings] == ["no-mark"]


def test_a_repository_of_which_nothing_is_known_is_a_warning(on_folder: Patient) -> None:
    beside(on_folder, "other", "local://other")
    (finding,) = worst(on_folder.examine())
    assert (finding.name, finding.level) == ("neighbours", Level.WARNING) and "other (no complete mark)" in finding.what


def test_it_is_an_alarm_where_it_stops_every_sweep_and_nothing_where_it_is_ignored(on_folder: Patient) -> None:
    beside(on_folder, "other", "local://other")
    assert on_folder.at(neighbours=NeighbourSettings(strict=True)).finding("neighbours").level is Level.ALARM
    assert worst(on_folder.at(neighbours=NeighbourSettings(ignore=("oth*",))).examine()) == []


def test_it_is_an_alarm_where_no_mark_of_it_reads_and_none_here_noted_what_it_imported(on_folder: Patient) -> None:
    """As after an upgrade."""
    beside(on_folder, "other", "local://other")
    mark = mark_by_hand(on_folder, "other").mark
    mark.store.write(f"{mark.folder}/mark.json", b"{}")
    finding = on_folder.finding("neighbours")
    assert finding.level is Level.ALARM and finding.why.startswith("This stops sweeps.")
    assert "after an upgrade" in finding.what and finding.do.startswith("Mark it (lakegc mark other)")
    known = {"repositories": 1, "unknown": 0, "named": [], "within": 1.0, "addresses": 0, "known": ["other"]}
    mark_by_hand(on_folder, "lake", neighbours=known)
    assert on_folder.finding("neighbours").level is Level.WARNING, "the mark here keeps what was known of it"


def test_it_is_an_alarm_where_the_newest_mark_here_could_not_read_all_of_it_until_it_is_marked_again(
    on_folder: Patient,
) -> None:
    """A sweep reads more of a neighbour's mark than the doctor does, and would be refused."""
    beside(on_folder, "other", "local://other")
    mark_by_hand(on_folder, "other")
    unread = {"repositories": 1, "unknown": 1, "named": [["other", "its list is damaged"]], "within": 1.0}
    mark_by_hand(on_folder, "lake", neighbours={**unread, "addresses": 0, "unread": ["other"], "known": []})
    finding = on_folder.finding("neighbours")
    assert finding.level is Level.ALARM and finding.why.startswith("This stops sweeps.")
    mark_by_hand(on_folder, "other", "other-2")
    assert worst(on_folder.examine()) == []


def test_a_repository_that_was_marked_of_late_is_nothing(on_folder: Patient) -> None:
    beside(on_folder, "other", "local://other")
    mark_by_hand(on_folder, "other")
    assert [each.name for each in on_folder.examine().findings] == ["no-mark"]


def test_a_repository_that_may_refer_here_is_named(on_s3: Patient) -> None:
    assert on_s3.store is not None and on_s3.s3 is not None
    bucket = on_s3.store.bucket
    store = on_s3.s3.config(f"{on_s3.store.prefix}-far")
    on_s3.server.sandbox.create_repository("far", f"s3://{bucket}/{store.prefix}", store=store).set_rules(7)
    mark_by_hand(on_s3, "far", refers_elsewhere={bucket: 3})
    finding = on_s3.finding("referring")
    assert finding.level is Level.NOTE and finding.what.startswith("far refer")
    mark_by_hand(on_s3, "lake")
    assert {each.name for each in on_s3.examine().findings} == {"slashes-folded", "referring"}


def test_a_namespace_that_lakefs_spells_otherwise_is_a_warning() -> None:
    (finding,) = _spelling(Namespace("s3://lake/team%20a"))
    assert finding.level is Level.WARNING and "s3://lake/team a " in finding.what
    assert [*_spelling(Namespace("s3://lake/team")), *_spelling(Namespace("local://lake"))] == []
