"""What names tell of time: slices, runs and objects."""

from __future__ import annotations

import calendar

import numpy as np
import pyarrow as pa
import pytest

from lakegc_core.policy.xids import is_shard, sharded_slices, slice_time, told_until, xid_times

SIGNATURE = "Zm9vYmFyLV9mb29iYXItX2Zvb2Jhci1fZm9vYmFyLV8"  # 43 characters
SLICE = "gqv3epl4fd2o8m3men70"
XID = "ce8co454fd2o8m3menag"
HEX = "0123456789abcdef0123456789abcdef"


def seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    return calendar.timegm((year, month, day, hour, minute, second))


def test_t28_slices_and_runs_tell_when_they_were_begun() -> None:
    assert slice_time(SLICE) == seconds(2022, 12, 7, 17, 21, 30)
    assert slice_time("gcnobu7n2efc74lfa5ug") == seconds(2024, 10, 28, 12, 1, 12)
    assert slice_time("gcoca17haabs73f2gtq0") == seconds(2024, 10, 27, 13, 19, 56)
    assert "gcnobu7n2efc74lfa5ug" < "gcoca17haabs73f2gtq0", "newer slices sort first"


def test_slices_are_known_at_any_depth_below_a_shard() -> None:
    found = {
        f"data/!ab/c/{SLICE}/{XID}": SLICE,
        f"data/!ab/{SLICE}/{XID}": SLICE,
        f"data/!ab/c/d/{SLICE}/{SLICE}/{XID}": SLICE,
        f"data/{SLICE}/{XID}": None,
        f"data/!ab/c/{SLICE}": None,
        f"data/!ab/c/{SLICE}x/y": None,
        f"data/shard-07/{SLICE}/{XID}": None,
    }
    assert sharded_slices(pa.array(list(found))).to_pylist() == list(found.values())
    assert [is_shard(each) for each in ("data/!ab/", "data/!/", "data/ab/", "data/!ab/c/")] == [True] + [False] * 3


def test_t28_a_slices_seconds_wrap_at_thirty_two_bits() -> None:
    first, last = "0" * 20, "vvvvvv" + "o" + "0" * 13
    assert slice_time(first) == (64_060_588_800) % 2**32
    assert slice_time(last) == (64_060_588_800 - (2**32 - 1)) % 2**32


def test_objects_tell_when_their_name_was_given_out_whatever_follows_it() -> None:
    when = seconds(2022, 12, 7, 17, 23, 28)
    names = [XID, f"{XID},{SIGNATURE}", f"{XID}.part_00001", f"{XID}.multipart", f"{XID}_id"]
    addresses = [f"{folder}{name}" for folder in ("", "data/", f"data/{XID[:-1]}x/", "é/") for name in names]
    assert xid_times(pa.array(addresses)).tolist() == [when] * len(addresses)


@pytest.mark.parametrize("name", ["", "data", XID[:-1], f"{XID}x", XID.upper(), "w" + XID[1:], XID[:-1] + "1", HEX])
def test_other_names_tell_no_time(name: str) -> None:
    assert np.isnan(xid_times(pa.array([name, f"data/{XID}/{name}", f"{name}/", XID]))).tolist() == [True] * 3 + [False]
    assert slice_time(name) is None


def test_times_of_names_are_those_of_slices_counted_the_other_way() -> None:
    addresses = [f"data/{digits}{'0' * 13}" for digits in ("0000000", "vvvvvvv", "0000008", "abc1234")]
    assert xid_times(pa.array(addresses)).tolist() == [0, 2**32 - 1, 1, int("abc1234", 32) >> 3]
    assert xid_times(pa.array([], pa.string())).tolist() == []


def test_a_time_after_the_latest_that_a_clock_can_tell_is_none() -> None:
    assert np.isnan(told_until(np.array([9.0, 10.0, 11.0, np.nan]), 10.0)).tolist() == [False, False, True, True]
