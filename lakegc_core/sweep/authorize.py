"""Judges if a mark may be swept, and from when: the guards over it, evaluated now, and the times that have to pass.

Nothing of lakeFS is read anew here, and nothing is deleted; `what_counts` merges the settings of mark and lakegc.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import islice

from lakegc_core import clock
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks.address_lists import ADDRESSES
from lakegc_core.marks.backups import backup_facts
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.drills import last_drill
from lakegc_core.marks.findings import MISSING
from lakegc_core.marks.quarantine import place_of, quarantined
from lakegc_core.marks.sweeps import accept, accept_rings, stopped_by_rings
from lakegc_core.names import Stage
from lakegc_core.policy import guards
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.facts import Amount, ExpiredFacts, NeighbourFacts
from lakegc_core.policy.guards import Verdict
from lakegc_core.store.base import connect, heads
from lakegc_core.sweep.read_sample import Sample
from lakegc_core.sweep.what_counts import effective_level

_FIRST = 100  # missing objects of which copies are looked for
_OF_MARK = ("live-in-listing", "shrink")  # guards that compare a mark with the mark before
_FOR_LATER = (*_OF_MARK, "blast-radius")  # guards whose acceptance counts for later marks, too


def judge(
    context: MarkContext,
    accepted: Mapping[str, str] | None = None,
    sample: Sample | None = None,
    skew: float | None = None,
    neighbours: NeighbourFacts | None = None,
    *,
    at_most: Amount | None = None,
) -> list[Verdict]:
    """The guards over a complete mark, evaluated now, at the stricter of its level and the policy's.

    `sample`: of paths that were read; None if none were. `skew`: seconds by which the store's clock is ahead now; None
    if it was not asked. `neighbours`: what is known of other repositories now; None if nobody asked.
    `at_most`: the most that this drill takes; None if this is no drill. A drill asks for no earlier drill.
    """
    within = None if at_most else context.policy.drill_within
    drilled = last_drill(context) if within else None
    expired = context.mark.facts(ExpiredFacts)
    evidence = Evidence(
        header=context.header,
        manifests=context.mark.chain(),
        level=effective_level(context),
        now=clock.now().timestamp(),
        previous=expired.previous,
        unreadable=sample.unreadable if sample else None,
        sampled=sample.asked if sample else 0,
        known_gone=sample.known_gone if sample else {},
        skew_now=skew,
        gone_in_rings=stopped_by_rings(context),
        in_quarantine=_marks_with_copies(context) if expired.missing or expired.swept_before else (),
        neighbours=neighbours,
        neighbours_strict=context.settings.neighbours.strict,
        throw_away=context.is_throw_away,
        backup_required=context.policy.backup,
        backup_to=context.policy.backup_to,
        backup=backup_facts(context) if context.policy.backup or (drilled and drilled.by_backup) else None,
        drill_within=None if within is None else within.total_seconds(),
        drill=drilled,
        at_most=at_most,
        blast_radius=context.policy.blast_radius,
        settings_read=context.settings.file is not None,
    )
    return guards.evaluate(evidence, accepted)


def _marks_with_copies(context: MarkContext) -> tuple[str, ...]:
    """Ids of marks whose quarantine has copies of missing objects: few marks that together have them all, the one with
    most first. Only the first _FIRST objects are looked up. Marks whose quarantine does not answer come last."""
    having = quarantined(context)
    if not having:
        return ()
    rows = context.mark.dataset(Stage.EXPIRED_ADDRESSES, ADDRESSES, MISSING).batches("address")
    keys = list(islice((each for batch in rows for each in batch["address"].to_pylist()), _FIRST))
    copies: dict[str, set[str]] = {}
    found, silent = list[str](), list[str]()
    for mark_id in reversed(having):
        try:
            there = heads(connect(place_of(context, mark_id)), keys)
        except StoreError:
            silent.append(mark_id)
            continue
        copies[mark_id] = {key for key, copy in zip(keys, there, strict=True) if copy is not None}
    while any(copies.values()):
        found.append(max(copies, key=lambda mark_id: len(copies[mark_id])))
        had = copies[found[-1]]
        copies = {mark_id: each - had for mark_id, each in copies.items()}
    return (*found, *silent)


def remember_accepted(context: MarkContext, verdicts: Sequence[Verdict], *, of_mark: bool = True) -> None:
    """Record what a person accepted for this sweep, where that counts for later ones too. `of_mark`: the
    sweep is one of all that the mark found; an acceptance for another tool's list says nothing of the mark."""
    told = {verdict.name: verdict.accepted_because for verdict in verdicts if verdict.accepted_because}
    for name, because in told.items():
        if name == "rings":
            accept_rings(context, because)
        elif of_mark and name in _OF_MARK:
            accept(context, name, because)
    for_later = [name for name in told if of_mark and name in _FOR_LATER]
    newest = newest_mark(context) if for_later else None
    if newest is not None and newest.mark_id != context.header.mark_id:
        context.say(
            f"{Stage.SWEPT_REPORT}: mark {newest.mark_id} is newer, so what you accept ({', '.join(for_later)}) counts "
            "for this sweep alone. Accept it for that mark if it is to count for later ones"
        )


