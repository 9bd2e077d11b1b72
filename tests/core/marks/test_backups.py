"""What a guard is told of a mark's backup: only one that is there, whole and of this very mark counts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.config.settings import Settings
from lakegc_core.errors import MarkError, SettingsError
from lakegc_core.marks.backups import BACKUP, backup_facts, backup_manifest, folder_of, new_place, place_of
from lakegc_core.marks.json_files import digest, encode, sealed
from lakegc_core.names import STAGES
from lakegc_core.policy.facts import BackupFacts
from lakegc_core.store.local import LocalConfig
from tests.support.lake import lake
from tests.support.old_marks import maker

OBJECTS = {"copied": 5, "already_there": 2, "failed:403": 1}


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A whole mark, and where its repository lies."""
    found: SimpleNamespace = maker(tmp_path / "marks")("m1", 0)
    found.settings, found.data = Settings(server=None), LocalConfig(str(tmp_path / "lake"))  # type: ignore[arg-type]
    return found


def back_up(context: Any, place: Path) -> Path:
    """A backup with its record; its manifest."""
    mark = context.mark
    mark.store.write(f"{mark.folder}/{BACKUP}", encode({"place": str(place)}))
    told = {
        "mark_digest": mark.require(STAGES[-1]).digest,
        "storage_namespace": context.header.storage_namespace,
        "objects": OBJECTS,
    }
    file = place / folder_of(context) / "manifest.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(encode(sealed(told)))
    return file


def test_a_mark_without_a_record_of_a_backup_has_none(context: Any) -> None:
    assert backup_facts(context) is None


def test_of_a_backup_the_objects_count_that_are_in_it_and_no_failures(context: Any, tmp_path: Path) -> None:
    back_up(context, tmp_path / "spare")
    assert backup_facts(context) == BackupFacts(str(tmp_path / "spare"), objects=7)


def test_a_backup_that_is_gone_altered_damaged_or_of_another_mark_is_a_problem(context: Any, tmp_path: Path) -> None:
    file = back_up(context, tmp_path / "spare")
    whole = json.loads(file.read_text())
    del whole["digest"]
    of_another_mark, of_another_lake = whole | {"mark_digest": "0" * 64}, whole | {"storage_namespace": "s3://b/other"}
    for odd in (
        encode(whole | {"objects": {"copied": 900}, "digest": digest(whole)}),
        encode(sealed(of_another_mark)),
        encode(sealed(of_another_lake)),
        b"{",
        None,
    ):
        file.unlink() if odd is None else file.write_bytes(odd)
        found = backup_facts(context)
        assert found is not None and found.problem and found.objects == 0


def test_a_manifest_that_was_changed_is_an_error_to_who_restores(context: Any, tmp_path: Path) -> None:
    file = back_up(context, tmp_path / "spare")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"objects": {}}))
    with pytest.raises(MarkError, match="was changed after it was written"):
        backup_manifest(context, LocalConfig(str(tmp_path / "spare")))


def test_a_backup_in_or_around_the_namespace_is_refused_and_one_beside_it_is_not(context: Any, tmp_path: Path) -> None:
    for place in (tmp_path / "lake", tmp_path / "lake/backup", tmp_path):
        with pytest.raises(SettingsError, match="would overlap"):
            place_of(context, str(place))
    assert place_of(context, str(tmp_path / "lake2")) == LocalConfig(str(tmp_path / "lake2"))


def test_a_backup_is_not_made_in_or_around_the_namespace_of_another_repository(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        served.create("other", "s3://spare/other")
        context = served.begin("lake", "m1")
        for place in ("s3://spare/other", "s3://spare/other/backup", "s3://spare"):
            with pytest.raises(SettingsError, match="the namespace of repository other, whose collector takes it for"):
                new_place(context, place)
            assert place_of(context, place), "what lies there already can be restored"
        assert new_place(context, "s3://spare/others") == place_of(context, "s3://spare/others")
