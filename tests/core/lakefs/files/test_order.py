"""The order of a table's keys, which is checked almost without the keys."""

from __future__ import annotations

import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.sstable import read_tables
from tests.support.lakefs_files import RECORDS, read_table, small_tables
from tests.support.plain_tables import TableWriter


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
