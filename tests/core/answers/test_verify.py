"""`verify`: a statement is computed again from what lies there; whatever differs or cannot be read is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core.answers.explain import explain
from lakegc_core.answers.gone import gone
from lakegc_core.answers.verify import Verification, verify
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import open_mark
from lakegc_core.marks.json_files import digest, encode
from lakegc_core.marks.ledger import keep_records
from lakegc_core.marks.retired_records import record_of
from lakegc_core.marks.sweeps import missing
from lakegc_core.stages import swept_report
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_core.sweep.statement import outcomes_of
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.merkle import tree_of
from lakegc_core.tables.parts import PartWriter, list_parts
from lakegc_core.views.accounts import verify_screen
from tests.support.lake import lake, quick, saved
from tests.support.swept import ACCEPTED, GARBAGE, Swept, mark_garbage
from tests.support.true_time import flip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def swept_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Swept, Callable[[], None]]]:
    """A mark that was swept, and what makes its artifacts again what they were."""
    with lake(tmp_path_factory.mktemp("stated")) as found, quick(spark), pytest.MonkeyPatch.context() as patch:
        mark_garbage(spark, found)
        swept = Swept(spark, found, patch)
        swept.sweep()
        yield swept, saved(found, "lake")


@pytest.fixture
def swept(swept_once: tuple[Swept, Callable[[], None]]) -> Swept:
    swept_once[1]()
    return swept_once[0]


def verified(swept: Swept) -> Verification:
    return verify(swept.spark, swept.lake.open("lake"), "m1")


def place(swept: Swept, name: str = "") -> Path:
    return swept.lake.files("lake") / swept.context.mark.folder / name


def said(found: Verification) -> str:
    return "\n".join(said for each in (found.mark, *found.sweeps) for said in each.differs)


def edited(file: Path, change: Callable[[Any], None], *, seal: bool = False) -> None:
    """Change a JSON artifact as somebody would who knows its form. `seal`: and its digest."""
    value = json.loads(file.read_bytes())
    value.pop("digest", None) if seal else None
    change(value)
    file.write_bytes(encode(value | ({"digest": digest(value)} if seal else {})))


def test_a_sweep_that_nobody_touched_is_as_it_states(swept: Swept) -> None:
    found = verified(swept)
    assert found.is_whole and not found.differs
    (sweep,) = found.sweeps
    report = json.loads(place(swept, "sweeps/1/report.json").read_bytes())
    assert sweep.stated is not None and sweep.statement == report["statement"]
    assert sweep.stated["outcomes"]["by_outcome"] == {"deleted": len(GARBAGE)} and sweep.stated["planned"] == 3
    assert sweep.stated["guards"]["verdicts"]["blast-radius"] == "holds" and "@" in report["by"]
    assert sweep.stated["settings"]["safety"] == swept.context.header.safety
    assert sweep.stated["rules"]["mark"]["default"] == sweep.stated["rules"]["look"]["default"] == 7


@pytest.mark.parametrize("name", ["sweeps/1/statement.json", "sweeps/1/report.json", "sweeps/1/plan.json"])
def test_one_byte_changed_anywhere_in_a_statement_or_in_what_it_seals_is_refused_by_name(
    swept: Swept, name: str
) -> None:
    file = place(swept, name)
    whole = file.read_bytes()
    for where in range(7, len(whole), len(whole) // 5):
        file.write_bytes(whole[:where] + bytes([whole[where] ^ 1]) + whole[where + 1 :])
        found = verified(swept)
        assert found.differs and name in said(found), (where, said(found))


def test_a_statement_that_was_changed_and_sealed_again_is_not_that_of_its_artifacts(swept: Swept) -> None:
    edited(place(swept, "sweeps/1/statement.json"), lambda value: value.update(planned=4), seal=True)
    found = said(verified(swept))
    assert "`planned` of the statement is not that of sweeps/1/report.json" in found and "report.json names" in found


def test_a_statement_of_another_form_than_the_report_names_differs_and_is_not_only_unread(swept: Swept) -> None:
    edited(place(swept, "sweeps/1/statement.json"), lambda value: value.update(form=99), seal=True)
    found = verified(swept)
    assert "report.json names" in said(found) and "has form 99" in found.sweeps[0].unread[0]


@pytest.mark.parametrize("made_up", [None, [], {}, {"parts": None}, {"parts": [1]}, {"parts": [], "branches": 7}])
def test_a_statement_that_was_sealed_again_in_a_form_of_its_own_is_refused(swept: Swept, made_up: Any) -> None:
    statement = place(swept, "sweeps/1/statement.json")
    edited(statement, lambda value: value.update(outcomes=made_up), seal=True)
    found = verified(swept)
    assert found.differs and "sweeps/1/statement.json" in said(found)
    assert "Do not rely on this account" in verify_screen(found.as_json())
    edited(statement, lambda value: [value.pop(name) for name in ("outcomes", "totals", "finished_at")], seal=True)
    assert "Do not rely on this account" in verify_screen(verified(swept).as_json())


@pytest.mark.parametrize(("key", "value"), [("guards", []), ("counted", {}), ("look", None), ("seconds", 1.0)])
def test_a_report_that_was_changed_is_refused_with_what_of_it_the_statement_says_otherwise(
    swept: Swept, key: str, value: Any
) -> None:
    edited(place(swept, "sweeps/1/report.json"), lambda report: report.update({key: value}))
    told = {"guards": "guards", "counted": "settings", "look": "rules", "seconds": "report"}[key]
    found = said(verified(swept))
    assert f"`{told}` of the statement is not that of" in found
    assert "`report` of the statement is not that of sweeps/1/report.json" in found


@pytest.mark.parametrize("unread", [5, "plan.json", [{"key": "plan.json"}], {"plan.json": 1}])
def test_a_report_whose_unread_is_no_list_of_names_differs_by_that(swept: Swept, unread: Any) -> None:
    edited(place(swept, "sweeps/1/report.json"), lambda report: report.update(unread=unread))
    assert "sweeps/1/report.json does not name what did not read (`unread`)" in said(verified(swept))


def outcomes(swept: Swept) -> list[dict[str, Any]]:
    files = sorted(place(swept, "sweeps/1/outcomes").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def rewritten(swept: Swept, rows: list[dict[str, Any]]) -> None:
    """The journal as somebody would write it who knows its form, with names that fit."""
    shutil.rmtree(place(swept, "sweeps/1/outcomes"))
    context = swept.context
    writer = PartWriter(context.workspace, f"{context.mark.folder}/sweeps/1/outcomes", OUTCOMES_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist(rows, OUTCOMES_SCHEMA))
    writer.close()


def trusting(swept: Swept) -> None:
    """Make the statement name the parts that lie there: only its root is left to tell."""
    parts = [
        each.name for each in list_parts(swept.context.workspace, f"{swept.context.mark.folder}/sweeps/1/outcomes")
    ]
    edited(place(swept, "sweeps/1/statement.json"), lambda value: value["outcomes"].update(parts=parts), seal=True)


def test_an_outcome_that_was_removed_is_refused_by_name(swept: Swept) -> None:
    rewritten(swept, outcomes(swept)[1:])
    found = said(verified(swept))
    assert "of which the statement tells, is missing" in found and "was added" in found
    trusting(swept)
    found = said(verified(swept))
    assert "the journal has 2 outcomes with root" in found and ": 1 fewer" in found
    assert "the journal has 2 outcomes `deleted`, the statement says 3" in found


def test_an_outcome_that_was_added_is_refused_by_name(swept: Swept) -> None:
    rows = outcomes(swept)
    writer = PartWriter(swept.context.workspace, f"{swept.context.mark.folder}/sweeps/1/outcomes", OUTCOMES_SCHEMA)
    writer.write(pa.RecordBatch.from_pylist([rows[0] | {"address": "data/other"}], OUTCOMES_SCHEMA))
    (part,) = writer.close()
    found = said(verified(swept))
    assert f"outcomes/{part.name} was added: the statement does not tell of it" in found and ": 1 more" in found


def test_an_outcome_that_was_changed_is_refused_by_name(swept: Swept) -> None:
    rows = outcomes(swept)
    rewritten(swept, [rows[0] | {"size": rows[0]["size"] + 1}, *rows[1:]])
    trusting(swept)
    assert ": the same number, other rows" in said(verified(swept))


def test_a_part_of_the_journal_the_plan_or_the_mark_whose_bytes_were_changed_is_refused_by_name(swept: Swept) -> None:
    for pattern in ("sweeps/1/outcomes", "sweeps/1/attempt-1/plan", "expired_addresses"):
        file = next(iter(sorted(place(swept, pattern).glob("*.parquet"))))
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert f"{pattern}/{file.name} was changed after it was written" in said(verified(swept))
        file.unlink()
        assert f"{pattern}/{file.name}" in said(verified(swept)) and "missing" in said(verified(swept))
        file.write_bytes(whole)
    assert verified(swept).is_whole


def test_a_part_of_the_journal_that_was_passed_over_is_told_and_stops_no_answer(swept: Swept) -> None:
    """A sweep that broke off, and that was closed after a byte of its journal had flipped."""
    for name in ("report.json", "statement.json"):
        place(swept, f"sweeps/1/{name}").unlink()
    (file,) = place(swept, "sweeps/1/outcomes").glob("*.parquet")
    flip(file)
    close_sweep(swept.spark, swept.context)
    found = verified(swept)
    part = f"{swept.context.mark.folder}/sweeps/1/outcomes/{file.name}"
    assert not found.differs and not found.is_whole, said(found)
    assert found.sweeps[0].unread == [f"{part} could not be read when the sweep was closed: nobody knows what it told"]

    says: list[str] = []
    context = replace(open_mark(swept.lake.open("lake"), "m1"), say=says.append)
    (told,) = explain(lambda: swept.spark, context, GARBAGE[0]).objects
    assert told.reason == "unreferenced" and says == [f"explain: {part} cannot be read: what only it tells is left out"]
    assert gone(swept.spark, context, "**", 10).unread == (part,)


def test_a_plan_of_which_a_part_was_passed_over_is_not_compared(swept: Swept) -> None:
    for name in ("report.json", "statement.json"):
        place(swept, f"sweeps/1/{name}").unlink()
    for file in place(swept, "sweeps/1/attempt-1/plan").glob("*.parquet"):
        flip(file)
    close_sweep(swept.spark, swept.context)
    found = verified(swept)
    assert not found.differs and "could not be read when the sweep was closed" in found.sweeps[0].unread[0], said(found)


def test_a_plan_and_a_journal_that_do_not_belong_together_are_refused_by_the_names_of_objects(swept: Swept) -> None:
    """Even where everything is sealed again: nobody who makes a statement up gets plan and journal apart."""
    rows = outcomes(swept)
    rewritten(swept, [rows[0] | {"address": "data/other"}, *rows[1:]])
    trusting(swept)
    folder = DatasetFolder(swept.context.workspace, f"{swept.context.mark.folder}/sweeps/1/outcomes")
    journal = folder.listed(OUTCOMES_SCHEMA)
    again = outcomes_of(journal, tree_of(swept.spark, journal, "outcome"))
    statement = place(swept, "sweeps/1/statement.json")
    edited(statement, lambda value: value.update(outcomes=again), seal=True)
    sealed = json.loads(statement.read_bytes())["digest"]
    edited(place(swept, "sweeps/1/report.json"), lambda value: value.update(statement=sealed))
    found = said(verified(swept)).splitlines()
    assert found == [
        f"{rows[0]['address']} was planned, and has no outcome",
        "data/other was deleted, and is not in the plan",
    ]


def test_a_sweep_of_a_version_that_stated_nothing_and_one_that_is_not_over_are_told(swept: Swept) -> None:
    statement, report = place(swept, "sweeps/1/statement.json"), place(swept, "sweeps/1/report.json")
    statement.unlink()
    assert "statement.json is missing; the report names statement" in said(verified(swept))
    edited(report, lambda value: value.pop("statement"))
    found = verified(swept)
    assert not found.differs and not found.is_whole and "wrote no statements" in found.sweeps[0].unread[0]
    rows = outcomes(swept)
    rewritten(swept, [rows[0] | {"address": "data/other"}, *rows[1:]])
    assert "data/other was deleted, and is not in the plan" in said(verified(swept)), "plan and journal are compared"
    report.unlink()
    found = verified(swept)
    assert not found.differs and found.sweeps[0].unread == ["sweep 1 is not over: it has no statement yet"]
    statement.write_bytes(b"{}")
    (told,) = verified(swept).sweeps[0].unread
    assert "stands without a report" in told and "or its report was removed" in told


def test_a_sweep_that_was_removed_and_a_report_that_is_missing_before_a_later_sweep_are_refused(swept: Swept) -> None:
    assert list(missing([3, 4, 6])) == [
        "sweeps 1 to 2 are missing, although sweep 3 stands",
        "sweep 5 is missing, although sweep 6 stands",
    ]
    first, second = place(swept, "sweeps/1"), place(swept, "sweeps/2")
    (second / "attempt-1").mkdir(parents=True)
    (second / "attempt-1" / "part").write_bytes(b"")
    found = verified(swept)
    assert found.is_whole and not found.sweeps[1].is_begun, "a sweep without a plan deleted nothing"
    (first / "report.json").unlink()
    assert "sweeps/1/report.json is missing, although a later sweep stands" in said(verified(swept))
    shutil.rmtree(first)
    assert "sweep 1 is missing, although sweep 2 stands" in said(verified(swept))
    (second / "outcomes").mkdir()
    (second / "outcomes" / "part").write_bytes(b"")
    assert "sweeps/2/plan.json is missing" in said(verified(swept))


def test_a_retired_mark_is_checked_as_far_as_its_record_goes(swept: Swept) -> None:
    mark = swept.context.mark
    stated = verified(swept).sweeps[0].stated
    keep_records(mark)
    mark.store.write(mark.retired_key, encode(record_of("lake", mark)))
    shutil.rmtree(place(swept))
    found = verified(swept)
    assert found.retired and not found.differs and not found.is_whole and found.sweeps[0].stated == stated
    kept = next((swept.lake.files("lake") / mark.home).glob("journals/m1/swept/1/*.parquet"))
    kept.unlink()
    assert f"{kept.name}, of which the statement tells, is missing" in said(verified(swept))
    shutil.rmtree(swept.lake.files("lake") / mark.home / "retired")
    with pytest.raises(MarkError, match="nothing to verify"):
        verified(swept)


def test_folders_that_a_retired_mark_left_empty_are_no_sweep_of_it(swept: Swept) -> None:
    """SeaweedFS shows them for a while, Azure with a hierarchical namespace for ever."""
    mark = swept.context.mark
    keep_records(mark)
    mark.store.write(mark.retired_key, encode(record_of("lake", mark)))
    for file in [each for each in place(swept).rglob("*") if each.is_file()]:
        file.unlink()
    assert place(swept, "sweeps/1/outcomes").is_dir()
    found = verified(swept)
    assert found.retired and not found.differs, said(found)
    mark.store.delete_many([mark.retired_key])
    assert "sweeps/1/plan.json is missing" in said(verified(swept)), "of a mark that nobody retired it is a loss"


def test_of_a_retired_mark_the_outcomes_of_what_a_budget_left_are_checked_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path) as found, quick(spark):
        mark_garbage(spark, found)
        swept = Swept(spark, found, monkeypatch)
        swept_report(spark, swept.context, accepted=ACCEPTED, budget=Budget(most_objects=1))
        mark = swept.context.mark
        keep_records(mark)
        mark.store.write(mark.retired_key, encode(record_of("lake", mark)))
        shutil.rmtree(place(swept))
        checked = verified(swept)
        assert checked.retired and not checked.differs, said(checked)
        (left,) = (found.files("lake") / mark.home).glob("journals/m1/untouched/1/*.parquet")
        left.unlink()
        assert f"{left.name}, of which the statement tells, is missing" in said(verified(swept))


def test_of_a_mark_that_nobody_swept_there_is_nothing_to_verify(spark: SparkSession, tmp_path: Path) -> None:
    with lake(tmp_path) as found:
        found.create("lake")
        with pytest.raises(MarkError, match="No sweep of mark m7 of lake is on record"):
            verify(spark, found.open("lake"), "m7")
