"""Which entries of heads are proven to have other contents than all candidates of their size.

Asking lakeFS by pages is the rule; HEADs of the store are used where they cost less. Two contents are taken for
different if HEAD proved a digest of either. An entry's counts only if the entry itself claims it, with the size that
HEAD shows: what may hide is what claims the same. All comparisons are exact, none is of hashes.

What HEADs proved is remembered, from mark to mark, as long as listings show the same object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.inventory.carried import find
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import all_layers
from lakegc_core.names import Stage
from lakegc_core.policy.prices import Choice, choose
from lakegc_core.references.shown.alike import CLAIMS, OF_HEADS, AlikeEntries
from lakegc_core.references.shown.classes import EVERY, PLANNED
from lakegc_core.references.shown.intervals import ALIKE, AWAY, CHOSEN, OF_TAG
from lakegc_core.references.shown.remembered import PROOFS, PROOFS_SCHEMA, HeadTask, Known
from lakegc_core.references.shown.sampled_etags import check_etags
from lakegc_core.spark.session import Mapped, clear_errors, many
from lakegc_core.store.base import MD5_DIGEST, connect
from lakegc_core.store.etags import MD5_ETAG
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.parts import Part, read, rows_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LEFT, _UNPROVEN = "left", "unproven"
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
    """What is known once HEADs are made.

    `left`: parts of CHOSEN, of the alike entries that are not proven to differ from all candidates of their size.
    `pending`: ranks that wait for the HEADs of later marks. `proofs`: parts of PROOFS_SCHEMA for later marks. `heads`:
    how many were asked for, in so many `seconds`.
    """

    left: Sequence[Part]
    pending: Sequence[int]
    proofs: Sequence[Part]
    heads: int
    seconds: float


@dataclass(frozen=True)
class Proofs:
    """Proves by HEADs. `known`: what need not be asked for again; `alike`: parts of ALIKE, of heads' ranges alone;
    `pages`: how many pages the entries of a rank take at most."""

    entries: AlikeEntries
    known: Known
    alike: Sequence[Part]
    pages: Mapping[int, int]

    def prove(self) -> Proven | None:
        """Make HEADs, where they cost less than pages. None: they, and what is remembered, cannot help."""
        try:
            return self._prove()
        except (CorruptFileError, ObjectNotFoundError) as error:
            if not self.known.parts:
                raise
            self.context.say(
                f"{Stage.EXPIRED_ADDRESSES}: what HEADs proved before does not read, and is forgotten ({error})"
            )
            return replace(self, known=replace(self.known, parts=()))._prove()

    def _prove(self) -> Proven | None:
        if not (self.known.parts or self.known.heads) or not self._asks:
            return None
        if self._is_promised:
            listed = self._read("listed", self._listed, PLANNED)
            check_etags(self.context, listed.unionByName(self.candidates))
        needed = self._needed()
        choice = choose(_by_rank(needed), self.pages, self.known.prices, self.known.heads)
        started = time.monotonic()
        asked, made, heads = self._heads(choice, needed)
        seconds = time.monotonic() - started
        pending = self._pending(choice, asked, made) if self.known.is_mark and choice.pending else ()
        # What is promised is not remembered: the promise may be taken back.
        proofs = [*self._remembered, *made] if self.known.is_mark and not self._is_promised else []
        return Proven(self._left(made), pending, proofs, heads, seconds)

    @property
    def context(self) -> MarkContext:
        return self.entries.context

    @property
    def spark(self) -> SparkSession:
        return self.entries.spark

    @property
    def _is_promised(self) -> bool:
        return connect(self.context.data).listed_digests

    @cached_property
    def candidates(self) -> DataFrame:
        return self.entries.read_candidates(*PLANNED.names)

    @cached_property
    def _distinct(self) -> list[Part]:
        """What heads' entries claim, each once: _ENTRIES. `asks`: whether HEADs may prove anything of it. They do not
        where the claim is no MD5, where it is the ETag that the store lists for a candidate of that size, and where
        such a candidate was uploaded in parts."""
        from pyspark.sql import functions as F

        ranks = (
            self.entries.read(OF_HEADS, self.alike, ALIKE).where(f"rank > {EVERY}").select("size", "rank").distinct()
        )
        listed = self.candidates.select("size", F.col("etag").alias("e_tag")).dropna().distinct()
        parts = listed.where(F.col("e_tag").rlike(_IN_PARTS)).select("size").distinct()
        rows = self.entries.claims(self.alike).as_frame().distinct()
        rows = rows.join(many(ranks), "size")
        rows = rows.join(many(listed.withColumn("is_listed", F.lit(True))), ["size", "e_tag"], "left")
        rows = rows.join(many(parts.withColumn("in_parts", F.lit(True))), "size", "left")
        asks = F.col("e_tag").rlike(MD5_ETAG) & F.col("is_listed").isNull() & F.col("in_parts").isNull()
        return self._put("entries", rows.withColumn("asks", asks).select(*_ENTRIES.names), _ENTRIES, _count_asking)

    @property
    def _asks(self) -> int:
        return sum(part.sums["asks"] for part in self._distinct)

    def _questions(self) -> DataFrame:
        """The entries of which HEADs may prove anything, with the `digest` that they claim."""
        from pyspark.sql import functions as F

        rows = self._read("entries", self._distinct, _ENTRIES).where("asks")
        return rows.withColumn("digest", F.concat(F.lit(MD5_DIGEST), "e_tag"))

    # --- what is known ---

    @cached_property
    def _listed(self) -> list[Part]:
        """What the listing shows of the objects of entries: PLANNED."""
        wanted = Wanted.at(self.context.workspace, ((self.entries.folder("entries"), tuple(self._distinct)),))
        return self._put("listed", _listed(self.spark, self.context, wanted), PLANNED)

    @cached_property
    def _remembered(self) -> list[Part]:
        """Parts of what earlier HEADs proved; of a mark, of objects that its listing shows as they were then."""
        if not self.known.is_mark or not self.known.parts:
            return list(self.known.parts)
        place = (self.known.folder, self.known.parts)
        listed = _listed(self.spark, self.context, Wanted.at(self.context.workspace, (place,)))
        rows = read(self.spark, self.context.workspace, *place, PROOFS_SCHEMA)
        return self._put(PROOFS, rows.join(many(listed), PLANNED.names, "left_semi"), PROOFS_SCHEMA)

    def _digests(self) -> DataFrame:
        """What is known of contents: address, size, the ETag that was `seen`, and digest."""
        if self._is_promised:
            rows = self._read("listed", self._listed, PLANNED)
            return rows.withColumn("digest", _digest("etag")).withColumnRenamed("etag", "seen")
        folder = self.entries.folder(PROOFS) if self.known.is_mark else self.known.folder
        rows = read(self.spark, self.context.workspace, folder, self._remembered, PROOFS_SCHEMA)
        return rows.withColumnRenamed("etag", "seen")

    @cached_property
    def _subjects(self) -> list[Part]:
        """All of which a HEAD may prove something: _SUBJECTS."""
        from pyspark.sql import functions as F

        entries = self._questions().select("address", "size", "rank").distinct()
        candidates = self.candidates.join(many(entries.select("size", "rank").distinct()), "size")
        rows = candidates.select("address", "size", "rank", "etag", F.lit(True).alias("is_candidate")).unionByName(
            entries.withColumn("etag", F.lit(None).cast("string")).withColumn("is_candidate", F.lit(False))
        )
        rows = rows.join(many(self._digests()), ["address", "size"], "left")
        # An entry has to claim the digest. A candidate claims nothing: it must be the object that HEAD saw.
        fits = ~F.col("is_candidate") | F.col("etag").eqNullSafe(F.col("seen"))
        digest = F.when(fits, F.col("digest"))
        if self._is_promised:
            digest = F.when(F.col("is_candidate"), _digest("etag")).otherwise(digest)
        rows = rows.withColumn("digest", digest)
        return self._put("subjects", rows.select(*_SUBJECTS.names), _SUBJECTS)

    def _unknown(self) -> DataFrame:
        """What no HEAD has been made of, of sizes in which every candidate may have a digest."""
        rows = self._read("subjects", self._subjects, _SUBJECTS)
        none = rows.where("is_candidate AND digest = ''").select("size").distinct()
        return rows.where("digest is null").join(many(none), "size", "left_anti")

    def _needed(self) -> dict[tuple[int, bool], int]:
        """How many HEADs are needed, by rank, of candidates and of entries apart."""
        with clear_errors():
            rows = self._unknown().groupBy("rank", "is_candidate").count().collect()
        return {(row["rank"], row["is_candidate"]): int(row["count"]) for row in rows}

    # --- asking ---

    def _heads(self, choice: Choice, needed: Mapping[tuple[int, bool], int]) -> tuple[list[Part], list[Part], int]:
        """Make HEADs of what was chosen. Gives parts of the candidates that were asked for (_ASKED), parts of what was
        proven, and how many HEADs were made.

        Candidates come first: where one of them has no digest, the entries of its size need none.
        """
        if not choice.ranks:
            return [], [], 0
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
        asked = self._put("asked", self._chosen(choice, choice.most, candidates=True), _ASKED) if first else []
        made = self._made("asked", asked)
        entries = self._chosen(choice, rest, candidates=False)
        entries = entries.join(many(self._unproven(made)), "size", "left_anti")
        more = self._put("asked-entries", entries, _ASKED) if last else []
        made += self._made("asked-entries", more)
        return asked, made, rows_of(asked) + rows_of(more)

    def _chosen(self, choice: Choice, most: int, *, candidates: bool) -> DataFrame:
        """What is to be asked for; of the rank that is not done whole so many at `most`."""
        rows = self._unknown().where(f"is_candidate = {candidates}")
        found = rows.where(rows["rank"].isin(list(choice.whole)))
        if choice.part is not None:
            found = found.unionByName(rows.where(rows["rank"] == choice.part).limit(most))
        return found.select(*_ASKED.names).distinct()

    def _made(self, name: str, asked: Sequence[Part]) -> list[Part]:
        if not asked:
            return []
        tasks = max(spark_width(self.spark), -(-rows_of(asked) // _IN_TASK))
        rows = self._read(name, asked, _ASKED).select("address").distinct().repartition(tasks)
        return self._put(PROOFS, Mapped(rows, PROOFS_SCHEMA, HeadTask(self.context.data).proofs), PROOFS_SCHEMA)

    # --- what follows ---

    def _contents(self, made: Sequence[Part]) -> DataFrame:
        """What candidates are proven to hold: size, digest ("": nothing is proven of one)."""
        from pyspark.sql import functions as F

        new = self._read(PROOFS, made, PROOFS_SCHEMA).withColumnsRenamed({"digest": "new", "etag": "seen"})
        rows = self._read("subjects", self._subjects, _SUBJECTS).where("is_candidate")
        rows = rows.join(many(new), ["address", "size"], "left")
        # What was replaced since it was listed, or answered for another, is not proven.
        rows = rows.withColumn("new", F.when(F.col("etag").eqNullSafe(F.col("seen")), F.col("new")))
        return rows.select("size", F.coalesce("digest", "new", F.lit("")).alias("digest")).distinct()

    def _unproven(self, made: Sequence[Part]) -> DataFrame:
        return self._contents(made).where("digest = ''").select("size").distinct()

    def _pending(self, choice: Choice, asked: Sequence[Part], made: Sequence[Part]) -> list[int]:
        """The ranks that wait for later HEADs. Where a candidate was asked for and has no digest, none can help."""
        from pyspark.sql import functions as F

        told = self._read(PROOFS, made, PROOFS_SCHEMA)
        some = told.where("digest != ''").select("address")
        failed = self._read("asked", asked, _ASKED).join(many(some), "address", "left_anti").select("size").distinct()
        rows = self._unknown().where(F.col("rank").isin(list(choice.pending)))
        rows = rows.join(many(told.select("address")), "address", "left_anti").join(many(failed), "size", "left_anti")
        with clear_errors():
            return [row["rank"] for row in rows.select("rank").distinct().collect()]

    def _left(self, made: Sequence[Part]) -> list[Part]:
        """CHOSEN: the alike entries without those that have a proof, of a size of which all candidates have one, and
        none the same. Of an address that may be read in several ways, each reading has to have one."""
        from pyspark.sql import functions as F

        subjects = self._read("subjects", self._subjects, _SUBJECTS).where("not is_candidate")
        names, claim = ["address", "size", "digest"], ["address", "size", "e_tag"]
        proofs = subjects.select(*names).unionByName(self._read(PROOFS, made, PROOFS_SCHEMA).select(*names))
        rows = self._questions().join(many(proofs.where("digest != ''").distinct()), names, "left_semi")
        rows = rows.join(many(self._unproven(made)), "size", "left_anti")
        rows = rows.join(many(self._contents(made)), ["size", "digest"], "left_anti").select(*claim)
        every = self._read("entries", self._distinct, _ENTRIES)
        unproven = self._put(_UNPROVEN, every.join(many(rows), claim, "left_anti").select(*CLAIMS.names), CLAIMS)
        left = self.entries.claiming(_UNPROVEN, unproven).withColumn("which", F.lit(OF_TAG).cast("tinyint"))
        if self.entries.heads.outside:
            away = self.entries.away(self.alike).withColumn("e_tag", F.lit(None).cast("string"))
            left = left.unionByName(away.withColumn("which", F.lit(AWAY).cast("tinyint")))
        alike = self.entries.read(OF_HEADS, self.alike, ALIKE).where(f"rank > {EVERY}")
        return self._put(LEFT, left.join(many(alike), ["range_id", "size"]).select(*CHOSEN.names), CHOSEN)

    def _put(
        self,
        name: str,
        rows: DataFrame | Mapped,
        schema: pa.Schema,
        summarise: Callable[[pa.Table], Mapping[str, int]] | None = None,
    ) -> list[Part]:
        return self.entries.put(name, rows, schema, summarise)

    def _read(self, name: str, parts: Sequence[Part], schema: pa.Schema) -> DataFrame:
        return self.entries.read(name, parts, schema)


def _listed(spark: SparkSession, context: MarkContext, wanted: Wanted) -> DataFrame:
    """What the mark's listing shows of objects whose addresses may be wanted: PLANNED."""
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
