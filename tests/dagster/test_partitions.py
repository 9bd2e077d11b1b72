"""Cells: what may be one, and how Dagster writes it."""

from __future__ import annotations

import dagster as dg
import pytest

from lakegc_core.errors import SettingsError
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GC_PARTITIONS, MARK, REPOSITORY, GcCell, Grid


@pytest.mark.parametrize("repository", ["analytics", "a-1", "0ab", "x" * 63])
@pytest.mark.parametrize("mark_id", ["20261121T0200Z", "20261121T0915Z-adhoc", "a.b_c-d", "9" * 64])
def test_well_formed_cells_are_cells(repository: str, mark_id: str) -> None:
    assert GcCell.checked(repository, mark_id) == (repository, mark_id)


@pytest.mark.parametrize("repository", ["", "ab", "Upper", "-a-b", "a|b", "a/b", "a b c", "x" * 64, "ab\n"])
def test_what_lakefs_would_not_name_a_repository_is_no_cell(repository: str) -> None:
    with pytest.raises(SettingsError, match="no name of a lakeFS repository"):
        GcCell.checked(repository, "m1")


@pytest.mark.parametrize("mark_id", ["", ".hidden", "a/b", "a|b", "../up", "a..b", "x" * 65, "m1\n", "unified:x"])
def test_what_could_leave_the_folder_of_marks_is_no_cell(mark_id: str) -> None:
    with pytest.raises(SettingsError, match="no mark id"):
        GcCell.checked("analytics", mark_id)


def test_a_registered_cell_is_a_partition_and_registering_twice_changes_nothing(
    instance: dg.DagsterInstance,
) -> None:
    cell = GcCell("analytics", "m1")
    cell.register(instance)
    cell.register(instance)
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        assert GC_PARTITIONS.has_partition_key(cell.key)
    assert instance.get_dynamic_partitions(str(REPOSITORY.name)) == ["analytics"]
    assert instance.get_dynamic_partitions(str(MARK.name)) == ["m1"]
    assert str(cell.key) == "m1|analytics"


def test_a_team_with_a_prefix_has_partitions_of_its_own(instance: dg.DagsterInstance) -> None:
    mine = Grid.named(("lake", "gc"))
    assert mine == LakegcConfig(key_prefix=("lake", "gc")).grid and Grid.named(()) == LakegcConfig().grid
    GcCell("analytics", "m1").register(instance, mine)
    assert (mine.repositories_of(instance), mine.marks_of(instance)) == (["analytics"], ["m1"])
    assert instance.get_dynamic_partitions(str(REPOSITORY.name)) == []


def test_a_condition_of_dagster_would_ask_for_old_rounds_of_a_new_repository(instance: dg.DagsterInstance) -> None:
    """Why lakegc has no such condition. If this fails, Dagster has learnt better: look at docs/dagster.md again."""

    @dg.asset(partitions_def=GC_PARTITIONS, automation_condition=dg.AutomationCondition.on_missing())
    def listing() -> None: ...

    def asked(cursor: object = None) -> tuple[set[str], object]:
        result = dg.evaluate_automation_conditions([listing], instance, cursor=cursor)
        return {str(key) for key in result.get_requested_partitions(listing.key)}, result.cursor

    GcCell("analytics", "m1").register(instance)
    _, cursor = asked()
    GcCell("analytics", "m2").register(instance)
    found, cursor = asked(cursor)
    assert found == {"m2|analytics"}
    GcCell("ml", "m2").register(instance)
    found, _ = asked(cursor)
    assert found == {"m1|ml", "m2|ml"}


def test_an_asset_of_a_team_can_follow_a_repository_by_a_condition(instance: dg.DagsterInstance) -> None:
    defs = build_lakegc_definitions(LakegcConfig(repositories=("analytics",)))

    @dg.asset(deps=[dg.AssetKey(["lakefs", "analytics"])], automation_condition=dg.AutomationCondition.eager())
    def dashboard() -> None: ...

    every = dg.Definitions.merge(defs, dg.Definitions([dashboard]))
    before = dg.evaluate_automation_conditions(every, instance)
    assert before.total_requested == 0
    instance.report_runless_asset_event(dg.AssetMaterialization(["lakefs", "analytics"]))
    after = dg.evaluate_automation_conditions(every, instance, cursor=before.cursor)
    assert after.get_num_requested(dashboard.key) == 1
