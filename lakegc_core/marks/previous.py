"""The marks before and after a mark: it is compared with one, and must know the findings of others."""

from __future__ import annotations

from dataclasses import dataclass

from lakegc_core import clock
from lakegc_core.marks.artifacts import FORMAT, Header, MarkArtifacts
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.shelf import Shelf, Standing
from lakegc_core.names import Stage
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.namespace import ALLOW_LIST_VERSION
from lakegc_core.policy.safety import RESUMED_WITHIN

_BROKE_OFF = ", and did not come to its end (resume such a mark: --mark-id)"


def previous_mark(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same repository that was begun before this one, by a clock that was right."""
    return _previous(Shelf.of(context, context.level), context.header)


def _previous(shelf: Shelf, own: Header) -> MarkArtifacts | None:
    def is_earlier(header: Header, each: Standing) -> bool:
        return header.started_at < own.started_at and series_of(header) == series_of(own) and each.fault is None

    return shelf.newest_complete(is_earlier)


def series_of(header: Header) -> tuple[object, ...]:
    """The values that two marks must share for the later one to go on from the earlier one's findings."""
    return (
        header.repository,
        header.repository_created,
        header.storage_namespace,
        header.allow_list,
        header.format,
    )


def series_now(context: RepositoryContext) -> tuple[object, ...]:
    """The same of a mark that would begin now."""
    repository = context.repository
    return (repository.id, repository.creation_date, repository.storage_namespace, ALLOW_LIST_VERSION, FORMAT)


def began_to_read_at(mark: MarkArtifacts) -> float:
    """The time when a mark asked for its staged dump, unix seconds: what others saw live since then it may have missed.
    One that was resumed read its commits later, and its dump is as old as it was."""
    return mark.require(Stage.UNCOMMITTED_ADDRESSES).started_at


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
    and resumed later. A mark that cannot be read, or whose clock was wrong, counts as one that found everything live
    until its last write. So it begins the wait anew once; later marks take no notice of it.
    """
    shelf = Shelf.of(context, context.level)
    before = _previous(shelf, context.header)
    if before is None:
        return FindingsBefore(None, _why_first(shelf))
    read = began_to_read_at(before)
    for each in shelf:
        if each.mark_id in (before.mark_id, context.header.mark_id) or not _may_go_on(each, context.header):
            continue
        if each.asked_until < read:
            continue
        if each.fault is not None:
            return FindingsBefore(None, f"mark {each.mark_id} says nothing of what was live: {each.fault}")
        how = "" if each.is_complete else _BROKE_OFF
        return FindingsBefore(None, f"mark {each.mark_id} asked lakeFS after mark {before.mark_id} had read{how}")
    return FindingsBefore(before)


def _may_go_on(each: Standing, own: Header) -> bool:
    """True for a mark of the same repository, of whatever series, and for one whose header cannot be read."""
    return each.is_begun if each.header is None else each.header.repository == own.repository


def _why_first(shelf: Shelf) -> str:
    """The reason why there is no mark to go on from: an upgrade, or damage, is said by name."""
    unread = next((each for each in shelf if each.fault is not None), None)
    if unread is None:
        return "the first of its kind"
    return f"the first that can be read; mark {unread.mark_id} cannot: {unread.fault}"


def unfinished_mark(context: RepositoryContext) -> str | None:
    """The mark that was begun last, if that was lately and it did not come to its end: who marks again goes on with it.
    An older one is left, because what it listed is old; so is one with a fault, which cannot come to its end, and one
    whose listing did not come to its end, such as one that was refused: to resume it saves no work, and its cutoff is
    old. Ids are names and tell no time; one that is to come tells none either."""
    now = clock.now().timestamp()
    begun = {each.header.started_at: each for each in Shelf.of(context) if each.header is not None}
    last = max((at for at in begun if at <= now), default=None)
    if last is None or now - last > RESUMED_WITHIN.total_seconds():
        return None
    if not begun[last].is_unfinished or not begun[last].has_listed:
        return None
    return begun[last].mark_id if begun[last].fault is None else None


def former_state(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same namespace that missed no heads, whatever repository lies there now.

    One that was re-created from an old dump is another repository to lakeFS, and yet must know these heads; and a mark
    that missed some must not make the next one forget them.
    """
    own = context.header
    return Shelf.of(context).newest_complete(
        lambda header, each: (
            header.storage_namespace == own.storage_namespace
            and header.started_at < own.started_at
            and not each.mark.facts(CommitsFacts).former_heads_unknown
        )
    )


@dataclass(frozen=True)
class LaterMarks:
    """Marks of the same repository that asked lakeFS for anything since some mark had begun to read. `finished`: of
    those that finished, the one that asked last. `others`: another one asked after `finished` had begun to read, which
    so may not know what it found."""

    finished: MarkArtifacts | None
    others: bool


def later_marks(context: MarkContext) -> LaterMarks:
    """The marks that read after this one, also those that were begun before it and resumed. A mark that cannot be read,
    or whose clock was wrong, counts as one that did not finish, and asked lakeFS as long as it was written to."""
    read = began_to_read_at(context.mark)
    later = [each for each in Shelf.of(context, context.level) if _is_other(each, context) and each.asked_until >= read]
    finished = [each for each in later if each.is_complete and each.fault is None]
    newest = max(finished, key=lambda each: each.asked_until, default=None)
    if newest is None:
        return LaterMarks(None, bool(later))
    known_from = began_to_read_at(newest.mark)
    return LaterMarks(newest.mark, any(each.asked_until >= known_from for each in later if each is not newest))


def _is_other(each: Standing, context: MarkContext) -> bool:
    """True for another mark of the same repository, and for one whose header cannot be read."""
    if each.header is None:
        return each.is_begun
    return each.header.repository == context.header.repository and each.mark_id != context.header.mark_id
