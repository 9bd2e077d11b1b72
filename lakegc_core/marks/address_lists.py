"""Lists of addresses, as lakeFS's collectors write them, and as lakegc writes them before a sweep: parquet, or CSV in
reports."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from lakegc_core.errors import CorruptFileError
from lakegc_core.store.base import StoreConfig, connect

_BREAKS = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # whatever a program may take for one

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


def list_of(part: str) -> str:
    """The name of the list of a part's addresses as text. Both names say what they hold."""
    return f"{part.removesuffix('.parquet')}.txt"


def as_lines(addresses: Iterable[str]) -> bytes:
    """Addresses as UTF-8, one a line. A line break within one is escaped: its rest must not pass for another address,
    which may be of a live object. Such a line names no object; the parts have the address as it is."""
    return "".join(f"{_BREAKS.sub(_escaped, each)}\n" for each in addresses).encode()


def _escaped(found: re.Match[str]) -> str:
    return repr(found[0])[1:-1]
