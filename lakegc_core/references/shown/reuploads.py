"""Identical re-uploads: candidates that a branch shows although no staged dump names them.

lakeFS compares entries by what they claim, not by address: an upload of the same bytes to a path that the head holds is
not "uncommitted", and yet reads of the branch go to the new object. So branches are asked what they show: at the mark,
to say what is garbage, and again at every look, to be sure. Small repositories are asked whole. In others, a candidate
can hide only behind an alike entry of a head, wherever the object of that entry lies. So lakegc asks only for the paths
of such entries.

Contents are taken for different if their sizes differ, or by proof (see `proofs`). An ETag of a listing proves it only
where lakegc.yaml says so.
On blockstore `local` every branch is listed with the staged dump, so nobody is asked. What a server that compacts may
not show is left waiting (see `compaction`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.lakefs.http import PAGE
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json, Outcome
from lakegc_core.policy.facts import Amount
from lakegc_core.policy.safety import ASKED_AT_ONCE, PAGES_BEFORE_HEADS
from lakegc_core.references.shown.alike import AlikeEntries
from lakegc_core.references.shown.asking import INTERVALS, SHOWN, SHOWN_SCHEMA, Asking, Interval
from lakegc_core.references.shown.classes import EVERY, HAD_ITS_TURN, SIZES, find_classes, sum_classes, that_wait
from lakegc_core.references.shown.compaction import may_compact, sizes_alike
from lakegc_core.references.shown.head_ranges import HeadRanges, read_head_ranges
from lakegc_core.references.shown.heads import BranchHeads
from lakegc_core.references.shown.intervals import ALIKE, ALL, CHOSEN, CLASS, PLACES, RangePaths, of_ranks
from lakegc_core.references.shown.proofs import Proofs, Proven
from lakegc_core.references.shown.remembered import Known
from lakegc_core.references.shown.subjects import Subjects
from lakegc_core.spark.tasks import Mapped, both, run_on_rows, run_tasks
from lakegc_core.store.base import connect
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.gather import HASH, gather, partitions_for, rows_in, with_hash
from lakegc_core.tables.parts import parts_of, spark_width
from lakegc_core.tables.relations import distinct, joined, ordered, same, selected, summed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAITING = "waiting"
_SHOWN = pa.schema([HASH, *SHOWN_SCHEMA])
_COSTS = pa.schema([CLASS, pa.field("pages", pa.int64(), nullable=False)])
_VERDICTS = pa.schema([*SHOWN_SCHEMA, pa.field("verdict", pa.string())])
_ALIKE, _OF_HEADS = "alike", "alike-of-heads"
_WHOLE_BRANCH_ENTRIES = 20 * PAGE  # a branch with more is cut where ranges of its head begin, and asked side by side
_LAST = 2**31 - 1  # above every rank
_RANGES_HERE, _INTERVALS_HERE = 8, 64  # which this process reads, and asks for
_ROUNDS = 8  # of leaving out classes that no budget suffices for, at most: others have their turn


@dataclass(frozen=True)
class Reuploads:
    """Answers of lakeFS about candidates.

    - `verdicts`: each address once, and verdict: `rescued` (a branch shows it) or `unconfirmed` (it waits); a candidate
      that has no row is shown nowhere. Addresses that are no candidates may be among them, as in `shown`
    - `shown`: the addresses that branches show (SHOWN_SCHEMA), as often as they do. Addresses that are no
      candidates may be among them: many candidates are looked up by hashes
    - `asked_at`: unix seconds of the last answer
    - `pages`, `seconds`: number of pages that were read, and the time that they took
    - `waiting`: classes that were not asked for, or that a server that compacts may not show (SIZES)
    - `proven`: what HEADs proved; None where it was of no use
    """

    verdicts: Mapped
    shown: Dataset
    asked_at: float
    pages: int
    seconds: float
    waiting: Dataset
    proven: Proven | None = None

    @property
    def left(self) -> Amount:
        """The candidates that wait."""
        return Amount(self.waiting.sum("objects"), self.waiting.sum("bytes"))


def find_reuploads(
    spark: SparkSession,
    context: MarkContext,
    heads: BranchHeads,
    candidates: Dataset,
    out: DatasetFolder,
    waited: Dataset,
    known: Callable[[], Known] | None = None,
) -> Reuploads | None:
    """Find the candidates that branches show, or may hide. None: no branch can show any that the staged dump lacks.

    - `candidates`: address, size and etag, among other columns
    - `out`: where the search puts down what it finds
    - `waited`: classes (SIZES) that were left over last time, and come first
    - `known`: gives what is proven of contents; without it only sizes tell them apart
    """
    if not candidates.rows:
        return None
    return _Search(AlikeEntries(spark, context, heads, candidates, out, waited), known, may_compact(context)).run()


@dataclass(frozen=True)
class _Search:
    entries: AlikeEntries
    known: Callable[[], Known] | None
    may_compact: bool

    @property
    def spark(self) -> SparkSession:
        return self.entries.spark

    @property
    def context(self) -> MarkContext:
        return self.entries.context

    @property
    def heads(self) -> BranchHeads:
        return self.entries.heads

    def run(self) -> Reuploads | None:
        found = None if self.context.namespace.is_local else self._shown()
        return self._answered([], None) if found is None and self.may_compact else found

    @cached_property
    def _classes(self) -> Dataset:
        entries = self.entries
        return find_classes(self.spark, entries.candidates, entries.waited, entries.out)

    def _shown(self) -> Reuploads | None:
        if self._is_small and self.heads.entries_bound <= _WHOLE_BRANCH_ENTRIES:
            return self._asked_whole()
        # A small repository is asked whole: nobody looks for entries there.
        if not (self._is_small or self._hits.rows or self.heads.misstated.rows):
            return None
        ranges = self._head_ranges
        if self._is_small or ranges.pages <= self._whole:
            return self._asked(ranges.whole_branches(), None)
        alike = joined(self._read(self._alike), ranges.branch_counts(), ["range_id"])
        of_heads = self.entries.out.put(_OF_HEADS, selected(alike, ALIKE), ALIKE)
        return self._within_budget(of_heads) if of_heads.rows else None

    @property
    def _whole(self) -> int:
        """The number of pages up to which all branches are asked for whole."""
        return min(self.context.level.whole_pages, self._budget)

    @property
    def _is_small(self) -> bool:
        """True if all of it is asked for, however many ranges it is spread over."""
        return self.heads.pages <= self._whole

    @cached_property
    def _hits(self) -> Dataset:
        return self.entries.find_hits(self._classes)

    @cached_property
    def _alike(self) -> Dataset:
        """The retained ranges with entries that are alike to a candidate: ALIKE."""
        return self.entries.out.put(_ALIKE, self.entries.alike_ranges(self._classes, self._hits), ALIKE)

    @cached_property
    def _head_ranges(self) -> HeadRanges:
        alike = None if self._is_small else self._alike
        return read_head_ranges(self.spark, self.context, self.heads, self.entries.out, alike, self._whole)

    @property
    def _budget(self) -> int:
        return self.context.settings.scale.lakefs_requests or self.context.level.requests

    # --- where to ask ---

    def _read(self, rows: Dataset, *columns: str) -> Mapped:
        return rows.mapped(self.spark, *columns, here=True)

    def _places(self, rows: Mapped, number: int) -> Mapped:
        """PLACES of the alike entries of heads (CHOSEN)."""
        work = RangePaths(self.context.metadata, self.context.namespace)
        if not distinct(rows, "range_id").few(_RANGES_HERE):
            width = self.context.settings.scale.range_num_partitions or 4 * spark_width(self.spark)
            rows = Mapped(rows.as_frame().repartition(width, "range_id"), CHOSEN)
        return self._read(self.entries.out.put(f"places-{number}", rows.then(PLACES, work.places), PLACES))

    def _chosen(self, alike: Mapped, proven: Proven | None) -> Mapped:
        """CHOSEN: of what is alike by its size alone, the entries that are not proven to be different."""
        rows = selected(alike, CHOSEN, which=partial(same, ALL), e_tag=partial(same, None))
        if proven is None:
            return rows
        left = self._read(proven.left)
        return both(selected(rows, CHOSEN, partial(of_ranks, [EVERY])), left) if self.heads.misstated.rows else left

    def _proven(self, alike: Dataset) -> Proven | None:
        if self.known is None or not connect(self.context.data).proves:
            return None
        ranges = distinct(self._read(alike, "range_id", "rank", "count"))  # each whole
        pages = self._pages(ranges, "count")
        if sum(pages.values()) <= PAGES_BEFORE_HEADS:
            return None
        return Proofs(Subjects(self.entries, self.known(), alike), pages, self._budget).prove()

    def _pages(self, places: Mapped, entries: str) -> dict[int, int]:
        """The number of requests that the places take on all branches, at most, by rank. `entries`: the column of how
        many entries each place has."""
        rows = joined(places, self._head_ranges.branch_counts(), ["range_id"])
        return summed(selected(rows, _COSTS, pages=partial(_cost, entries)), "pages", "rank")

    def _within_budget(self, of_heads: Dataset) -> Reuploads | None:
        """Ask for the classes of the least ranks for which the budget suffices."""
        proven = self._proven(of_heads)
        pending = proven.pending if proven else ()
        rows = self._chosen(self._read(of_heads), proven)
        places, pages, without = self._affordable(rows, pending)
        ranks = sorted(pages)
        affordable = int(np.searchsorted(np.cumsum([pages[rank] for rank in ranks]), self._budget, "right"))
        if not (ranks or without):
            return _with(self._answered([], None) if proven else None, proven)
        if affordable == len(ranks) and not without:
            return _with(self._asked(self._head_ranges.on_branches(places), None), proven)
        last = ranks[affordable - 1] if affordable else -1
        if affordable == len(ranks):
            last = _LAST  # all that is not left out is asked for
        # All places of classes up to this rank are asked for; of higher classes, some are not.
        dear = [*({*without} - {*pending}), *self._too_costly(pages)]
        waiting = self._waiting(distinct(rows, "size"), last, without, dear)
        affordable_places = selected(places, PLACES, partial(_up_to, last))
        return _with(self._asked(self._head_ranges.on_branches(affordable_places), waiting), proven)

    def _affordable(self, rows: Mapped, pending: Sequence[int]) -> tuple[Mapped, dict[int, int], list[int]]:
        """The places of rows (CHOSEN), the pages that they take by rank, and the ranks that were left out: those that
        are `pending`, and each that takes more than the budget even alone, because the others must not wait for it."""
        without = list(pending)
        rounds = 0
        while True:
            places = self._places(selected(rows, CHOSEN, partial(_not_of_ranks, tuple(without))), rounds)
            pages = self._pages(places, "reach")
            too_costly = self._too_costly(pages)
            if not too_costly or pages.get(EVERY, 0) > self._budget or rounds == _ROUNDS:
                return places, pages, without
            rounds += 1
            without += too_costly

    def _too_costly(self, pages: Mapping[int, int]) -> list[int]:
        """The ranks of classes that take more than the budget even alone, by the pages of ranks."""
        every = pages.get(EVERY, 0)
        return [rank for rank in sorted(pages) if rank != EVERY and every + pages[rank] > self._budget]

    def _waiting(self, sizes: Mapped, last: int, left_out: Sequence[int], dear: Sequence[int]) -> Mapped:
        """The classes that wait (see `that_wait`), if heads hold alike entries (of these `sizes`): SIZES."""
        rows = that_wait(self._read(self._classes), last, left_out, dear)
        # Misstated entries may hide any class. If they are not asked for, all classes wait, not only those of `sizes`.
        if last >= EVERY or not self.heads.misstated.rows:
            rows = joined(rows, sizes, ["size"], "left_semi")
        return rows

    # --- asking ---

    def _asked_whole(self) -> Reuploads:
        """Ask for every branch from its beginning to its end."""
        names = {ref["name"] for ref in self.heads.commits.refs.dicts("kind", "name") if ref["kind"] == "branch"}
        branches = [Interval(name, b"", None, 0) for name in sorted(names)]
        width = min(spark_width(self.spark), self._at_once, len(branches))
        shares = [branches[number::width] for number in range(width)]
        started = time.monotonic()
        results = run_tasks(self.spark, shares, self._asking(width).ask)
        return self._answered(results, None, time.monotonic() - started)

    def _asked(self, intervals: Mapped, waiting: Mapped | None) -> Reuploads:
        """Ask for INTERVALS; for few of them in this process."""
        is_little = intervals.few(_INTERVALS_HERE)
        width = 1 if is_little else min(spark_width(self.spark), self._at_once)
        rows = intervals if is_little else Mapped(intervals.as_frame(), INTERVALS)
        work = self._asking(width)
        started = time.monotonic()
        results = run_on_rows(ordered(rows, "branch", "first", width=width), work.ask_rows)
        return self._answered(results, waiting, time.monotonic() - started)

    @property
    def _at_once(self) -> int:
        return self.context.settings.scale.lakefs_parallelism or ASKED_AT_ONCE

    def _asking(self, tasks: int) -> Asking:
        return Asking(
            server=self.context.settings.server,
            repository=self.context.header.repository,
            namespace=self.context.namespace,
            artifacts=self.entries.out.config,
            folder=self.entries.out.at(SHOWN),
            candidates=self.entries.candidates.keys(),
            threads=max(1, self._at_once // tasks),
        )

    def _answered(self, results: Sequence[Json], unasked: Mapped | None, seconds: float = 0.0) -> Reuploads:
        """Sum up the answers, which took so many `seconds`. `unasked`: classes that were not asked for (SIZES)."""
        asked_at = clock.now().timestamp()
        parts = parts_of(results, [SHOWN])[SHOWN]
        found = self.entries.out.dataset(SHOWN, parts, SHOWN_SCHEMA)
        feeds = found.feeds(make=with_hash)
        verdicts = gather(self.spark, feeds, _SHOWN, _rescued, _VERDICTS, partitions_for(rows_in(feeds)))
        waiting = self._put_waiting(unasked, verdicts)
        if waiting.rows:
            candidates = self._read(self.entries.candidates, "address", "size")
            left = joined(candidates, self._read(waiting, "size"), ["size"], "left_semi")
            left = joined(left, verdicts, ["address"], "left_anti")
            verdicts = both(verdicts, selected(left, _VERDICTS, verdict=partial(same, Outcome.UNCONFIRMED.value)))
        pages = sum(each.get("pages", 0) for each in results)
        return Reuploads(verdicts, found, asked_at, pages, seconds, waiting)

    def _put_waiting(self, unasked: Mapped | None, shown: Mapped) -> Dataset:
        """The classes that were not asked for, and those that may lie in a compacted metarange."""
        if self.may_compact:
            unseen = joined(self._read(self._classes), sizes_alike(self.entries, shown), ["size"], "left_semi")
            unseen = unseen if unasked is None else joined(unseen, unasked, ["size"], "left_anti")
            unseen = selected(unseen, SIZES, waited=partial(same, HAD_ITS_TURN))
            unasked = unseen if unasked is None else both(unasked, unseen)
        return Dataset(SIZES) if unasked is None else self.entries.out.put(WAITING, unasked, SIZES, sum_classes)


def _not_of_ranks(ranks: Sequence[int], rows: pa.RecordBatch) -> pa.Array:
    return pc.invert(of_ranks(ranks, rows))


def _up_to(last: int, rows: pa.RecordBatch) -> pa.Array:
    return pc.less_equal(rows["rank"], last)


def _cost(entries: str, rows: pa.RecordBatch) -> pa.Array:
    counts, branches = (rows[name].to_numpy() for name in (entries, "branches"))
    return pa.array(-(-counts // PAGE) * branches)


def _rescued(shown: pa.Table) -> Iterator[pa.Table]:
    addresses = pc.unique(shown["address"])
    yield pa.table({"address": addresses, "verdict": pa.repeat(str(Outcome.RESCUED), len(addresses))})


def _with(found: Reuploads | None, proven: Proven | None) -> Reuploads | None:
    return replace(found, proven=proven) if found else None
