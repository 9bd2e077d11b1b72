"""expired_addresses: what is listed and that nothing refers to; old enough, and lakeFS's own. Deletes nothing.

`clean` or `optimized` finds what no commit refers to. Addresses are compared by 64-bit hashes. A collision keeps
garbage; the address that is deleted is always the listed one. Every unreferenced object is written with the reason that
keeps it. What no reason keeps is expired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.inventory.came_back import find_came_back
from lakegc_core.inventory.carried import LEARNT, OBJECTS_SCHEMA
from lakegc_core.judging import statistics
from lakegc_core.judging.compared import previous_of, staged_lost
from lakegc_core.judging.optimized import against_changes
from lakegc_core.judging.reasons import Judge
from lakegc_core.judging.since import with_since
from lakegc_core.judging.subtraction import Unreferenced, against_all
from lakegc_core.judging.summary import STRANGE, Summary, amount_of, groups_of, sums_of
from lakegc_core.judging.swept_before import SWEPT, told_apart
from lakegc_core.judging.text_lists import TEXT_FOLDER, TextLists
from lakegc_core.marks.artifacts import facts_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import merged
from lakegc_core.marks.findings import FINDINGS_SCHEMA, KEPT, MISSING, MISSTATED, instant
from lakegc_core.marks.layers import Layer, all_layers
from lakegc_core.marks.ledger import CAME_BACK
from lakegc_core.marks.previous import previous_findings, previous_mark
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import STAGES, Outcome, Reason, Stage
from lakegc_core.past.missing_paths import missing_paths
from lakegc_core.past.origins import find_origins
from lakegc_core.policy.facts import NOTHING, CommittedFacts, ExpiredFacts, Folder, ListingFacts, StagedFacts
from lakegc_core.policy.prices import GUESSED, Prices
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.of_neighbours import NEIGHBOURS, References, read_references
from lakegc_core.references.ranges.held_paths import HELD
from lakegc_core.references.shown.alike import Candidates
from lakegc_core.references.shown.heads import heads_of_mark
from lakegc_core.references.shown.remembered import PROOFS, Known, known
from lakegc_core.references.shown.reuploads import WAITING, find_reuploads
from lakegc_core.spark.session import Mapped, many, moment, run_tasks
from lakegc_core.tables.joins import flagged
from lakegc_core.tables.key_scan import Source, Wanted, sources_of
from lakegc_core.tables.parts import Part, read, remove_leftovers, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW_GROUPS = (Stage.EXPIRED_ADDRESSES, KEPT, MISSING)


def find_expired(spark: SparkSession, context: MarkContext) -> StageOutput[ExpiredFacts]:
    own, *layers = all_layers(context)
    manifests = own.manifests
    listed = manifests[Stage.NAMESPACE_LISTING].started_at
    found = against_changes(spark, context, own, layers, listed) if layers else against_all(spark, context, own, listed)
    folders = {name: context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, name) for name in _ROW_GROUPS}
    neighbours = read_references(spark, context, context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, NEIGHBOURS))
    parts = _judged(spark, context, own, found.objects, neighbours, folders)
    parts[MISSING] = _not_stored(spark, context, found.missing, folders[MISSING])
    asked = _without_reuploads(
        spark, context, parts, folders, found.misstated, own.manifests[Stage.RETENTION_COMMITS].finished_at
    )
    parts = asked.parts
    origins = find_origins(spark, context, own, parts)
    learnt = context.mark.out(Stage.EXPIRED_ADDRESSES).dataset(LEARNT, found.learnt, OBJECTS_SCHEMA)
    returned = find_came_back(spark, context, own, learnt)
    prefixes, foreign_prefixes = _largest_folders(spark, context, parts, folders)
    sums = sums_of(parts)
    groups, previous = groups_of(sums, facts_of(manifests, ListingFacts), found.learnt), previous_of(context)
    facts = ExpiredFacts(
        **vars(groups),
        **asked.facts,
        prefixes=prefixes,
        foreign_prefixes=foreign_prefixes,
        ages=statistics.by_class(sums, "age"),
        sizes=statistics.by_class(sums, "size"),
        violations=sums.get("violations", 0),
        text_lists=_write_text(spark, context, parts[Stage.EXPIRED_ADDRESSES], folders[Stage.EXPIRED_ADDRESSES]),
        missing=amount_of(sums, Reason.MISSING).objects,
        swept_before=amount_of(sums, Reason.SWEPT_BEFORE).objects,
        came_back=returned.amount,
        came_back_examples=returned.examples,
        taken_back=returned.taken_back,
        missing_paths=_missing_paths(spark, context, found, parts[MISSING]) if context.policy.origins else (),
        previous=previous,
        staged_lost=staged_lost(spark, context, previous, groups, parts),
        neighbours=neighbours.facts,
        refers_elsewhere=merged(
            [facts_of(manifests, StagedFacts).elsewhere, facts_of(manifests, CommittedFacts).elsewhere]
        ),
        origins=origins.facts,
    )
    others = {
        LEARNT: found.learnt,
        MISSTATED: found.misstated,
        WAITING: asked.waiting,
        PROOFS: asked.proofs,
        **origins.parts,
        CAME_BACK: returned.objects.parts,
    }
    return StageOutput({**parts, **others, NEIGHBOURS: neighbours.parts}, facts)


def _not_stored(spark: SparkSession, context: MarkContext, missing: DataFrame | None, folder: str) -> list[Part]:
    """What is referred to and is not in the store, as parts below `folder`; none where that was not looked for."""
    if missing is None:
        return []
    rows = _missing(told_apart(spark, context, missing))
    return write(rows, context.workspace, {MISSING: folder}, FINDINGS_SCHEMA, summarise=Summary.of(context))[MISSING]


def _write_text(spark: SparkSession, context: MarkContext, garbage: Sequence[Part], folder: str) -> tuple[str, ...]:
    """The garbage as text, one address a line. Returns the names of the files."""
    text = TextLists(context.workspace, folder, f"{context.mark.folder}/{TEXT_FOLDER}")
    # People take the folder as a whole, and an attempt that was broken off may have named what is staged by now.
    remove_leftovers(context.workspace, text.target)
    return tuple(sorted(each["list"] for each in run_tasks(spark, garbage, text.write)))


def _largest_folders(
    spark: SparkSession, context: MarkContext, parts: Mapping[str, Sequence[Part]], folders: Mapping[str, str]
) -> tuple[tuple[Folder, ...], tuple[Folder, ...]]:
    """Where most of the garbage lies, and most of what is not lakeFS's."""
    strange = [part for part in parts[KEPT] if any(part.sums.get(f"{each}:objects") for each in STRANGE)]
    garbage, kept = (
        _sources(context, folders[Stage.EXPIRED_ADDRESSES], parts[Stage.EXPIRED_ADDRESSES]),
        _sources(context, folders[KEPT], strange),
    )
    return statistics.largest(spark, garbage, kept, STRANGE)


