from __future__ import annotations

import random
from collections.abc import Callable

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import sstable
from lakegc_core.lakefs.files.blocks import _masked
from lakegc_core.lakefs.files.identity import identities
from lakegc_core.lakefs.files.keys import key_of, whole_keys
from lakegc_core.lakefs.files.sstable import Table, Tables, read_table, read_tables
from lakegc_core.lakefs.files.vectors import (
    PADDING,
    copy_slices,
    gather,
    three_varints_at,
    varint,
    varints_at,
    words_at,
)
from tests.support.plain_tables import (
    SET,
    TableWriter,
    entry_value,
    golden_files,
    read_plainly,
    to_uvarint,
    write_block,
)

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


def test_t02_the_masked_checksum_is_that_of_the_published_vector() -> None:
    crc = google_crc32c.value(b"123456789")
    assert crc == 0xE3069283
    assert _masked(np.array([crc], np.uint32))[0] == 0xC78AB0E5


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


def test_t04_compressed_and_uncompressed_blocks_mix_in_a_table() -> None:
    records = [(b"k%04d" % i, random.Random(i).randbytes(900) if i % 40 < 20 else b"again " * 150) for i in range(400)]
    for compress in (lambda i: True, lambda i: False, lambda i: i % 2 == 0, lambda i: i == 3):
        assert list(read_table(TableWriter(compress=compress).write(records)).records()) == records


def test_records_far_larger_than_a_block_are_read() -> None:
    records = [(b"a" * 3000, b"x" * 300_000), (b"a" * 3000 + b"b", b""), (b"b" * 70_000, b"y" * 20_000)]
    assert list(read_table(TableWriter().write(records)).records()) == records


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


def small_tables() -> list[bytes]:
    """Of one record, of none, of several blocks, with other keys, and with the same keys again."""
    some = TableWriter(block_bytes=60, two_level=True).write(RECORDS[:40])
    other = TableWriter(properties={b"entity": b"commit"}).write([(b"a", b"x"), (b"a" * 300, b"")])
    return [TableWriter().write(RECORDS[:1]), TableWriter().write([]), some, other, some, small_metarange()]


def apart(tables: Tables) -> list[list[tuple[bytes, bytes]]]:
    """The records of each of some tables that were read together."""
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in tables.properties]
    for group in tables.groups:
        records = list(Table({}, [group.records]).records())
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


@settings(max_examples=60, deadline=None)
@given(data=st.data())
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


@pytest.mark.parametrize("swapped", [1, 17, 39])
def test_keys_out_of_order_are_refused_among_other_tables(swapped: int) -> None:
    keys = [key for key, _ in RECORDS[:40]]
    keys[swapped - 1], keys[swapped] = keys[swapped], keys[swapped - 1]
    unsorted = TableWriter().write([(key, b"v") for key in keys])
    for some in ([unsorted, *small_tables()], [*small_tables(), unsorted], [unsorted, unsorted]):
        with pytest.raises(CorruptFileError, match="increase"):
            read_tables(some)


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


@pytest.mark.parametrize("place", [1, 2, 15, 16, 17, 31, 32, 100, 500, 998])
@pytest.mark.parametrize("how", ["equal", "swapped", "prefix", "far"])
def test_keys_out_of_order_are_refused_wherever_they_are(place: int, how: str) -> None:
    keys = [key for key, _ in RECORDS]
    if how == "equal":
        keys[place] = keys[place - 1]
    elif how == "swapped":
        keys[place], keys[place - 1] = keys[place - 1], keys[place]
    elif how == "prefix":
        keys[place] = keys[place - 1][:-1]
    else:
        keys[place] = b"a"
    with pytest.raises(CorruptFileError, match=r"increase|repeats"):
        read_table(TableWriter().write(list(zip(keys, [b"v"] * len(keys), strict=True))))


