"""The rows in which a mark says what it found of objects that no commit refers to."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

FINDINGS_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string(), nullable=True),
        pa.field("reason", pa.string(), nullable=False),  # expired: unreferenced; kept: see `names.Reason`
        pa.field("since", pa.timestamp("us", tz="UTC"), nullable=False),  # unreferenced at least since then
    ]
)
KEPT = "kept"
"""Dataset of objects that no commit refers to, and that something else keeps."""
MISSING = "missing"
"""Dataset of live objects that the store lacks."""
HELD = "held"
"""Dataset of committed_addresses: addresses that holds by path keep, of commits that nothing else retains."""
NEIGHBOURS = "neighbours"
"""Dataset of addresses to which other repositories refer."""
MISSTATED = "misstated"
"""Dataset of addresses whose entry claims a size that no listed object has: the object has another one, or was not
listed yet."""
MISSTATED_SCHEMA = pa.schema([FINDINGS_SCHEMA.field("address"), FINDINGS_SCHEMA.field("size")])


def instant(seconds: float) -> pa.Scalar:
    """A moment (unix seconds) as a value of Arrow."""
    return pa.scalar(datetime.fromtimestamp(seconds, UTC), pa.timestamp("us", tz="UTC"))
