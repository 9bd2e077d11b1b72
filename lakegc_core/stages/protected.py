"""The rows by which a range protects addresses: one for each reading of each entry's address."""

from __future__ import annotations

import pyarrow as pa

from lakegc_core.namespace import Namespace

ROWS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),  # relative to the namespace
        pa.field("exact", pa.bool_(), nullable=False),  # False: a second reading of an address, protected in case
        pa.field("size", pa.int64(), nullable=False),  # bytes
        pa.field("e_tag", pa.string(), nullable=False),
    ]
)


def protected_rows(namespace: Namespace, range_id: str, entries: pa.Table) -> pa.Table:
    """What the entries of a range protect: ROWS_SCHEMA, and all further columns that `entries` has (such as `path`)."""
    keys = namespace.protected_keys(entries["address"].combine_chunks(), entries["address_type"].combine_chunks())
    columns = {"range_id": pa.repeat(range_id, keys.num_rows), "address": keys["address"], "exact": keys["exact"]}
    of_entries = entries.drop_columns(["address", "address_type"]).take(keys["index"])
    rows = pa.table(columns | {name: of_entries[name] for name in of_entries.column_names})
    extra = [rows.schema.field(name) for name in rows.column_names if name not in ROWS_SCHEMA.names]
    return rows.cast(pa.schema([*ROWS_SCHEMA, *extra]))
