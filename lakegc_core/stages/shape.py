"""Of what ages and sizes the expired objects are, and where the most bytes of them lie: for people, decides nothing.

Ages and sizes are counted in fixed classes while parts are written, so that they cost no pass of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.hashing import hash_strings
from lakegc_core.spark import run_on_rows
from lakegc_core.stages.gathering import HASH, Feed, gather, partitions_for, rows_in
from lakegc_core.stages.hash_scan import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGES = (("under a week", 7), ("1–4 weeks", 28), ("1–3 months", 90), ("3–12 months", 365), ("1–2 years", 730))
"""Classes of age: a name, and the days below which an object belongs to it. What is older is in OLDEST."""
OLDEST = "over 2 years"
SIZES = (
    *(("under 1 kB", 10**3), ("1–100 kB", 10**5), ("0.1–1 MB", 10**6), ("1–10 MB", 10**7)),
    *(("10–100 MB", 10**8), ("0.1–1 GB", 10**9)),
)
"""Classes of size: a name, and the bytes below which an object belongs to it. What is larger is in LARGEST."""
LARGEST = "1 GB and more"
PREFIXES = 10
"""How many of the largest prefixes are named."""

_CLASSES = {
    "age": ([days for _, days in AGES], [*(name for name, _ in AGES), OLDEST]),
    "size": ([size for _, size in SIZES], [*(name for name, _ in SIZES), LARGEST]),
}
_DAY = 86_400
_LARGEST = pa.schema([("prefix", pa.string()), ("objects", pa.int64()), ("bytes", pa.int64())])
_FOLDERS = pa.schema([HASH, *_LARGEST])


def sums(expired: pa.Table, now: float) -> dict[str, int]:
    """Objects and bytes by class, of rows with `size` and `last_modified`: sums that may be added up over parts."""
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
    return found


def classes(total: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """`ages` and `sizes`, each a list of {name, objects, bytes}, of all classes in order."""
    return {
        f"{kind}s": [
            {
                "name": name,
                "objects": total.get(f"{kind}:{number}:objects", 0),
                "bytes": total.get(f"{kind}:{number}:bytes", 0),
            }
            for number, name in enumerate(names)
        ]
        for kind, (_, names) in _CLASSES.items()
    }


def largest_prefixes(spark: SparkSession, expired: Sequence[Source]) -> list[dict[str, Any]]:
    """The folders with the most expired bytes: {prefix, objects, bytes}, at most PREFIXES of them.

    `expired`: parts with address and size.
    """
    feeds = [Feed(source, ("address", "size"), _folders) for source in expired]
    largest = gather(spark, feeds, _FOLDERS, _largest, _LARGEST, partitions_for(rows_in(feeds)))
    rows = run_on_rows(largest, lambda batches: (row for batch in batches for row in batch.to_pylist()))
    return sorted(rows, key=lambda row: (-row["bytes"], row["prefix"]))[:PREFIXES]


def _folders(rows: pa.RecordBatch) -> Mapping[str, Any]:
    prefixes = pc.replace_substring_regex(rows["address"], "[^/]*$", "")
    found = _summed(pa.table({"prefix": prefixes, "objects": pa.repeat(1, len(rows)), "bytes": rows["size"]}))
    columns = {name: found[name].combine_chunks() for name in found.column_names}
    return columns | {"hash": hash_strings(found["prefix"])}


def _largest(rows: pa.Table) -> Iterator[pa.Table]:
    yield _summed(rows).sort_by([("bytes", "descending"), ("prefix", "ascending")]).slice(0, PREFIXES)


def _summed(rows: pa.Table) -> pa.Table:
    found = rows.group_by("prefix").aggregate([("objects", "sum"), ("bytes", "sum")])
    return found.rename_columns({"objects_sum": "objects", "bytes_sum": "bytes"}).combine_chunks()
