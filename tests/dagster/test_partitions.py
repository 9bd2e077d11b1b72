"""Cells: what may be one, and how Dagster writes it."""

from __future__ import annotations

import dagster as dg
import pytest

from lakegc_core.errors import SettingsError
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
