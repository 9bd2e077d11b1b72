"""Keys of a table's records, whole from their shared prefixes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.keys import key_of, whole_keys
from tests.support.lakefs_files import read_table
from tests.support.plain_tables import TableWriter

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


@settings(max_examples=300)
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
