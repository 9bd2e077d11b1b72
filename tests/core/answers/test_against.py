"""A mark against another tool's list: what both would delete, what only one would, and why, object by object."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core import clock, pipeline
from lakegc_core.answers.against import BOTH, LATER, OURS, THEIRS, UNTOLD, YOUNG_THERE, Comparison, compare
from lakegc_core.errors import CorruptFileError
from lakegc_core.marks.context import MarkContext
from lakegc_core.sweep.other_tools import find_other_mark
from lakegc_core.views.explained import against_screen
from lakegc_sandbox import Repository
from tests.core.answers.conftest import mark
from tests.support.lake import NOW, Lake, leave
from tests.support.replays import GOLDEN, Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GC = "_lakefs/retention/gc"
SLICE = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3men"
GARBAGE = [f"{SLICE}{end}" for end in ("a0", "ag", "b0", "bg", "c0", "cg", "d0")]


def fill(served: Lake) -> Repository:
    """Seven objects that nothing refers to, one that is committed and one that is staged."""
    found = served.create("lake")
    found.set_rules(7)
    found.upload("main", "kept", bytes(100), age=timedelta(days=30))
    found.commit("main", "one", date=NOW - timedelta(days=30))
    found.upload("main", "staged", bytes(200), age=timedelta(days=8))
    for address in GARBAGE:
        leave(found, address, 10)
    return found


def put(root: Path, name: str, addresses: list[str], **summary: Any) -> None:
    """A list as lakeFS's Spark collector leaves it; without a summary if none is given."""
    folder = root / GC / "unified" / name
    (folder / "deleted").mkdir(parents=True)
    pq.write_table(pa.table({"address": addresses}), folder / "deleted" / "part-00000-x.snappy.parquet")
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))


def against(spark: SparkSession, context: MarkContext, name: str) -> Comparison:
    return compare(spark, context, find_other_mark(context, name))


def counts(found: Comparison) -> dict[tuple[str, str], int]:
    return {(each.by, each.why): each.objects for each in found.groups}


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rich", "unified_gc", "uncommitted_pages")),
        "retention_graph",
    ],
)
def test_a_list_of_lakefs_own_collector_is_told_apart_as_the_recording_says(
    replay: Callable[[str], Replay], spark: SparkSession, name: str
) -> None:
    found, (folder,) = replay(name), list((GOLDEN / name / "spark_collector_mark").iterdir())
    shutil.copytree(folder, found.root / GC / "unified" / folder.name)
    listed = {a for part in (folder / "deleted").glob("*.parquet") for a in pq.read_table(part)["address"].to_pylist()}
    context = found.begin("ours")
    pipeline.mark(spark, context)

    outcome = {group: set(found.recording.outcome[group]) for group in ("live_staged_only", "young", "foreign")}
    committed = set(found.recording.outcome["live_committed"]) | set(
        found.recording.outcome["live_because_tagged_only"]
    )
    expected = {
        (BOTH, "unreferenced"): listed & found.right(),
        (THEIRS, "committed"): listed & committed,
        (THEIRS, "staged"): listed & outcome["live_staged_only"],
        (THEIRS, "young"): listed & outcome["young"],
        (THEIRS, "foreign"): listed & outcome["foreign"],
    }
    told = against(spark, context, f"unified:{folder.name}")
    assert counts(told) == {key: len(addresses) for key, addresses in expected.items() if addresses}
    assert found.right() <= listed and told.success is True and told.began is not None
    for group in told.groups:
        addresses = [each["address"] for each in group.examples]
        assert set(addresses) <= expected[group.by, group.why] and len(addresses) == min(5, group.objects)
        if group.why == "committed":
            assert all(each["holders"] for each in group.examples), "what refers to each is named"
        if group.why == "staged":
            assert all(each["staged"] for each in group.examples)


def test_what_only_lakegc_names_was_too_young_there_or_found_later_or_nothing_tells_it(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    context = mark(small, served, "m1")
    root, started = served.files("lake"), context.header.started_at
    day = 86_400.0

    def summary(began: float, cutoff: float) -> dict[str, Any]:
        return {"start_time": clock.instant(began), "cutoff_time": clock.instant(cutoff), "success": True}

    put(root, "earlier", GARBAGE[:1], **summary(started - day, started - day))
    put(root, "young", GARBAGE[:1], **summary(started + day, 0))
    put(root, "same", GARBAGE[:1], **summary(started + day, started))
    put(root, "bare", GARBAGE[:1])
    for name, why in (("earlier", LATER), ("young", YOUNG_THERE), ("same", UNTOLD), ("bare", UNTOLD)):
        found = against(small, context, f"unified:{name}")
        assert counts(found) == {(BOTH, "unreferenced"): 1, (OURS, why): len(GARBAGE) - 1}, name
    assert [each["address"] for each in found.groups[1].examples] == GARBAGE[1:6], "some of many, the first by name"
    size = sum((root / address).stat().st_size for address in GARBAGE[1:])
    assert (found.began, found.success, found.groups[1].bytes) == (None, None, size)


def test_the_screen_counts_and_names_what_only_one_of_both_would_delete_with_the_reason(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    context = mark(small, served, "m1")
    kept, staged = repository.entry("main", "kept").address, repository.entry("main", "staged").address
    gone = f"{SLICE}v0"
    live = [address.removeprefix(f"{context.namespace.uri}/") for address in (kept, staged)]
    put(served.files("lake"), "theirs", [*GARBAGE[:5], *live, gone, "notes.txt"], success=False, **_times())
    found = against(small, context, "unified:theirs")
    assert counts(found) == {
        (BOTH, "unreferenced"): 5,
        (OURS, LATER): 2,
        (THEIRS, "committed"): 1,
        (THEIRS, "staged"): 1,
        (THEIRS, "no_object"): 2,
    }
    screen = against_screen(found.as_json())
    assert "its summary says that it failed" in screen
    assert "kept: a retained commit refers to it: 1 object, 100 B" in screen
    assert "branch:main" in screen and "it is staged on a branch" in screen and GARBAGE[6] in screen


def _times() -> dict[str, str]:
    long_ago = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    return {"start_time": long_ago, "cutoff_time": NOW.isoformat()}


@pytest.mark.parametrize("summary", [{"success": True}, {"success": True, "start_time": "x", "cutoff_time": "y"}])
def test_a_summary_that_is_none_is_an_error(
    small: SparkSession, served: Lake, repository: Repository, summary: dict[str, Any]
) -> None:
    context = mark(small, served, "m1")
    put(served.files("lake"), "odd", GARBAGE, **summary)
    with pytest.raises(CorruptFileError, match=r"unified/odd/summary\.json is no summary"):
        against(small, context, "unified:odd")
