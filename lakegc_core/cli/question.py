"""The question before a sweep: how much may go, and whether it can come back."""

from __future__ import annotations

from lakegc_core.errors import StoreError
from lakegc_core.marks.backups import readable_backup
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.ledger import brought_back
from lakegc_core.marks.sweeps import finished_sweeps
from lakegc_core.names import Json, Outcome, counted
from lakegc_core.policy.facts import Amount
from lakegc_core.store.base import connect
from lakegc_core.views.words import came_back, comes_back, human_bytes, undo


def question(context: MarkContext, report: Json) -> str:
    """The question whether a mark is to be swept. `report`: of the mark."""
    left, back = _left(context, report), brought_back(context.mark)
    what = f"{counted(left.objects, 'object')} ({human_bytes(left.bytes)}) of {context.header.storage_namespace}"
    others = f" It also found {came_back(back.objects, back.bytes)}." if back.objects else ""
    way = _way_back(context, report["objects"]["expired"])
    return f"Delete up to {what}, which mark {context.header.mark_id} found?{others} {way}"


def _left(context: MarkContext, report: Json) -> Amount:
    """What the mark found and no sweep or drill of it has deleted, at most; all of it where their reports make no sense
    together."""
    found, over = (
        Amount(report["objects"]["expired"], report["bytes"]["expired"]),
        finished_sweeps(context, drills=True),
    )
    objects = found.objects - sum(each["outcomes"].get(Outcome.DELETED, 0) for each in over)
    size = found.bytes - sum(each["bytes_deleted"] for each in over)
    return Amount(objects, size) if objects >= 0 and size >= 0 else found


def _way_back(context: MarkContext, found: int) -> str:
    """A sentence that says whether what is deleted can come back. `found`: number of objects."""
    repository, mark_id, quarantine = context.header.repository, context.header.mark_id, context.policy.quarantine
    how, backup, lacking = undo(repository, mark_id), None, 0
    if facts := readable_backup(context):
        backup = undo(repository, mark_id, facts.place)
        lacking = 0 if context.policy.backup else max(0, found - facts.objects)  # else the sweep leaves these
    try:
        probe = connect(context.data).probe()
    except StoreError:  # lakegc may write nothing there, and a sweep need not
        return comes_back(None, None, how, quarantine, backup=backup, lacking=lacking)
    return comes_back(probe.versioning, probe.soft_delete, how, quarantine, probe.undeletes, backup, lacking)
