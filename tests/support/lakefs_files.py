"""Files of lakeFS that several tests read: the published one, small recorded ones, values written by hand."""

from __future__ import annotations

import pyarrow as pa

from lakegc_core.lakefs.files import graveler
from lakegc_core.lakefs.files.identity import identities
from lakegc_core.lakefs.files.sstable import Tables, read_tables
from tests.support.plain_tables import (
    TableWriter,
    bytes_field,
    entry_value,
    frame,
    golden_files,
    int_field,
    read_plainly,
)

FIXTURE = bytes.fromhex(
    """
00119701612f6f6e652e747874010000000000000040233a112466cf6c545014c0f116dd54daecb03bd1f839af6af5c16f87a6b06e10e8010a2e6461
74612f67303030303030303030303030303030303030302f633030303030303030303030303030303030303012080880e2cfaa061005180b22203565
6236336262626530316565656430393363623232626238663561636463332a060a016b12017630013a0a746578742f706c61696e020f5c74776f2e74
7874010000000000000040b21f58f6b6bc4bfc6e2621edd4076e51c73c707a96479922eb8722450543094e740a0c73333a2f2f6f746865722f781206
0881e2cfaa06222064343164386364393866303062323034653938303039393865636638343237653002000000000100000000337d06830009036211
ffffffffffffff00a202000000000100000000bc48e084000501636f756e7432001403657374696d617465645f73697a655f62797465733330300007
096d61785f6b6579612f74776f2e747874010609696e5f6b6579612f6f6e652e747874002404726f636b7364622e626c6f636b2e62617365642e7461
626c652e696e6465782e7479706500000000080b016e756d2e656e7472696573020004067479706572616e676573000000000100000000104f516600
1204726f636b7364622e70726f70657274696573c302970100000000010000000082726b0801df0321a7021700000000000000000000000000000000
00000000000000000000000000000000000002000000f7cff485b741e288
"""
)


FIXTURE_ID = "9ce4b88d71a035e3bca066cda44e519c5484ef424d38169359488701c18d6cb3"


class OneTable:
    """A table that was read by itself. `groups` hold its records in key order; `properties` are raw."""

    def __init__(self, tables: Tables) -> None:
        (self.properties,), (self.count,) = tables.properties, tables.counts
        self.groups = [group.records for group in tables.groups]
        self.records = tables.records

    def __len__(self) -> int:
        return self.count


def read_table(data: bytes) -> OneTable:
    return OneTable(read_tables([data]))


def identity(data: bytes) -> str:
    """The id that the content of a range or metarange makes: the name it must have."""
    return identities(read_tables([data]))[0]


RANGE_A, RANGE_B = "a" * 64, "b" * 64

RECORDS = [(f"tables/t{i // 40:02d}/part-{i:05d}.parquet".encode(), entry_value(size=i)) for i in range(1000)]


def small_range() -> bytes:
    """A real range of few records."""
    sizes = sorted((path.stat().st_size, path) for path in golden_files())
    for _, path in sizes:
        data = path.read_bytes()
        properties, records = read_plainly(data)
        if properties[b"type"] == b"ranges" and b"entity" not in properties and len(records) > 1:
            return data
    raise AssertionError("no such file")


def small_metarange() -> bytes:
    sizes = sorted((path.stat().st_size, path) for path in golden_files())
    for _, path in sizes:
        data = path.read_bytes()
        properties, records = read_plainly(data)
        if properties[b"type"] == b"metaranges" and records:
            return data
    raise AssertionError("no such file")


def small_tables() -> list[bytes]:
    """Of one record, of none, of several blocks, with other keys, and with the same keys again."""
    some = TableWriter(block_bytes=60, two_level=True).write(RECORDS[:40])
    other = TableWriter(properties={b"entity": b"commit"}).write([(b"a", b"x"), (b"a" * 300, b"")])
    return [TableWriter().write(RECORDS[:1]), TableWriter().write([]), some, other, some, small_metarange()]


def write_metarange(*records: tuple[bytes, bytes]) -> bytes:
    return TableWriter(kind=b"metaranges").write(records)


def range_value(
    range_id: str, *, min_key: bytes | None = None, max_key: bytes = b"", size: int = 300, count: int = 2
) -> bytes:
    first = b"" if min_key is None else bytes_field(1, min_key)
    content = first + bytes_field(2, max_key) + int_field(3, size) + int_field(4, count)
    return frame(range_id.encode(), content)


def read_values(*values: bytes) -> pa.Table:
    return graveler.read_range(TableWriter().write([(b"k%05d" % i, value) for i, value in enumerate(values)]))


def framed(content: bytes, name: bytes = b"i" * 32) -> bytes:
    return frame(name, content)
