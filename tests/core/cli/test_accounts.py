"""`verify` at the command line: its exit codes, and its screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.cli import entry, opening
from lakegc_core.marks.context import begin_mark, open_mark
from lakegc_core.marks.json_files import encode
from tests.core.cli.conftest import Desk
from tests.support.lake import MIN_AGE, NO_SPARK, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_verify_ends_with_0_where_all_is_as_written_with_3_where_not_and_with_5_where_that_cannot_be_told(
    sparing: SparkSession, desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "spark_of", lambda *_, **__: sparing)
    repository = desk.with_an_object()
    leave(repository, "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900", 30)
    pipeline.mark(sparing, begin_mark(desk.repository(), "m1", min_age=MIN_AGE, safety_level="none"))
    assert entry.main(["verify", "lake", "latest", "--quiet"]) == 1
    assert "No sweep of mark m1 of lake is on record" in capsys.readouterr().err
    context = open_mark(desk.repository(), "m1")
    swept = pipeline.sweep(sparing, context)
    assert entry.main(["verify", "lake", "m1", "--quiet"]) == 0
    screen = capsys.readouterr().out
    assert f"statement {swept.statement}" in screen and "Everything is as lakegc wrote it." in screen
    statement = f"{context.mark.folder}/sweeps/1/statement.json"
    whole = context.mark.store.read(statement)
    context.mark.store.write(statement, whole.replace(b'"planned": 1', b'"planned": 2'))
    assert entry.main(["verify", "lake", "m1", "--json", "--quiet"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["differs"] and f"{statement} was changed" in found["sweeps"][0]["differs"][0]
    report = f"{context.mark.folder}/sweeps/1/report.json"
    told = json.loads(context.mark.store.read(report))
    del told["statement"]
    context.mark.store.write(report, encode(told))
    context.mark.store.delete_many([statement])
    assert entry.main(["verify", "lake", "m1", "--quiet"]) == 5
    assert "not everything can be checked" in capsys.readouterr().out


def test_a_mark_that_there_is_not_is_told_before_spark_is_started(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "spark_of", NO_SPARK)
    desk.repository()
    assert entry.main(["verify", "lake", "nomark"]) == 1
    assert "there is nothing to verify. lakegc marks lake lists the marks." in capsys.readouterr().err
