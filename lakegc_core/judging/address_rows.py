"""The decision of an optimized mark. Every source of change becomes rows of one schema; `decide` sees all rows of an
address and says what to do with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import OBJECTS_SCHEMA, Units, unit_of
from lakegc_core.marks.findings import MISSTATED
from lakegc_core.names import Reason
from lakegc_core.policy.xids import latest_told, told_until, xid_times
from lakegc_core.references.ranges.range_files import range_and_mark_keys
from lakegc_core.tables.gather import HASH, KIND, only
from lakegc_core.tables.hashing import hash_strings, mixed
from lakegc_core.tables.key_scan import Wanted, filter_of, sieve_of

# Kinds of rows. Objects: BEFORE, unreferenced at the mark below; ANEW, in this mark's own listing; CANARY, smuggled in;
# GONE_SINCE, deleted by sweeps since their carried unit was listed. Addresses: DROPPED_SINCE, of ranges that nothing
# refers to any more; NEW, of entries that this mark read; STAGED; MISSED, in dataset MISSING of the mark below, or
# in MISSTATED, which has names too new for its listing.
# Index rows of retained ranges, which `decide` expects to be last: IN_RANGE, of ranges that this mark read;
# IN_RANGE_BEFORE, of ranges that a layer read.
BEFORE, ANEW, CANARY, GONE_SINCE, DROPPED_SINCE, NEW, STAGED, MISSED, IN_RANGE, IN_RANGE_BEFORE = range(10)
CANDIDATES, FREED, ASKED, SWEPT = "candidates", "freed", "asked", "swept"  # verdicts, see `decide`
VERDICTS = (CANDIDATES, FREED, ASKED, SWEPT, MISSTATED)
OBJECT_FIELDS = [field.with_nullable(True) for field in OBJECTS_SCHEMA]
ROWS = pa.schema(
    [
        KIND,
        HASH,
        *OBJECT_FIELDS,
        pa.field("range_id", pa.string()),  # of a retained range that holds the address
        pa.field("carried", pa.bool_()),  # whether its unit is carried
        pa.field("asks", pa.bool_()),  # true: the object must exist, so that it is looked for where no row has it
        pa.field("exact", pa.bool_()),  # of an entry: whether this is the likely reading of its address
    ]
)
COUNTED_SCHEMA = pa.schema([KIND, HASH, ROWS.field("range_id"), ROWS.field("asks")])
SOUGHT_SCHEMA = pa.schema(
    [
        OBJECTS_SCHEMA.field("address"),
        HASH,
        ROWS.field("range_id"),
        pa.field("live", pa.bool_(), nullable=False),  # held by a retained range, or staged
    ]
)
DECIDED = pa.schema(
    [pa.field("verdict", pa.string(), nullable=False), *OBJECT_FIELDS, *(SOUGHT_SCHEMA.remove(0))],
)
COLUMNS = {
    BEFORE: ("address", "size", "last_modified", "etag", "reason"),
    ANEW: tuple(OBJECTS_SCHEMA.names),
    CANARY: tuple(OBJECTS_SCHEMA.names),
    GONE_SINCE: ("address",),
    DROPPED_SINCE: ("address",),
    NEW: ("address", "exact", "size"),  # the size that the entry claims
    STAGED: ("address", "exact"),
    MISSED: ("address",),
}

ONCE = {NEW: ("hash", "asks", "exact", "size")}
"""Columns that two rows of a kind share if one of them is enough. Entries of one address may claim several sizes."""


def address_rows(kind: int, units: Units, listed_from: float, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Turn rows of one kind into what they say of an address."""
    addresses = rows["address"]
    named = {name: rows[name] for name in _OBJECT_NAMES if name in rows.schema.names}
    told = named | {"kind": kind, "hash": hash_strings(addresses)}
    if kind in (ANEW, CANARY, GONE_SINCE):
        return told
    if "unit" not in told:
        told["unit"] = unit_of(addresses)
    told["carried"] = units.ages_of(told["unit"]) > 0
    if kind == BEFORE:
        told["foreign"] = pc.equal(rows["reason"], Reason.FOREIGN)
    if kind in (BEFORE, DROPPED_SINCE):
        return only(told, told["carried"])
    # Not <: a name without a time (NaN) is asked for, too.
    asks = ~(told_until(xid_times(addresses), latest_told(listed_from)) >= listed_from)
    if "exact" in rows.schema.names:
        told["exact"] = rows["exact"]
        asks &= rows["exact"].to_numpy(zero_copy_only=False)
    return told | {"asks": asks}