def listed_long_enough_at(context: MarkContext) -> float:
    """The earliest time of a look, unix seconds: uploads that were under way at the listing are staged by then."""
    delay = effective_level(context).look_delay
    return context.mark.require("namespace_listing").finished_at + delay.total_seconds()


def confirmed_at(context: MarkContext) -> float:
    """The earliest time at which a look can confirm this mark's newest findings, unix seconds."""
    found = context.mark.facts(ExpiredFacts).asked_at or context.mark.require("retention_commits").finished_at
    return max(listed_long_enough_at(context), found + effective_level(context).gap.total_seconds())


def ready_at(context: MarkContext) -> float:
    """The earliest time at which a sweep of this mark can delete anything, unix seconds."""
    expired = context.mark.facts(ExpiredFacts)
    if expired.confirmed.objects or not expired.expired.objects:
        return listed_long_enough_at(context)
    if expired.first_since is None:  # a mark from before there was this fact
        return confirmed_at(context)
    # What the mark before found is carried, and may lack only minutes of the gap.
    return max(listed_long_enough_at(context), expired.first_since + effective_level(context).gap.total_seconds())


def best_swept_at(context: MarkContext, patience: timedelta) -> float:
    """The time for the one sweep of a mark, unix seconds: the earliest that can delete anything, or up to `patience`
    later if more is unreferenced for long enough then. Else what lacks minutes would wait for the next mark. No sweep
    of this mark is asked for once there is a newer one: `patience` must be over by then."""
    gap, ready = effective_level(context).gap.total_seconds(), ready_at(context)
    first = max(ready, context.mark.require(Stage.EXPIRED_ADDRESSES).finished_at)
    more = (since + gap for since, _ in context.mark.facts(ExpiredFacts).unconfirmed or ())
    soon = (at for at in more if at <= first + patience.total_seconds())
    return max((ready, *soon))


def more_confirmed_at(context: MarkContext) -> float | None:
    """The next time at which a sweep can delete more of what this mark found, unix seconds, up to the minute; None if
    by its records everything was unreferenced for long enough."""
    to_come = [at for at in (ready_at(context), confirmed_at(context)) if at > clock.now().timestamp()]
    return math.ceil(min(to_come) / 60) * 60.0 if to_come else None


def first_young_at(context: MarkContext) -> tuple[float, float] | None:
    """When the first object that this mark found too young is old enough for a mark to find it, and when a sweep of
    such a mark can delete it at the earliest, unix seconds, rounded up to the minute. None if this mark found garbage,
    or nothing too young."""
    young_until = context.mark.facts(ExpiredFacts).young_until
    if young_until is None:
        return None
    level, old_enough = effective_level(context), math.ceil(young_until / 60) * 60.0
    return old_enough, old_enough + max(level.gap, level.look_delay).total_seconds()


def refusal(context: MarkContext, verdicts: Sequence[Verdict], *, begun: bool = False) -> str:
    """Say why a mark is not swept, one line a guard. `begun`: an earlier call has begun to, and broke off."""
    found = "\n".join(f"  {verdict.name}: {verdict.description}" for verdict in verdicts if verdict.stops)
    mark = f"Mark {context.header.mark_id} of {context.header.repository}"
    if begun:
        close = f"lakegc sweep {context.header.repository} {context.header.mark_id} --close"
        return (
            f"{mark} is not swept to its end: a sweep of it broke off. Nothing more was deleted.\n{found}\n"
            f"To account for what was deleted, and leave the rest to the next mark: {close}"
        )
    return f"{mark} is not swept. Nothing was deleted.\n{found}"


def check_look_delay(context: MarkContext) -> None:
    """RefusedError while a look could still miss an upload that was under way at the listing."""
    at = listed_long_enough_at(context)
    wait = at - clock.now().timestamp()
    if wait > 0:
        minutes, when = max(1, round(wait / 60)), clock.from_minute(at)
        raise RefusedError(
            f"Mark {context.header.mark_id} was listed too short a time ago: an upload that was under way then may "
            f"not be staged yet. Nothing was deleted. Sweep it in {minutes} minutes or later: "
            f"from {when}."
        )
