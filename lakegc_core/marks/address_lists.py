"""Lists of addresses as lakeFS's collectors write them, and lakegc before a sweep: parquet, or CSV in reports."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from lakegc_core.errors import CorruptFileError
from lakegc_core.store.base import StoreConfig, connect

ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])


def read_list(config: StoreConfig, key: str) -> Iterator[pa.RecordBatch]:
    """The addresses in a file, in rows of ADDRESSES. CorruptFileError if it is no list; ObjectNotFoundError if it is
    gone."""
    data = connect(config).read(key)
    try:
        if key.endswith(".csv"):
            table = pc.read_csv(io.BytesIO(data), convert_options=pc.ConvertOptions(column_types=ADDRESSES))
        else:
            table = pq.read_table(pa.BufferReader(data))
        column = table.column("address").cast(pa.string())
    except (KeyError, ValueError, pa.ArrowInvalid) as error:
        raise CorruptFileError(f"{key} is no list of addresses: {type(error).__name__}. It is not swept.") from None
    if column.null_count:
        raise CorruptFileError(f"{key} holds an address that is null. It is not swept.")
    yield from pa.Table.from_arrays([column], schema=ADDRESSES).to_batches()