_OBJECT_NAMES = tuple(OBJECTS_SCHEMA.names)


def index_rows(kind: int, layer: str, held: Wanted, sought: Wanted, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Rows of a layer's index that matter: the range is retained and was read in this layer, and the address is sought.
    A few others come along, because hashes collide and a sieve lets some through; they can only keep garbage."""
    hashes, ranges = rows["hash"].to_numpy(), pc.dictionary_encode(rows["range_id"])
    names = ranges.dictionary.cast(pa.string())  # of few ranges, each in many rows
    is_held = np.zeros(len(names), np.bool_)
    is_held[filter_of(held).rows(range_and_mark_keys(names, pa.repeat(layer, len(names))))] = True
    numbers = ranges.indices.to_numpy()
    counted = np.flatnonzero(is_held[numbers])
    hashes, first = np.unique(hashes[counted], return_index=True)  # sorted keys are looked up much quicker
    chosen = sieve_of(sought).rows(hashes)
    return {
        "kind": kind,
        "hash": hashes[chosen],
        "range_id": names.take(pa.array(numbers[counted[first[chosen]]])),
    }


def decide(rows: pa.Table) -> Iterator[pa.Table]:
    """Decide about addresses. The table holds all rows of each. The verdicts:

    - `candidates`: the object lies there or is a canary, and no retained range holds its address
    - `freed`: no retained range holds it any more, and no row says whether it lies there: look in the listings
    - `asked`: something refers to it, and no row says that it lies there: look in the listings, then ask the store
    - `swept`: something refers to it, and a sweep deleted it: ask the store, also if no row asks for it. The mark below
      may have believed it there, because the delete came later or was not on record yet
    - `misstated`: a new entry whose size no known object of its address has
    """
    kind, hashes = rows["kind"].to_numpy(), rows["hash"].to_numpy()
    carried, asks, exact = (pc.fill_null(rows[name], False).to_numpy() for name in ("carried", "asks", "exact"))

    def among(*kinds: int) -> np.ndarray:
        return np.isin(hashes, hashes[np.isin(kind, kinds)])

    in_range, gone = among(IN_RANGE, IN_RANGE_BEFORE), among(GONE_SINCE)
    known = (kind == ANEW) | ((kind == BEFORE) & ~gone)
    lies = np.isin(hashes, hashes[known])
    # Settled: the unit is carried, no sweep deleted the object, and a range of the mark below held its address. So that
    # mark found it. If not, a row MISSED asks again.
    settled = carried & ~gone & among(IN_RANGE_BEFORE, DROPPED_SINCE) & (kind != MISSED)
    verdicts = {
        CANDIDATES: (known | (kind == CANARY)) & ~in_range,
        FREED: (kind == DROPPED_SINCE) & ~in_range & ~lies & ~gone,
        ASKED: asks & ~lies & ~settled & ~gone,
        SWEPT: (asks | ((kind == GONE_SINCE) & in_range)) & ~lies & gone,
        # What is not listed yet counts as well: no later optimized mark compares it.
        MISSTATED: exact & (kind == NEW) & ~settled & ~_agree(hashes, rows["size"], known),
    }
    holding = rows.filter(pa.array(in_range & (kind >= IN_RANGE))).select(["hash", "range_id"])
    holding = holding.sort_by([("hash", "ascending"), ("range_id", "ascending")])
    held = holding["hash"].to_numpy()
    live = in_range | among(STAGED)
    for verdict, chosen in verdicts.items():
        numbers = np.flatnonzero(chosen)
        numbers = numbers[np.unique(hashes[numbers], return_index=True)[1]]
        if not len(numbers):
            continue
        found = rows.take(pa.array(numbers))
        places = np.searchsorted(held, hashes[numbers])
        first = pa.array(places, mask=~in_range[numbers])
        found = found.set_column(found.schema.get_field_index("range_id"), "range_id", holding["range_id"].take(first))
        found = found.append_column("live", pa.array(live[numbers]))
        yield found.append_column("verdict", pa.repeat(verdict, len(numbers)))


def _agree(hashes: np.ndarray, sizes: pa.Array, known: np.ndarray) -> np.ndarray:
    """True where a row has the size of a row of the same hash that is known to lie there."""
    pairs = mixed(hashes, pc.fill_null(sizes, -1).to_numpy())
    agree: np.ndarray = np.isin(pairs, pairs[known])
    return agree
