"""Staging compaction: candidates that may lie in a compacted metarange, unseen, while something alike is staged.

A server that compacts moves the staged entries of a branch into a metarange that only its database knows. If the same
bytes are then uploaded to such a path once more, the staged dump names the later object and the branch shows it. But
lakeFS treats the two entries as equal, and keeps the earlier one in the metarange. The next commit or compaction shows
the earlier object again. Until then no answer of lakeFS names it. So a candidate waits while an object of its size is
staged. Here, only sizes tell contents apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.marks.context import MarkContext
from lakegc_core.references.shown.alike import AlikeEntries
from lakegc_core.references.shown.classes import PLANNED
from lakegc_core.spark.tasks import Mapped, both
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.parts import spark_width
from lakegc_core.tables.relations import distinct, joined, selected

STAGED_SIZES = "staged-sizes"
_SIZE = pa.schema([PLANNED.field("size")])
_FOLDER = "regexp_extract(address, '^(.*/)?', 0)"
_THREADS = 16  # listings side by side in one task
_NEW_HERE = 100  # objects that this process looks for
_FEW = 20  # objects of a folder, at most, that are listed one by one: a whole slice takes up to 50 pages


def may_compact(context: MarkContext) -> bool:
    """True if the server may compact staged entries. It is asked each time, because a server may be upgraded."""
    return context.settings.server.compaction == "assume" and context.client.config().may_compact


def sizes_alike(entries: AlikeEntries, shown: Mapped) -> Mapped:
    """The sizes (column `size`) at which candidates may lie unseen: those of staged objects, and those of `shown`.

    `shown`: addresses of candidates that branches show. No staged dump names these, and they may hide others as well.
    """
    candidates = entries.candidates.mapped(entries.spark, "address", "size", here=True)
    sizes = joined(candidates, shown, ["address"], "left_semi")
    return distinct(both(selected(sizes, _SIZE), _staged(entries)))


def _staged(entries: AlikeEntries) -> Mapped:
    """Sizes of the objects that the staged dump names. Some are known from the mark; the others are looked for in the
    store."""
    from pyspark.sql import functions as F

    spark, heads = entries.spark, entries.heads
    dumped, listed = distinct(heads.staged.mapped(spark, "address", here=True)), heads.listed_staged(spark)
    known = distinct(joined(listed, dumped, ["address"], "left_semi"), "size")
    new = joined(dumped, listed, ["address"], "left_anti")
    if not new.few(_NEW_HERE):
        new = Mapped(new.as_frame().repartition(spark_width(spark), F.expr(_FOLDER)), new.schema)
    made = new.then(_SIZE, _Sizes(entries.context.data).sizes)
    return both(known, entries.out.put(STAGED_SIZES, made, _SIZE).mapped(spark, here=True))


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
