"""A mark as a chain of manifests: what makes a stage count, and what breaks the chain."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.clock import duration
from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import Manifest, MarkArtifacts
from lakegc_core.marks.json_files import digest
from lakegc_core.names import STAGES
from lakegc_core.store.local import LocalConfig
from tests.support.old_marks import HEADER, alter, file_of, manifest


@pytest.fixture
def artifacts(tmp_path: Path) -> MarkArtifacts:
    """The artifacts of a mark that was begun."""
    found = MarkArtifacts(LocalConfig(str(tmp_path)), "m1")
    found.begin(HEADER)
    return found


def finish_all(artifacts: MarkArtifacts) -> list[Manifest]:
    done = []
    for stage in STAGES:
        done.append(artifacts.finish(manifest(stage, artifacts.upstream_digest(stage))))
    return done


# --- the header ---


def test_a_header_reads_back_as_it_was_written(artifacts: MarkArtifacts) -> None:
    assert artifacts.header() == HEADER


def test_a_header_from_before_ignore_commits_was_a_setting_still_counts(artifacts: MarkArtifacts) -> None:
    older = replace(HEADER, mark_id="m0", ignore_commits=())
    assert "ignore_commits" not in older.as_json()
    assert "ignore_commits" in HEADER.as_json()
    before = MarkArtifacts(artifacts.config, "m0")
    before.begin(older)
    assert before.header() == older


def test_a_mark_that_was_not_begun_has_no_header_and_no_chain(tmp_path: Path) -> None:
    found = MarkArtifacts(LocalConfig(str(tmp_path)), "m2")
    assert found.header() is None
    with pytest.raises(MarkError, match="no mark m2"):
        found.chain()
    with pytest.raises(MarkError, match="not been begun"):
        found.upstream_digest(STAGES[0])


def test_a_mark_is_resumed_with_the_same_choices_and_keeps_its_first_header(artifacts: MarkArtifacts) -> None:
    later = replace(HEADER, started_at=HEADER.started_at + 3600, cutoff=HEADER.cutoff + 3600)
    assert artifacts.begin(later) == HEADER


@pytest.mark.parametrize(
    ("change", "option"),
    [
        ({"min_age": 0.0}, f" --min-age {duration(timedelta(seconds=HEADER.min_age))}"),
        ({"safety": "standard"}, f" --safety {HEADER.safety}"),
        ({"protect_tags": False}, " --protect-tags"),
        ({"holds": ()}, ""),
        ({"rules": "keep-all-commits"}, f" --rules {HEADER.rules}"),
        ({"mode": "clean"}, ""),
    ],
    ids=str,
)
def test_a_mark_is_not_resumed_with_other_choices_and_the_command_that_resumes_it_is_named(
    artifacts: MarkArtifacts, change: dict[str, Any], option: str
) -> None:
    with pytest.raises(MarkError, match=f"other settings .{next(iter(change))}") as refused:
        artifacts.begin(replace(HEADER, **change))
    again = f"lakegc mark {HEADER.repository} --mark-id {HEADER.mark_id}{option}."
    assert str(refused.value).endswith(f"resume it with the same settings: {again}")
    assert artifacts.header() == HEADER


def test_a_mark_is_not_resumed_for_another_repository_or_namespace(artifacts: MarkArtifacts) -> None:
    for change in ({"repository": "other"}, {"storage_namespace": "s3://b/other"}):
        with pytest.raises(MarkError, match="belongs to repository"):
            artifacts.begin(replace(HEADER, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(set(asdict(HEADER)) - {"holds"}))
def test_a_header_with_any_field_altered_is_refused(artifacts: MarkArtifacts, tmp_path: Path, name: str) -> None:
    value = getattr(HEADER, name)
    alter(file_of(artifacts, tmp_path), **{name: not value if isinstance(value, bool) else value * 2})
    with pytest.raises(MarkError, match="Make a new mark"):
        artifacts.header()


def test_headers_that_lack_a_field_or_know_one_too_many_are_refused(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    file = file_of(artifacts, tmp_path)
    whole = json.loads(file.read_text())
    for odd in ({**whole, "more": 1}, {key: value for key, value in whole.items() if key != "cutoff"}):
        file.write_text(json.dumps(odd))
        with pytest.raises(MarkError, match="not a header"):
            artifacts.header()


def test_a_mark_of_another_format_is_neither_resumed_nor_read(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    other = replace(HEADER, format=1)
    file_of(artifacts, tmp_path).write_text(json.dumps(asdict(other) | {"digest": other.digest}))
    with pytest.raises(MarkError, match="format 1"):
        artifacts.header()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": 1} {"b": 2}'])
def test_files_that_are_no_json_object_are_an_error_not_an_absence(
    artifacts: MarkArtifacts, tmp_path: Path, data: bytes
) -> None:
    finish_all(artifacts)
    file_of(artifacts, tmp_path, STAGES[2]).write_bytes(data)
    with pytest.raises(MarkError):
        artifacts.manifest(STAGES[2])
    file_of(artifacts, tmp_path).write_bytes(data)
    with pytest.raises(MarkError):
        artifacts.header()


# --- manifests and their chain ---


def test_five_finished_stages_make_a_chain_from_the_header_on(artifacts: MarkArtifacts) -> None:
    done = finish_all(artifacts)
    chain = artifacts.chain()
    assert tuple(chain) == STAGES
    assert [one.digest for one in chain.values()] == [one.digest for one in done]
    assert [one.upstream for one in done] == [HEADER.digest, *(one.digest for one in done[:-1])]
    assert chain[STAGES[0]].datasets[STAGES[0]][0].sums == {"bytes": 7}


@pytest.mark.parametrize("stage", STAGES)
def test_a_chain_without_one_of_its_manifests_is_no_mark(artifacts: MarkArtifacts, tmp_path: Path, stage: str) -> None:
    finish_all(artifacts)
    file_of(artifacts, tmp_path, stage).unlink()
    with pytest.raises(MarkError, match=f"{stage} of mark m1 is not finished"):
        artifacts.chain()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "change",
    [
        {"rows": 4},
        {"facts": {"pages": 2}},
        {"datasets": {}},
        {"upstream": "0" * 64},
        {"finished_at": 3.0},
        {"version": "9.9.9"},
        {"digest": "0" * 64},
        {"surplus": 1},
    ],
    ids=str,
)
def test_a_manifest_altered_in_any_way_is_refused(
    artifacts: MarkArtifacts, tmp_path: Path, stage: str, change: dict[str, Any]
) -> None:
    finish_all(artifacts)
    alter(file_of(artifacts, tmp_path, stage), **change)
    with pytest.raises(MarkError, match="Make a new mark"):
        artifacts.chain()


def test_a_part_exchanged_in_a_manifest_is_noticed(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    finish_all(artifacts)
    file = file_of(artifacts, tmp_path, STAGES[0])
    value = json.loads(file.read_text())
    value["datasets"][STAGES[0]][0]["sha256"] = "1" * 64
    file.write_text(json.dumps(value))
    with pytest.raises(MarkError, match="changed after it was written"):
        artifacts.chain()


def test_a_manifest_resealed_after_a_change_breaks_the_chain_behind_it(
    artifacts: MarkArtifacts, tmp_path: Path
) -> None:
    done = finish_all(artifacts)
    forged = replace(done[1], facts={"pages": 99}).sealed()
    file_of(artifacts, tmp_path, STAGES[1]).write_text(json.dumps(asdict(forged)))
    assert artifacts.manifest(STAGES[1])
    with pytest.raises(MarkError, match="another input"):
        artifacts.chain()


def test_a_manifest_of_another_stage_or_mark_is_refused(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    done = finish_all(artifacts)
    file_of(artifacts, tmp_path, STAGES[1]).write_text(json.dumps(asdict(done[0])))
    with pytest.raises(MarkError, match="belongs to stage"):
        artifacts.manifest(STAGES[1])
    other = replace(done[1], mark_id="m2").sealed()
    file_of(artifacts, tmp_path, STAGES[1]).write_text(json.dumps(asdict(other)))
    with pytest.raises(MarkError, match="m2"):
        artifacts.manifest(STAGES[1])


def test_a_stage_is_finished_once(artifacts: MarkArtifacts) -> None:
    first = artifacts.finish(manifest(STAGES[0], HEADER.digest))
    with pytest.raises(MarkError, match="another collector"):
        artifacts.finish(replace(manifest(STAGES[0], HEADER.digest), rows=5))
    assert artifacts.manifest(STAGES[0]) == first


def test_digests_do_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": (2, 3)}) == digest({"b": [2, 3], "a": 1}) != digest({"a": 1, "b": [3, 2]})
