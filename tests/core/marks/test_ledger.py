"""The ledger holds what records say that happened, and not what was meant: of marks that stand, and of retired ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.marks import ledger
from lakegc_core.marks.artifacts import RESTORES, read_once
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.last_known import readable_records
from lakegc_core.marks.layers import restored_at
from lakegc_core.marks.ledger import Kind, keep_records, records_of, restores_of, write_report
from lakegc_core.names import NO_ANSWER, STILL_THERE, Outcome
from lakegc_core.store.local.store import LocalStore
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from tests.support.lake import NOW, lake
from tests.support.marks import parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNTRIED = [Outcome.RESCUED, Outcome.HELD, Outcome.UNCONFIRMED, Outcome.LEFT]
UNTOUCHED = [*UNTRIED, Outcome.OVER_BUDGET, Outcome.NOT_IN_BACKUP]
STAMP = "20250331T120000000000"
ODD_REPORTS = [
    json.dumps({"finished_at": 1.5, "outcomes": {}, "taken_back": [], **odd}).encode()
    for odd in ({"outcomes": 1}, {"taken_back": {}}, {"taken_back": [5]}, {"taken_back": [{"mark_id": []}]})
]
REPORT = {"outcomes": {"copied": 1}, "taken_back": [], "finished_at": NOW.timestamp() + 60.5}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake")
        yield served.begin("lake", "m1")


def journal(context: MarkContext, folder: str, *outcomes: str) -> None:
    rows = [
        {"address": f"data/{each}", "size": 10, "outcome": each, "attempt": 1, "at": NOW}
        for each in outcomes or ["deleted"]
    ]
    parts(context, f"{context.mark.folder}/{folder}", OUTCOMES_SCHEMA, rows)


def told(context: MarkContext) -> list[tuple[str, str, int, float, int]]:
    return [(each.kind, each.mark_id, each.number, each.at, len(each.rows.parts)) for each in records_of(context).found]


def test_a_restore_counts_once_its_report_says_what_was_copied(context: MarkContext) -> None:
    folder = f"{context.mark.folder}/{RESTORES}/{STAMP}"
    journal(context, f"{RESTORES}/{STAMP}")
    context.mark.store.write(f"{folder}/begun.json", b"{}\n")
    assert told(context) == [] and restored_at(context.mark) == NOW.timestamp(), "it may have copied anything"
    write_report(context.mark.store, folder, REPORT)
    assert told(context) == [(Kind.RESTORED, "m1", 0, REPORT["finished_at"], 1)]
    write_report(context.mark.store, folder, REPORT | {"outcomes": {"copied": 0, "missing": 5}})
    assert restored_at(context.mark) == 0.0, "nothing came back, so that no mark has to list anew"
    for outcome in ("failed", "already_there"):  # an unconfirmed copy, of this try or of an earlier one
        write_report(context.mark.store, folder, REPORT | {"outcomes": {"copied": 0, outcome: 1}})
        assert restored_at(context.mark) == NOW.timestamp()


@pytest.mark.parametrize("report", [b"", b"[]", b'{"finished_at": "noon"}', b'{"finished_at": 1.5}', *ODD_REPORTS])
def test_a_report_of_a_restore_that_does_not_read_counts_as_none(context: MarkContext, report: bytes) -> None:
    context.mark.store.write(f"{context.mark.folder}/{RESTORES}/{STAMP}/report.json", report)
    (found,) = restores_of(context.mark)
    assert found.report is None and found.may_have_copied


def test_a_folder_among_the_restores_that_tells_no_time_is_passed_over(context: MarkContext) -> None:
    context.mark.store.write(f"{context.mark.folder}/{RESTORES}/copy of one/begun.json", b"{}")
    assert list(restores_of(context.mark)) == [] and restored_at(context.mark) == 0.0


def test_records_stay_when_their_mark_goes_without_what_does_not_read(context: MarkContext, tmp_path: Path) -> None:
    journal(context, "sweeps/1/outcomes")
    journal(context, "sweeps/2/outcomes")
    journal(context, f"{RESTORES}/{STAMP}")
    write_report(context.mark.store, f"{context.mark.folder}/{RESTORES}/{STAMP}", REPORT)
    before = told(context)
    (torn,) = (
        source.part
        for record in records_of(context).found
        for source in record.rows.sources
        if source.folder.endswith("2/outcomes")
    )
    place = tmp_path / "bucket/lake" / context.mark.folder / "sweeps/2/outcomes" / torn.name
    whole = place.read_bytes()
    place.write_bytes(whole[:-9])
    keep_records(context.mark)
    place.write_bytes(whole)
    assert told(context) == before, "nothing is told twice while the mark stands"
    for file in context.mark.store.list(f"{context.mark.folder}/"):
        context.mark.store.delete_many(file["address"].to_pylist())
    assert sorted(told(context)) == sorted(each for each in before if each[2] != 2)


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in UNTOUCHED] + [NO_ANSWER, STILL_THERE])
def test_of_a_retired_mark_every_part_with_an_outcome_that_tells_of_a_delete_stays_in_the_ledger(
    context: MarkContext, tmp_path: Path, outcome: str
) -> None:
    journal(context, "sweeps/1/outcomes", *UNTOUCHED)
    journal(context, "sweeps/1/outcomes", *UNTOUCHED, outcome)
    assert told(context) == [(Kind.SWEPT, "m1", 1, 0.0, 2)]
    keep_records(context.mark)
    shutil.rmtree(tmp_path / "bucket/lake" / context.mark.folder)
    (record,) = records_of(context).found
    kept = [row for batch in record.rows.batches("outcome") for row in batch["outcome"].to_pylist()]
    assert kept == [*UNTOUCHED, outcome], "a month of budgets must not be read by each mark after it"
    home = tmp_path / "bucket/lake" / context.mark.home
    assert len(list(home.glob(f"{ledger.KEPT}/m1/{ledger.UNTOUCHED}/1/*.parquet"))) == 1, "for `verify`"


def test_a_file_that_is_no_part_makes_the_records_not_whole(quick: SparkSession, context: MarkContext) -> None:
    journal(context, "sweeps/1/outcomes")
    assert readable_records(quick, records_of(context)).whole
    context.mark.store.write(f"{context.mark.folder}/sweeps/1/outcomes/notes.txt", b"x")
    found = readable_records(quick, records_of(context))
    assert not found.whole and [len(record.rows.parts) for record in found.found] == [1]


def test_journals_that_were_over_by_then_are_not_among_those_since(context: MarkContext) -> None:
    journal(context, "sweeps/1/outcomes")
    at = NOW.timestamp()
    assert len(list(ledger.journals(context, at + 86_400))) == 1, "it is not over"
    context.mark.store.write(f"{context.mark.folder}/sweeps/1/report.json", b'{"finished_at": %f}' % at)
    assert len(list(ledger.journals(context, at))) == 1
    assert list(ledger.journals(context, at + 86_400)) == [] == list(records_of(context, at + 86_400).found)


def test_within_a_stage_the_ledger_asks_for_no_manifest_twice(
    context: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, asked, read = f"{context.mark.folder}/expired_addresses/manifest.json", list[str](), LocalStore.read
    context.mark.store.write(manifest, b"{}")
    monkeypatch.setattr(LocalStore, "read", lambda store, key: (asked.append(key), read(store, key))[1])
    with read_once():
        assert told(context) == told(context) == []
    assert asked.count(manifest) == 1
