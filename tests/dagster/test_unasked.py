"""A repository whose mark fails leaves warnings in place of its checks, and no red page for all the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.event_api import PartitionKeyFilter

from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.policy.guards import GUARDS
from lakegc_dagster import checks, failures
from lakegc_dagster.authorization import refusals
from lakegc_dagster.checks import guard_keys
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from tests.dagster.conftest import Lake, open_lake

MARKED = "local_unified_gc"
KEYS = guard_keys(LakegcConfig())
OTHER = "another-one"


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    yield from open_lake(MARKED, tmp_path, monkeypatch, instance)


@pytest.fixture(scope="module")
def marked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a complete mark `m1`, which no test touches: each looks whether its checks stay as they are."""
    with pytest.MonkeyPatch.context() as env, dg.DagsterInstance.ephemeral() as instance:
        for found in open_lake(MARKED, tmp_path_factory.mktemp("marked"), env, instance):
            assert found.run("gc_mark", "m1", mark={"safety": "none"}).success
            yield found


def told(lake: Lake, repository: str, mark_id: str = "m1") -> dict[str, tuple[str, str, str]]:
    """Of each check of a partition that has a record: status, severity, description."""
    records = lake.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        KEYS, partition_filter=PartitionKeyFilter(key=str(GcCell(repository, mark_id).key))
    )
    found = {}
    for key, record in records.items():
        seen: Any = record.evaluation
        is_planned = record.status.value == "PLANNED"
        said = ("", "") if is_planned else (seen.severity.value, seen.description or "")
        found[key.name] = (record.status.value, *said)
    return found


def test_checks_that_nobody_asked_warn_with_the_reason_and_authorise_nothing(marked: Lake) -> None:
    sound = told(marked, marked.repository)
    assert not marked.run("gc_mark", "m1", repository=OTHER).success
    found = told(marked, OTHER)
    assert len(found) == len(GUARDS) and {each[:2] for each in found.values()} == {("FAILED", "WARN")}
    assert all("Not asked: a step for m1|another-one failed before. " in each[2] for each in found.values())
    assert all(OTHER in each[2].partition("before. ")[2] for each in found.values()), "the reason"
    assert told(marked, marked.repository) == sound
    no_mark: Any = None
    assert refusals(marked.instance, LakegcConfig(), GcCell(OTHER, "m1"), no_mark, {})


def test_a_stage_alone_that_fails_leaves_the_checks_of_its_mark_as_they_are(
    marked: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = told(marked, marked.repository)
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "nonsense://")
    alone = dg.define_asset_job("alone", dg.AssetSelection.assets("retention_commits").without_checks())
    job = dg.Definitions.merge(marked.defs, dg.Definitions(jobs=[alone])).resolve_job_def("alone")
    key = GcCell(marked.repository, "m1").key
    assert not job.execute_in_process(partition_key=key, instance=marked.instance, raise_on_error=False).success
    assert told(marked, marked.repository) == before


def test_checks_that_fail_themselves_warn_when_they_are_not_tried_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: Any) -> Any:
        raise LakeFSError("lakeFS is away", 404)

    with monkeypatch.context() as patch:
        patch.setattr(checks, "judge", unreachable)
        assert not lake.run("gc_mark", "m1", mark={"safety": "none"}).success
    assert set(told(lake, lake.repository).values()) == {
        ("FAILED", "WARN", f"Not asked: a step for m1|{lake.repository} failed before. lakeFS is away")
    }
    swept = lake.run("gc_sweep", "m1", sweep={"accept": {"blast_radius": "never looked at"}})
    assert not swept.success, "such a warning is about no materialisation, and cannot be accepted"
    assert lake.run("gc_mark", "m1", mark={"safety": "none"}).success
    assert told(lake, lake.repository)["order"][0] == "SUCCEEDED"


def test_a_step_that_is_tried_again_has_not_ended() -> None:
    waits, passing, final = dg.RetryRequested(), dg.Failure("x"), dg.Failure("x", allow_retries=False)
    last = failures.READING_RETRIES.max_retries
    assert not failures.is_final(waits, last) and not failures.is_final(waits, failures.WAITS_FOR_LEASE)
    assert not failures.is_final(passing, last - 1) and failures.is_final(passing, last)
    assert failures.is_final(final, 0)
