"""A night, a day later, and a fortnight: three repositories of which one is broken, through sensors, jobs and an
instance, with real marks, a backup, a sweep and a restore. Each test goes on from the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.catalogue import list_marks
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.marks.retire import list_retired
from lakegc_core.names import STAGES
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import LAST_MARK
from tests.dagster.conftest import Site, Tick, failure_of, open_site
from tests.support.lake import quick

GARBAGE = {f"data/left-behind-{number:09}" for number in range(3)}


@dataclass
class Night:
    """What was asked for, and what became of it."""

    site: Site
    place: Path
    before: dict[str, set[str]]
    opened: Tick
    marked: dict[str, dg.ExecuteInProcessResult] = field(default_factory=dict)


@pytest.fixture(scope="module")
def night(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """A round was opened over three repositories, and each run that it asked for was made."""
    folder = tmp_path_factory.mktemp("night")
    options = LakegcConfig(key_prefix=("lake",), backup=True, repositories=("alpha",))
    with (
        pytest.MonkeyPatch.context() as env,
        dg.DagsterInstance.ephemeral() as instance,
        open_site(folder, env, instance, options) as site,
        quick(spark),
    ):
        site.configure(
            f"  - {{match: alpha, safety: none, sweep: true, backup: required, backup_to: '{folder}/{{repository}}'}}\n"
            "  - {match: '*', safety: none}\n"
        )
        site.create("alpha", "beta", "broken")
        site.server.sandbox.repository("broken").delete_rules()
        for name in ("alpha", "beta"):
            leave_garbage(site, name)
        before = {name: site.files(name) for name in ("alpha", "beta", "broken")}
        night = Night(site, folder / "alpha", before, site.tick("open_round"))
        for name, request in zip(night.opened.repositories, night.opened.requests, strict=True):
            night.marked[name] = site.run("gc_mark", request)
        yield night


def leave_garbage(site: Site, name: str) -> None:
    """Objects of ninety days ago that nothing refers to."""
    files = site.server.sandbox.repository(name).files
    for key in GARBAGE:
        files.write(key, key.encode(), (datetime.now(UTC) - timedelta(days=90)).timestamp())


def test_a_broken_repository_holds_up_none_of_the_others(night: Night) -> None:
    assert night.opened.repositories == ["alpha", "beta", "broken"]
    assert {name: result.success for name, result in night.marked.items()} == {
        "alpha": True,
        "beta": True,
        "broken": False,
    }
    assert "has no garbage collection rules" in failure_of(night.marked["broken"], "lake__namespace_listing")
    assert {name: night.site.files(name) for name in night.before} == night.before


def test_a_backfill_of_everything_deletes_nothing(night: Night) -> None:
    """As a backfill runs a cell: all assets, by no job of ours, with the default config, under the backfill's tag."""
    site = night.site
    tags = {"dagster/backfill": "b1"}
    result = everything(site, cell_of(night, "alpha"), tags=tags)
    assert "Backfill the marking assets, or the job gc_sweep for dry runs" in failure_of(result, "lake__swept_report")
    assert len(result.get_asset_materialization_events()) == 6, "all but the sweep"
    dry = site.run("gc_sweep", partition_key=cell_of(night, "alpha").key, tags=tags)
    assert dry.success and len(dry.get_asset_observation_events()) == 1
    wanted = {"ops": {"lake__swept_report": {"config": {"dry_run": False}}}}
    forced = everything(site, cell_of(night, "alpha"), tags=tags, run_config=wanted)
    assert "A backfill sweeps nothing" in failure_of(forced, "lake__swept_report")
    for more in ({}, {"dagster/retry_number": "1"}):  # a run again, without the tag once the backfill is over
        tags = {"dagster/parent_run_id": forced.run_id, **more}
        forced = everything(site, cell_of(night, "alpha"), tags=tags, run_config=wanted)
        assert "launch swept_report anew for this one partition" in failure_of(forced, "lake__swept_report")
    assert {name: site.files(name) for name in night.before} == night.before


def everything(site: Site, cell: GcCell, **more: Any) -> dg.ExecuteInProcessResult:
    job = site.defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(partition_key=cell.key, instance=site.instance, raise_on_error=False, **more)


