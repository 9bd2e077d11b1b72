"""backup and restore: the objects that a mark would delete, copied away under their own keys, and brought back.

lakeFS needs nothing but the object under its old key: its entries still point there. Bytes are moved by `transfer`. A
restore without a backup takes the copies in quarantine, or has the store take its deletes back: `undo`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.copies import undo
from lakegc_core.copies.copied import CopyResult
from lakegc_core.copies.transfer import SCHEMA, Copied, Limits, carry_out
from lakegc_core.errors import MarkError, RefusedError
from lakegc_core.marks import quarantine, rescues
from lakegc_core.marks.artifacts import FORMAT, RESTORES, STAMP
from lakegc_core.marks.backups import (
    BACKUP,
    SAVED,
    backup_manifest,
    backup_place,
    folder_of,
    new_place,
    saved,
    source_of,
)
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.json_files import encode, sealed
from lakegc_core.marks.last_known import gone, readable_records, taken_back
from lakegc_core.marks.ledger import records_of, write_report
from lakegc_core.marks.one_copy import MISSING, OneCopy
from lakegc_core.names import Json, Stage
from lakegc_core.policy.holds import PathGlobs
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.held_paths import addresses_at
from lakegc_core.spark.tasks import Mapped, count_of, many
from lakegc_core.store.base import StoreConfig, check_bucket, connect
from lakegc_core.store.clock import ahead
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROWS_A_TASK = 2_000
_MOST_TASKS = 1_000


def backup(spark: SparkSession, context: MarkContext, place: str, limits: Limits | None = None) -> CopyResult:
    """Copy every expired object of a mark to `place` (a URI or an absolute folder), and record that it lies there.

    An object that the namespace lacks by now counts as `already_there` if the backup has it, else as `missing`: there
    is nothing to lose any more. The guard over backups wants all objects saved, though: a store that hides them answers
    the same. Of a backup that lacks few objects (`safety.may_lack`) a sweep leaves these; one that lacks more counts as
    none. MarkError if an earlier backup of the mark at this place had saved more: its list stays.
    """
    started, limits = time.monotonic(), limits or Limits()
    stage = context.mark.require(Stage.EXPIRED_ADDRESSES)
    target = writable_place(context, place)
    work = _Backup(OneCopy(context.data, target, limits.bandwidth_of_each, may_be_gone=True), context.namespace)
    with context.lease("backup"):
        had = _had(context, target, stage.digest)
        journal = DatasetFolder(target, f"{folder_of(context)}/objects")
        copied = carry_out(_spread(_expired(spark, context)), work.copy, journal, limits.parallel)
        result = CopyResult.of("backup", context, target, copied, started)
        if result.counts:
            digest = _write_manifest(context, target, copied, stage.digest, had)
            record = {"place": place, "manifest_digest": digest, "mark_digest": stage.digest}
            connect(context.workspace).write(f"{context.mark.folder}/{BACKUP}", encode(record))
    return result


@dataclass(frozen=True)
class _Backup:
    """Copies one object to its backup. An older copy saves none under a name that lakeFS never gives: who gives it may
    write over it. Under the names that lakeFS gives, what a restore brought back is younger than its copy."""

    work: OneCopy
    namespace: Namespace

    def copy(self, wanted: Json) -> Json:
        unknown: bool = self.namespace.unknown(pa.array([wanted["address"]]))[0].as_py()
        return replace(self.work, made_after=unknown).copy(wanted)


def writable_place(context: MarkContext, place: str) -> StoreConfig:
    """The place of a backup that is to be made, where a small object was written just now. StoreError if that failed:
    from here it is said once, and not by every task."""
    target = new_place(context, place)
    begun = {"begun_at": clock.now().timestamp()}
    check_bucket(connect(target))
    connect(target).write(f"{folder_of(context)}/begun.json", encode(begun))
    return target


def _place_on_record(context: MarkContext, copied: Copied) -> str:
    """The place of the mark's backup, for whom copies are missing without it; SRC if none is on record."""
    return (backup_place(context) if copied.objects.get(MISSING) else None) or "SRC"


def _had(context: MarkContext, target: StoreConfig, mark_digest: str) -> int:
    """The number of objects that the list of an earlier backup of this very mark names."""
    with suppress(MarkError):  # one that cannot be read names none
        before = backup_manifest(context, target) or {}
        return saved(before) if before.get("mark_digest") == mark_digest else 0
    return 0


