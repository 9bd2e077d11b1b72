"""What stays of a retired mark says what its sweeps freed, and what its restores brought back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakegc_core.marks.artifacts import RESTORES
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode, unsealed
from lakegc_core.marks.ledger import write_report
from lakegc_core.marks.retired_records import add_restores, freed_by, record_of
from tests.support.lake import NOW, lake

BACK = [{"mark_id": "m1", "sweep": 1, "objects": 2, "bytes": 20}]
REPORT = {"outcomes": {"copied": 2}, "taken_back": BACK, "finished_at": NOW.timestamp() + 0.5}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake")
        yield served.begin("lake", "m1")


def restore(context: MarkContext, name: str) -> None:
    write_report(context.mark.store, f"{context.mark.folder}/{RESTORES}/{name}", REPORT)


def test_the_record_has_the_reports_of_sweeps_and_of_restores(context: MarkContext) -> None:
    report = b'{"outcomes": {"deleted": 3}, "bytes_deleted": 30}'
    drill = b'{"outcomes": {"deleted": 2}, "bytes_deleted": 20, "only": "drill:1"}'
    context.mark.store.write(f"{context.mark.folder}/sweeps/1/report.json", report)
    context.mark.store.write(f"{context.mark.folder}/sweeps/2/report.json", drill)
    restore(context, "20250331T120000000000")
    record = record_of("lake", context.mark)
    assert record["restores"] == {"20250331T120000000000": REPORT}
    assert (freed_by(record)["deleted"], freed_by(record)["bytes_deleted"]) == (3, 30), "a drill frees nothing"


def test_restores_of_a_retired_mark_are_added_to_its_record_which_reads_as_before(context: MarkContext) -> None:
    add_restores(context.mark)
    assert context.mark.retired() is None, "it was not retired"
    record = record_of("lake", context.mark)
    context.mark.store.write(context.mark.retired_key, encode(record))
    restore(context, "20250331T120000000000")
    add_restores(context.mark)
    assert context.mark.retired() == unsealed(record, "changed") | {"restores": {"20250331T120000000000": REPORT}}


def test_a_record_that_was_altered_stays_as_it_is(context: MarkContext) -> None:
    altered = encode(record_of("lake", context.mark) | {"digest": "x"})
    context.mark.store.write(context.mark.retired_key, altered)
    restore(context, "20250331T120000000000")
    add_restores(context.mark)
    assert context.mark.store.read(context.mark.retired_key) == altered
