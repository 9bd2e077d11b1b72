"""Of what ages and sizes the expired objects are, and where the most bytes of them lie: for people, decides nothing.

Ages and sizes are counted in fixed classes while parts are written, so that they cost no pass of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakegc_core.spark import clear_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


def largest_prefixes(expired: DataFrame) -> list[dict[str, Any]]:
    """The folders with the most expired bytes: {prefix, objects, bytes}, at most PREFIXES of them."""
    from pyspark.sql import functions as F

    prefix = F.regexp_extract("address", r"^(?:.*/)?", 0)
    grouped = expired.groupBy(prefix.alias("prefix")).agg(F.count("*").alias("objects"), F.sum("size").alias("bytes"))
    with clear_errors():
        rows: Sequence[Any] = grouped.orderBy(F.desc("bytes"), "prefix").limit(PREFIXES).collect()
    return [{"prefix": row["prefix"], "objects": row["objects"], "bytes": row["bytes"]} for row in rows]
