"""The look: before anything is deleted, what refers to what is read once more, and what came back to life is taken out.

A look is one whole staged dump, then everything that counts as of now; only ranges that the mark did not know are read.
It is believed for `look_validity`, then taken again. What is done with it is decided in `swept_report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.context import MarkContext
from lakegc_core.errors import RefusedError
from lakegc_core.spark import clear_errors
from lakegc_core.stages import committed_addresses, uncommitted_addresses
from lakegc_core.stages.commit_walk import COMMITS, COMMITS_SCHEMA
from lakegc_core.stages.retention_commits import find_retained
from lakegc_core.stages.uncommitted_addresses import dump_staged
from lakegc_core.store.parquet import Part, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Look:
    """What a look saw. Times are unix seconds; `began_at` is when its staged dump began."""

    began_at: float
    finished_at: float
    staged_folder: str
    staged: Sequence[Part]
    committed_folder: str
    committed: Sequence[Part]
    facts: dict[str, Any]

    def live(self, spark: SparkSession, context: MarkContext) -> DataFrame:
        """Hashes (column `h`, xxhash64 of the address) of all that is staged now or newly committed since the mark."""
        from pyspark.sql import functions as F

        staged = read(
            spark,
            context.workspace,
            self.staged_folder,
            self.staged,
            uncommitted_addresses.SCHEMA,
            ["address"],
        )
        committed = read(
            spark,
            context.workspace,
            self.committed_folder,
            self.committed,
            committed_addresses.SCHEMA,
            ["address"],
        )
        return staged.unionByName(committed).select(F.xxhash64("address").alias("h")).distinct()


def take_look(spark: SparkSession, context: MarkContext, folder: str) -> Look:
    """Look at what is staged, then at what is retained, and read the ranges that the mark had not read.

    RefusedError if the server is not the one that was marked.
    """
    began = clock.now().timestamp()
    _check_same_server(context)
    staged_folder, commits_folder = f"{folder}/uncommitted", f"{folder}/commits"
    committed_folder = f"{folder}/committed"
    staged = dump_staged(spark, context, staged_folder)
    commits = find_retained(spark, context, commits_folder)
    marked = context.mark.require(committed_addresses.STAGE)
    known = read(
        spark,
        context.workspace,
        context.mark.stage_folder(committed_addresses.STAGE, committed_addresses.METARANGES),
        marked.datasets[committed_addresses.METARANGES],
        committed_addresses.METARANGES_SCHEMA,
        ["metarange_id"],
    )
    retained = read(
        spark, context.workspace, commits_folder, commits.datasets[COMMITS], COMMITS_SCHEMA, ["metarange_id"]
    ).where("metarange_id != ''")
    unknown = retained.distinct().join(known.distinct(), "metarange_id", "left_anti")
    with clear_errors():
        count = unknown.count()
    committed = committed_addresses.read_committed(
        spark,
        context,
        unknown,
        committed_folder,
        expected=count,
        known=marked.datasets[committed_addresses.RANGES],
    )
    return Look(
        began_at=began,
        finished_at=clock.now().timestamp(),
        staged_folder=staged_folder,
        staged=staged.datasets[uncommitted_addresses.STAGE],
        committed_folder=committed_folder,
        committed=committed.datasets[committed_addresses.STAGE],
        facts={
            "uncommitted_addresses": staged.facts,
            "retention_commits": commits.facts,
            "committed_addresses": committed.facts,
        },
    )


def _check_same_server(context: MarkContext) -> None:
    now = context.client.repository(context.header.repository)
    if (now.storage_namespace, now.creation_date) != (
        context.header.storage_namespace,
        context.header.repository_created,
    ):
        raise RefusedError(
            f"Repository {context.header.repository} is not the one that was marked: it was re-created or restored "
            "since. Make a new mark."
        )
