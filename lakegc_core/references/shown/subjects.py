"""What HEADs may prove something of: candidates, and entries of heads that are alike to one, with all that is known of
their contents. `proofs` makes the HEADs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.carried import find
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import all_layers
from lakegc_core.references.shown.alike import CLAIMS, AlikeEntries
from lakegc_core.references.shown.classes import EVERY, PLANNED
from lakegc_core.references.shown.intervals import ALIKE
from lakegc_core.references.shown.remembered import PROOFS, PROOFS_SCHEMA, Known
from lakegc_core.spark.tasks import Mapped, both
from lakegc_core.store.base import MD5_DIGEST, connect
from lakegc_core.store.etags import MD5_ETAG
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Wanted
from lakegc_core.tables.relations import distinct, joined, same, selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLAIMED = pa.schema([*CLAIMS, ALIKE.field("rank"), pa.field("asks", pa.bool_(), nullable=False)])
"""CLAIMS of entries of heads. `asks`: whether HEADs may prove anything of it."""
SUBJECTS = pa.schema(
    [
        *(PROOFS_SCHEMA.field(name) for name in ("address", "size")),
        ALIKE.field("rank"),
        pa.field("is_candidate", pa.bool_(), nullable=False),
        PROOFS_SCHEMA.field("etag"),  # of a candidate, as listed
        PROOFS_SCHEMA.field("digest").with_nullable(True),  # null: no HEAD has been made
    ]
)
QUESTIONS = pa.schema([*CLAIMED, PROOFS_SCHEMA.field("digest")])
CONTENTS = pa.schema([PROOFS_SCHEMA.field(name) for name in ("size", "digest")])

_LISTED = pa.schema([CLAIMED.field(name) for name in ("size", "e_tag")])
_IS_LISTED, _IN_PARTS = (pa.field(name, pa.bool_(), nullable=False) for name in ("is_listed", "in_parts"))
_SEEN = pa.schema([PROOFS_SCHEMA.field("address"), *CONTENTS, pa.field("seen", pa.string())])  # the ETag of HEAD
_NEW = pa.schema([_SEEN.field(name) for name in ("address", "size", "seen")] + [pa.field("new", pa.string())])
_PARTS = "-[0-9]+$"  # the end of an ETag of an object that was uploaded in parts
_NO_TEXT = pa.scalar(None, pa.string())


@dataclass(frozen=True)
class Subjects:
    """`known`: what need not be asked for again. `alike`: ALIKE, of heads' ranges alone."""

    entries: AlikeEntries
    known: Known
    alike: Dataset

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
    def is_promised(self) -> bool:
        """True if lakegc.yaml says that listed ETags are digests."""
        return connect(self.context.data).listed_digests

    def read(self, rows: Dataset, *columns: str) -> Mapped:
        """The rows of a dataset, to be joined."""
        return rows.mapped(self.spark, *columns, here=True)

    @cached_property
    def candidates(self) -> Mapped:
        """PLANNED."""
        return self.read(self.entries.candidates, *PLANNED.names)

    @cached_property
    def ranks(self) -> Mapped:
        """ALIKE, without what is alike to every candidate."""
        return selected(self.read(self.alike), ALIKE, lambda rows: pc.greater(rows["rank"], EVERY))

    @cached_property
    def claims(self) -> Dataset:
        """The claims of heads' entries, each once: CLAIMED. `asks`: whether HEADs may prove anything of it. They do
        not where the claim is no MD5, where it is the ETag that the store lists for a candidate of that size, and where
        such a candidate was uploaded in parts."""
        listed = selected(self.candidates, _LISTED, lambda rows: pc.is_valid(rows["etag"]), e_tag=itemgetter("etag"))
        listed = distinct(listed)
        parts = distinct(selected(listed, _LISTED, lambda rows: _matches(rows["e_tag"], _PARTS)), "size")
        rows = distinct(self.entries.claims(self.alike))
        rows = joined(rows, distinct(self.ranks, "size", "rank"), ["size"])
        rows = joined(rows, _flagged(listed, _IS_LISTED), ["size", "e_tag"], "left")
        rows = joined(rows, _flagged(parts, _IN_PARTS), ["size"], "left")
        return self.out.put("entries", selected(rows, CLAIMED, asks=_asks), CLAIMED, _count_asking)

    @property
    def questions(self) -> Mapped:
        """The entries of which HEADs may prove anything, with the `digest` that they claim: QUESTIONS."""
        return selected(self.read(self.claims), QUESTIONS, itemgetter("asks"), digest=partial(_digest, "e_tag"))

    @cached_property
    def listed(self) -> Dataset:
        """The objects of entries, as the listing shows them: PLANNED."""
        return self.out.put("listed", self._find(self.claims.keys()), PLANNED)

    def _find(self, wanted: Wanted) -> Mapped:
        """Objects whose addresses may be wanted, as the mark's listing shows them: PLANNED."""
        return selected(find(self.spark, all_layers(self.context), wanted, here=True), PLANNED)

    @cached_property
    def remembered(self) -> Dataset:
        """Proofs of earlier HEADs (PROOFS_SCHEMA). A mark takes those of objects that its listing shows unchanged."""
        known = self.known.proofs
        if not self.known.is_mark or not known.rows:
            return known
        rows = distinct(joined(self.read(known), self._find(known.keys()), PLANNED.names, "left_semi"))
        return self.out.put(PROOFS, rows, PROOFS_SCHEMA)

    def _digests(self) -> Mapped:
        """All that is known of contents, and the ETag that was seen: _SEEN."""
        if self.is_promised:
            return selected(self.read(self.listed), _SEEN, seen=itemgetter("etag"), digest=partial(_digest, "etag"))
        return selected(self.read(self.remembered), _SEEN, seen=itemgetter("etag"))

    @cached_property
    def rows(self) -> Dataset:
        """All of which a HEAD may prove something: SUBJECTS."""
        shape = pa.schema(list(SUBJECTS)[:-1])
        entries = distinct(self.questions, "address", "size", "rank")
        candidates = joined(self.candidates, distinct(entries, "size", "rank"), ["size"])
        rows = both(
            selected(candidates, shape, is_candidate=partial(same, True)),
            selected(entries, shape, is_candidate=partial(same, False), etag=partial(same, None)),
        )
        rows = joined(rows, self._digests(), ["address", "size"], "left")
        known = _known_if_promised if self.is_promised else _known
        return self.out.put("subjects", selected(rows, SUBJECTS, digest=known), SUBJECTS)

    @property
    def unknown(self) -> Mapped:
        """The subjects of which no HEAD has been made, of sizes in which every candidate may have a digest."""
        rows = self.read(self.rows)
        none = selected(rows, SUBJECTS, lambda rows: pc.and_(rows["is_candidate"], _is(rows["digest"], "")))
        unknown = selected(rows, SUBJECTS, lambda rows: pc.is_null(rows["digest"]))
        return joined(unknown, distinct(none, "size"), ["size"], "left_anti")

    def contents(self, made: Dataset) -> Mapped:
        """The proven contents of candidates (CONTENTS; digest "": nothing is proven of one)."""
        answers = selected(self.read(made), _NEW, seen=itemgetter("etag"), new=itemgetter("digest"))
        rows = selected(self.read(self.rows), SUBJECTS, itemgetter("is_candidate"))
        rows = joined(rows, answers, ["address", "size"], "left")
        return distinct(selected(rows, CONTENTS, digest=_proven))

    def unproven(self, made: Dataset) -> Mapped:
        """The sizes (column `size`) of which some candidate is not proven."""
        return distinct(selected(self.contents(made), CONTENTS, lambda rows: _is(rows["digest"], "")), "size")


