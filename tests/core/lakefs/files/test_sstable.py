"""Tables of lakeFS as a whole: footer, index, properties, and nothing that damage could pass for."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import sstable
from lakegc_core.lakefs.files.identity import identities
from lakegc_core.lakefs.files.sstable import Tables, read_tables
from lakegc_core.lakefs.files.vectors import (
    varint,
)
from tests.support.lakefs_files import RECORDS, read_table, small_metarange, small_range, small_tables
from tests.support.plain_tables import (
    SET,
    TableWriter,
    golden_files,
    read_plainly,
    write_block,
)


def test_every_recorded_table_reads_as_the_plain_reader_reads_it() -> None:
    files = golden_files()
    assert len(files) > 400
    for path in files:
        data = path.read_bytes()
        properties, records = read_plainly(data)
        table = read_table(data)
        assert table.properties == properties, path
        assert list(table.records()) == records, path


@pytest.mark.parametrize("make", [small_range, small_metarange])
def test_t02_no_change_of_any_bit_passes(make: Callable[[], bytes]) -> None:
    """Not one byte of a file is without meaning, so there is no list of exceptions here.

    Blocks and their trailers are under a checksum, blocks tile the file, and in the footer the handles must make that
    tiling, the padding must be zero, and checksum type, version and magic have one value each.
    """
    data = make()
    for at in range(len(data)):
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            changed = bytearray(data)
            changed[at] ^= mask
            with pytest.raises(CorruptFileError):
                read_table(bytes(changed))


@pytest.mark.parametrize("make", [small_range, small_metarange])
def test_t07_no_truncation_passes_at_either_end(make: Callable[[], bytes]) -> None:
    data = make()
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            read_table(data[:length])
        with pytest.raises(CorruptFileError):
            read_table(data[len(data) - length :])
    with pytest.raises(CorruptFileError):
        read_table(data + b"\0")
    with pytest.raises(CorruptFileError):
        read_table(b"\0" + data)


def test_a_range_cut_in_the_middle_of_a_large_file_does_not_pass() -> None:
    data = TableWriter(two_level=True).write(RECORDS)
    for removed in (1, 5, 53, 4096, len(data) // 2):
        for at in (0, len(data) // 3, len(data) - 53 - removed):
            with pytest.raises(CorruptFileError):
                read_table(data[:at] + data[at + removed :])


@pytest.mark.parametrize("two_level", [False, True])
def test_t03_an_index_of_one_or_two_levels_leads_to_all_records(two_level: bool) -> None:
    records = [(b"k%06d" % i, random.Random(i).randbytes(400)) for i in range(2500)]
    data = TableWriter(two_level=two_level).write(records)
    table = read_table(data)
    assert varint(table.properties[b"rocksdb.num.data.blocks"], 0)[0] >= 200
    assert len(table) == varint(table.properties[b"rocksdb.num.entries"], 0)[0] == int(table.properties[b"count"])
    assert list(table.records()) == records == read_plainly(data)[1]


def test_a_table_of_more_blocks_than_are_read_at_once_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable, "_GROUP_BLOCKS", 3)
    table = read_table(TableWriter(two_level=True).write(RECORDS))
    assert len(table.groups) > 5
    assert list(table.records()) == RECORDS
    # Between two groups, keys must increase as well.
    at = sum(len(group) for group in table.groups[:2])
    swapped = [*RECORDS[:at], RECORDS[at - 1], *RECORDS[at + 1 :]]
    with pytest.raises(CorruptFileError, match="increase"):
        read_table(TableWriter(two_level=True).write(swapped))


def apart(tables: Tables) -> list[list[tuple[bytes, bytes]]]:
    """The records of each of some tables that were read together."""
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in tables.properties]
    for group in tables.groups:
        records = list(Tables([], [], [group]).records())
        for share in group.shares:
            found[share.table] += records[share.rows]
    return found


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 2048])
def test_tables_read_together_are_those_read_one_by_one(monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    monkeypatch.setattr(sstable, "_GROUP_BLOCKS", blocks)
    files = small_tables()
    for some in (files, files[::-1], [files[1], files[1]], files[:1] * 3, [files[1], files[2], files[1]], []):
        together, alone = read_tables(some), [read_table(data) for data in some]
        assert apart(together) == [list(table.records()) for table in alone]
        assert together.properties == [table.properties for table in alone]
        assert together.counts == [len(table) for table in alone]
        assert identities(together) == [identities(read_tables([data]))[0] for data in some]


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.slow
def test_recorded_tables_read_together_in_any_order_are_those_read_one_by_one(data: st.DataObject) -> None:
    files = [path.read_bytes() for path in data.draw(st.lists(st.sampled_from(golden_files()), max_size=12))]
    together = read_tables(files)
    assert list(zip(together.properties, apart(together), strict=True)) == [read_plainly(each) for each in files]
    assert identities(together) == [identities(read_tables([each]))[0] for each in files]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_change_of_any_bit_passes_among_other_tables(place: int) -> None:
    data, others = small_range(), [small_metarange(), TableWriter().write(RECORDS[:3])]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises(CorruptFileError):
            read_tables([*others[:place], bytes(changed), *others[place:]])
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            read_tables([*others[:place], data[:length], *others[place:]])


def test_an_empty_table_has_no_records() -> None:
    data = TableWriter().write([])
    assert len(read_table(data)) == 0
    assert list(read_table(data).records()) == []


@pytest.mark.parametrize(
    ("at", "other", "name"),
    [
        (45, "57fb808b247547db", "LevelDB"),
        (45, "f09faab3f09faab3", "Pebble"),
        (45, "00" * 8, "no table"),
        (41, "03000000", "format version 3"),
        (0, "03", "checksum type 3"),
    ],
)
def test_t08_tables_of_another_format_are_named_and_refused(at: int, other: str, name: str) -> None:
    change = bytes.fromhex(other)
    data = TableWriter(footer=lambda footer: footer[:at] + change + footer[at + len(change) :]).write(RECORDS)
    with pytest.raises(CorruptFileError, match=name):
        read_table(data)


@pytest.mark.parametrize(
    ("writer", "sentence"),
    [
        (TableWriter(footer=lambda f: f[:40] + b"\1" + f[41:]), "after its handles"),
        (TableWriter(footer=lambda f: f[:1] + b"\xff" * 40 + f[41:]), "varint"),
        (TableWriter(trailer=lambda key: bytes(8)), "plain set"),
        (TableWriter(trailer=lambda key: (1 << 8 | 1).to_bytes(8, "little")), "plain set"),
        (
            TableWriter(trailer=lambda key: (7).to_bytes(8, "little") if key[-9:-8] == b"7" else SET),
            "plain set",
        ),
        (TableWriter(trailer=lambda key: b""), "trailer|plain set"),
        (TableWriter(handle_suffix=b"\0"), "followed by other bytes"),
        (TableWriter(handle_suffix=b"\0", two_level=True), "exactly one block handle"),
        (TableWriter(between=b"hidden"), "gap"),
        (TableWriter(reverse_index=True), "follow each other"),
        (TableWriter(meta_blocks={b"rocksdb.range_del": write_block([(b"a" + SET, b"z")], 1)}), "range_del"),
        (TableWriter(properties={b"rocksdb.num.entries": b"\1"}), "announces 1 records"),
        (TableWriter(properties={b"rocksdb.num.entries": None}), "no property rocksdb.num.entries"),
        (TableWriter(properties={b"rocksdb.num.data.blocks": b"\1"}), "data blocks"),
        (TableWriter(properties={b"rocksdb.deleted.keys": b"\1"}), "deleted.keys"),
        (TableWriter(properties={b"rocksdb.comparator": b"reverse"}), "sorted by"),
        (TableWriter(properties={b"rocksdb.block.based.table.index.type": b"\1\0\0\0"}), "of type 1"),
        (TableWriter(properties={b"rocksdb.block.based.table.index.type": None}), "does not say"),
        (TableWriter(properties={b"count": b"999"}), "property count"),
        (TableWriter(properties={b"count": None}), "property count"),
        (TableWriter(properties={b"min_key": b"a"}), "min_key"),
        (TableWriter(properties={b"max_key": b"a"}), "max_key"),
        (TableWriter(properties={b"max_key": None}), "max_key"),
        (TableWriter(share=lambda common: common + 60), "shares more bytes"),
    ],
)
def test_a_table_that_lakefs_would_not_write_is_refused(writer: TableWriter, sentence: str) -> None:
    with pytest.raises(CorruptFileError, match=sentence):
        read_table(writer.write(RECORDS))


def test_an_index_of_one_level_declared_as_two_is_refused_and_the_reverse() -> None:
    for two_level, declared in ((False, b"\2\0\0\0"), (True, b"\0\0\0\0")):
        writer = TableWriter(two_level=two_level, properties={b"rocksdb.block.based.table.index.type": declared})
        with pytest.raises(CorruptFileError):
            read_table(writer.write(RECORDS))


def test_an_empty_block_of_another_kind_is_let_through() -> None:
    table = read_table(TableWriter(meta_blocks={b"rocksdb.range_del": write_block([], 1)}).write(RECORDS))
    assert len(table) == len(RECORDS)
