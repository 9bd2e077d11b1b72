"""Which marks came before and after: what a mark is compared with, and whose findings it must know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import Header, MarkArtifacts, facts_of, marks
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.facts import CommitsFacts, ListingFacts
from lakegc_core.policy.judgements import out_of_order
from lakegc_core.policy.safety import RESUMED_WITHIN, Level

_BROKE_OFF = ", and did not come to its end (resume such a mark: --mark-id)"


def newest_complete(
    context: RepositoryContext, wanted: Callable[[Header, MarkArtifacts], bool]
) -> MarkArtifacts | None:
    """The complete mark that was begun last of those that are `wanted`. A damaged one vouches for nothing."""
    found: tuple[float, MarkArtifacts] | None = None
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            header = mark.header()
            if header is None or mark.manifest(Stage.EXPIRED_ADDRESSES) is None or not wanted(header, mark):
                continue
        except MarkError:
            continue
        if found is None or header.started_at > found[0]:
            found = (header.started_at, mark)
    return found[1] if found else None


def previous_mark(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same repository that was begun before this one, by a clock that was right."""

    def is_before(header: Header, mark: MarkArtifacts) -> bool:
        check_clock(mark, context.level)
        return _is_earlier(header, context.header)

    return newest_complete(context, is_before)


def check_clock(mark: MarkArtifacts, level: Level) -> None:
    """MarkError if the clock of a mark's machine was wrong while it worked, by the limit of a level: such a mark says
    nothing of times. The guards `clocks` and `order` stop its own sweep; no other mark goes on from it either."""
    header, manifests = mark.header(), {stage: found for stage in STAGES if (found := mark.manifest(stage))}
    if header is None:
        return
    last = max([header.started_at, *(manifest.started_at for manifest in manifests.values())])
    if last > clock.now().timestamp() + APART:
        raise MarkError(f"it says that it was at work on {clock.instant(last)}, which is to come")
    if not manifests:
        return
    limit, skew = level.clock_skew.total_seconds(), facts_of(manifests, ListingFacts).clock_skew
    if abs(skew) > limit:
        raise MarkError(f"its clock and the store's differed by {skew:.0f} s")
    if stage := out_of_order(header.started_at, manifests):
        raise MarkError(f"its clock was set back: {stage} ended before it began, or before what it rests on had ended")


def _is_earlier(header: Header, own: Header) -> bool:
    return header.started_at < own.started_at and _is_comparable(header, own)


def _is_comparable(header: Header, own: Header) -> bool:
    return series_of(header) == series_of(own)


def series_of(header: Header) -> tuple[object, ...]:
    """What two marks must have in common for the later one to go on from the earlier one's findings."""
    return (
        header.repository,
        header.repository_created,
        header.storage_namespace,
        header.allow_list,
        header.format,
    )


def read_at(mark: MarkArtifacts) -> float:
    """When a mark began to read its commits, unix seconds: what it found is true of that moment."""
    return mark.require(Stage.RETENTION_COMMITS).started_at


def asked_at(mark: MarkArtifacts) -> float:
    """When a mark last asked lakeFS for anything; long after it was begun if it was resumed; 0 if it never did."""
    manifests = [mark.manifest(stage) for stage in STAGES[1:]]
    return max((manifest.started_at for manifest in manifests if manifest is not None), default=0.0)


def unreadable_until(mark: MarkArtifacts) -> float:
    """When a mark that does not read (damaged, or of another version) can have asked lakeFS last, unix seconds: the
    newest time of its files by the store's clock, and APART more. Endless if it has no files."""
    times = [pc.max(batch.column("last_modified")).as_py() for batch in mark.store.list(f"{mark.folder}/")]
    return max((time.timestamp() for time in times if time is not None), default=math.inf) + APART


@dataclass(frozen=True)
class FindingsBefore:
    """The mark whose findings the next one carries on; or None, and why in words."""

    mark: MarkArtifacts | None
    why: str = ""