def _flagged(rows: Mapped, flag: pa.Field) -> Mapped:
    return selected(rows, pa.schema([*rows.schema, flag]), **{flag.name: partial(same, True)})


def _matches(etags: pa.Array, pattern: str) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(etags, pattern), False)


def _is(values: pa.Array, value: str | bool) -> pa.Array:
    return pc.fill_null(pc.equal(values, value), False)


def _asks(rows: pa.RecordBatch) -> pa.Array:
    is_known = pc.or_(pc.is_valid(rows["is_listed"]), pc.is_valid(rows["in_parts"]))
    return pc.and_not(_matches(rows["e_tag"], MD5_ETAG), is_known)


def _digest(column: str, rows: pa.RecordBatch) -> pa.Array:
    """The digest that an ETag is; "" where it is none."""
    etags = rows[column]
    return pc.if_else(_matches(etags, MD5_ETAG), pc.binary_join_element_wise(MD5_DIGEST, etags, ""), "")


def _is_seen(rows: pa.RecordBatch) -> pa.Array:
    """True where HEAD showed the object that is listed."""
    both_null = pc.and_(pc.is_null(rows["etag"]), pc.is_null(rows["seen"]))
    return pc.or_(pc.fill_null(pc.equal(rows["etag"], rows["seen"]), False), both_null)


def _known(rows: pa.RecordBatch) -> pa.Array:
    """What is known of subjects. An entry has to claim the digest. A candidate claims nothing: it must be the object
    that HEAD saw."""
    fits = pc.or_(pc.invert(rows["is_candidate"]), _is_seen(rows))
    return pc.if_else(fits, rows["digest"], _NO_TEXT)


def _known_if_promised(rows: pa.RecordBatch) -> pa.Array:
    return pc.if_else(rows["is_candidate"], _digest("etag", rows), _known(rows))


def _proven(rows: pa.RecordBatch) -> pa.Array:
    """What is proven of candidates. What was replaced since it was listed, or answered for another, is not."""
    return pc.coalesce(rows["digest"], pc.if_else(_is_seen(rows), rows["new"], _NO_TEXT), "")


def _count_asking(table: pa.Table) -> dict[str, int]:
    return {"asks": pc.sum(table["asks"]).as_py() or 0}
