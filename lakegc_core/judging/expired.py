"""expired_addresses: listed objects that nothing refers to, old enough, and lakeFS's own. Deletes nothing.

`subtraction` or `optimized` finds what no commit refers to. Addresses are compared by 64-bit hashes. A collision keeps
garbage; the address that is deleted is always the listed one. Every unreferenced object is written with the reason that
keeps it. What no reason keeps is expired.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakegc_core.inventory.came_back import find_came_back
from lakegc_core.inventory.carried import LEARNT
from lakegc_core.judging import statistics
from lakegc_core.judging.asked import Asked, ask_branches
from lakegc_core.judging.canaries import smuggle
from lakegc_core.judging.compared import accepted_before, given_up, previous_of, staged_lost
from lakegc_core.judging.optimized import ChangedAddresses
from lakegc_core.judging.reasons import Judge, divide
from lakegc_core.judging.since import with_since
from lakegc_core.judging.subtraction import Unreferenced, against_all
from lakegc_core.judging.summary import STRANGE, Findings, Summary, amount_of, groups_of
from lakegc_core.judging.swept_before import SWEPT, with_swept
from lakegc_core.judging.text_lists import write_text
from lakegc_core.marks.artifacts import facts_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import merged
from lakegc_core.marks.findings import FINDINGS_SCHEMA, HELD, MISSING, MISSTATED, NEIGHBOURS
from lakegc_core.marks.layers import Layer, all_layers
from lakegc_core.marks.ledger import CAME_BACK
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Reason, Stage
from lakegc_core.past.missing_paths import missing_paths
from lakegc_core.past.origins import find_origins
from lakegc_core.policy.facts import CommittedFacts, ExpiredFacts, ListingFacts, NeighbourFacts, StagedFacts
from lakegc_core.policy.xids import latest_told, xid_times
from lakegc_core.references.of_neighbours import read_references, with_remembered
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.shown.remembered import PROOFS
from lakegc_core.references.shown.reuploads import WAITING
from lakegc_core.references.staged import STAGED_SCHEMA
from lakegc_core.spark.tasks import Mapped, many, moment
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.joins import flagged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GIVEN_UP = "given_up"  # column of missing objects


def find_expired(spark: SparkSession, context: MarkContext) -> StageOutput[ExpiredFacts]:
    """Find what a mark calls garbage, and count it."""
    own, *layers = all_layers(context)
    listed_at = own.manifests[Stage.NAMESPACE_LISTING].started_at
    commits_read_at = own.manifests[Stage.RETENTION_COMMITS].finished_at
    canaries = smuggle(context, own)
    found = (
        ChangedAddresses(spark, context, own, layers, listed_at, canaries.objects).run()
        if layers
        else against_all(spark, context, own, listed_at, canaries.objects)
    )
    out = context.mark.out(Stage.EXPIRED_ADDRESSES)
    neighbours = with_remembered(spark, context, read_references(spark, context, out), out)
    summary = Summary.of(context, canaries.found)
    judged = _judged(spark, context, own, found.objects, neighbours.keys, commits_read_at, summary)
    canaries.check(judged)
    judged = replace(judged, missing=_not_stored(spark, context, found.missing))
    asked = ask_branches(spark, context, judged, found.misstated, commits_read_at)
    findings = asked.findings
    returned = find_came_back(spark, context, own, found.learnt + found.returned)
    origins = find_origins(spark, context, own, findings.expired, findings.kept, returned=returned.objects)
    facts = replace(
        _facts(spark, context, own, found, asked, neighbours.facts),
        canaries=canaries.kinds,
        came_back=returned.amount,
        came_back_examples=returned.examples,
        taken_back=returned.taken_back,
        origins=origins.facts,
    )
    others = {
        LEARNT: found.learnt.parts,
        MISSTATED: found.misstated.parts,
        WAITING: asked.waiting.parts,
        PROOFS: asked.proofs.parts,
        **origins.parts,
        CAME_BACK: returned.objects.parts,
        NEIGHBOURS: neighbours.keys.parts,
    }
    return StageOutput({**findings.parts, **others}, facts)


def _facts(
    spark: SparkSession,
    context: MarkContext,
    own: Layer,
    found: Unreferenced,
    asked: Asked,
    neighbours: NeighbourFacts,
) -> ExpiredFacts:
    """The figures of findings. Those of objects that came back, and of origins, are filled in later."""
    findings = asked.findings
    sums, previous = findings.sums(), previous_of(context)
    unconfirmed = statistics.unconfirmed(sums)
    groups = groups_of(sums, facts_of(own.manifests, ListingFacts), found.learnt + found.returned)
    prefixes, foreign_prefixes = statistics.largest(spark, findings.expired, _strange(findings.kept), STRANGE)
    is_any_expired = bool(groups.expired.objects)
    return ExpiredFacts(
        **vars(groups),
        young_until=None if is_any_expired else _young_until(spark, context, findings.kept),
        first_since=statistics.first_since(sums),
        asked_at=asked.asked_at,
        pages_asked=asked.pages,
        heads=asked.heads,
        waiting=asked.left,
        prices=asked.prices,
        prefixes=prefixes,
        foreign_prefixes=foreign_prefixes,
        ages=statistics.by_class(sums, "age"),
        sizes=statistics.by_class(sums, "size"),
        violations=sums["violations"],
        text_lists=write_text(spark, context, findings.expired),
        missing=(amount_of(sums, Reason.MISSING) + amount_of(sums, Reason.GIVEN_UP)).objects,
        given_up=amount_of(sums, Reason.GIVEN_UP).objects,
        swept_before=amount_of(sums, Reason.SWEPT_BEFORE).objects,
        missing_paths=_missing_paths(spark, context, found, findings.missing) if context.policy.origins else (),
        previous=previous,
        staged_lost=staged_lost(spark, context, previous, groups, findings),
        neighbours=neighbours,
        accepted=accepted_before(context, groups.expired, unconfirmed),
        unconfirmed=unconfirmed,
        refers_elsewhere=merged(
            [facts_of(own.manifests, StagedFacts).elsewhere, facts_of(own.manifests, CommittedFacts).elsewhere]
        ),
    )


def _strange(kept: Dataset) -> Dataset:
    """The parts of the kept objects in which some are not lakeFS's."""
    sums = ((source, source.part.sums) for source in kept.sources)
    found = [source for source, each in sums if any(each.get(f"{reason}:objects") for reason in STRANGE)]
    return Dataset(FINDINGS_SCHEMA, tuple(found))


