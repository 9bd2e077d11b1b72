"""The two dimensions by which every asset is partitioned, and the only place that takes a partition key apart.

A mark id is a round over all repositories, so the grid fills; an ad-hoc mark fills one cell of its column. Dagster
takes any text as a key, typed into the UI too, so a cell is checked before anything is asked or written for it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_core.mark import check_mark_id

REPOSITORY = dg.DynamicPartitionsDefinition(name="lakegc_repository")
MARK = dg.DynamicPartitionsDefinition(name="lakegc_mark")
GC_PARTITIONS = dg.MultiPartitionsDefinition({"repository": REPOSITORY, "mark_id": MARK})

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
    def of(cls, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> GcCell:
        """The cell that a run is for."""
        run = context if isinstance(context, dg.AssetExecutionContext) else context.op_execution_context
        key = run.partition_key if run.has_partition_key else None
        if not isinstance(key, dg.MultiPartitionKey):
            raise SettingsError("This run has no partition: choose a repository and a mark id for it.")
        return cls.checked(**key.keys_by_dimension)

    @property
    def key(self) -> dg.MultiPartitionKey:
        """The cell as Dagster writes it: `MARK_ID|REPOSITORY`."""
        return dg.MultiPartitionKey({"repository": self.repository, "mark_id": self.mark_id})

    def register(self, instance: dg.DagsterInstance) -> None:
        """Make the cell known to an instance. What is known already stays as it is."""
        instance.add_dynamic_partitions(str(REPOSITORY.name), [self.repository])
        instance.add_dynamic_partitions(str(MARK.name), [self.mark_id])
