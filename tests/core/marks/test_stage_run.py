"""How a stage runs: once, after the one before it, and counting only when its manifest stands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakegc_core.errors import LakegcError, MarkError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.stage_run import StageOutput, StageResult, run_stage
from lakegc_core.names import STAGES
from lakegc_core.policy.facts import StageFacts
from lakegc_core.store.local import LocalConfig, LocalStore
from tests.support.old_marks import HEADER, file_of


@dataclass(frozen=True)
class Of(StageFacts):
    of: str


@pytest.fixture
def artifacts(tmp_path: Path) -> MarkArtifacts:
    """The artifacts of a mark that was begun."""
    found = MarkArtifacts(LocalConfig(str(tmp_path)), "m1")
    found.begin(HEADER)
    return found


def run(
    artifacts: MarkArtifacts, stage: str, body: Callable[[Any, Any], StageOutput[Of]] | None = None
) -> tuple[StageResult, list[str]]:
    """One stage with a body that says that it ran."""
    ran: list[str] = []

    def work(spark: Any, context: Any) -> StageOutput[Of]:
        ran.append(stage)
        return body(spark, context) if body else StageOutput({stage: []}, Of(stage))

    context = SimpleNamespace(
        mark=artifacts, header=HEADER, say=lambda message: None, lease=lambda verb: contextlib.nullcontext()
    )
    return run_stage(stage, None, context, work), ran  # type: ignore[arg-type]


def test_a_stage_whose_manifest_stands_is_not_redone(artifacts: MarkArtifacts) -> None:
    first, ran = run(artifacts, STAGES[0])
    assert ran == [STAGES[0]] and not first.resumed
    again, ran = run(artifacts, STAGES[0])
    assert ran == [] and again.resumed
    assert again.manifest.digest == first.manifest.digest


def test_a_stage_half_written_is_redone(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    def dies(spark: Any, context: Any) -> StageOutput[Of]:
        artifacts.store.write(f"{artifacts.stage_folder(STAGES[0])}/part-3-left-over.parquet", b"half")
        raise LakegcError("the store is gone")

    with pytest.raises(LakegcError, match="gone"):
        run(artifacts, STAGES[0], dies)
    assert artifacts.manifest(STAGES[0]) is None
    result, ran = run(artifacts, STAGES[0])
    assert ran == [STAGES[0]]
    assert result.manifest.datasets == {STAGES[0]: []}, "what the failed attempt left does not count"


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_whose_upstream_manifest_is_missing_is_an_error(artifacts: MarkArtifacts, stage: str) -> None:
    before = STAGES[: STAGES.index(stage) - 1]
    for each in before:
        run(artifacts, each)
    with pytest.raises(MarkError, match="Go on with the mark: lakegc mark "):
        run(artifacts, stage)
    assert artifacts.manifest(stage) is None


def test_a_stage_made_from_another_input_is_not_taken_over(artifacts: MarkArtifacts, tmp_path: Path) -> None:
    for stage in STAGES[:2]:
        run(artifacts, stage)
    file_of(artifacts, tmp_path, STAGES[0]).unlink()
    run(artifacts, STAGES[0], lambda spark, context: StageOutput({STAGES[0]: []}, Of("another listing")))
    with pytest.raises(MarkError, match="another input"):
        run(artifacts, STAGES[1])


def test_a_stage_asks_for_what_is_sealed_once_and_for_what_is_not_there_again(
    artifacts: MarkArtifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = LocalStore.read

    def counted(store: LocalStore, key: str) -> bytes:
        asked.append(key.rpartition("/m1/")[2])
        return read(store, key)

    def body(*_: object) -> StageOutput[Of]:
        asked.clear()
        for _turn in range(2):
            assert artifacts.header() == HEADER
            assert artifacts.manifest(STAGES[0]) is None
        return StageOutput({}, Of(""))

    monkeypatch.setattr(LocalStore, "read", counted)
    run(artifacts, STAGES[0], body)
    assert asked.count("mark.json") == 0 and asked.count(f"{STAGES[0]}/manifest.json") == 2
    artifacts.header()
    artifacts.header()
    assert asked.count("mark.json") == 2, "outside of stages each look is a fresh one"


def test_stages_run_one_after_the_other_make_a_whole_mark(artifacts: MarkArtifacts) -> None:
    for stage in STAGES:
        run(artifacts, stage)
    assert [one.facts["of"] for one in artifacts.chain().values()] == list(STAGES)
