"""Figures for people: the ages and sizes of expired objects, the folders in which they and strange objects take the
most bytes, when the first of the young ones is old enough, since when the first of the expired is unreferenced. They
decide nothing.

Ages and sizes are counted in fixed classes, and the first of the expired is found, while parts are written: they cost
no pass of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import unit_of
from lakegc_core.judging.reasons import Names
from lakegc_core.names import Json, Reason
from lakegc_core.policy.facts import AgeOrSize, Amount, Folder
from lakegc_core.policy.namespace import UPLOAD_PART
from lakegc_core.policy.xids import told_until, xid_times
from lakegc_core.spark.tasks import run_on_rows
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import HASH, KIND, gather, partitions_for, rows_in
from lakegc_core.tables.hashing import hash_strings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGES = (("under a week", 7), ("1–4 weeks", 28), ("1–3 months", 90), ("3–12 months", 365), ("1–2 years", 730))
"""Classes of age: a name, and the days below which an object belongs to it. What is older is in OVER_ALL_AGES."""
OVER_ALL_AGES = "over 2 years"
SIZES = (
    *(("under 1 kB", 10**3), ("1–100 kB", 10**5), ("0.1–1 MB", 10**6), ("1–10 MB", 10**7)),
    *(("10–100 MB", 10**8), ("0.1–1 GB", 10**9)),
)
"""Classes of size: a name, and the bytes below which an object belongs to it. What is larger is in OVER_ALL_SIZES."""
OVER_ALL_SIZES = "1 GB and more"
PREFIXES = 10
"""At most this many of the largest prefixes are named."""

_CLASSES = {
    "age": ([days for _, days in AGES], [*(name for name, _ in AGES), OVER_ALL_AGES]),
    "size": ([size for _, size in SIZES], [*(name for name, _ in SIZES), OVER_ALL_SIZES]),
}
_DAY = 86_400
_SINCE = "since:"
"""The beginning of the name of a total: the least `since` of a table follows, in microseconds."""
_UNCONFIRMED = "unconfirmed:"
"""The beginning of the names of totals of the objects that are unreferenced since a moment, which follows, in
microseconds."""
_EXPIRED, _STRANGE = range(2)
_ROWS = pa.schema([KIND, ("prefix", pa.string()), ("objects", pa.int64()), ("bytes", pa.int64())])
_FOLDERS = pa.schema([HASH, *_ROWS])


def sums(expired: pa.Table, now: float) -> dict[str, int]:
    """Objects and bytes by class, and the least `since`, of rows with `size`, `last_modified` and `since`: sums that
    may be added up over parts."""
    sizes = expired["size"].to_numpy()
    days = (now - expired["last_modified"].cast(pa.int64()).to_numpy() / 1e6) / _DAY
    found: dict[str, int] = {}
    for kind, values in (("age", days), ("size", sizes)):
        limits, names = _CLASSES[kind]
        classes = np.digitize(values, limits)
        counts = np.bincount(classes, minlength=len(names))
        for number in np.flatnonzero(counts).tolist():
            found[f"{kind}:{number}:objects"] = int(counts[number])
            found[f"{kind}:{number}:bytes"] = int(sizes[classes == number].sum())
    if expired.num_rows:
        # Totals of parts are added up, so the least one is a name. There are as many as marks that began a series.
        found[f"{_SINCE}{pc.min(expired['since'].cast(pa.int64())).as_py()}"] = 1
    return found


def first_since(total: Mapping[str, int]) -> float | None:
    """Since when the first of the expired objects is unreferenced, unix seconds; None if there are none."""
    found = (int(name.removeprefix(_SINCE)) for name in total if name.startswith(_SINCE))
    first = min(found, default=None)
    return None if first is None else first / 1e6


def unconfirmed_sums(expired: pa.Table) -> dict[str, int]:
    """Objects and bytes by `since`, of rows with `size` and `since`: sums that may be added up over parts. There are as
    many moments as marks began within a gap."""
    rows = pa.table({"size": expired["size"], "since": expired["since"].cast(pa.int64())})
    found: dict[str, int] = {}
    for row in rows.group_by("since").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        found[f"{_UNCONFIRMED}{row['since']}:objects"] = row["size_count"]
        found[f"{_UNCONFIRMED}{row['since']}:bytes"] = row["size_sum"]
    return found


def unconfirmed(total: Mapping[str, int]) -> tuple[tuple[float, Amount], ...]:
    """The expired objects that `unconfirmed_sums` counted, by `since`."""
    moments = sorted({int(name.split(":")[1]) for name in total if name.startswith(_UNCONFIRMED)})
    return tuple(
        (at / 1e6, Amount(total[f"{_UNCONFIRMED}{at}:objects"], total[f"{_UNCONFIRMED}{at}:bytes"])) for at in moments
    )


def by_class(total: Mapping[str, int], kind: str) -> tuple[AgeOrSize, ...]:
    """The expired objects by `age` or by `size`: all classes in order."""
    return tuple(
        AgeOrSize(name, total.get(f"{kind}:{number}:objects", 0), total.get(f"{kind}:{number}:bytes", 0))
        for number, name in enumerate(_CLASSES[kind][1])
    )


def largest(
    spark: SparkSession, expired: Dataset, strange: Dataset, reasons: Sequence[str]
) -> tuple[tuple[Folder, ...], tuple[Folder, ...]]:
    """The folders with the most expired bytes, and the units with the most bytes of objects that are kept for one of
    `reasons`; at most PREFIXES of each.

    `expired`: rows with address and size; `strange`: with reason too.
    """
    feeds = expired.feeds("address", "size", make=_folders)
    feeds += strange.feeds("address", "size", "reason", make=partial(_unit_rows, tuple(reasons)))
    made = gather(spark, feeds, _FOLDERS, _top_of, _ROWS, partitions_for(rows_in(feeds)))
    rows = run_on_rows(made, lambda batches: (row for batch in batches for row in batch.to_pylist())) if feeds else []
    rows = sorted(rows, key=lambda row: (-row["bytes"], row["prefix"]))
    expired_folders, strange_units = (
        tuple(Folder(row["prefix"], row["objects"], row["bytes"]) for row in rows if row["kind"] == kind)[:PREFIXES]
        for kind in (_EXPIRED, _STRANGE)
    )
    return expired_folders, strange_units


def young_until(
    spark: SparkSession,
    kept: Dataset,
    latest: float,
    min_age: float,
    part_age: float = 0.0,
    unknown: Names | None = None,
) -> float | None:
    """When the first object that is kept for being too young is old enough, unix seconds; None if none is.

    `latest`: a name that tells a later time tells nothing, unix seconds. `min_age`, and `part_age`, by which parts of
    uploads have to be older: seconds. `unknown`: finds names of objects that are kept however old they are; None if
    there are none.
    """
    some = tuple(each for each in kept.sources if each.part.sums.get(f"{Reason.YOUNG}:objects"))
    if not some:
        return None
    rows = Dataset(kept.schema, some).mapped(spark, "address", "last_modified", "reason")
    told = run_on_rows(rows, partial(_first_young, latest, part_age, unknown))
    return min((float(found["first"]) + min_age for found in told), default=None)


def _first_young(
    latest: float, part_age: float, unknown: Names | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[Json]:
    """An object's age counts from the later of the store's date (of parts of uploads: plus `part_age`) and the time in
    its name."""
    for batch in batches:
        young = batch.filter(pc.equal(batch["reason"], Reason.YOUNG))
        if unknown is not None:
            young = young.filter(pc.invert(unknown(young["address"])))
        if young.num_rows:
            part = pc.match_substring_regex(young["address"], UPLOAD_PART).to_numpy(zero_copy_only=False)
            modified = young["last_modified"].cast(pa.int64()).to_numpy() / 1e6 + part_age * part
            named = told_until(xid_times(young["address"]), latest)
            yield {"first": float(np.fmax(modified, named).min())}


def _folders(rows: pa.RecordBatch) -> Mapping[str, Any]:
    return _rows_of(_EXPIRED, pc.replace_substring_regex(rows["address"], "[^/]*$", ""), rows["size"])


def _unit_rows(reasons: tuple[str, ...], rows: pa.RecordBatch) -> Mapping[str, Any]:
    """The units of objects that are kept for one of `reasons`, with their objects and bytes."""
    rows = rows.filter(pc.is_in(rows["reason"], pa.array(reasons, pa.string())))
    return _rows_of(_STRANGE, unit_of(rows["address"]), rows["size"])


def _rows_of(kind: int, prefixes: pa.Array, sizes: pa.Array) -> Mapping[str, Any]:
    columns = {"kind": pa.repeat(pa.scalar(kind, pa.int8()), len(sizes)), "prefix": prefixes}
    found = _summed(pa.table({**columns, "objects": pa.repeat(1, len(sizes)), "bytes": sizes}))
    return {name: found[name].combine_chunks() for name in found.column_names} | {"hash": hash_strings(found["prefix"])}


def _top_of(rows: pa.Table) -> Iterator[pa.Table]:
    found = _summed(rows).sort_by([("bytes", "descending"), ("prefix", "ascending")])
    for kind in (_EXPIRED, _STRANGE):
        yield found.filter(pc.equal(found["kind"], kind)).slice(0, PREFIXES)


def _summed(rows: pa.Table) -> pa.Table:
    found = rows.group_by(["kind", "prefix"]).aggregate([("objects", "sum"), ("bytes", "sum")])
    return found.rename_columns({"objects_sum": "objects", "bytes_sum": "bytes"}).combine_chunks()
