"""`review --against`: what it prints and writes, and what does not go together."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.cli import entry
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.store.base import connect
from tests.core.cli.conftest import Desk
from tests.support.lake import MIN_AGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVIEW = ["review", "lake", "m1", "--quiet", "--against"]
STRANGE = "data/odd,name"


def put(context: MarkContext, name: str, addresses: list[str]) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"address": addresses}), file)
    connect(context.data).write(f"_lakefs/retention/gc/unified/{name}/deleted/part-0.parquet", file.getvalue())


def test_a_review_against_a_list_prints_and_writes_what_only_one_names(
    sparing: SparkSession,
    desk: Desk,
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = desk.with_an_object()
    context = begin_mark(desk.repository(), "m1", min_age=MIN_AGE)
    pipeline.mark(sparing, context)
    live = repository.entry("main", "a").address.removeprefix(f"{context.namespace.uri}/")
    put(context, "theirs", [live, STRANGE])

    assert entry.main([*REVIEW, "unified:theirs", "--json"]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert [(each["by"], each["why"], each["objects"]) for each in found["groups"]] == [
        ("other", "committed", 1),
        ("other", "no_object", 1),
    ]
    assert entry.main([*REVIEW, "unified:theirs"]) == 0
    assert "kept: a retained commit refers to it: 1 object," in capfdbinary.readouterr().out.decode()

    monkeypatch.chdir(tmp_path)
    rows = [{"address": live, "size": "5", "by": "other", "why": "committed"}]
    rows.append({"address": STRANGE, "size": "0", "by": "other", "why": "no_object"})
    assert entry.main([*REVIEW, "unified:theirs", "--csv", "--addresses", "-"]) == 0
    told = capfdbinary.readouterr().out.decode()
    assert sorted(csv.DictReader(io.StringIO(told)), key=lambda row: row["why"]) == rows
    aloud = [each for each in REVIEW if each != "--quiet"]
    assert entry.main([*aloud, "unified:theirs", "--csv", "--addresses", "list"]) == 0
    assert f"would delete are in {tmp_path}/list" in capfdbinary.readouterr().err.decode()
    assert sorted((tmp_path / "list").read_text().splitlines()) == sorted(told.splitlines())


def test_what_does_not_go_together_is_said_before_any_work(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    for more, said in (
        (["unified:x", "--addresses", "list"], "needs --csv"),
        (["unified:x", "--html", "page.html"], "--html shows a mark alone"),
        (["unified:x", "--csv"], "Give --addresses FILE too"),
        (["unified:x", "--csv", "--addresses", "/"], "--addresses / is a folder; name a file in it."),
    ):
        assert entry.main([*REVIEW, *more]) == 2
        assert said in capsys.readouterr().err
    desk.mark("m1")
    assert entry.main([*REVIEW, "m1"]) == 2
    assert "names no list of lakeFS's own collector: those are unified:ID, " in capsys.readouterr().err
    assert entry.main([*REVIEW, "unified:none"]) == 1
    assert "There is no mark unified:none" in capsys.readouterr().err