def previous_findings(context: MarkContext) -> MarkArtifacts | None:
    """The mark before this one, if no other may have found objects live since it read."""
    return findings_before(context).mark


def findings_before(context: MarkContext) -> FindingsBefore:
    """The same, with the reason where there is none: every object is waited for anew then.

    A mark that asked what is staged and got no further may have found objects live; so may one that was begun earlier
    and resumed later. A mark that does not read, or whose clock was wrong, counts as one that found everything live as
    long as it was written to: once, not for ever.
    """
    before = previous_mark(context)
    if before is None:
        return FindingsBefore(None, _why_first(context))
    read = read_at(before)
    for mark_id in marks(context.workspace, context.home):
        if mark_id in (before.mark_id, context.header.mark_id):
            continue
        mark = context.artifacts(mark_id)
        try:
            other = mark.header()
            if other is None or not _is_comparable(other, context.header):
                continue
            check_clock(mark, context.level)
            if asked_at(mark) >= read:
                how = "" if mark.manifest(Stage.EXPIRED_ADDRESSES) else _BROKE_OFF
                return FindingsBefore(None, f"mark {mark_id} asked lakeFS after mark {before.mark_id} had read{how}")
        except MarkError as error:
            if unreadable_until(mark) >= read:
                return FindingsBefore(None, f"mark {mark_id} says nothing of what was live: {error}")
    return FindingsBefore(before)


def _why_first(context: MarkContext) -> str:
    """Why there is no mark to go on from: an upgrade, or damage, is said by name."""
    for mark_id in marks(context.workspace, context.home):
        try:
            context.artifacts(mark_id).header()
        except MarkError as error:
            return f"the first that reads; mark {mark_id} does not: {error}"
    return "the first of its kind"


def unfinished_mark(context: RepositoryContext) -> str | None:
    """The newest mark, if it was begun lately and did not come to its end: who marks again goes on with it. An older
    one is left, because what it listed is old."""
    newest = next(iter(marks(context.workspace, context.home)), None)
    if newest is None:
        return None
    mark = context.artifacts(newest)
    try:
        header = mark.header()
        if header is None or mark.manifest(Stage.EXPIRED_ADDRESSES) is not None:
            return None
    except MarkError:
        return None
    age = clock.now().timestamp() - header.started_at
    return newest if 0 <= age <= RESUMED_WITHIN.total_seconds() else None


def former_state(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same namespace that missed no heads, whatever repository lies there now.

    One that was re-created from an old dump is another repository to lakeFS, and yet must know these heads; and a mark
    that missed some must not make the next one forget them.
    """
    own = context.header
    return newest_complete(
        context,
        lambda header, mark: (
            header.storage_namespace == own.storage_namespace
            and header.started_at < own.started_at
            and not mark.facts(CommitsFacts).former_heads_unknown
        ),
    )


@dataclass(frozen=True)
class LaterMarks:
    """Marks of the same repository that asked lakeFS for anything since one had read its commits: the newest finished
    one, and whether one that did not finish asked later than that."""

    finished: MarkArtifacts | None
    unfinished: bool


def later_marks(context: MarkContext) -> LaterMarks:
    """The marks that read after this one, also those that were begun before it and resumed. A mark that does not read,
    or whose clock was wrong, counts as one that did not finish, and asked lakeFS as long as it was written to."""
    finished: tuple[float, MarkArtifacts] | None = None
    unfinished = 0.0
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            header = mark.header()
            if header is None or header.repository != context.header.repository or mark_id == context.header.mark_id:
                continue
            check_clock(mark, context.level)
            asked, complete = asked_at(mark), mark.manifest(Stage.EXPIRED_ADDRESSES) is not None
        except MarkError:
            asked, complete = unreadable_until(mark), False
        if asked < read_at(context.mark):
            continue
        if not complete:
            unfinished = max(unfinished, asked)
        elif finished is None or asked > finished[0]:
            finished = (asked, mark)
    return LaterMarks(finished[1] if finished else None, unfinished > (finished[0] if finished else 0.0))
