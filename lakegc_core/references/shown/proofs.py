"""Proofs by HEAD that entries of heads have other contents than all candidates of their size.

Asking lakeFS by pages is the rule; HEADs of the store are used where they cost less. Two contents are taken for
different if HEAD proved a digest of either. An entry's counts only if the entry itself claims it, with the size that
HEAD shows: what may hide is what claims the same. All comparisons are exact, none is of hashes.

What HEADs proved is remembered, from mark to mark, as long as listings show the same object.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.inventory.carried import find
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import Stage
from lakegc_core.policy.prices import Choice, choose
from lakegc_core.references.shown.alike import CLAIMS, AlikeEntries
from lakegc_core.references.shown.classes import EVERY, PLANNED
from lakegc_core.references.shown.intervals import ALIKE, AWAY, CHOSEN, OF_TAG
from lakegc_core.references.shown.remembered import PROOFS, PROOFS_SCHEMA, Known, proofs_of
from lakegc_core.references.shown.sampled_etags import check_etags
from lakegc_core.spark.session import Mapped, collected, many
from lakegc_core.store.base import MD5_DIGEST, connect
from lakegc_core.store.etags import MD5_ETAG
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import few
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import spark_width

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LEFT, _UNPROVEN = "left", "unproven"
_ENTRIES = pa.schema(
    [
        *CLAIMS,
        ALIKE.field("rank"),
        pa.field("asks", pa.bool_(), nullable=False),
    ]
)
_SUBJECTS = pa.schema(
    [
        *(PROOFS_SCHEMA.field(name) for name in ("address", "size")),
        ALIKE.field("rank"),
        pa.field("is_candidate", pa.bool_(), nullable=False),
        PROOFS_SCHEMA.field("etag"),  # of a candidate, as listed
        PROOFS_SCHEMA.field("digest").with_nullable(True),  # null: no HEAD has been made
    ]
)
_ASKED = pa.schema([*(PROOFS_SCHEMA.field(name) for name in ("address", "size")), ALIKE.field("rank")])
_IN_PARTS = "-[0-9]+$"  # the end of an ETag of an object that was uploaded in parts
_IN_TASK = 2_000  # HEADs: people see how far it is
_MANY = 10_000  # HEADs of which people are told beforehand


@dataclass(frozen=True)
class Proven:
    """Results of HEADs.

    - `left`: the alike entries that are not proven to differ from all candidates of their size (CHOSEN)
    - `pending`: ranks that wait for the HEADs of later marks
    - `proofs`: what later marks may remember (PROOFS_SCHEMA)
    - `heads`, `seconds`: number of HEADs, and the time that they took
    """

    left: Dataset
    pending: Sequence[int]
    proofs: Dataset
    heads: int
    seconds: float


@dataclass(frozen=True)
class Proofs:
    """Proves by HEADs. `known`: what need not be asked for again; `alike`: ALIKE, of heads' ranges alone; `pages`: how
    many pages the entries of a rank take at most; `budget`: of pages, for a mark."""

    entries: AlikeEntries
    known: Known
    alike: Dataset
    pages: Mapping[int, int]
    budget: int

    def prove(self) -> Proven | None:
        """Make HEADs, where they cost less than pages. None: they, and what is remembered, cannot help."""
        try:
            return self._prove()
        except (CorruptFileError, ObjectNotFoundError) as error:
            if not self.known.proofs.rows:
                raise
            self.context.say(
                f"{Stage.EXPIRED_ADDRESSES}: what HEADs proved before does not read, and is forgotten ({error})"
            )
            return replace(self, known=replace(self.known, proofs=Dataset(PROOFS_SCHEMA)))._prove()

    def _prove(self) -> Proven | None:
        if not (self.known.proofs.rows or self.known.heads) or not self._distinct.sum("asks"):
            return None
        if self._is_promised:
            check_etags(self.context, self._listed.frame(self.spark).unionByName(self.candidates))
        needed = self._needed()
        choice = choose(_by_rank(needed), self.pages, self.known.prices, self.known.heads, self.budget)
        started = time.monotonic()
        asked, made, heads = self._heads(choice, needed)
        seconds = time.monotonic() - started
        helps = made.rows or not asked.rows  # of those who may not read data, the store refuses all HEADs at every mark
        pending = self._pending(choice, asked, made) if self.known.is_mark and choice.pending and helps else ()
        # What is promised is not remembered: the promise may be taken back.
        proofs = self._remembered + made if self.known.is_mark and not self._is_promised else Dataset(PROOFS_SCHEMA)
        return Proven(self._left(made), pending, proofs, heads, seconds)

    @property
    def context(self) -> MarkContext:
        return self.entries.context

    @property
    def spark(self) -> SparkSession:
        return self.entries.spark

    @property
    def out(self) -> DatasetFolder:
        return self.entries.out

    @property
    def _is_promised(self) -> bool:
        return connect(self.context.data).listed_digests

    @cached_property
    def candidates(self) -> DataFrame:
        return self.entries.candidates.frame(self.spark, *PLANNED.names)

    @cached_property
    def _distinct(self) -> Dataset:
        """The claims of heads' entries, each once: _ENTRIES. `asks`: whether HEADs may prove anything of it. They do
        not where the claim is no MD5, where it is the ETag that the store lists for a candidate of that size, and where
        such a candidate was uploaded in parts."""
        from pyspark.sql import functions as F

        ranks = self.alike.frame(self.spark, "size", "rank").where(f"rank > {EVERY}").distinct()
        listed = self.candidates.select("size", F.col("etag").alias("e_tag")).dropna().distinct()
        parts = listed.where(F.col("e_tag").rlike(_IN_PARTS)).select("size").distinct()
        rows = self.entries.claims(self.alike).as_frame().distinct()
        most = self.entries.candidates.rows
        rows = rows.join(many(ranks, self.alike.rows), "size")
        rows = rows.join(many(listed.withColumn("is_listed", F.lit(True)), most), ["size", "e_tag"], "left")
        rows = rows.join(many(parts.withColumn("in_parts", F.lit(True)), most), "size", "left")
        asks = F.col("e_tag").rlike(MD5_ETAG) & F.col("is_listed").isNull() & F.col("in_parts").isNull()
        return self.out.put("entries", rows.withColumn("asks", asks).select(*_ENTRIES.names), _ENTRIES, _count_asking)

    def _questions(self) -> DataFrame:
        """The entries of which HEADs may prove anything, with the `digest` that they claim."""
        from pyspark.sql import functions as F

        rows = self._distinct.frame(self.spark).where("asks")
        return rows.withColumn("digest", F.concat(F.lit(MD5_DIGEST), "e_tag"))

    # --- what is known ---

    @cached_property
    def _listed(self) -> Dataset:
        """The objects of entries, as the listing shows them: PLANNED."""
        return self.out.put("listed", _listed(self.spark, self.context, self._distinct.keys()), PLANNED)

    @cached_property
    def _remembered(self) -> Dataset:
        """Proofs of earlier HEADs (PROOFS_SCHEMA). A mark takes those of objects that its listing shows unchanged."""
        known = self.known.proofs
        if not self.known.is_mark or not known.rows:
            return known
        listed = many(_listed(self.spark, self.context, known.keys()))
        return self.out.put(PROOFS, known.frame(self.spark).join(listed, PLANNED.names, "left_semi"), PROOFS_SCHEMA)

    def _digests(self) -> DataFrame:
        """All that is known of contents: address, size, the ETag that was `seen`, and digest."""
        if self._is_promised:
            rows = self._listed.frame(self.spark)
            return rows.withColumn("digest", _digest("etag")).withColumnRenamed("etag", "seen")
        return self._remembered.frame(self.spark).withColumnRenamed("etag", "seen")

    @cached_property
    def _subjects(self) -> Dataset:
        """All of which a HEAD may prove something: _SUBJECTS."""
        from pyspark.sql import functions as F

        entries = self._questions().select("address", "size", "rank").distinct()
        candidates = self.candidates.join(many(entries.select("size", "rank").distinct()), "size")
        rows = candidates.select("address", "size", "rank", "etag", F.lit(True).alias("is_candidate")).unionByName(
            entries.withColumn("etag", F.lit(None).cast("string")).withColumn("is_candidate", F.lit(False))
        )
        if few(self.entries.candidates.rows + self._distinct.rows):
            rows = rows.coalesce(1)  # a union of partitions that join as they are would be shuffled
        rows = rows.join(many(self._digests()), ["address", "size"], "left")
        # An entry has to claim the digest. A candidate claims nothing: it must be the object that HEAD saw.
        fits = ~F.col("is_candidate") | F.col("etag").eqNullSafe(F.col("seen"))
        digest = F.when(fits, F.col("digest"))
        if self._is_promised:
            digest = F.when(F.col("is_candidate"), _digest("etag")).otherwise(digest)
        rows = rows.withColumn("digest", digest)
        return self.out.put("subjects", rows.select(*_SUBJECTS.names), _SUBJECTS)

    def _unknown(self) -> DataFrame:
        """The subjects of which no HEAD has been made, of sizes in which every candidate may have a digest."""
        rows = self._subjects.frame(self.spark)
        none = rows.where("is_candidate AND digest = ''").select("size").distinct()
        return rows.where("digest is null").join(many(none), "size", "left_anti")

    def _needed(self) -> dict[tuple[int, bool], int]:
        """The number of HEADs that are needed, by rank, of candidates and of entries apart."""
        rows = collected(self._unknown().groupBy("rank", "is_candidate").count())
        return {(row["rank"], row["is_candidate"]): int(row["count"]) for row in rows}

    # --- asking ---

    def _heads(self, choice: Choice, needed: Mapping[tuple[int, bool], int]) -> tuple[Dataset, Dataset, int]:
        """Make HEADs of what was chosen. Gives the candidates that were asked for (_ASKED), what was proven
        (PROOFS_SCHEMA), and how many HEADs were made.

        Candidates come first: where one of them has no digest, the entries of its size need none.
        """
        if not choice.ranks:
            return Dataset(_ASKED), Dataset(PROOFS_SCHEMA), 0
        first, last = (sum(needed.get((rank, each), 0) for rank in choice.whole) for each in (True, False))
        rest = 0
        if choice.part is not None:
            of_part = min(choice.most, needed.get((choice.part, True), 0))
            rest = min(choice.most - of_part, needed.get((choice.part, False), 0))
            first, last = first + of_part, last + rest
        if first + last >= _MANY:
            self.context.say(
                f"{Stage.EXPIRED_ADDRESSES}: up to {first + last:,} HEADs tell contents apart, in some "
                f"{(first + last) / self.known.prices.heads:,.0f} s; what they prove is remembered"
            )
        asked = self._asked("asked", self._chosen(choice, choice.most, candidates=True), first)
        made = self._made(asked)
        entries = self._chosen(choice, rest, candidates=False)
        more = self._asked("asked-entries", entries.join(many(self._unproven(made)), "size", "left_anti"), last)
        return asked, made + self._made(more), asked.rows + more.rows

    def _asked(self, name: str, rows: DataFrame, needed: int) -> Dataset:
        return self.out.put(name, rows, _ASKED) if needed else Dataset(_ASKED)

    def _chosen(self, choice: Choice, most: int, *, candidates: bool) -> DataFrame:
        """The subjects to ask for; of the rank that is not done whole, at most so many."""
        rows = self._unknown().where(f"is_candidate = {candidates}")
        found = rows.where(rows["rank"].isin(list(choice.whole)))
        if choice.part is not None:
            found = found.unionByName(rows.where(rows["rank"] == choice.part).limit(most))
        return found.select(*_ASKED.names).distinct()

    def _made(self, asked: Dataset) -> Dataset:
        if not asked.rows:
            return Dataset(PROOFS_SCHEMA)
        tasks = max(spark_width(self.spark), -(-asked.rows // _IN_TASK))
        rows = asked.frame(self.spark, "address").distinct().repartition(tasks)
        proofs = Mapped(rows, PROOFS_SCHEMA, partial(proofs_of, self.context.data))
        return self.out.put(PROOFS, proofs, PROOFS_SCHEMA)

    # --- what follows ---

    def _contents(self, made: Dataset) -> DataFrame:
        """The proven contents of candidates: size, digest ("": nothing is proven of one)."""
        from pyspark.sql import functions as F

        new = made.frame(self.spark).withColumnsRenamed({"digest": "new", "etag": "seen"})
        rows = self._subjects.frame(self.spark).where("is_candidate")
        rows = rows.join(many(new), ["address", "size"], "left")
        # What was replaced since it was listed, or answered for another, is not proven.
        rows = rows.withColumn("new", F.when(F.col("etag").eqNullSafe(F.col("seen")), F.col("new")))
        return rows.select("size", F.coalesce("digest", "new", F.lit("")).alias("digest")).distinct()

    def _unproven(self, made: Dataset) -> DataFrame:
        return self._contents(made).where("digest = ''").select("size").distinct()

    def _pending(self, choice: Choice, asked: Dataset, made: Dataset) -> list[int]:
        """The ranks that wait for later HEADs. Where a candidate was asked for and has no digest, none can help."""
        from pyspark.sql import functions as F

        answers = made.frame(self.spark)
        some = answers.where("digest != ''").select("address")
        failed = asked.frame(self.spark).join(many(some), "address", "left_anti").select("size").distinct()
        rows = self._unknown().where(F.col("rank").isin(list(choice.pending)))
        rows = rows.join(many(answers.select("address")), "address", "left_anti").join(
            many(failed), "size", "left_anti"
        )
        return [row["rank"] for row in collected(rows.select("rank").distinct())]

    def _left(self, made: Dataset) -> Dataset:
        """CHOSEN: the alike entries without those that have a proof, of a size of which all candidates have one, and
        none the same. Of an address that may be read in several ways, each reading has to have one."""
        from pyspark.sql import functions as F

        subjects = self._subjects.frame(self.spark).where("not is_candidate")
        names, claim = ["address", "size", "digest"], ["address", "size", "e_tag"]
        proofs = subjects.select(*names).unionByName(made.frame(self.spark, *names))
        rows = self._questions().join(many(proofs.where("digest != ''").distinct()), names, "left_semi")
        rows = rows.join(many(self._unproven(made)), "size", "left_anti")
        rows = rows.join(many(self._contents(made)), ["size", "digest"], "left_anti").select(*claim)
        unproven = self._distinct.frame(self.spark).join(many(rows), claim, "left_anti").select(*CLAIMS.names)
        left = self.entries.ranges_with_claims(self.out.put(_UNPROVEN, unproven, CLAIMS))
        left = left.withColumn("which", F.lit(OF_TAG).cast("tinyint"))
        if self.entries.heads.outside.sources:
            away = self.entries.ranges_elsewhere(self.alike).withColumn("e_tag", F.lit(None).cast("string"))
            left = left.unionByName(away.withColumn("which", F.lit(AWAY).cast("tinyint")))
        alike = self.alike.frame(self.spark).where(f"rank > {EVERY}")
        return self.out.put(_LEFT, left.join(many(alike), ["range_id", "size"]).select(*CHOSEN.names), CHOSEN)


def _listed(spark: SparkSession, context: MarkContext, wanted: Wanted) -> DataFrame:
    """Objects whose addresses may be wanted, as the mark's listing shows them: PLANNED."""
    return find(spark, all_layers(context), wanted).as_frame().select(*PLANNED.names)


def _digest(etag: str) -> Column:
    """The digest that a listed ETag is; "" where it is none."""
    from pyspark.sql import functions as F

    plain = F.coalesce(etag, F.lit(""))
    return F.when(plain.rlike(MD5_ETAG), F.concat(F.lit(MD5_DIGEST), plain)).otherwise("")


def _count_asking(table: pa.Table) -> dict[str, int]:
    return {"asks": pc.sum(table["asks"]).as_py() or 0}


def _by_rank(needed: Mapping[tuple[int, bool], int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for (rank, _), heads in needed.items():
        found[rank] = found.get(rank, 0) + heads
    return found