def _not_stored(spark: SparkSession, context: MarkContext, missing: DataFrame | None) -> Dataset:
    """Objects that are referred to and are not in the store."""
    if missing is None:
        return Dataset(FINDINGS_SCHEMA)
    rows = _missing(with_swept(spark, context, missing), given_up(spark, context))
    return context.mark.out(Stage.EXPIRED_ADDRESSES).put(MISSING, rows, FINDINGS_SCHEMA, Summary.of(context))


def _judged(
    spark: SparkSession,
    context: MarkContext,
    own: Layer,
    objects: Mapped,
    neighbours: Dataset,
    commits_read_at: float,
    summary: Summary,
) -> Findings:
    """The objects by what keeps them. `commits_read_at`: when the mark had read its commits, unix seconds."""
    keepers = {
        Reason.STAGED: own.dataset(Stage.UNCOMMITTED_ADDRESSES, STAGED_SCHEMA),
        Reason.HELD: own.dataset(Stage.COMMITTED_ADDRESSES, ENTRIES_SCHEMA, HELD),
        Reason.NEIGHBOUR: neighbours,
    }
    rows = with_since(spark, context, objects, commits_read_at)
    for reason, dataset in keepers.items():
        rows = flagged(spark, rows, reason, dataset.keys())
    split = partial(divide, Judge.of(context, xid_times))
    return Findings.put(context.mark.out(Stage.EXPIRED_ADDRESSES), rows, split, summary)


def _missing(addresses: DataFrame, given_up: DataFrame | None) -> DataFrame:
    """Live addresses that the store lacks, shaped like the other rows. `given_up`: see `compared.given_up`."""
    from pyspark.sql import functions as F

    reason = F.when(F.col(SWEPT), Reason.SWEPT_BEFORE.value)
    if given_up is not None:
        addresses = addresses.join(many(given_up.withColumn(_GIVEN_UP, F.lit(True))), "address", "left")
        reason = reason.when(F.col(_GIVEN_UP), Reason.GIVEN_UP.value)
    reason = reason.otherwise(Reason.MISSING.value)
    return addresses.select(
        "address",
        F.lit(0).cast("long").alias("size"),
        moment(0).alias("last_modified"),
        F.lit(None).cast("string").alias("etag"),
        reason.alias("reason"),
        moment(0).alias("since"),
    )


def _missing_paths(
    spark: SparkSession, context: MarkContext, found: Unreferenced, missing: Dataset
) -> tuple[dict[str, str], ...]:
    if not missing.rows:
        return ()
    rows = missing.frame(spark, "address", "reason")
    rows = rows.where(rows["reason"] == Reason.MISSING.value)
    return tuple(missing_paths(spark, context, rows, found.holding()))


def _young_until(spark: SparkSession, context: MarkContext, kept: Dataset) -> float | None:
    """When the first object may go that is only too young, unix seconds; None if there is none."""
    header = context.header
    unknown = None if header.collect_unknown_names else context.namespace.unknown
    latest, part_age = latest_told(header.started_at), context.level.part_age.total_seconds()
    return statistics.young_until(spark, kept, latest, header.min_age, part_age, unknown)
