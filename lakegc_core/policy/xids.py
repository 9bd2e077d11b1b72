"""Times in the names that lakeFS gives out: xids, which name slices and objects. Pure.

An xid is 20 letters of base 32; its first 32 bits are seconds. Slices and run ids count down instead, so that newer
ones sort first.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

XID = "[0-9a-v]{19}[0g]"
_AHEAD = 86_400  # seconds: no clock that runs is further ahead
_XID_EPOCH = 64_060_588_800  # year 4000: slices and run ids count down to it
_XID_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_XID_NAME = r"(?:^|/)(?P<time>[0-9a-v]{7})[0-9a-v]{12}[0g](?:[,._][^/]*)?$"
_XID_DIGITS = np.array([max(0, _XID_ALPHABET.find(chr(letter))) for letter in range(128)], np.int64)


def xid_times(addresses: pa.Array) -> np.ndarray:
    """Unix seconds at which lakeFS gave out the last part of each address, float64: the first 32 bits of its xid. NaN
    where that part does not begin with an xid (`<xid>`, `<xid>,<signature>`, `<xid>.multipart` …)."""
    found = np.full(len(addresses), np.nan)
    letters = pc.struct_field(pc.extract_regex(addresses, _XID_NAME), "time")
    rows = pc.is_valid(letters).to_numpy(zero_copy_only=False)
    digits = np.frombuffer("".join(letters.drop_null().to_pylist()).encode(), np.uint8).reshape(-1, 7)
    values = _XID_DIGITS[digits] @ (32 ** np.arange(6, -1, -1, dtype=np.int64))
    found[rows] = values >> 3
    return found


def latest_told(now: float) -> float:
    """The latest time that a name may tell at `now`, both unix seconds."""
    return now + _AHEAD


def told_until(times: np.ndarray, latest: float) -> np.ndarray:
    """Times of names, NaN for those after `latest`: a clock of lakeFS that was ahead once tells nothing, or it would
    keep objects until then."""
    return np.where(times <= latest, times, np.nan)


def is_shard(folder: str) -> bool:
    """True if a folder directly below data/ is a shard: `data/!ab/`, which holds folders that hold slices."""
    return re.fullmatch(r"data/![^/]+/", folder) is not None


def sharded_slices(addresses: pa.Array) -> pa.Array:
    """The slice in which each address lies, at any depth below a shard; null where there is none."""
    return pc.struct_field(pc.extract_regex(addresses, rf"^data/!(?:[^/]+/)+?(?P<slice>{XID})/"), "slice")


def slice_time(name: str) -> int | None:
    """Unix seconds at which a slice (or a run id) was begun; None if the name is not a slice's."""
    seconds = _xid_seconds(name)
    return None if seconds is None else (_XID_EPOCH - seconds) % 2**32


def _xid_seconds(text: str) -> int | None:
    if not re.fullmatch(XID, text):
        return None
    value = 0
    for letter in text[:7]:
        value = value << 5 | _XID_ALPHABET.index(letter)
    return value >> 3
