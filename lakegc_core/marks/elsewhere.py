"""Notes of a mark on entries that point outside of their own namespace: for the marks of other repositories.

lakeFS lets a repository import objects by their full address, wherever they lie. Nothing here reads what others noted:
that is `of_neighbours`. A mark's own search for identical re-uploads needs the sizes: one may hide behind such
an entry too (`shown.reuploads`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.places import ANYWHERE, bucket_of
from lakegc_core.tables.parts import Part

ELSEWHERE = "elsewhere"
ELSEWHERE_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),  # "": counts in this mark alone, whatever its ranges
        pa.field("address", pa.string(), nullable=False),  # as the entry has it: a full URI, or empty
        pa.field("size", pa.int64(), nullable=False),  # bytes, as the entry claims
    ]
)
_MOST_NAMED = 50
_BEGINNING = r"(?s)^(?P<name>[^/?]*/*[^/?]*)"  # what comes before the path


def elsewhere_rows(
    namespace: Namespace, range_ids: Sequence[str], counts: Sequence[int], entries: pa.Table
) -> pa.Table:
    """The addresses of entries that may lie outside the namespace, empty ones too: ELSEWHERE_SCHEMA.

    `entries`: address, address_type and size. `counts`: how many of them each range has, one range after the other.
    """
    types = entries["address_type"].combine_chunks()
    away = namespace.may_lie_elsewhere(entries["address"].combine_chunks(), types)
    numbers = np.flatnonzero(away.to_numpy(zero_copy_only=False))
    owner = np.repeat(np.arange(len(range_ids)), counts)[numbers]
    columns = {
        "range_id": pa.array(range_ids, pa.string()).take(pa.array(owner)),
        **{name: entries[name].take(pa.array(numbers)) for name in ("address", "size")},
    }
    return pa.table(columns).cast(ELSEWHERE_SCHEMA)


def sum_authorities(table: pa.Table) -> dict[str, int]:
    """The number of addresses that each bucket or account has; those of too many, or of none that is told, together.

    Empty addresses name nothing anywhere.
    """
    addresses = table["address"].filter(pc.not_equal(table["address"], ""))
    names = pc.struct_field(pc.extract_regex(addresses, _BEGINNING), "name")
    rows = pc.value_counts(names.combine_chunks()).to_pylist()
    return merged({bucket_of(row["values"]): row["counts"]} for row in rows)


def merged(sums: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums added up, of too many authorities as one."""
    found: Counter[str] = Counter()
    for each in sums:
        found.update(each)
    return dict(found) if len(found) <= _MOST_NAMED else {ANYWHERE: sum(found.values())}


def may_refer(namespace: Namespace, sums: Mapping[str, int]) -> bool:
    """True if any of the addresses that were summed up can name a key of the namespace."""
    return any(name == ANYWHERE or namespace.is_at(name) for name in sums)


def authorities(parts: Iterable[Part]) -> dict[str, int]:
    """The sums of parts of ELSEWHERE."""
    return merged(part.sums for part in parts)
