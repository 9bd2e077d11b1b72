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
