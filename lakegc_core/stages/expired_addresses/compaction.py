"""Staging compaction: which candidates may lie in a compacted metarange, unseen, while something alike is staged.

A server that compacts moves what is staged on a branch into a metarange that only its database knows. If the same bytes
are then uploaded to such a path once more, the dump names the later object and the branch shows it; yet entries of one
identity stay as they are, so that the next commit, or compaction, brings the earlier object back. No answer of lakeFS
shows that one meanwhile. So a candidate waits while an object of its size is staged: sizes are what `reuploads` tells
contents apart by.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.spark.session import Mapped, many
from lakegc_core.stages.expired_addresses.alike import AlikeEntries
from lakegc_core.stages.expired_addresses.classes import PLANNED
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED_SIZES = "staged-sizes"
_SIZE = pa.schema([PLANNED.field("size")])
_THREADS = 16  # HEADs side by side in one task


def may_compact(context: MarkContext) -> bool:
    """Whether what is staged may be compacted: asked anew each time, as a server may be upgraded."""
    return context.settings.server.compaction == "assume" and context.client.config().may_compact


def sizes_alike(entries: AlikeEntries, shown: DataFrame) -> DataFrame:
    """The sizes (column `size`) of candidates that may lie unseen: those of what is staged.

    `shown`: addresses of candidates that branches show. No dump names these, and they may hide others as well.
    """
    sizes = entries.read_candidates("address", "size").join(many(shown), "address", "left_semi").select("size")
    return sizes.unionByName(_staged(entries)).distinct()


def _staged(entries: AlikeEntries) -> DataFrame:
    """Sizes of the objects that the dump names. Those that the mark did not list are asked of the store."""
    dumped, listed = entries.heads.dumped().select("address").distinct(), entries.heads.listed_staged()
    known = listed.join(many(dumped), "address", "left_semi").select("size").distinct()
    new = dumped.join(many(listed.select("address")), "address", "left_anti").repartition(spark_width(entries.spark))
    made = Mapped(new, _SIZE, _Sizes(entries.context.data).sizes)
    return known.unionByName(entries.read(STAGED_SIZES, entries.put(STAGED_SIZES, made, _SIZE), _SIZE))


@dataclass(frozen=True)
class _Sizes:
    """Asks the store for sizes; a picklable value that tasks carry."""

    data: StoreConfig

    def sizes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sizes of the addresses, each once a batch. An object that is gone has none: what branches show there does
        not read already. Any other failure is the store's own error."""
        store = connect(self.data)

        def ask(address: str) -> int | None:
            try:
                return store.head(address).size
            except ObjectNotFoundError:
                return None

        with ThreadPoolExecutor(_THREADS) as pool:
            for batch in batches:
                found = set(pool.map(ask, batch["address"].to_pylist())) - {None}
                yield pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], schema=_SIZE)