def _judged(
    spark: SparkSession,
    context: MarkContext,
    own: Layer,
    objects: Mapped,
    neighbours: References,
    folders: Mapping[str, str],
) -> dict[str, list[Part]]:
    """The objects in parts, by what keeps them."""
    keepers = {
        Reason.STAGED: own.wanted(Stage.UNCOMMITTED_ADDRESSES),
        Reason.HELD: own.wanted(Stage.COMMITTED_ADDRESSES, HELD),
        Reason.NEIGHBOUR: Wanted.at(context.workspace, ((neighbours.folder, neighbours.parts),)),
    }
    rows = with_since(spark, context, objects, own.manifests[Stage.RETENTION_COMMITS].finished_at)
    for reason, wanted in keepers.items():
        rows = flagged(spark, rows, reason, wanted)
    return write(
        rows,
        context.workspace,
        {name: folders[name] for name in (Stage.EXPIRED_ADDRESSES, KEPT)},
        FINDINGS_SCHEMA,
        split=_Division(Judge.of(context, xid_times)),
        summarise=Summary.of(context),
    )


@dataclass(frozen=True)
class _Asked:
    """What became of the expired rows once lakeFS was asked what branches show."""

    parts: dict[str, list[Part]]
    facts: dict[str, Any]
    waiting: Sequence[Part] = ()
    proofs: Sequence[Part] = ()


def _without_reuploads(
    spark: SparkSession,
    context: MarkContext,
    parts: dict[str, list[Part]],
    folders: Mapping[str, str],
    misstated: Sequence[Part],
    read_at: float,
) -> _Asked:
    """Move what a branch shows, and what is new and could not be asked for, from the expired rows to the kept ones.

    A series begins with the first asking that does not show the object: what was unreferenced for the first time when
    commits were read (`read_at`, unix seconds) is so since lakeFS was asked. The sweep's look asks once more.
    """
    candidates = Candidates(folders[Stage.EXPIRED_ADDRESSES], parts[Stage.EXPIRED_ADDRESSES])
    heads = heads_of_mark(
        spark, context, context.mark.stage_folder(Stage.EXPIRED_ADDRESSES), misstated=misstated, kept=parts[KEPT]
    )
    prices = _prices(context)
    found = find_reuploads(spark, context, heads, candidates, _waited(context), partial(_known, context, prices))
    if found is None:
        nothing = {"asked_at": None, "pages_asked": 0, "heads": 0, "waiting": NOTHING, "prices": prices}
        return _Asked(parts, nothing)
    expired = read(
        spark, context.workspace, folders[Stage.EXPIRED_ADDRESSES], parts[Stage.EXPIRED_ADDRESSES], FINDINGS_SCHEMA
    )
    again = write(
        expired.join(many(found.verdicts), "address", "left"),
        context.workspace,
        {name: folders[name] for name in (Stage.EXPIRED_ADDRESSES, KEPT)},
        FINDINGS_SCHEMA,
        split=_Division(_Answers(read_at, found.asked_at)),
        summarise=Summary.of(context),
    )
    moved = {**parts, Stage.EXPIRED_ADDRESSES: again[Stage.EXPIRED_ADDRESSES], KEPT: [*parts[KEPT], *again[KEPT]]}
    proven = found.proven
    made, seconds = (proven.heads, proven.seconds) if proven else (0, 0.0)
    facts: dict[str, Any] = {
        "asked_at": found.asked_at,
        "pages_asked": found.pages,
        "heads": made,
        "waiting": found.left,
        "prices": prices.after(made, seconds, found.pages, found.seconds),
    }
    return _Asked(moved, facts, found.waiting, proven.proofs if proven else ())


