"""expired_addresses: what is listed and that nothing refers to; old enough, and lakeFS's own. Deletes nothing.

What no commit refers to is found by `candidates`. Addresses are compared by 64-bit hashes: where two collide, garbage
is kept; the address that is ever deleted is always the listed one. Everything unreferenced is written, with what keeps
it: what is not kept is expired.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.context import MarkContext
from lakegc_core.errors import ServerError
from lakegc_core.guards import shrunk
from lakegc_core.mark import STAGES, Manifest, MarkArtifacts
from lakegc_core.namespace import Namespace, xid_times
from lakegc_core.spark import Json, Mapped, run_tasks
from lakegc_core.stages import committed_addresses, range_reading, shape, uncommitted_addresses
from lakegc_core.stages.base import StageOutput, StageResult, run_stage
from lakegc_core.stages.candidates import MISSING, against_all
from lakegc_core.stages.changes import against_changes
from lakegc_core.stages.findings import KEPT, SCHEMA, STAGE, UNREFERENCED, instant, moment, with_since
from lakegc_core.stages.hash_scan import Source, by_address, scan, sources_of
from lakegc_core.stages.inventory import LEARNT
from lakegc_core.stages.judging import FOREIGN, HELD, STAGED, YOUNG, Judge, Keeper
from lakegc_core.stages.layers import Layer, all_layers
from lakegc_core.stages.missing_paths import missing_paths
from lakegc_core.stages.previous_mark import previous_mark
from lakegc_core.stages.protected import ROWS_SCHEMA
from lakegc_core.stages.suspects import PLANNED, RESCUED, find_suspects, heads_of_mark
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.parquet import Part, read, read_part, remove_leftovers, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT_FOLDER = "deleted.text"
"""Where the documented rclone recipes find one address a line."""

_ROW_GROUPS = (STAGE, KEPT, MISSING)


def expired_addresses(spark: SparkSession, context: MarkContext) -> StageResult:
    """Find the garbage. Columns: address, size, last_modified, etag, reason, since.

    Datasets: `kept` (unreferenced by commits, but staged, held, too young or foreign), `missing` (live addresses that
    the store does not hold) and `learnt` (objects that nobody had listed, in units that were taken over).
    """
    return run_stage(STAGE, spark, context, _subtract)


def _subtract(spark: SparkSession, context: MarkContext) -> StageOutput:
    own, *layers = all_layers(context)
    manifests = own.manifests

    listed_from = manifests[STAGES[0]].started_at
    if layers:
        known = against_changes(spark, context, own, layers, listed_from)
    else:
        known = against_all(spark, context, own, listed_from)
    folders = {name: context.mark.stage_folder(STAGE, name) for name in _ROW_GROUPS}
    parts = _judged(spark, context, own, known.objects, folders)
    parts[MISSING] = []
    if known.missing is not None:
        gone = {MISSING: folders[MISSING]}
        parts |= write(_missing(known.missing), context.workspace, gone, SCHEMA, summarise=_Summary.of(context))
    parts = _without_reuploads(spark, context, parts, folders)
    text = _TextLists(context.workspace, folders[STAGE], f"{context.mark.folder}/{TEXT_FOLDER}")
    # People take the folder as a whole, and an attempt that was broken off may have named what is staged by now.
    remove_leftovers(context.workspace, text.target)
    lists = run_tasks(spark, parts[STAGE], text.write)
    facts = _facts(parts, manifests, known.learnt, sorted(each["list"] for each in lists))
    if parts[STAGE]:
        facts["prefixes"] = shape.largest_prefixes(spark, _sources(context, folders[STAGE], parts[STAGE]))
    if facts["missing"]:
        missing = read(spark, context.workspace, folders[MISSING], parts[MISSING], SCHEMA, ["address"])
        facts["missing_paths"] = missing_paths(spark, context, missing, known.holding())
    return StageOutput(parts | {LEARNT: known.learnt}, facts | {"previous": _previous_facts(context)})


def _judged(
    spark: SparkSession, context: MarkContext, own: Layer, objects: Mapped, folders: Mapping[str, str]
) -> dict[str, list[Part]]:
    """The objects in parts, by what keeps them."""
    keepers = (
        _keeper(spark, own, STAGED, uncommitted_addresses.STAGE, "", uncommitted_addresses.SCHEMA),
        _keeper(spark, own, HELD, range_reading.STAGE, committed_addresses.HELD, ROWS_SCHEMA),
    )
    rows = with_since(spark, context, objects, own.manifests[STAGES[2]].finished_at)
    for keeper in keepers:
        rows = rows if keeper.fits else keeper.join(rows)
    return write(
        rows,
        context.workspace,
        {name: folders[name] for name in (STAGE, KEPT)},
        SCHEMA,
        prepare=Judge.of(context, xid_times, keepers),
        split=_split,
        summarise=_Summary.of(context),
    )


def _keeper(spark: SparkSession, own: Layer, reason: str, stage: str, dataset: str, schema: pa.Schema) -> Keeper:
    wanted = own.wanted(stage, dataset, columns=("address",), keys=by_address)
    return Keeper(reason, wanted, lambda: own.frame(spark, stage, dataset, schema))


def _without_reuploads(
    spark: SparkSession, context: MarkContext, parts: dict[str, list[Part]], folders: Mapping[str, str]
) -> dict[str, list[Part]]:
    """The parts, after moving identical re-uploads that a branch shows from the expired rows to the kept ones.

    Only to say what is garbage: the sweep's look finds them again, so a server that cannot answer is no failure here.
    """
    from pyspark.sql import functions as F

    if context.namespace.is_local or not parts[STAGE]:
        return parts
    planned = scan(spark, _sources(context, folders[STAGE], parts[STAGE]), PLANNED, None)
    heads = heads_of_mark(spark, context, context.mark.stage_folder(STAGE, "suspects"))
    try:
        found = find_suspects(spark, context, heads, planned, context.level)
    except ServerError as error:
        context.say(f"{STAGE}: identical re-uploads are left to the sweep ({error})")
        return parts
    if found is None:
        return parts
    shown = found.where(F.col("verdict") == RESCUED).select("address")
    expired = read(spark, context.workspace, folders[STAGE], parts[STAGE], SCHEMA)
    moved = expired.join(shown.withColumn("shown", F.lit(True)), "address", "left").withColumn(
        "reason", F.when(F.col("shown"), STAGED).otherwise(F.col("reason"))
    )
    again = write(
        moved.select(*SCHEMA.names),
        context.workspace,
        {name: folders[name] for name in (STAGE, KEPT)},
        SCHEMA,
        split=_split,
        summarise=_Summary.of(context),
    )
    return {**parts, STAGE: again[STAGE], KEPT: [*parts[KEPT], *again[KEPT]]}


def _sources(context: MarkContext, folder: str, parts: Sequence[Part]) -> list[Source]:
    return sources_of(context.workspace, folder, parts, context.header.mark_id)


def _previous_facts(context: MarkContext) -> dict[str, Any] | None:
    """What the guards compare this mark with: the mark before, or what that one was compared with in vain.

    A mark that had shrunk and that nobody accepted must not become the measure of the next one.
    """
    before = previous_mark(context)
    if before is None:
        return None
    facts = before.require(STAGE).facts
    earlier: dict[str, Any] | None = facts.get("previous")
    if earlier and shrunk(earlier[STAGE], facts, context.level) and not _was_swept(before):
        return earlier
    return {
        "mark_id": before.mark_id,
        STAGE: {group: facts[group] for group in ("listed", "committed", "uncommitted", "expired")},
    }


def _was_swept(mark: MarkArtifacts) -> bool:
    return any(level.prefixes for level in mark.store.list_level(f"{mark.folder}/sweeps/"))


def _missing(addresses: DataFrame) -> DataFrame:
    """Live addresses that the store lacks, shaped like the other rows."""
    from pyspark.sql import functions as F

    return addresses.select(
        "address",
        F.lit(0).cast("long").alias("size"),
        moment(0).alias("last_modified"),
        F.lit(None).cast("string").alias("etag"),
        F.lit(MISSING).alias("reason"),
        moment(0).alias("since"),
    )


def _split(table: pa.Table) -> dict[str, pa.Table]:
    expired = pc.equal(table["reason"], UNREFERENCED)
    return {STAGE: table.filter(expired), KEPT: table.filter(pc.invert(expired))}


@dataclass(frozen=True)
class _Summary:
    """Counts the rows of a part by reason, and judges once more, apart from Spark, that each expired row may go."""

    namespace: Namespace
    cutoff: float
    now: float  # unix seconds
    confirmed: float  # what is unreferenced at least since then may be swept now

    @classmethod
    def of(cls, context: MarkContext) -> _Summary:
        now = clock.now().timestamp()
        return cls(context.namespace, context.header.cutoff, now, now - context.level.gap.total_seconds())

    def __call__(self, table: pa.Table) -> dict[str, int]:
        grouped = table.group_by("reason").aggregate([("size", "sum"), ("size", "count")]).to_pylist()
        found: dict[str, int] = {}
        for row in grouped:
            found[f"{row['reason']}:objects"] = row["size_count"]
            found[f"{row['reason']}:bytes"] = row["size_sum"]
        expired = table.filter(pc.equal(table["reason"], UNREFERENCED))
        old = pc.less(expired["last_modified"], instant(self.cutoff))
        fit = pc.and_(self.namespace.collectable(expired["address"]), old)
        ready = expired.filter(pc.less_equal(expired["since"], instant(self.confirmed)))
        found["confirmed:objects"] = ready.num_rows
        found["confirmed:bytes"] = pc.sum(ready["size"]).as_py() or 0
        found["violations"] = expired.num_rows - (pc.sum(fit).as_py() or 0)
        return found | shape.sums(expired, self.now)


def _facts(
    parts: Mapping[str, list[Part]], manifests: Mapping[str, Manifest], learnt: Sequence[Part], lists: list[str]
) -> dict[str, Any]:
    listed = manifests["namespace_listing"].facts
    sums: dict[str, int] = {}
    for part in (part for dataset in parts.values() for part in dataset):
        for name, value in part.sums.items():
            sums[name] = sums.get(name, 0) + value

    def of(reason: str) -> dict[str, int]:
        return {"objects": sums.get(f"{reason}:objects", 0), "bytes": sums.get(f"{reason}:bytes", 0)}

    groups = {
        "expired": of(UNREFERENCED),
        "uncommitted": of(STAGED),
        "young": of(YOUNG),
        "foreign": of(FOREIGN),
    }
    everything = {
        "objects": listed["objects"] + sum(part.rows for part in learnt),
        "bytes": listed["bytes"] + sum(part.sums["bytes"] for part in learnt),
    }
    kept = {name: everything[name] - sum(group[name] for group in groups.values()) for name in ("objects", "bytes")}
    return {
        "listed": everything,
        "committed": kept,
        **groups,
        "confirmed": of("confirmed"),
        "missing": of(MISSING)["objects"],
        "violations": sums.get("violations", 0),
        **shape.classes(sums),
        "prefixes": [],
        "text_lists": lists,
    }


class _TextLists:
    """Writes the expired addresses, one a line, beside the parts; a picklable value that tasks carry."""

    def __init__(self, config: StoreConfig, source: str, target: str) -> None:
        self._config, self._source, self.target = config, source, target

    def write(self, part: Part) -> Iterator[Json]:
        lines: list[str] = []
        for batch in read_part(self._config, self._source, part, ["address"]):
            lines += batch.column(0).to_pylist()
        name = f"part-{uuid.uuid4().hex}.txt"
        data = "".join(f"{line}\n" for line in lines).encode()
        connect(self._config).write(f"{self.target}/{name}", data)
        yield {"list": name, "sha256": hashlib.sha256(data).hexdigest()}
