"""The journal of rescues: the last time of each object counts, and what cannot be read counts for every object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.clock import APART
from lakegc_core.marks import rescues
from lakegc_core.store.local import LocalConfig, LocalStore
from tests.support.marks import parts
from tests.support.rows import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path) -> Any:
    return SimpleNamespace(workspace=LocalConfig(str(tmp_path)), home="home")


def test_of_an_address_that_was_rescued_twice_the_last_time_counts(quick: SparkSession, context: Any) -> None:
    assert rescues.journal(quick, context) == rescues.Rescues()
    assert told(rescues.last(quick, rescues.Rescues().rows)) == []
    folder = rescues.folder_of(context)
    for days in (1, 5, 3):
        rows = [{"address": "a", "at": NOW + timedelta(days=days)}, {"address": f"b{days}", "at": NOW}]
        parts(context, folder, rescues.SCHEMA, rows)
    last = (
        rescues.last(quick, rescues.journal(quick, context).rows)
        .as_frame()
        .selectExpr("address", "unix_micros(rescued_at)")
        .collect()
    )
    found = {address: at / 1e6 for address, at in last}
    assert found == {"a": (NOW + timedelta(days=5)).timestamp()} | dict.fromkeys(("b1", "b3", "b5"), NOW.timestamp())


@pytest.mark.parametrize("name", ["part-1.parquet", "copy of part-1.parquet", ".DS_Store", "notes.txt"])
def test_a_strange_file_in_the_journal_of_rescues_counts_as_a_part_that_does_not_read(
    quick: SparkSession, store: LocalStore, context: Any, name: str
) -> None:
    folder, said = rescues.folder_of(context), list[str]()
    context.say = said.append
    store.write(f"{folder}/{name}", b"half")
    written = store.head(f"{folder}/{name}").last_modified.timestamp()
    assert rescues.journal(quick, context) == rescues.Rescues(unread_until=written + APART)
    assert said == [f"{folder}/{name} cannot be read: which objects it says were live again is not known"]


def test_an_empty_file_in_the_journal_of_rescues_is_a_marker_and_passed_over(
    quick: SparkSession, store: LocalStore, context: Any
) -> None:
    store.write(f"{rescues.folder_of(context)}/_$folder$", b"")
    assert rescues.journal(quick, context) == rescues.Rescues()
