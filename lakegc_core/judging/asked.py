"""Asks lakeFS which expired objects branches show. Those that they show, or may hide, are kept instead."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.judging.reasons import divide
from lakegc_core.judging.summary import Findings, Summary
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA, instant
from lakegc_core.marks.previous import previous_findings, previous_mark
from lakegc_core.names import STAGES, Outcome, Reason, Stage
from lakegc_core.policy.facts import NOTHING, Amount, ExpiredFacts
from lakegc_core.policy.prices import GUESSED, Prices
from lakegc_core.references.shown.classes import SIZES
from lakegc_core.references.shown.heads import heads_of_mark
from lakegc_core.references.shown.remembered import PROOFS_SCHEMA, Known, known
from lakegc_core.references.shown.reuploads import WAITING, find_reuploads
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Asked:
    """Findings once lakeFS was asked what branches show.

    - `asked_at`: unix seconds of the last answer; None where nothing had to be asked
    - `pages`, `heads`: number of pages of lakeFS, and of HEADs of the store
    - `waiting`: classes that could not be asked for (SIZES); `left`: what they hold
    - `proofs`: what HEADs proved (PROOFS_SCHEMA); `prices`: what HEADs and pages cost
    """

    findings: Findings
    prices: Prices
    asked_at: float | None
    pages: int
    heads: int
    left: Amount
    waiting: Dataset
    proofs: Dataset


def ask_branches(
    spark: SparkSession, context: MarkContext, findings: Findings, misstated: Dataset, commits_read_at: float
) -> Asked:
    """Ask about the expired objects.

    An object that this mark is the first to find unreferenced gets as `since` the time of lakeFS's last answer, and not
    `commits_read_at` (when the commits were read, unix seconds).
    """
    out = context.mark.out(Stage.EXPIRED_ADDRESSES)
    prices, expired = _prices(context), findings.expired
    heads = heads_of_mark(context, misstated, findings.kept)
    found = find_reuploads(spark, context, heads, expired, out, _waited(context), partial(_known, context, prices))
    if found is None:
        return Asked(findings, prices, None, 0, 0, NOTHING, Dataset(SIZES), Dataset(PROOFS_SCHEMA))
    rows = beside(expired.mapped(spark), found.verdicts, "verdict")
    split = partial(divide, _Answers(commits_read_at, found.asked_at))
    again = Findings.put(out, rows, split, Summary.of(context))
    proven = found.proven
    made, seconds, proofs = (
        (proven.heads, proven.seconds, proven.proofs) if proven else (0, 0.0, Dataset(PROOFS_SCHEMA))
    )
    return Asked(
        findings=Findings(again.expired, findings.kept + again.kept, findings.missing),
        prices=prices.after(made, seconds, found.pages, found.seconds),
        asked_at=found.asked_at,
        pages=found.pages,
        heads=made,
        left=found.left,
        waiting=found.waiting,
        proofs=proofs,
    )


def _waited(context: MarkContext) -> Dataset:
    """The classes of candidates about which the mark before could not ask."""
    before = previous_findings(context)
    if before is None:
        return Dataset(SIZES)
    return before.dataset(Stage.EXPIRED_ADDRESSES, SIZES, WAITING, may_lack=True)


def _prices(context: MarkContext) -> Prices:
    """The prices of HEADs and pages, as the mark before records them."""
    before = previous_mark(context)
    return GUESSED if before is None else before.facts(ExpiredFacts).prices


def _known(context: MarkContext, prices: Prices) -> Known:
    seconds = sum(context.mark.require(stage).seconds for stage in STAGES[:-1])
    return known(context, prices, seconds)


@dataclass(frozen=True)
class _Answers:
    """Judges expired rows once more, by column `verdict`. Times are unix seconds.

    An object about which lakeFS could not be asked stays expired if an earlier mark found it unreferenced: the sweep's
    look asks about it. If this mark is the first, it is kept as `unasked`.
    """

    commits_read_at: float
    asked_at: float

    def __call__(self, rows: pa.Table) -> pa.Table:
        before = rows["since"].cast(FINDINGS_SCHEMA.field("since").type)
        new = pc.equal(before, instant(self.commits_read_at))
        shown = pc.fill_null(pc.equal(rows["verdict"], Outcome.RESCUED), False)
        unasked = pc.and_(pc.fill_null(pc.equal(rows["verdict"], Outcome.UNCONFIRMED), False), new)
        reasons = pc.if_else(shown, Reason.STAGED, pc.if_else(unasked, Reason.UNASKED, rows["reason"]))
        since = pc.if_else(new, instant(max(self.commits_read_at, self.asked_at)), before)
        rows = rows.set_column(rows.schema.get_field_index("reason"), "reason", reasons)
        return rows.set_column(rows.schema.get_field_index("since"), "since", since).select(FINDINGS_SCHEMA.names)
