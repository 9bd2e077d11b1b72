"""The rows by which a range protects addresses: one for each reading of each entry's address. A reading is one way in
which lakeFS, a client or a store may understand it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakegc_core.policy.namespace import Namespace

ENTRIES_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),  # relative to the namespace
        pa.field("exact", pa.bool_(), nullable=False),  # True: the likely reading, whose object must exist
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("e_tag", pa.string(), nullable=False),
    ]
)


def protected_rows(
    namespace: Namespace, range_ids: Sequence[str], counts: Sequence[int], entries: pa.Table
) -> pa.Table:
    """Rows for the addresses that entries of ranges protect: ENTRIES_SCHEMA, and all further columns of `entries`, such
    as `path`.

    `counts`: the number of entries of each range, one range after the other.
    """
    keys = namespace.protected_keys(entries["address"].combine_chunks(), entries["address_type"].combine_chunks())
    owner = np.repeat(np.arange(len(range_ids)), counts)[keys["index"].to_numpy()]
    columns = {
        "range_id": pa.array(range_ids).take(pa.array(owner)),
        "address": keys["address"],
        "exact": keys["exact"],
    }
    of_entries = entries.drop_columns(["address", "address_type"]).take(keys["index"])
    rows = pa.table(columns | {name: of_entries[name] for name in of_entries.column_names})
    extra = [rows.schema.field(name) for name in rows.column_names if name not in ENTRIES_SCHEMA.names]
    return rows.cast(pa.schema([*ENTRIES_SCHEMA, *extra]))
