"""The two dimensions by which every asset is partitioned, and the only place that takes a partition key apart.

A mark id is a round over all repositories, so the grid fills; an ad-hoc mark fills one cell of its column. Dagster
takes any text as a key, typed into the UI too, so a cell is checked before anything is asked or written for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_core.marks.ids import check_mark_id


@dataclass(frozen=True)
class Grid:
    """The partitions of one set of definitions: repositories by marks. Their names are the instance's, so that two
    teams on one instance need two grids."""

    repositories: dg.DynamicPartitionsDefinition
    marks: dg.DynamicPartitionsDefinition

    @classmethod
    def named(cls, prefix: Sequence[str]) -> Grid:
        """The grid of a team; without a prefix, `lakegc_repository` and `lakegc_mark`."""
        names = ("_".join([*prefix, kind]) for kind in ("lakegc_repository", "lakegc_mark"))
        return cls(*(dg.DynamicPartitionsDefinition(name=name) for name in names))

    @property
    def definition(self) -> dg.MultiPartitionsDefinition:
        """Both dimensions together."""
        return dg.MultiPartitionsDefinition({"repository": self.repositories, "mark_id": self.marks})

    def repositories_of(self, instance: dg.DagsterInstance) -> list[str]:
        """The repositories that an instance knows."""
        return list(instance.get_dynamic_partitions(str(self.repositories.name)))

    def marks_of(self, instance: dg.DagsterInstance) -> list[str]:
        """The marks that an instance knows."""
        return list(instance.get_dynamic_partitions(str(self.marks.name)))


GRID = Grid.named(())
REPOSITORY, MARK, GC_PARTITIONS = GRID.repositories, GRID.marks, GRID.definition

_REPOSITORY_ID = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")  # lakeFS's own rule


class GcCell(NamedTuple):
    """One repository at one mark: a cell of the grid."""

    repository: str
    mark_id: str

    @classmethod
    def checked(cls, repository: str, mark_id: str) -> GcCell:
        """The cell, or a SettingsError that says what a repository's name or a mark id may look like."""
        if not _REPOSITORY_ID.fullmatch(repository):
            raise SettingsError(
                f"{repository!r} is no name of a lakeFS repository: 3 to 63 lower-case letters, digits or '-', "
                "beginning with a letter or a digit."
            )
        return cls(repository, check_mark_id(mark_id))

    @classmethod
    def of(cls, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext) -> GcCell:
        """The cell that a run is for."""
        run = context.op_execution_context if isinstance(context, dg.AssetCheckExecutionContext) else context
        key = run.partition_key if run.has_partition_key else None
        if not isinstance(key, dg.MultiPartitionKey):
            raise SettingsError("This run has no partition: choose a repository and a mark id for it.")
        return cls.checked(**key.keys_by_dimension)

    @property
    def key(self) -> dg.MultiPartitionKey:
        """The cell as Dagster writes it: `MARK_ID|REPOSITORY`."""
        return dg.MultiPartitionKey({"repository": self.repository, "mark_id": self.mark_id})

    def register(self, instance: dg.DagsterInstance, grid: Grid = GRID) -> None:
        """Make the cell known to an instance. What is known already stays as it is."""
        instance.add_dynamic_partitions(str(grid.repositories.name), [self.repository])
        instance.add_dynamic_partitions(str(grid.marks.name), [self.mark_id])
