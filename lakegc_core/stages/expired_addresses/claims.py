"""What entries of heads claim of their contents, read from ranges: digests that a HEAD, or a listing, may prove."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.policy.namespace import Namespace
from lakegc_core.stages.committed_addresses.stage import MD5
from lakegc_core.stages.expired_addresses.intervals import ALIKE, SINGLE, RangePaths
from lakegc_core.stages.expired_addresses.since import SCHEMA
from lakegc_core.store.base import MD5_DIGEST

CLAIMS = pa.schema(
    [
        *SINGLE,
        SCHEMA.field("address"),  # in the namespace; "": it lies elsewhere, or may be read in several ways
        pa.field("digest", pa.string(), nullable=False),  # that the entry claims; "": none that can be proven
    ]
)


@dataclass(frozen=True)
class Claims:
    """Reads ranges for what their alike entries claim; a picklable value that tasks carry."""

    ranges: RangePaths
    namespace: Namespace

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """CLAIMS of the ranges in a partition. The rows of one range (ALIKE) are all in it."""
        for range_id, alike in self.ranges.by_range(batches, ALIKE):
            entries, ranks = self.ranges.read(range_id, alike)
            numbers = np.flatnonzero(ranks >= 0)
            chosen = entries.take(pa.array(numbers)).combine_chunks()
            addresses = self._addresses(chosen)
            e_tags = chosen["e_tag"].combine_chunks()
            fit = pc.and_(pc.match_substring_regex(e_tags, MD5), pc.not_equal(addresses, ""))
            columns = {
                "range_id": pa.repeat(range_id, len(numbers)),
                "count": pa.repeat(entries.num_rows, len(numbers)),
                "size": chosen["size"],
                "rank": pa.array(ranks[numbers]),
                "number": pa.array(numbers),
                "address": addresses,
                "digest": pc.if_else(fit, pc.binary_join_element_wise(MD5_DIGEST, e_tags, ""), ""),
            }
            yield from pa.table(columns).cast(CLAIMS).to_batches()

    def _addresses(self, entries: pa.Table) -> pa.Array:
        columns = (entries[name].combine_chunks() for name in ("address", "address_type"))
        keys = self.namespace.protected_keys(*columns)
        index = keys["index"].to_numpy()
        only = np.bincount(index, minlength=entries.num_rows)[index] == 1
        rows = np.full(entries.num_rows, -1)
        rows[index[only]] = np.flatnonzero(only)
        told = keys["address"].combine_chunks().take(pa.array(rows, mask=rows < 0))
        return pc.fill_null(told, "")