KEYS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=6),
        st.text(alphabet="ab/", min_size=1, max_size=12).map(str.encode),
        st.sampled_from([b"\0", b"\1", b"\1\0\0\0\0\0\0\0", b"a\1", b"a\1\0", b"a", b"a\0", b"\xff", b"p" * 300]),
        st.tuples(st.integers(0, 3), st.integers(0, 999)).map(lambda t: b"p" * (100 * t[0]) + b"%d" % t[1]),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    keys=KEYS,
    restart_every=st.sampled_from([1, 2, 16, 1000]),
    block_bytes=st.sampled_from([1, 60, 4096]),
    less_shared=st.sampled_from([0, 1, 1000]),
)
def test_sorted_keys_are_read_and_unsorted_ones_are_refused(
    keys: list[bytes], restart_every: int, block_bytes: int, less_shared: int
) -> None:
    """Also where a writer shares fewer bytes than it could."""
    writer = TableWriter(
        restart_every=restart_every,
        block_bytes=block_bytes,
        share=lambda common: max(0, common - less_shared),
    )
    increasing = sorted(set(keys))
    table = read_table(writer.write([(key, b"v") for key in increasing]))
    assert [key for key, _ in table.records()] == increasing
    for group in table.groups:
        assert [key_of(group, i) for i in range(len(group))] == [
            part.buffer[a : a + n].tobytes()
            for part in whole_keys(group)
            for a, n in zip(part.at.tolist(), part.length.tolist(), strict=True)
        ]
    if keys != increasing:
        with pytest.raises(CorruptFileError):
            read_table(writer.write([(key, b"v") for key in keys]))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_random_damage_under_a_right_checksum_never_raises_another_error(data: st.DataObject) -> None:
    """Blocks are damaged before they get their checksum: what a hostile or broken writer could make."""
    block = bytearray(write_block([(key + SET, value) for key, value in RECORDS[:40]], 16))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    block = block[: data.draw(st.sampled_from([len(block), len(block) - 1, 9, 8, 7, 0]))]

    class Damaged(TableWriter):
        def _add(self, content: bytes, compress: bool) -> bytes:
            return super()._add(content if self._out else bytes(block), compress)

    try:
        table = read_table(Damaged(block_bytes=1 << 20).write(RECORDS[:40]))
    except CorruptFileError:
        return
    assert len(table) == 40  # a change inside a value or of the middle of a key: only the id can tell


@given(st.lists(st.integers(0, (1 << 35) - 1), min_size=1, max_size=50), st.booleans())
def test_varints_read_the_same_alone_and_together(numbers: list[int], padded: bool) -> None:
    encoded = [to_uvarint(number) for number in numbers]
    ends = np.cumsum([len(one) for one in encoded]).astype(np.int64)
    starts = ends - np.array([len(one) for one in encoded])
    data = b"".join(encoded)
    values, after = varints_at(np.frombuffer(data + bytes(PADDING), np.uint8), starts)
    assert values.tolist() == numbers
    assert after.tolist() == ends.tolist()
    assert [varint(data, at) for at in starts.tolist()] == list(zip(numbers, ends.tolist(), strict=True))


@pytest.mark.parametrize("encoded", [b"\xff" * 10, b"\xff" * 9 + b"\2", b"\x80" * 9 + b"\x80\1"])
def test_a_varint_of_more_than_64_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(CorruptFileError):
        varint(encoded + bytes(8), 0)
    with pytest.raises(CorruptFileError):
        varints_at(np.frombuffer(encoded + bytes(PADDING), np.uint8), np.array([0]), 10)


def test_minus_one_is_ten_bytes() -> None:
    buffer = np.frombuffer(b"\xff" * 9 + b"\1" + bytes(PADDING), np.uint8)
    values, after = varints_at(buffer, np.array([0]), 10)
    assert (values.tolist(), after.tolist()) == ([-1], [10])


@pytest.mark.parametrize(("kind", "size"), [("<u4", 4), ("<u8", 8)])
def test_words_are_read_wherever_they_start(kind: str, size: int) -> None:
    data = random.Random(1).randbytes(100)
    places = list(range(100 - size + 1))
    words = words_at(np.frombuffer(data, np.uint8), kind, np.array(places))
    assert words.tolist() == [int.from_bytes(data[at : at + size], "little") for at in places]


@pytest.mark.parametrize(
    "longest",
    [(127, 127, 127), (127, 127, 16383), (127, 128, 127), (300, 9, 155), (127, 127, 16384), (70_000, 70_000, 1 << 34)],
)
@pytest.mark.parametrize("shortest", [0, 1])
def test_three_lengths_in_a_row_read_the_same_whatever_their_sizes(
    longest: tuple[int, int, int], shortest: int
) -> None:
    """With the longest lengths in all heads (`shortest` 1), or in some of them."""
    draw = random.Random(sum(longest))
    heads = [longest] * 5 + [tuple(draw.randint(n * shortest, n) for n in longest) for _ in range(50)]
    encoded = [b"".join(map(to_uvarint, head)) for head in heads]
    ends = np.cumsum([len(one) for one in encoded])
    starts = ends - np.array([len(one) for one in encoded])
    buffer = np.frombuffer(b"".join(encoded) + bytes(PADDING), np.uint8)
    first, second, third, after = three_varints_at(buffer, starts)
    assert list(zip(first.tolist(), second.tolist(), third.tolist(), strict=True)) == heads
    assert after.tolist() == ends.tolist()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.integers(0, 3).map(lambda n: b"x" * (1500 * n)), max_size=60))
def test_slices_are_gathered_whatever_their_lengths(parts: list[bytes]) -> None:
    source = np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8)
    lengths = np.array([len(part) for part in parts], np.int64)
    at = np.cumsum(lengths) - lengths
    backwards = np.arange(len(parts))[::-1]
    offsets, flat = gather(source, at[backwards], lengths[backwards])
    assert flat.tobytes() == b"".join(reversed(parts))
    assert np.diff(offsets).tolist() == lengths[backwards].tolist()
    target = np.zeros(len(source), np.uint8)
    copy_slices(target, at, source, at, lengths)
    assert target.tobytes() == source.tobytes()
