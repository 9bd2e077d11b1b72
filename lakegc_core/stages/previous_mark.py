"""Which marks came before and after: what a mark is compared with, and whose findings it must know."""

from __future__ import annotations

from dataclasses import dataclass

from lakegc_core.context import MarkContext
from lakegc_core.errors import MarkError
from lakegc_core.mark import STAGES, Header, MarkArtifacts, marks


def previous_mark(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same repository that was begun before this one."""
    found: tuple[float, MarkArtifacts] | None = None
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            header = mark.header()
            if header is None or not _is_earlier(header, context.header) or mark.manifest(STAGES[-1]) is None:
                continue
        except MarkError:
            continue  # a damaged mark vouches for nothing
        if found is None or header.started_at > found[0]:
            found = (header.started_at, mark)
    return found[1] if found else None


def _is_earlier(header: Header, own: Header) -> bool:
    return header.started_at < own.started_at and (
        (header.repository, header.repository_created, header.storage_namespace, header.allow_list, header.format)
        == (own.repository, own.repository_created, own.storage_namespace, own.allow_list, own.format)
    )


def previous_findings(context: MarkContext) -> MarkArtifacts | None:
    """The mark before this one, if nothing stands between them that may have found objects live.

    A damaged mark, or a later one that got as far as the staged dump and no further, may have: None then, so that every
    object is waited for anew.
    """
    before = previous_mark(context)
    if before is None:
        return None
    header = before.header()
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            other = mark.header()
            if header is None or other is None or not _is_earlier(other, context.header):
                continue
            if other.started_at > header.started_at and mark.manifest(STAGES[1]) is not None:
                return None
        except MarkError:
            return None
    return before


def former_state(context: MarkContext) -> MarkArtifacts | None:
    """The newest complete mark of the same namespace that missed no heads, whatever repository lies there now.

    One that was re-created from an old dump is another repository to lakeFS, and yet must know these heads; and a mark
    that missed some must not make the next one forget them.
    """
    found: tuple[float, MarkArtifacts] | None = None
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            header = mark.header()
            if (
                header is None
                or header.storage_namespace != context.header.storage_namespace
                or header.started_at >= context.header.started_at
                or mark.manifest(STAGES[-1]) is None
                or mark.require(STAGES[2]).facts.get("former_heads_unknown", 0)
            ):
                continue
        except MarkError:
            continue  # a damaged mark vouches for nothing
        if found is None or header.started_at > found[0]:
            found = (header.started_at, mark)
    return found[1] if found else None


@dataclass(frozen=True)
class LaterMarks:
    """Marks of the same repository that were begun after one: the newest finished one, and whether a newer one than
    that broke off after it had asked what is staged."""

    finished: MarkArtifacts | None
    unfinished: bool


def later_marks(context: MarkContext) -> LaterMarks:
    """The marks that were begun after this one. One without a header that reads cannot be placed, and is left out."""
    finished: tuple[float, MarkArtifacts] | None = None
    unfinished = 0.0
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        try:
            header = mark.header()
        except MarkError:
            continue
        if header is None or header.repository != context.header.repository:
            continue
        if header.started_at <= context.header.started_at:
            continue
        try:
            complete, asked = mark.manifest(STAGES[-1]) is not None, mark.manifest(STAGES[1]) is not None
        except MarkError:
            complete, asked = False, True
        if complete and (finished is None or header.started_at > finished[0]):
            finished = (header.started_at, mark)
        if asked and not complete:
            unfinished = max(unfinished, header.started_at)
    since = finished[0] if finished else context.header.started_at
    return LaterMarks(finished[1] if finished else None, unfinished > since)
