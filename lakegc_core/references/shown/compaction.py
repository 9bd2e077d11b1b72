"""Staging compaction: candidates that may lie in a compacted metarange, unseen, while something alike is staged.

A server that compacts moves the staged entries of a branch into a metarange that only its database knows. If the same
bytes are then uploaded to such a path once more, the dump names the later object and the branch shows it. But lakeFS
treats the two entries as equal, and keeps the earlier one in the metarange. The next commit or compaction shows the
earlier object again. Until then no answer of lakeFS names it. So a candidate waits while an object of its size is
staged: `reuploads` tells contents apart by size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.context import MarkContext
from lakegc_core.references.shown.alike import AlikeEntries
from lakegc_core.references.shown.classes import PLANNED
from lakegc_core.spark.session import Mapped, many
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED_SIZES = "staged-sizes"
_SIZE = pa.schema([PLANNED.field("size")])
_FOLDER = "regexp_extract(address, '^(.*/)?', 0)"
_THREADS = 16  # listings side by side in one task
_FEW = 20  # up to so many objects of a folder are listed one by one: a whole slice takes up to 50 pages


def may_compact(context: MarkContext) -> bool:
    """True if the server may compact staged entries. It is asked each time, because a server may be upgraded."""
    return context.settings.server.compaction == "assume" and context.client.config().may_compact


def sizes_alike(entries: AlikeEntries, shown: DataFrame) -> DataFrame:
    """The sizes (column `size`) of candidates that may lie unseen: the sizes of staged objects.

    `shown`: addresses of candidates that branches show. No dump names these, and they may hide others as well.
    """
    candidates = entries.candidates.frame(entries.spark, "address", "size")
    sizes = candidates.join(many(shown), "address", "left_semi").select("size")
    return sizes.unionByName(_staged(entries)).distinct()


def _staged(entries: AlikeEntries) -> DataFrame:
    """Sizes of the objects that the dump names. Those that the mark did not list are looked for in the store."""
    from pyspark.sql import functions as F

    spark, heads = entries.spark, entries.heads
    dumped, listed = heads.staged.frame(spark, "address").distinct(), heads.listed_staged(spark)
    known = listed.join(many(dumped), "address", "left_semi").select("size").distinct()
    new = dumped.join(many(listed.select("address")), "address", "left_anti")
    new = new.repartition(spark_width(spark), F.expr(_FOLDER))
    made = Mapped(new, _SIZE, _Sizes(entries.context.data).sizes)
    return known.unionByName(entries.out.put(STAGED_SIZES, made, _SIZE).frame(spark))


@dataclass(frozen=True)
class _Sizes:
    """Looks for sizes in the store, by listing, because a mark needs no right to read data."""

    data: StoreConfig

    def sizes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sizes of the addresses, each once. An object that is gone has no size; a branch that shows it is broken
        already. A listing that fails is the store's own error."""
        addresses = sorted(address for batch in batches for address in batch["address"].to_pylist())
        folders = [list(named) for _, named in itertools.groupby(addresses, _folder)]
        with ThreadPoolExecutor(_THREADS) as pool:
            found = set[int]().union(*pool.map(self._of_folder, folders))
        yield pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], schema=_SIZE)

    def _of_folder(self, addresses: Sequence[str]) -> set[int]:
        """The sizes of objects of one folder: of few by listing each name, of many by listing the whole slice."""
        folder = _folder(addresses[0])
        prefixes = [folder] if len(addresses) > _FEW and folder.count("/") > 1 else addresses
        found, wanted = set[int](), pa.array(addresses, pa.string())
        for prefix in prefixes:
            for batch in connect(self.data).list(prefix):
                found.update(batch["size"].filter(pc.is_in(batch["address"], value_set=wanted)).to_pylist())
        return found


def _folder(address: str) -> str:
    return address[: address.rfind("/") + 1]
