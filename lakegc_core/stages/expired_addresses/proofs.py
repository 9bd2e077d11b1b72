"""Which entries of heads are proven to have other contents than all candidates of their size.

Asking lakeFS by pages is the rule; HEADs of the store are used where they are fewer. Two contents are taken for
different if HEAD proved a digest of either. An entry's counts only if the entry itself claims it, with the size that
HEAD shows: what may hide is what claims the same. All comparisons are exact, none is of hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import IncompleteError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.safety import PAGES_BEFORE_HEADS
from lakegc_core.spark.session import Mapped, clear_errors, many
from lakegc_core.stages.committed_addresses.stage import MD5
from lakegc_core.stages.expired_addresses.intervals import ALIKE, DIFFERENT, RangePaths
from lakegc_core.stages.expired_addresses.since import SCHEMA
from lakegc_core.store.base import MD5_DIGEST, ObjectInfo, StoreConfig, connect, head_if_there
from lakegc_core.tables.parts import Part, read, spark_width, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIGESTS = "digests"
DIGESTS_SCHEMA = pa.schema(
    [
        SCHEMA.field("address"),
        pa.field("size", pa.int64(), nullable=False),  # bytes, as HEAD showed it
        pa.field("digest", pa.string(), nullable=False),  # `ObjectInfo.digest`; "": HEAD proved nothing
    ]
)

_ENTRIES = pa.schema([*DIFFERENT, *(DIGESTS_SCHEMA.field(name) for name in ("address", "digest"))])
_SUBJECTS = pa.schema([SCHEMA.field("address"), ALIKE.field("rank")])
_IN_PARTS = "-[0-9]+$"  # the end of an ETag of an object that was uploaded in parts
_THREADS = 16  # HEADs side by side in one task
_FAILURES = 20  # HEADs that fail in one task before it makes no more


@dataclass(frozen=True)
class Known:
    """What HEADs of earlier marks proved: DIGESTS_SCHEMA, in parts of `folder`. `heads`: how many more may be made."""

    folder: str
    parts: Sequence[Part]
    heads: int


@dataclass(frozen=True)
class Proven:
    """What is known once HEADs are made.

    `different`: entries that have other contents than all candidates (DIFFERENT). `left`: sizes of the others (column
    `size`). `digests`: the rows that were of use (DIGESTS_SCHEMA), also remembered ones. `heads`: how many were made.
    """

    different: DataFrame
    left: DataFrame
    digests: Sequence[Part]
    heads: int


@dataclass(frozen=True)
class Proofs:
    """Proves by HEADs. `folder`: where what is found is put down; `known`: what need not be asked for again."""

    spark: SparkSession
    context: MarkContext
    folder: str
    known: Known

    def prove(self, alike: DataFrame, times: DataFrame, candidates: DataFrame, pages: int) -> Proven | None:
        """Make HEADs, where they are fewer than `pages`. None: they, and what is remembered, cannot help.

        `alike`: ALIKE, of heads' ranges alone; `times`: range_id, and on how many `branches` it is; `candidates`:
        address, size, etag.
        """
        able = self.known.parts or self.known.heads
        if pages <= PAGES_BEFORE_HEADS or not able or not connect(self.context.data).proves:
            return None
        entries = self._entries(alike)
        questions = self._questions(entries, candidates)
        if questions is None:
            return None
        ranks = questions.select("size", "rank").distinct()
        named = candidates.join(many(ranks), "size").select("address", "size", "rank")
        digests, heads = self._digests(questions, named, times, pages)
        if not digests:
            return None
        different = self._different(questions, named, self._read(DIGESTS, digests, DIGESTS_SCHEMA))
        left = entries.join(many(different.select("range_id", "number")), ["range_id", "number"], "left_anti")
        return Proven(different, left.select("size").distinct(), digests, heads)

    def _entries(self, alike: DataFrame) -> DataFrame:
        """_ENTRIES of ranges that are alike by their size; digest "": no HEAD can prove anything of them."""
        rows = alike.where("rank > 0").select(*ALIKE.names)  # what is alike to every class stays so
        width = self.context.settings.scale.range_num_partitions or 4 * spark_width(self.spark)
        work = _Claims(RangePaths(self.context.data, self.context.header.block_prefix), self.context.namespace)
        made = Mapped(rows.repartition(width, "range_id"), _ENTRIES, work.entries)
        return self._read("claims", self._put("claims", made, _ENTRIES), _ENTRIES)

    def _questions(self, entries: DataFrame, candidates: DataFrame) -> DataFrame | None:
        """The entries of which HEADs may prove anything: none whose class holds an object that was uploaded in parts,
        or that claim the ETag that the store lists for a candidate."""
        from pyspark.sql import functions as F

        parts = candidates.where(F.col("etag").rlike(_IN_PARTS)).select("size").distinct()
        listed = candidates.select("size", F.concat(F.lit(MD5_DIGEST), "etag").alias("digest")).dropna().distinct()
        rows = entries.where("digest != ''").join(many(parts), "size", "left_anti")
        rows = rows.join(many(listed), ["size", "digest"], "left_anti").select(*_ENTRIES.names)
        found = self._put("questions", rows, _ENTRIES)
        return self._read("questions", found, _ENTRIES) if found else None

    def _digests(self, questions: DataFrame, named: DataFrame, times: DataFrame, pages: int) -> tuple[list[Part], int]:
        """The digests that are of use, remembered ones and new ones, and how many HEADs were made."""
        from pyspark.sql import functions as F

        subjects = questions.select("address", "rank").unionByName(named.select("address", "rank"))
        subjects = subjects.groupBy("address").agg(F.min("rank").alias("rank")).select(*_SUBJECTS.names)
        subjects = self._read("subjects", self._put("subjects", subjects, _SUBJECTS), _SUBJECTS)
        place = (self.context.workspace, self.known.folder, self.known.parts)
        digests = read(self.spark, *place, DIGESTS_SCHEMA)
        new = subjects.join(many(digests.select("address")), "address", "left_anti")
        spots = questions.join(many(times), "range_id").groupBy("rank").agg(F.sum("branches").alias("spots"))
        with clear_errors():
            needed = new.groupBy("rank").agg(F.count("*").alias("heads")).collect()
            heads = {row["rank"]: int(row["heads"]) for row in needed}
            saved = {row["rank"]: int(row["spots"]) for row in spots.collect()} if self.known.heads else {}
        chosen = _chosen(heads, saved, min(self.known.heads, pages - 1))
        if chosen:
            told = self.spark.createDataFrame(pa.table({"rank": pa.array(chosen, _SUBJECTS.field("rank").type)}))
            asked = new.join(many(told, len(chosen)), "rank", "left_semi").select("address")
            made = Mapped(asked.repartition(spark_width(self.spark)), DIGESTS_SCHEMA, _Heads(self.context.data).digests)
            parts = self._put("heads", made, DIGESTS_SCHEMA)
            digests = digests.unionByName(self._read("heads", parts, DIGESTS_SCHEMA))
        elif not self.known.parts:
            return [], 0
        used = digests.join(many(subjects.select("address")), "address", "left_semi").select(*DIGESTS_SCHEMA.names)
        return self._put(DIGESTS, used, DIGESTS_SCHEMA), sum(heads[rank] for rank in chosen)

    def _different(self, questions: DataFrame, named: DataFrame, digests: DataFrame) -> DataFrame:
        """DIFFERENT: entries with a proof, of a size of which all candidates have one, and none the same."""
        from pyspark.sql import functions as F

        proofs = digests.where("digest != ''")
        contents = named.join(many(proofs), ["address", "size"], "left").select("size", "digest").distinct()
        unproven = contents.where(F.col("digest").isNull()).select("size")
        rows = questions.join(many(proofs), ["address", "size", "digest"], "left_semi")
        rows = rows.join(many(unproven), "size", "left_anti")
        rows = rows.join(many(contents.dropna()), ["size", "digest"], "left_anti").select(*DIFFERENT.names)
        return self._read("different", self._put("different", rows, DIFFERENT), DIFFERENT)

    def _put(self, name: str, rows: DataFrame | Mapped, schema: pa.Schema) -> list[Part]:
        return write(rows, self.context.workspace, {name: f"{self.folder}/{name}"}, schema)[name]

    def _read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> DataFrame:
        return read(self.spark, self.context.workspace, f"{self.folder}/{name}", parts, schema)


def _chosen(heads: Mapping[int, int], spots: Mapping[int, int], most: int) -> list[int]:
    """The ranks whose HEADs are worth it: fewer than the pages that their entries could take at most, each alone, on
    all branches; and no more than `most` in all."""
    found: list[int] = []
    for rank in sorted(heads):
        if heads[rank] < spots.get(rank, 0) and heads[rank] <= most:
            found.append(rank)
            most -= heads[rank]
    return found


@dataclass(frozen=True)
class _Claims:
    """Reads ranges for what their alike entries claim; a picklable value that tasks carry."""

    ranges: RangePaths
    namespace: Namespace

    def entries(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """_ENTRIES of the ranges in a partition. The rows of one range (ALIKE) are all in it."""
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
            yield from pa.table(columns).cast(_ENTRIES).to_batches()

    def _addresses(self, entries: pa.Table) -> pa.Array:
        """The address of each entry in the namespace; "" where it lies elsewhere, or may be read in several ways."""
        columns = (entries[name].combine_chunks() for name in ("address", "address_type"))
        keys = self.namespace.protected_keys(*columns)
        index = keys["index"].to_numpy()
        only = np.bincount(index, minlength=entries.num_rows)[index] == 1
        rows = np.full(entries.num_rows, -1)
        rows[index[only]] = np.flatnonzero(only)
        told = keys["address"].combine_chunks().take(pa.array(rows, mask=rows < 0))
        return pc.fill_null(told, "")


@dataclass(frozen=True)
class _Heads:
    """Makes HEADs; a picklable value that tasks carry."""

    data: StoreConfig

    def digests(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """DIGESTS_SCHEMA of addresses. An object that is gone, or whose HEAD the store refuses, has no row: that
        proves nothing, and is not remembered."""
        store, failures = connect(self.data), 0

        def ask(address: str) -> ObjectInfo | None:
            nonlocal failures
            if failures >= _FAILURES:
                return None
            try:
                return head_if_there(store, address)
            except (StoreError, IncompleteError):  # as S3 answers for an object under a customer's key
                failures += 1
                return None

        with ThreadPoolExecutor(_THREADS) as pool:
            for batch in batches:
                answers = pool.map(ask, batch["address"].to_pylist())
                found = [(info.address, info.size, info.digest or "") for info in answers if info]
                rows = [dict(zip(DIGESTS_SCHEMA.names, row, strict=True)) for row in found]
                yield pa.RecordBatch.from_pylist(rows, schema=DIGESTS_SCHEMA)
