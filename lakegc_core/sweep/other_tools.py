"""Another tool's mark: a list of addresses that it calls garbage. Nothing of it is believed.

It is swept as a part of a mark of lakegc's own. Addresses of the list that our mark found expired too are deleted,
after all guards and the look; every other one is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import MarkError, SettingsError
from lakegc_core.inventory.carried import find
from lakegc_core.marks.address_lists import read_list
from lakegc_core.marks.catalogue import FOLDERS, GC
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import REFUSED, Outcome, Reason, Stage
from lakegc_core.spark.tasks import many
from lakegc_core.store.base import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIVE, YOUNG, FOREIGN, NOT_LISTED = (f"{REFUSED}{why}" for why in ("live", "young", "foreign", "not_listed"))
COMMITTED, NO_OBJECT = "committed", "no_object"
"""Two more reasons beside those that our mark has on record: a retained commit refers to the object; the store did not
have it."""
_BY_REASON = {  # all other reasons: LIVE
    NO_OBJECT: NOT_LISTED,
    Reason.YOUNG: YOUNG,
    Reason.FOREIGN: FOREIGN,
    Reason.UNKNOWN: FOREIGN,
    Reason.UNASKED: Outcome.UNCONFIRMED,
}


@dataclass(frozen=True)
class OtherMark:
    """A mark of one of lakeFS's own collectors: its files, relative to the namespace."""

    name: str  # KIND:ID
    files: tuple[str, ...]

    @property
    def summary(self) -> str | None:
        """The key of its `summary.json`; None for a kind that has none."""
        kind, _, name = self.name.partition(":")
        return None if kind == "addresses" else f"{GC}/{kind}/{name}/summary.json"


def parse_other_mark(mark_id: str) -> tuple[str, str] | None:
    """Kind and id of another tool's mark (`unified:ID`, …); None for the id of a mark of lakegc's own."""
    kind, separator, name = mark_id.partition(":")
    if not separator:
        return None
    if kind not in FOLDERS or not name or "/" in name or name.startswith("."):
        kinds = ", ".join(f"{each}:ID" for each in FOLDERS)
        raise SettingsError(f"{mark_id!r} is no mark of another tool: those are {kinds}.")
    return kind, name


def find_other_mark(context: RepositoryContext, mark_id: str) -> OtherMark:
    """The files of another tool's mark. MarkError if there are none."""
    found = parse_other_mark(mark_id)
    if found is None:
        kinds = ", ".join(f"{each}:ID" for each in FOLDERS)
        raise SettingsError(f"{mark_id!r} names no list of lakeFS's own collector: those are {kinds}.")
    kind, name = found
    folder, ending = FOLDERS[kind].format(name), ".csv" if kind == "reports" else ".parquet"
    files = [
        key
        for level in connect(context.data).list_level(folder)
        for key in level.objects["address"].to_pylist()
        if key.endswith(ending) and not key.removeprefix(folder).startswith(("_", "."))
    ]
    if not files:
        raise MarkError(
            f"There is no mark {mark_id}: no {ending} file lies in {context.namespace.uri}/{folder}. "
            f"`lakegc marks {context.repository.id}` lists those there are."
        )
    return OtherMark(mark_id, tuple(sorted(files)))


def addresses(spark: SparkSession, context: MarkContext, mark: OtherMark) -> DataFrame:
    """Addresses that another tool's mark calls garbage: column address, each once, relative to the namespace."""
    config, files = context.data, mark.files

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_list(config, files[number])

    slices = min(len(files), 64)
    return spark.range(0, len(files), 1, slices).mapInArrow(body, "address string").distinct()


def kept_by_ours(spark: SparkSession, context: MarkContext, listed: DataFrame) -> DataFrame:
    """Those of the addresses that our mark did not find expired: address, size (0 if unknown), and reason: that of the
    mark (see `names.Reason`), COMMITTED, or NO_OBJECT."""
    from pyspark.sql import functions as F

    def findings_of(name: str) -> DataFrame:
        return context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA, name).frame(spark, "address", "reason")

    listed_objects = find(spark, all_layers(context)).as_frame().select("address", "size")
    other = F.when(F.col("size").isNotNull(), COMMITTED).otherwise(NO_OBJECT)
    return (
        listed.join(many(findings_of(Stage.EXPIRED_ADDRESSES).select("address")), "address", "left_anti")
        .join(many(findings_of(KEPT)), "address", "left")
        .join(many(listed_objects), "address", "left")
        .select("address", F.coalesce("size", F.lit(0)).alias("size"), F.coalesce("reason", other).alias("reason"))
    )


def refused(spark: SparkSession, context: MarkContext, listed: DataFrame) -> DataFrame:
    """Those of the addresses that our mark did not find expired: address, size (0 if unknown), outcome."""
    from pyspark.sql import functions as F

    outcome = F.coalesce(
        *(F.when(F.col("reason") == reason, outcome) for reason, outcome in _BY_REASON.items()), F.lit(LIVE)
    )
    return kept_by_ours(spark, context, listed).select("address", "size", outcome.alias("outcome"))
