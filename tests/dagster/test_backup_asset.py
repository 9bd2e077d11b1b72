"""The asset `backup`: where it copies to, and what is there only for a team that wants it. A whole one: whole round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies import backup as copies
from lakegc_core.marks.context import open_mark, open_repository
from lakegc_core.policy.guards import GUARDS
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.checks import check_key
from lakegc_dagster.config import OVER_BACKUPS, LakegcConfig
from lakegc_dagster.metadata.in_short import refusing
from lakegc_dagster.resources import LakegcResource
from tests.dagster.conftest import Lake, failure_of, open_lake

WITH = LakegcConfig(backup=True)


@pytest.mark.parametrize("required", [True, False])
def test_the_guard_over_backups_refuses_no_sweep_whose_run_makes_a_backup_first(required: bool) -> None:
    """Also where only a drill out of a backup asks for one."""

    def refused(backup: bool, place: str | None) -> list[Any]:
        policy = RepositoryPolicy(match="*", backup=required, backup_to=place)
        mark: Any = SimpleNamespace(policy=policy)
        verdict: Any = SimpleNamespace(stops=True, name=OVER_BACKUPS)
        return refusing(LakegcConfig(backup=backup), mark, [verdict])

    assert refused(backup=True, place="/spare") == []
    assert refused(backup=True, place=None) and refused(backup=False, place="/spare")


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    """Ten files on three branches, six of them garbage, with `backup: required` and no asset for it."""
    for found in open_lake("local_unified_gc", tmp_path, monkeypatch, instance):
        config = tmp_path / "lakegc.yaml"
        config.write_text(config.read_text().replace('match: "*"', 'match: "*", backup: required'))
        yield found


def test_where_it_is_no_asset_a_backup_by_hand_lets_the_marks_sweep_begin(
    lake: Lake, spark: Any, tmp_path: Path
) -> None:
    marked = lake.run("gc_mark", "m1", mark={"safety": "none"})
    assert marked.success, "nothing is wrong with the mark"
    checks = {check.check_name: check for check in marked.get_asset_check_evaluations()}
    assert not checks["backup"].passed and checks["backup"].severity == dg.AssetCheckSeverity.WARN
    early = lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert "backup: lakegc.yaml asks for a backup before a sweep" in failure_of(early, "swept_report")
    assert lake.garbage <= lake.objects()
    mark = open_mark(open_repository(LakegcResource().settings(), lake.repository), "m1")
    copies.backup(spark, mark, str(tmp_path / "spare"))
    assert lake.run("gc_sweep", "m1", sweep={"dry_run": False}).success
    assert not lake.garbage & lake.objects()


@pytest.mark.parametrize("required", [True, False])
def test_what_cannot_be_copied_stays_and_stops_the_sweep_of_the_others_only_where_nothing_asks_for_a_backup(
    lake: Lake, tmp_path: Path, required: bool
) -> None:
    """With `backup: required`, core leaves the few objects that the backup lacks. Else nobody would leave them."""
    config, spare, victim = tmp_path / "lakegc.yaml", tmp_path / "spare", min(lake.garbage)
    wanted = f"backup_to: {spare}" + (", backup: required" if required else "")
    config.write_text(config.read_text().replace("backup: required", wanted))
    (spare / victim).parent.mkdir(parents=True)
    (spare / victim).write_bytes(b"something else, of another length: " + victim.encode())
    lake.defs = build_lakegc_definitions(WITH)
    assert lake.run("gc_mark", "m1", mark={"safety": "none"}).success
    swept = lake.run("gc_sweep", "m1", sweep={"dry_run": False})
    assert swept.success == required
    assert lake.garbage & lake.objects() == ({victim} if required else lake.garbage)
    found = swept.asset_materializations_for_node("backup") if required else []
    assert all(each.metadata["different"].value == 1 for each in found) and len(found) == required
    if not required:
        assert "1 objects were not backed up" in failure_of(swept, "backup")


def test_it_stands_between_the_mark_and_the_sweep_and_bears_the_guard_over_backups() -> None:
    graph = build_lakegc_definitions(WITH).resolve_asset_graph()
    assert graph.get(dg.AssetKey("backup")).parent_keys == {dg.AssetKey("expired_addresses")}
    assert dg.AssetKey("backup") in graph.get(dg.AssetKey("swept_report")).parent_keys
    on = {guard.name: check_key(WITH, guard).asset_key.to_user_string() for guard in GUARDS}
    assert on.pop("backup") == "backup" and set(on.values()) == {"expired_addresses"}


def test_without_it_the_guard_over_backups_is_a_check_on_the_mark() -> None:
    assert {check_key(LakegcConfig(), guard).asset_key for guard in GUARDS} == {dg.AssetKey("expired_addresses")}


def test_the_jobs_that_mark_do_not_copy_and_those_that_sweep_do() -> None:
    defs = build_lakegc_definitions(WITH)
    steps = {
        job: {node.name for node in defs.resolve_job_def(job).nodes}
        for job in ("gc_mark", "gc_sweep", "gc_backup", "gc")
    }
    assert "backup" not in steps["gc_mark"] and "backup" in steps["gc"]
    assert steps["gc_sweep"] == {"backup", "backup_guard", "swept_report"}
    assert steps["gc_backup"] == {"backup", "backup_guard"}
