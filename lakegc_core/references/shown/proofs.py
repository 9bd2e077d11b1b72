"""Proofs by HEAD that entries of heads have other contents than all candidates of their size.

Asking lakeFS by pages is the rule; HEADs of the store are used where they cost less. Two contents are taken for
different if HEADs proved a digest of each, and these differ. The digest of an entry's object is used only if the entry
claims the same digest, and the size that HEAD shows: lakeFS compares what entries claim. All comparisons are exact:
none is of hashes.

What HEADs proved is remembered, from mark to mark, as long as listings show the same object.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.prices import Choice, choose
from lakegc_core.references.shown.alike import CLAIMS
from lakegc_core.references.shown.intervals import AWAY, CHOSEN, OF_TAG, of_ranks
from lakegc_core.references.shown.remembered import PROOFS, PROOFS_SCHEMA, proofs_of
from lakegc_core.references.shown.sampled_etags import check_etags
from lakegc_core.references.shown.subjects import CONTENTS, SUBJECTS, Subjects
from lakegc_core.spark.tasks import Mapped, both
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import spark_width
from lakegc_core.tables.relations import counted, distinct, joined, limited, same, selected

_LEFT, _UNPROVEN = "left", "unproven"
_ASKED = pa.schema([SUBJECTS.field(name) for name in ("address", "size", "rank")])
_PROVEN = pa.schema([PROOFS_SCHEMA.field("address"), *CONTENTS])
_WHICH = pa.schema([CHOSEN.field(name) for name in ("range_id", "size", "e_tag", "which")])
_IN_TASK = 2_000  # HEADs of a task: short tasks show progress
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
    """Proves by HEADs. `pages`: how many pages the entries of a rank take at most; `budget`: of pages, for a mark."""

    subjects: Subjects
    pages: Mapping[int, int]
    budget: int

    def prove(self) -> Proven | None:
        """Make HEADs, where they cost less than pages. None: they, and what is remembered, cannot help."""
        try:
            return self._prove()
        except (CorruptFileError, ObjectNotFoundError) as error:
            known = self.subjects.known
            if not known.proofs.rows:
                raise
            self.context.say(
                f"{Stage.EXPIRED_ADDRESSES}: the proofs of earlier HEADs cannot be read, and are forgotten ({error})"
            )
            known = replace(known, proofs=Dataset(PROOFS_SCHEMA))
            return replace(self, subjects=replace(self.subjects, known=known))._prove()

    def _prove(self) -> Proven | None:
        subjects, known = self.subjects, self.subjects.known
        if not (known.proofs.rows or known.heads) or not subjects.claims.sum("asks"):
            return None
        if subjects.is_promised:
            check_etags(self.context, both(subjects.read(subjects.listed), subjects.candidates).as_frame())
        needed = counted(subjects.unknown, "rank", "is_candidate")
        choice = choose(_by_rank(needed), self.pages, known.prices, known.heads, self.budget)
        started = time.monotonic()
        asked, more, made = self._heads(choice, needed)
        seconds = time.monotonic() - started
        # A key that may not read data is refused every HEAD at every mark: nothing waits for that.
        helps = made.rows or not asked.rows
        pending = self._pending(choice, asked, more, made) if known.is_mark and choice.pending and helps else ()
        # What is promised is not remembered: the promise may be taken back.
        proofs = subjects.remembered + made if known.is_mark and not subjects.is_promised else Dataset(PROOFS_SCHEMA)
        return Proven(self._left(made), pending, proofs, asked.rows + more.rows, seconds)

    @property
    def context(self) -> MarkContext:
        return self.subjects.context

    @property
    def out(self) -> DatasetFolder:
        return self.subjects.out

    # --- asking ---

    def _heads(self, choice: Choice, needed: Mapping[tuple[Any, ...], int]) -> tuple[Dataset, Dataset, Dataset]:
        """Make HEADs of what was chosen. Gives the candidates and the entries that were asked for (_ASKED), and what
        was proven (PROOFS_SCHEMA). `needed`: HEADs by rank, of candidates and of entries apart.

        Candidates come first: where one of them has no digest, the entries of its size need none.
        """
        if not choice.ranks:
            return Dataset(_ASKED), Dataset(_ASKED), Dataset(PROOFS_SCHEMA)
        of_candidates, of_entries = (
            sum(needed.get((rank, each), 0) for rank in choice.whole) for each in (True, False)
        )
        rest = 0
        if choice.part is not None:
            of_part = min(choice.most, needed.get((choice.part, True), 0))
            rest = min(choice.most - of_part, needed.get((choice.part, False), 0))
            of_candidates, of_entries = of_candidates + of_part, of_entries + rest
        if (every := of_candidates + of_entries) >= _MANY:
            self.context.say(
                f"{Stage.EXPIRED_ADDRESSES}: up to {every:,} HEADs tell contents apart, in some "
                f"{every / self.subjects.known.prices.heads:,.0f} s; what they prove is remembered"
            )
        asked = self._asked("asked", self._chosen(choice, choice.most, candidates=True), of_candidates)
        made = self._made(asked)
        entries = self._chosen(choice, rest, candidates=False)
        entries = joined(entries, self.subjects.unproven(made), ["size"], "left_anti")
        more = self._asked("asked-entries", entries, of_entries)
        return asked, more, made + self._made(more)

    def _asked(self, name: str, rows: Mapped, needed: int) -> Dataset:
        return self.out.put(name, rows, _ASKED) if needed else Dataset(_ASKED)

    def _chosen(self, choice: Choice, most: int, *, candidates: bool) -> Mapped:
        """The subjects to ask for; of the rank that is not done whole, at most `most`."""
        rows = selected(self.subjects.unknown, _ASKED, lambda rows: pc.equal(rows["is_candidate"], candidates))
        found = selected(rows, _ASKED, partial(of_ranks, choice.whole))
        if choice.part is not None:
            found = both(found, limited(selected(rows, _ASKED, partial(of_ranks, (choice.part,))), most))
        return distinct(found)

    def _made(self, asked: Dataset) -> Dataset:
        if not asked.rows:
            return Dataset(PROOFS_SCHEMA)
        rows = distinct(self.subjects.read(asked, "address"))
        if asked.rows > _IN_TASK:
            tasks = max(spark_width(self.subjects.spark), -(-asked.rows // _IN_TASK))
            rows = Mapped(rows.as_frame().repartition(tasks), rows.schema)
        return self.out.put(PROOFS, rows.then(PROOFS_SCHEMA, partial(proofs_of, self.context.data)), PROOFS_SCHEMA)

    # --- what follows ---

    def _pending(self, choice: Choice, asked: Dataset, more: Dataset, made: Dataset) -> list[int]:
        """The ranks that wait for later HEADs. A size drops out if a candidate of it was asked for and has no digest:
        no HEAD can help. A rank drops out if most HEADs of its entries proved nothing: every mark would repeat them."""
        answers = self.subjects.read(made)
        some = distinct(selected(answers, PROOFS_SCHEMA, _has_digest), "address")
        failed = distinct(joined(self.subjects.read(asked), some, ["address"], "left_anti"), "size")
        rows = selected(self.subjects.unknown, SUBJECTS, partial(of_ranks, choice.pending))
        rows = joined(rows, distinct(answers, "address"), ["address"], "left_anti")
        entries, fits = self.subjects.read(more), distinct(answers, "address", "size")
        proved = counted(joined(entries, fits, ["address", "size"], "left_semi"), "rank")
        silent = {rank for rank, heads in counted(entries, "rank").items() if 2 * proved.get(rank, 0) < heads}
        waiting = counted(joined(rows, failed, ["size"], "left_anti"), "rank")
        return [rank for (rank,) in waiting if (rank,) not in silent]

    def _left(self, made: Dataset) -> Dataset:
        """CHOSEN: the alike entries that are not proven. One is proven if it has a digest, every candidate of its size
        has one, and none has the same. Of an address that may be read in several ways, each reading has to have one."""
        subjects, entries = self.subjects, self.subjects.entries
        known = selected(subjects.read(subjects.rows), SUBJECTS, lambda rows: pc.invert(rows["is_candidate"]))
        proofs = distinct(both(*(selected(each, _PROVEN, _has_digest) for each in (known, subjects.read(made)))))
        rows = joined(subjects.questions, proofs, _PROVEN.names, "left_semi")
        rows = joined(rows, subjects.unproven(made), ["size"], "left_anti")
        rows = joined(rows, subjects.contents(made), CONTENTS.names, "left_anti")
        unproven = joined(subjects.read(subjects.claims), selected(rows, CLAIMS), CLAIMS.names, "left_anti")
        found = entries.ranges_with_claims(self.out.put(_UNPROVEN, selected(unproven, CLAIMS), CLAIMS))
        left = selected(found, _WHICH, which=partial(same, OF_TAG))
        if entries.heads.outside.sources:
            away = entries.ranges_elsewhere(subjects.alike)
            left = both(left, selected(away, _WHICH, e_tag=partial(same, None), which=partial(same, AWAY)))
        return self.out.put(_LEFT, selected(joined(left, subjects.ranks, ["range_id", "size"]), CHOSEN), CHOSEN)


def _has_digest(rows: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(pc.not_equal(rows["digest"], ""), False)


def _by_rank(needed: Mapping[tuple[Any, ...], int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for (rank, _), heads in needed.items():
        found[rank] = found.get(rank, 0) + heads
    return found