def _write_manifest(context: MarkContext, target: StoreConfig, copied: Copied, mark_digest: str, had: int) -> str:
    """Write the list of what the backup holds, and return its digest. A list that named more objects (`had`) stays."""
    manifest = sealed(
        {
            "repository": context.header.repository,
            "mark_id": context.header.mark_id,
            "storage_namespace": context.header.storage_namespace,
            "mark_digest": mark_digest,
            "finished_at": clock.now().timestamp(),
            "objects": copied.objects,
            "bytes": copied.bytes,
            "parts": [asdict(part) for part in copied.journal.parts],
        }
    )
    if saved(manifest) < had:
        raise MarkError(
            f"The backup of mark {context.header.mark_id} in {target.root} had {had:,} objects, and some of them are "
            "neither there nor in the repository any more. The list of the backup stays. Find out who deletes "
            f"in {target.root}. If the backup is given up, delete {folder_of(context)}/manifest.json there."
        )
    connect(target).write(f"{folder_of(context)}/manifest.json", encode(manifest))
    return str(manifest["digest"])


def restore(
    spark: SparkSession,
    context: MarkContext,
    place: str | None = None,
    *,
    paths: Sequence[str] = (),
    chosen: Chosen | None = None,
    limits: Limits | None = None,
) -> CopyResult:
    """Bring the objects of a mark back to where lakeFS expects them; all, or those of some paths.

    `place`: of the mark's backup; None for what lies in quarantine, or the store itself keeps, of what the mark's
    sweeps deleted (`undo`).
    `paths`: globs, matched against the paths under which any commit shows an object, and against addresses; of a mark
    that was retired or has another format, against addresses alone. Nothing that lies in the namespace is overwritten.
    A backup that another tool made, without a manifest, is taken by the mark's own list. `chosen`: what a drill has
    chosen, and nothing else. MarkError if there is no such object, unless the mark's sweeps deleted nothing and all of
    it is wanted; RefusedError if the clocks differ.
    """
    started, limits = time.monotonic(), limits or Limits()
    with context.lease("restore"):
        _check_clocks(context)
        source, manifest = (context.data, None) if place is None else readable_place(context, place)
        objects = undo.deleted_objects(spark, context) if place is None else _listed(spark, context, source, manifest)
        if paths:
            objects = _chosen(spark, context, objects, paths)
        if chosen:
            objects = chosen.among(objects)
        objects = _spread(objects)
        folder = f"{context.mark.folder}/{RESTORES}/{clock.now().strftime(STAMP)}"
        quarantine.keep_on(context, context.header.mark_id)
        # Before the first copy: the next mark has to know that objects may have come back, and lists all anew.
        connect(context.workspace).write(f"{folder}/begun.json", encode({"place": source.root}))
        journal = DatasetFolder(context.workspace, folder)
        _begin_gap_anew(context, objects)
        if place is None:
            copied = undo.bring_back(context, objects, journal, limits.parallel)
        else:
            work = OneCopy(source, context.data, limits.bandwidth_of_each, sized=True, if_absent=True)
            copied = carry_out(objects, work.copy, journal, limits.parallel)
        result = replace(
            CopyResult.of("restore", context, source, copied, started),
            is_undo=place is None,
            backup=_place_on_record(context, copied) if place is None else "SRC",
        )
        whole = place is None and not paths and not chosen and undo.all_read(spark, context)
        _close_restore(spark, context, folder, copied.journal, result, whole=whole)
    if whole and not sum(result.outcomes.values()) and undo.is_swept(context):
        context.say(f"restore: the sweeps of mark {context.header.mark_id} deleted nothing: nothing has to come back")
    elif (paths or place is None) and not sum(result.outcomes.values()):
        what = "backup" if place is not None else "sweeps"
        matching = f" matches {', '.join(paths)}" if paths else " is on record"
        raise MarkError(f"No object of the {what} of mark {context.header.mark_id}{matching}.")
    return result


def _check_clocks(context: MarkContext) -> None:
    """RefusedError if the store's clock and the collector's differ by more than the guard `clocks` allows. Later marks
    compare when a restore was with when they listed, and since when an object has been unreferenced: one that seems
    older than it is may hide what it brought back, and let it be swept again without the gap."""
    skew, limit = ahead(context.data), context.level.clock_skew.total_seconds()
    if abs(skew) > limit:
        raise RefusedError(
            f"The store's clock and this machine's differ by {skew:.0f} s, the limit is {limit:.0f} s: later marks "
            "would not know when this restore was, and a sweep could delete again at once what it brings back. Nothing "
            "was brought back. Set the clocks right (NTP), and run the same command again."
        )


