"""Which mark came before: what a mark is compared with, and whose findings it carries on."""

from __future__ import annotations

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
