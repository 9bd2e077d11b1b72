"""Keys of a table's records, whole from their shared prefixes, and their order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import keys
from lakegc_core.lakefs.files.keys import key_of, user_keys, whole_keys
from lakegc_core.lakefs.files.sstable import read_tables
from tests.support.lakefs_files import RECORDS, read_table, small_tables
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


@pytest.mark.parametrize("keys", [[b"a"], [b"", b"a", b"a\0", b"ab"], [b"p%04d" % n for n in range(3000)], [b"\xff"]])
def test_keys_are_whole_and_may_be_any_bytes(keys: list[bytes]) -> None:
    table = read_table(TableWriter().write([(key, b"value") for key in keys]))
    assert [key for group in table.groups for key in user_keys(group).to_pylist()] == keys


@pytest.mark.parametrize("swapped", [1, 17, 39])
def test_keys_out_of_order_are_refused_among_other_tables(swapped: int) -> None:
    keys = [key for key, _ in RECORDS[:40]]
    keys[swapped - 1], keys[swapped] = keys[swapped], keys[swapped - 1]
    unsorted = TableWriter().write([(key, b"v") for key in keys])
    for some in ([unsorted, *small_tables()], [*small_tables(), unsorted], [unsorted, unsorted]):
        with pytest.raises(CorruptFileError, match="increase"):
            read_tables(some)


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


@pytest.mark.parametrize("intervals", [1, 1024])
def test_keys_are_compared_across_the_parts_in_which_they_are_put_together(
    intervals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key is written whole here, also one that repeats the key before."""
    monkeypatch.setattr(keys, "_PART_INTERVALS", intervals)
    names, writer = [key for key, _ in RECORDS[:40]], TableWriter(restart_every=1)
    assert sum(read_tables([*small_tables(), writer.write([(key, b"v") for key in names])]).counts) > 40
    for other in (names[16], names[3]):
        wrong = [*names[:17], other, *names[18:]]
        with pytest.raises(CorruptFileError, match="increase"):
            read_table(writer.write([(key, b"v") for key in wrong]))
