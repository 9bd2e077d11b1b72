"""The judgement of the guard `backup`: what is deleted can come back, by a backup and by a drill that has shown it."""

from __future__ import annotations

from datetime import timedelta

from lakegc_core.clock import duration, minute
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.facts import DrillFacts
from lakegc_core.policy.judgements import Finding, backup, whole_backup


def can_come_back(evidence: Evidence) -> Finding:
    if not evidence.expired.expired.objects:
        return True, "This mark found nothing to delete, so that nothing has to come back."
    backed_up, said = backup(evidence)
    if not backed_up or evidence.drill_within is None:
        return backed_up, said
    drill = evidence.drill
    drilled, found = passed(evidence.header.repository, drill, evidence.drill_within, evidence.now)
    if drilled and drill is not None and drill.by_backup and not evidence.backup_required:
        drilled, said = whole_backup(evidence, f"Drill {drill.name} brought objects back out of a backup")
        found = found if drilled else said
    return drilled, f"{said} {found}" if drilled else found


def passed(repository: str, found: DrillFacts | None, within: float, now: float) -> Finding:
    """The judgement of the last drill of a repository: has it passed within so many seconds before `now`?"""
    age = duration(timedelta(seconds=within))
    how = f"Drill: lakegc drill {repository}."
    asked = f"lakegc.yaml asks for a drill that has passed within {age}, and"
    if found is None:
        return False, f"{asked} there was none. {how}"
    if found.problem:
        return False, f"{asked} drill {found.name} did not: {found.problem}. {how}"
    if not 0 <= now - found.at <= within:  # one that is to come was dated by a wrong clock
        return False, f"{asked} the last one is of {minute(found.at)}. {how}"
    if found.lapsed:
        return False, f"{asked} drill {found.name} shows nothing any more: {found.lapsed}. {how}"
    return True, f"Drill {found.name} has shown that what is deleted comes back."
