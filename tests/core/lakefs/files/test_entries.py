"""Entries of data ranges: what is kept of them, and values that are none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.elsewhere import elsewhere_rows, sum_authorities
from lakegc_core.policy.namespace import Namespace
from tests.support.lakefs_files import framed, identity, read_values
from tests.support.plain_tables import (
    TableWriter,
    bytes_field,
    entry,
    entry_plainly,
    entry_value,
    identity_plainly,
    int_field,
    read_plainly,
    to_svarint,
)

TEXT = st.one_of(st.text(min_size=1, max_size=20), st.just("data/slice/xid"), st.integers(120, 400).map("é".__mul__))


ENTRY = st.fixed_dictionaries(
    {
        "address": TEXT.map(str.encode),
        "size": st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1)),
        "e_tag": st.one_of(st.just(b""), st.text(max_size=40).map(str.encode)),
        "kind": st.sampled_from([0, 1, 2]),
        "metadata": st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=200)), max_size=3),
        "content_type": st.sampled_from([b"", b"text/plain"]),
    }
)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (b"", "identity"),
        (to_svarint(-1) + b"x" + framed(entry())[1:], "negative length"),
        (b"\x40" + b"i" * 32 + to_svarint(-2) + b"xx", "negative length|does not end"),
        (b"\x40" + b"i" * 31, "identity"),
        (framed(entry())[:-1], "does not end"),
        (framed(entry()) + b"x", "does not end"),
        (framed(entry(kind=3)), "address type"),
        (framed(entry(kind=-1)), "address type"),
        (framed(entry(b"data/\xff")), "UTF-8"),
        (framed(entry(e_tag=b"\xc3")), "UTF-8"),
        (framed(entry() + b"\x0a"), "cut off|runs over"),
        (framed(b"\x0a\x7fdata"), "runs over"),
        (framed(b"\x0a\xff\xff\xff\xff\xff\xff\x01data"), "varint"),
        (framed(int_field(1, 5)), "wire type"),
        (framed(bytes_field(1, b"a") + bytes_field(6, b"\1")), "wire type"),
        (framed(bytes_field(1, b"a") + b"\x33"), "wire type"),
        (framed(bytes_field(1, b"a") + b"\x53"), "wire type 3"),
        (framed(bytes_field(1, b"a") + b"\x02\x01x"), "number 0"),
        (framed(bytes_field(1, b"a") + b"\x18" + b"\xff" * 10), "varint"),
        (framed(entry() + b"\x49\1\2\3"), "cut off"),
    ],
)
@pytest.mark.parametrize("others", [0, 50])
def test_a_value_that_is_no_entry_is_refused_alone_and_among_others(value: bytes, sentence: str, others: int) -> None:
    good = entry_value()
    with pytest.raises(CorruptFileError, match=sentence):
        read_values(*[good] * others, value, *[good] * others)


@settings(max_examples=200)
@given(entries=st.lists(ENTRY, min_size=1, max_size=80), two_level=st.booleans(), odd=st.booleans())
def test_entries_of_any_shape_read_as_they_were_written(
    entries: list[dict[str, object]], two_level: bool, odd: bool
) -> None:
    values = [entry_value(**parts) for parts in entries]
    records = [(b"path/%d" % i * (1 + i % 3), value) for i, value in enumerate(values)]
    data = TableWriter(two_level=two_level, block_bytes=60 if odd else 4096).write(sorted(records))
    table = graveler.read_range(data, paths=True)
    assert list(zip(*(column.to_pylist() for column in table.columns[:4]), strict=True)) == [
        entry_plainly(value) for _, value in sorted(records)
    ]
    assert table["path"].to_pylist() == [key for key, _ in sorted(records)]
    properties, plain = read_plainly(data)
    assert identity(data) == identity_plainly(properties, plain)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_an_entry_without_an_address_reads_and_names_no_object(kind: int) -> None:
    """lakeFS commits what a client links without one; 1.3 to 1.70 cut the namespace off its own address."""
    table = read_values(entry_value(address=b"data/s/x"), entry_value(address=b"", kind=kind))
    assert table["address"].to_pylist() == ["data/s/x", ""]
    for uri in ("s3://b/ns", "s3://b", "gs://b", "local://ns", "https://acc.blob.core.windows.net/c/ns"):
        keys = Namespace(uri).protected_keys(table["address"].combine_chunks(), table["address_type"].combine_chunks())
        assert (keys["index"].to_pylist(), keys["address"].to_pylist()) == ([0], ["data/s/x"])
        away = elsewhere_rows(Namespace(uri), ["r"], [2], table)
        assert away["address"].to_pylist() == [""], "a branch may hide an object behind it"
        assert sum_authorities(away) == {}, "no neighbour need read it"


def test_an_entry_of_no_fields_at_all_reads_like_one_without_an_address() -> None:
    assert read_values(framed(b""))["address"].to_pylist() == [""]
