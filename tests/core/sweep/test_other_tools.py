"""Another tool's list is swept only as far as a mark of our own agrees; what is refused is named, with the reason."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core import pipeline
from lakegc_core.errors import CorruptFileError, MarkError, RefusedError, SettingsError
from lakegc_core.spark.tasks import clear_errors as clear
from lakegc_core.stages import swept_report
from lakegc_core.sweep import call, other_tools
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.dataset import Dataset
from lakegc_core.views.history import history_of
from lakegc_core.views.waits import oldest_in_words
from tests.support.replays import GOLDEN, Replay
from tests.support.swept import ACCEPTED, GARBAGE, Swept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GC = "_lakefs/retention/gc"
LIVE = ("live_committed", "live_staged_only", "live_because_tagged_only")


def listed_by_spark(name: str) -> tuple[Path, set[str]]:
    """The folder of the mark that lakeFS's Spark collector wrote for a recording, and what it lists."""
    (folder,) = (GOLDEN / name / "spark_collector_mark").iterdir()
    tables = [pq.read_table(part) for part in (folder / "deleted").glob("*.parquet")]
    found = {address for table in tables for address in table["address"].to_pylist()}
    assert len(found) == json.loads((folder / "summary.json").read_text())["num_deleted_objects"]
    return folder, found


def put_parquet(replay: Replay, folder: str, addresses: set[str], column: str = "address") -> None:
    (replay.root / folder).mkdir(parents=True)
    table = pa.table({column: sorted(addresses)})
    pq.write_table(table, replay.root / folder / "part-00000-x.snappy.parquet")
    (replay.root / folder / "_SUCCESS").touch()


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rich", "unified_gc", "uncommitted_pages")),
        "retention_graph",
    ],
)
def test_of_a_spark_collectors_mark_the_garbage_goes_and_all_else_is_refused(
    replay: Callable[[str], Replay], spark: SparkSession, name: str
) -> None:
    found, (folder, listed) = replay(name), listed_by_spark(name)
    shutil.copytree(folder, found.root / GC / "unified" / folder.name)
    before = set(found.files())
    context = found.begin("ours")
    pipeline.mark(spark, context)
    swept = swept_report(spark, context, only=other_tools.find_other_mark(context, f"unified:{folder.name}"))

    garbage = found.right()
    assert swept.outcomes["deleted"] == len(listed & garbage)
    assert before - set(found.files()) == listed & garbage
    refused = {outcome: count for outcome, count in swept.outcomes.items() if outcome.startswith("refused:")}
    assert sum(refused.values()) == len(listed - garbage)
    live = set().union(*(found.recording.outcome[group] for group in LIVE)) & listed
    assert refused.get("refused:live", 0) >= len(live)
    assert {"retention_graph": 4, "uncommitted_pages": 6}.get(name, 0) <= refused.get("refused:live", 0)


def test_the_older_layouts_and_the_csv_are_read_the_same(replay: Callable[[str], Replay], spark: SparkSession) -> None:
    found = replay("retention_graph")
    _, listed = listed_by_spark("retention_graph")
    garbage = found.right()
    strange = {"data/not/listed", "README of somebody", "data/odd,with comma"}
    put_parquet(found, f"{GC}/addresses/mark_id=old", listed | garbage | strange)
    put_parquet(found, f"{GC}/uncommitted/older/deleted", listed | garbage | strange)
    (found.root / GC / "reports" / "alone").mkdir(parents=True)
    with (found.root / GC / "reports" / "alone" / "deleted.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["address"], *([address] for address in sorted(listed | garbage | strange))])
    context = found.begin("ours")
    pipeline.mark(spark, context)
    for name in ("addresses:old", "uncommitted:older", "reports:alone"):
        mark = other_tools.find_other_mark(context, name)
        rows = other_tools.addresses(spark, context, mark)
        assert {row[0] for row in rows.collect()} == listed | garbage | strange
        refused = Counter(row["outcome"] for row in other_tools.refused(spark, context, rows).collect())
        assert refused["refused:not_listed"] >= len(strange) and refused["refused:live"] >= 4
        assert sum(refused.values()) == len((listed | strange) - garbage)

    # A sweep of the whole mark that broke off is not gone on with when only a list was asked for.
    record = SweepRecord(spark, context, dry_run=False)
    record.begin(Dataset(PLAN_SCHEMA), 1, {"only": None})
    before = found.files()
    with pytest.raises(RefusedError, match="unfinished sweep of mark ours was not one of addresses:old"):
        swept_report(spark, context, only=other_tools.find_other_mark(context, "addresses:old"))
    assert found.files() == before


def test_what_is_no_list_of_addresses_is_an_error(replay: Callable[[str], Replay], spark: SparkSession) -> None:
    found = replay("retention_graph")
    put_parquet(found, f"{GC}/unified/odd/deleted", {"data/a"}, column="adress")
    (found.root / GC / "unified" / "broken" / "deleted").mkdir(parents=True)
    (found.root / GC / "unified" / "broken" / "deleted" / "part-0.parquet").write_bytes(b"PAR1 no")
    context = found.open()
    with pytest.raises(MarkError, match="no mark unified:none"):
        other_tools.find_other_mark(context, "unified:none")
    for odd in ("other:x", "unified:", "unified:a/b", "unified:.."):
        with pytest.raises(SettingsError):
            other_tools.find_other_mark(context, odd)
    mark = found.begin("ours")
    for name in ("unified:odd", "unified:broken"):
        rows = other_tools.addresses(spark, mark, other_tools.find_other_mark(mark, name))
        with pytest.raises(CorruptFileError, match="no list of addresses"), clear():
            rows.collect()


def test_after_a_sweep_of_a_list_the_oldest_garbage_is_what_the_list_leaves_out(swept: Swept) -> None:
    folder = swept.lake.files("lake") / GC / "unified" / "theirs" / "deleted"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"address": GARBAGE[:1]}), folder / "part-0.parquet")
    only = other_tools.find_other_mark(swept.context, "unified:theirs")
    found = swept_report(swept.spark, swept.context, accepted=ACCEPTED, only=only)
    assert swept.left() == GARBAGE[1:]
    assert (found.oldest["address"], found.oldest["outcome"]) == (GARBAGE[1], "unswept")
    assert oldest_in_words(history_of(swept.context)["oldest"]).endswith(f"not swept yet · {GARBAGE[1]}")
    assert swept.sweep().oldest == {} and swept.left() == []


def test_a_word_to_finish_the_sweep_of_a_list_counts_for_that_list_alone(swept: Swept) -> None:
    SweepRecord(swept.spark, swept.context, dry_run=False).begin(Dataset(PLAN_SCHEMA), 1, {"only": "unified:theirs"})
    told = list[bool]()
    swept.patch.setattr(call, "remember_accepted", lambda *_, of_mark: told.append(of_mark))
    swept.sweep()
    swept.sweep()
    assert told == [False, True]
