"""The objects of a drill: which garbage it takes, how each reads before the delete, and what became of it.

Objects are read whole, one after another, on the driver: a drill takes few.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core import clock
from lakegc_core.copies import undo
from lakegc_core.errors import LakegcError, ObjectNotFoundError, RefusedError, StoreError
from lakegc_core.judging.since import with_later_findings
from lakegc_core.marks.backups import backed_up
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.drills import BACKUP
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.names import NO_ANSWER, STILL_THERE, Json, Outcome
from lakegc_core.past.origins import garbage_with_origins
from lakegc_core.policy.safety import DRILL_BYTES, DRILL_OBJECTS
from lakegc_core.spark.tasks import Mapped, clear_errors, many, moment
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.sweep.chosen import Chosen
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.sweep.what_counts import as_swept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BACK, STAYED, MISSING, DIFFERENT = "back", "stayed", "missing", "different"
"""Outcomes of the objects of a drill: it was deleted and reads as before; it was not deleted and reads as before; it is
not there; other bytes lie there, or it cannot be read."""

_READY = pa.schema(
    [
        *(FINDINGS_SCHEMA.field(name) for name in ("address", "size", "last_modified", "since")),
        pa.field("cause", pa.string()),
    ]
)
_IN_MEMORY = 16 << 20  # bytes of an object that stay out of a temporary file
_MOST_OF_A_KIND = 1_000
_SPARE = 20  # for each object that is wanted, so many are looked at: some may be too large, or gone


@dataclass(frozen=True)
class Wanted:
    """The most that a drill takes: objects, and bytes, which are read before the delete and after it."""

    objects: int = DRILL_OBJECTS
    bytes: int = DRILL_BYTES


def choose(spark: SparkSession, context: MarkContext, wanted: Wanted, way: str) -> list[Json]:
    """Objects that a sweep could delete now, with their digests: as many causes and sizes as there are, by hash. What
    cannot be read, or what the backup lacks by which it would come back, is not among them. RefusedError if there is
    none."""
    record = SweepRecord(spark, context, dry_run=False)
    name = f"{context.header.repository} {context.header.mark_id}"
    if record.is_begun:
        raise RefusedError(f"A sweep of the mark broke off. Finish it, or close it: lakegc sweep {name} --close.")
    with clear_errors():
        ready = _spread(spark, context, record)
        if way == BACKUP:
            ready = ready.join(many(backed_up(spark, context)), "address", "left_semi").orderBy("rank", "hash")
        rows = ready.limit(_SPARE * wanted.objects).select("address", "size", "cause").collect()
    found, left, unread = list[Json](), wanted.bytes, ""
    for row in rows:
        if len(found) < wanted.objects and row["size"] <= left:
            try:
                told = _digest(context.data, row["address"])
            except StoreError as error:  # in an archive class, or under a customer's key
                unread = f" Some cannot be read: {error}"
                continue
            if told is not None and told[0] == row["size"]:  # else somebody else has deleted or replaced it
                found.append({**row.asDict(), "sha256": told[1]})
                left -= row["size"]
    if not found:
        raise RefusedError(
            f"Nothing was deleted: of the garbage of mark {context.header.mark_id} that no sweep has deleted yet, "
            f"nothing is ready and of at most {wanted.bytes:,} bytes. `lakegc review {name}` says what was deleted, "
            "and when the first of the rest may be; --read-most allows larger objects. What was brought back, a new "
            f"mark finds: lakegc mark {context.header.repository}.{unread}"
        )
    context.say(f"drill: {len(found):,} objects of {wanted.bytes - left:,} bytes were read, and are deleted now")
    return found


def _spread(spark: SparkSession, context: MarkContext, record: SweepRecord) -> DataFrame:
    """The objects that a sweep could delete now: address, size, cause (null if not known), and rank and hash, by which
    they are ordered: those first that differ in cause and size."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    garbage, strict = garbage_with_origins(spark, context), as_swept(context)
    gap = strict.level.gap
    objects = record.unfinished(Mapped(garbage.select(*_READY.names), _READY))
    ready = (with_later_findings(spark, context, objects) if gap else objects).as_frame()
    until = clock.now().timestamp() - gap.total_seconds()
    ready = ready.where((ready["since"] <= moment(until)) & (ready["last_modified"] < moment(strict.header.cutoff)))
    by_hash = F.xxhash64("address", F.lit(clock.now().isoformat()))
    kind = Window.partitionBy("cause", F.expr("int(log10(1 + size))")).orderBy(by_hash)
    ranked = ready.select("address", "size", "cause", F.row_number().over(kind).alias("rank"), by_hash.alias("hash"))
    # So few of each kind that Spark drops the others before it moves them (`windowGroupLimitThreshold`).
    few = ranked.where(ranked["rank"] <= _MOST_OF_A_KIND)
    return few.orderBy("rank", "hash")


def _digest(config: StoreConfig, address: str) -> tuple[int, str] | None:
    """Bytes and SHA-256 of an object as it reads now; None if it is not there."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        try:
            connect(config).download(address, file)
        except ObjectNotFoundError:
            return None
        size = file.tell()
        file.seek(0)
        found = hashlib.sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
    return size, found.hexdigest()


def told_by_sweep(spark: SparkSession, context: MarkContext, chosen: Chosen, sweep: int) -> dict[str, set[str]]:
    """The outcomes that the journal of a drill's sweep, by its number, has of the objects of the drill."""
    with clear_errors():
        rows = chosen.among(undo.journals_of(spark, context, sweep)).select("address", "outcome").distinct().collect()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["address"], set()).add(row["outcome"])
    return found


def compared(context: MarkContext, each: Json, told: set[str], problems: Mapping[str, str]) -> Json:
    """An object of a drill with its outcome, as it reads now."""
    address = each["address"]
    try:
        now = _digest(context.data, address)
    except LakegcError as error:  # of this object alone: a drill that waits for it would stop all sweeps
        unread: Json = {"outcome": DIFFERENT, "problem": f"it cannot be read: {str(error)[:500]}"}
        return each | unread | {"sweep": sorted(told)}
    problem = None
    if now == (each["size"], each["sha256"]):
        # Gone without an answer that is on record is deleted, as the totals of a sweep have it.
        deleted = Outcome.DELETED in told or {NO_ANSWER, Outcome.ALREADY_GONE} <= told
        outcome = BACK if deleted and STILL_THERE not in told else STAYED
    else:
        outcome = MISSING if now is None else DIFFERENT
        found = "it is not there" if now is None else f"{now[0]:,} bytes with SHA-256 {now[1]} lie there"
        problem = problems.get(address, found)
    return each | {"outcome": outcome, "problem": problem, "sweep": sorted(told)}