def _begin_gap_anew(context: MarkContext, objects: DataFrame) -> None:
    """Put the objects into the journal of rescues. An object whose delete the store takes back is as old as ever, and
    the mark after this one would take it for unreferenced since long; a copy is young, and a mark that listed before
    names it by its old date. Before they come back: a restore may be killed.
    """
    rescues.rescue(context, Mapped(objects.select("address"), pa.schema([SCHEMA.field("address")])))


def _close_restore(
    spark: SparkSession, context: MarkContext, folder: str, journal: Dataset, result: CopyResult, *, whole: bool
) -> None:
    """Write what was brought back, and what sweeps had counted of it. From here on the ledger believes the journal.
    `whole`: it was to bring back all that the mark's sweeps deleted."""
    records = readable_records(spark, records_of(context))  # not this one, which has no report yet
    rows = journal.frame(spark)
    back = rows.where(rows["outcome"].isin(*SAVED)).select("address").distinct()
    found = gone(spark, records, journal.keys()).as_frame()
    report = {
        "place": result.place,
        "whole": whole,
        "outcomes": dict(result.outcomes),
        "bytes": result.bytes,
        "taken_back": taken_back(found.join(many(back), "address")),
        "finished_at": clock.now().timestamp(),
    }
    write_report(connect(context.workspace), folder, report)


def _expired(spark: SparkSession, context: MarkContext) -> DataFrame:
    return context.mark.dataset(Stage.EXPIRED_ADDRESSES, FINDINGS_SCHEMA).frame(spark, "address", "size")


def readable_place(context: MarkContext, place: str) -> tuple[StoreConfig, Json | None]:
    """The place of a backup that is to be restored, and its manifest: `source_of`. MarkError if nothing says which
    objects belong to it, or if it is another mark's."""
    source, manifest = source_of(context, place)
    reads = _reads(context)
    if manifest is None and not reads:
        raise MarkError(
            f"Mark {context.header.mark_id} was retired, or another version of lakegc made it, and {source.root} holds "
            "no list of what belongs to its backup. Copy the objects back by their keys."
        )
    if manifest is not None and reads:  # of other marks only the namespace is known
        _check_mark(context, source, manifest["mark_digest"])
    return source, manifest


def _listed(spark: SparkSession, context: MarkContext, source: StoreConfig, manifest: Json | None) -> DataFrame:
    """The objects of a backup: of the mark itself, where no manifest names them."""
    if manifest is None:
        return _expired(spark, context)
    parts = [Part.from_json(part) for part in manifest["parts"]]
    rows = DatasetFolder(source, f"{folder_of(context)}/objects").dataset("", parts, SCHEMA).frame(spark)
    return rows.where(rows["outcome"].isin(*SAVED)).select("address", "size")


def _reads(context: MarkContext) -> bool:
    """False of a mark that was retired, or that a version with other artifacts made: only its header, its journals and
    its backup are believed."""
    return context.header.format == FORMAT and context.mark.header() is not None


def _check_mark(context: MarkContext, source: StoreConfig, mark_digest: str) -> None:
    if mark_digest != context.mark.require(Stage.EXPIRED_ADDRESSES).digest:
        raise MarkError(
            f"The backup in {source.root}/{folder_of(context)} belongs to another mark than this one of the same id. "
            "Look at what lies there. Without its manifest.json, restore takes the list of this mark."
        )


def _chosen(spark: SparkSession, context: MarkContext, objects: DataFrame, paths: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, StructField, StructType

    globs = PathGlobs(tuple(paths))

    def meant(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column("meant", globs.any(batch["address"]))

    wider = StructType([*objects.schema.fields, StructField("meant", BooleanType())])
    by_address = objects.mapInArrow(meant, wider)
    if not _reads(context):
        context.say(
            f"restore: under which paths commits showed the objects of mark {context.header.mark_id} is not known any "
            "more. Globs are matched against addresses alone"
        )
        return by_address.where("meant").drop("meant")
    named = addresses_at(spark, context, paths).withColumn("named", F.lit(True))
    found = by_address.join(many(named), "address", "left").where("meant or named is not null")
    return found.drop("meant", "named")


def _spread(objects: DataFrame) -> DataFrame:
    """The objects in enough partitions to keep every task busy, and few enough to be worth a task."""
    count = count_of(objects)
    least = min(2 * spark_width(objects.sparkSession), count)
    return objects.repartition(max(1, least, min(_MOST_TASKS, count // _ROWS_A_TASK)))