def _waited(context: MarkContext) -> tuple[str, Sequence[Part]] | None:
    """The classes of candidates for which the mark before could not ask."""
    before = previous_findings(context)
    if before is None:
        return None
    return before.stage_folder(Stage.EXPIRED_ADDRESSES, WAITING), before.require(Stage.EXPIRED_ADDRESSES).datasets.get(
        WAITING, ()
    )


def _prices(context: MarkContext) -> Prices:
    """What HEADs and pages cost when a mark last made many."""
    before = previous_mark(context)
    return GUESSED if before is None else before.facts(ExpiredFacts).prices


def _known(context: MarkContext, prices: Prices) -> Known:
    seconds = sum(context.mark.require(stage).seconds for stage in STAGES[:-1])
    return known(context, prices, seconds)


@dataclass(frozen=True)
class _Answers:
    """Says by column `verdict` what became of expired rows; a picklable value that tasks carry. Unix seconds."""

    read_at: float
    asked_at: float

    def __call__(self, rows: pa.Table) -> pa.Table:
        before = rows["since"].cast(FINDINGS_SCHEMA.field("since").type)
        new = pc.equal(before, instant(self.read_at))
        shown = pc.fill_null(pc.equal(rows["verdict"], Outcome.RESCUED), False)
        unasked = pc.and_(pc.fill_null(pc.equal(rows["verdict"], Outcome.UNCONFIRMED), False), new)
        reasons = pc.if_else(shown, Reason.STAGED, pc.if_else(unasked, Reason.UNASKED, rows["reason"]))
        since = pc.if_else(
            new, instant(max(self.read_at, self.asked_at)), rows["since"].cast(FINDINGS_SCHEMA.field("since").type)
        )
        rows = rows.set_column(rows.schema.get_field_index("reason"), "reason", reasons)
        return rows.set_column(rows.schema.get_field_index("since"), "since", since).select(FINDINGS_SCHEMA.names)


def _sources(context: MarkContext, folder: str, parts: Sequence[Part]) -> list[Source]:
    return sources_of(context.workspace, folder, parts, context.header.mark_id)


def _missing(addresses: DataFrame) -> DataFrame:
    """Live addresses that the store lacks, shaped like the other rows."""
    from pyspark.sql import functions as F

    reason = F.when(F.col(SWEPT), Reason.SWEPT_BEFORE.value).otherwise(Reason.MISSING.value)
    return addresses.select(
        "address",
        F.lit(0).cast("long").alias("size"),
        moment(0).alias("last_modified"),
        F.lit(None).cast("string").alias("etag"),
        reason.alias("reason"),
        moment(0).alias("since"),
    )


@dataclass(frozen=True)
class _Division:
    """Divides rows among the datasets by what keeps them, which `judge` says; a picklable value that tasks carry."""

    judge: Callable[[pa.Table], pa.Table]

    def __call__(self, rows: pa.Table) -> dict[str, pa.Table]:
        return _split(self.judge(rows))


def _split(table: pa.Table) -> dict[str, pa.Table]:
    expired = pc.equal(table["reason"], Reason.UNREFERENCED)
    return {Stage.EXPIRED_ADDRESSES: table.filter(expired), KEPT: table.filter(pc.invert(expired))}


def _missing_paths(
    spark: SparkSession, context: MarkContext, known: Unreferenced, parts: Sequence[Part]
) -> tuple[dict[str, str], ...]:
    if not parts:
        return ()
    folder = context.mark.stage_folder(Stage.EXPIRED_ADDRESSES, MISSING)
    missing = read(spark, context.workspace, folder, parts, FINDINGS_SCHEMA, ["address", "reason"])
    missing = missing.where(missing["reason"] == Reason.MISSING.value)
    return tuple(missing_paths(spark, context, missing, known.holding()))
