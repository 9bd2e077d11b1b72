"""Values of a table's records: framing and protobuf messages, parsed for all records at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from tests.support.lakefs_files import RANGE_A, framed, range_value, read_values, write_metarange
from tests.support.plain_tables import TableWriter, bytes_field, entry, entry_value, int_field


def test_t01_an_identity_of_a_hundred_bytes_has_a_length_of_two_bytes() -> None:
    value = framed(entry(), b"i" * 100)
    assert value.startswith(bytes.fromhex("c801"))
    assert read_values(value)["address"].to_pylist() == ["data/s/x"]
    of_metarange = range_value(RANGE_A, max_key=b"c")
    assert of_metarange.startswith(bytes.fromhex("8001"))  # 64
    assert graveler.read_metarange(write_metarange((b"c", of_metarange)))["range_id"].to_pylist() == [RANGE_A]


def test_entries_by_the_general_rules_of_protobuf_are_understood() -> None:
    """Fields in another order, given twice, unknown ones: not written by lakeFS today."""
    backwards = int_field(6, 2) + bytes_field(4, b"t") + int_field(3, 9) + bytes_field(1, b"late")
    twice = entry(b"first", size=3) + bytes_field(1, b"second") + int_field(3, 0)
    unknown = entry(b"known") + int_field(99, 7) + bytes_field(8, b"x") + b"\x51" + bytes(8) + b"\x5d" + bytes(4)
    table = read_values(framed(entry()), framed(backwards), framed(twice), framed(unknown), framed(entry()))
    assert table["address"].to_pylist() == ["data/s/x", "late", "second", "known", "data/s/x"]
    assert table["address_type"].to_pylist() == [1, 2, 1, 1, 1]
    assert table["size"].to_pylist() == [1, 9, 0, 1, 1]
    assert table["e_tag"].to_pylist() == ["tag", "t", "tag", "tag", "tag"]


@pytest.mark.parametrize("last", [b"", b"text/plain"])
def test_a_byte_after_the_last_field_is_not_taken_for_one_more_field(last: bytes) -> None:
    """The byte after a value is the number of key bytes that the next record shares: here that of a field's tag."""
    tag_of_content_type = 7 << 3 | 2
    values = [framed(entry(b"data/%04d" % i, content_type=b"" if i < 299 else last)) for i in range(300)]
    records = [(b"k" * tag_of_content_type + b"%03d" % i, value) for i, value in enumerate(values)]
    writer = TableWriter(block_bytes=1 << 20, restart_every=1000, share=lambda common: min(common, tag_of_content_type))
    table = graveler.read_range(writer.write(records))
    assert table["address"].to_pylist() == [f"data/{i:04d}" for i in range(300)]
    assert set(table["e_tag"].to_pylist()) == {"tag"}


@pytest.mark.parametrize("place", [0, 20, 39])
@pytest.mark.parametrize("short", [b"\x0a\x08data/1", b"\x0a", bytes_field(1, b"data/s/x") + b"\x22\x03ta"])
def test_a_field_as_long_as_in_all_other_records_must_fit_the_shortest_one(short: bytes, place: int) -> None:
    whole = framed(bytes_field(1, b"data/s/x") + bytes_field(4, b"tag"))
    values = [whole] * 40
    values[place] = framed(short)
    with pytest.raises(CorruptFileError, match=r"runs over|cut off"):
        read_values(*values)


@pytest.mark.parametrize("others", [0, 7])
def test_an_identity_of_another_length_than_the_others_is_passed_rightly(others: int) -> None:
    values = [framed(entry(b"data/s/%d" % i), b"i" * (32 if i % 8 != others else i)) for i in range(40)]
    assert read_values(*values)["address"].to_pylist() == [f"data/s/{i}" for i in range(40)]


@settings(max_examples=400)
@given(data=st.data())
def test_damaged_values_under_a_right_checksum_read_like_protobuf_or_are_refused(data: st.DataObject) -> None:
    values = [bytearray(entry_value(size=i, address=b"data/s/%d" % i)) for i in range(20)]
    for _ in range(data.draw(st.integers(1, 4))):
        value = values[data.draw(st.integers(0, 19))]
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    try:
        table = read_values(*map(bytes, values))
    except CorruptFileError:
        return
    assert len(table) == 20
    table.validate(full=True)