def cell_of(night: Night, name: str) -> GcCell:
    return GcCell(name, str(night.opened.requests[0].tags["lakegc/round"]))


def test_a_mark_whose_backup_comes_with_its_sweep_waits_for_nobody(night: Night) -> None:
    found = night.marked["alpha"].asset_materializations_for_node("lake__expired_addresses")[0].metadata
    guards = {row.data["guard"]: row.data["holds"] for row in found["guards"].records}
    assert guards["backup"] == "no" and "will refuse a sweep" not in str(found["in_short"].value)
    key = dg.AssetCheckKey(night.site.options.repository_key("alpha"), LAST_MARK)
    told, *_ = night.site.instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
    assert told.evaluation and told.evaluation.passed


def test_the_sweep_that_the_sensor_asks_for_makes_its_backup_first_and_then_deletes(night: Night) -> None:
    site = night.site
    tick = site.tick("sweep_confirmed")
    assert tick.repositories == ["alpha"]
    result = site.run("gc_sweep", tick.requests[0])
    assert result.success, failure_of(result, "lake__swept_report")
    done = [str(event.asset_key.to_user_string()) for event in result.get_asset_materialization_events()]
    assert done == ["lake/backup", "lake/swept_report"]
    assert [check.check_name for check in result.get_asset_check_evaluations()] == ["backup"]
    assert night.before["alpha"] - site.files("alpha") == GARBAGE
    assert site.files("beta") == night.before["beta"]
    assert "was swept, or refused" in site.tick("sweep_confirmed").skipped


def test_what_was_swept_comes_back_from_its_backup(night: Night) -> None:
    site, cell = night.site, cell_of(night, "alpha")
    (night.place / "elsewhere").mkdir()
    elsewhere = {"ops": {"lake_restore": {"config": {"place": str(night.place / "elsewhere")}}}}
    wrong = failure_of(site.run("gc_restore", partition_key=cell.key, run_config=elsewhere), "lake_restore")
    assert "nothing lies there" in wrong and f"The backup of this mark was made to {night.place}." in wrong
    result = site.run("gc_restore", partition_key=cell.key)
    assert result.success
    assert site.files("alpha") == night.before["alpha"]


def test_a_mark_is_retired_and_its_backup_can_still_be_brought_back(night: Night, monkeypatch: Any) -> None:
    site, cell = night.site, cell_of(night, "alpha")
    for key in GARBAGE:
        (site.server.sandbox.root / "alpha" / key).unlink()
    later = datetime.now(UTC) + timedelta(days=30)
    repository = open_repository(site.lakegc.settings(), "alpha")
    first = repository.artifacts(cell.mark_id)
    for number in (1, 2):
        copy_mark(first, repository.artifacts(f"later-{number}"), number)
    monkeypatch.setenv("LAKEGC_NOW", str(later.timestamp()))
    run_config = {"ops": {"lake_retire": {"config": {"keep": 2}}}}
    assert site.run("gc_retire", run_config=run_config).success
    assert cell.mark_id not in marks_with_a_header(repository)
    (record,) = list_retired(repository)
    assert (record["mark_id"], record["deleted"], record["backup"]) == (cell.mark_id, 3, str(night.place))
    monkeypatch.delenv("LAKEGC_NOW")
    GcCell("alpha", cell.mark_id).register(site.instance, site.options.grid)
    assert site.run("gc_restore", partition_key=cell.key).success
    assert site.files("alpha") == night.before["alpha"]


def copy_mark(first: MarkArtifacts, second: MarkArtifacts, days: int) -> None:
    """The same mark some days later: its header and manifests, sealed anew."""
    header = first.header()
    assert header is not None
    later = replace(header, mark_id=second.mark_id, started_at=header.started_at + days * 86_400)
    second.begin(later)
    for number, stage in enumerate(STAGES):
        manifest = replace(
            first.require(stage),
            mark_id=second.mark_id,
            upstream=second.upstream_digest(stage),
            started_at=later.started_at + 2 * number + 1,
            finished_at=later.started_at + 2 * number + 2,
        )
        second.finish(manifest)


def marks_with_a_header(repository: RepositoryContext) -> set[str]:
    return {each["mark_id"] for each in list_marks(repository)}
