"""The words that artifacts, reports and the command line share: stages, outcomes, and why an object stays; and the type
of a JSON object."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, get_args

Json = dict[str, Any]
"""A JSON object: of an artifact, a report, an answer or a task."""


class Stage(StrEnum):
    """The stages, by the names of their assets."""

    NAMESPACE_LISTING = "namespace_listing"
    UNCOMMITTED_ADDRESSES = "uncommitted_addresses"
    RETENTION_COMMITS = "retention_commits"
    COMMITTED_ADDRESSES = "committed_addresses"
    EXPIRED_ADDRESSES = "expired_addresses"
    SWEPT_REPORT = "swept_report"


STAGES = tuple(stage.value for stage in Stage if stage is not Stage.SWEPT_REPORT)
"""The five marking stages in the only safe order: what lies there, what is staged, what counts, what that refers to,
the difference. Plain strings: Dagster stores no enums that it does not know."""

BEGINS = "begins"
"""The word behind a stage and a colon in the sentence that says that the stage is at work."""


class Outcome(StrEnum):
    """The fate of an object that a sweep planned to delete. A failure is written `failed:<code>`."""

    DELETED = "deleted"
    ALREADY_GONE = "already_gone"
    RESCUED = "rescued"  # live again
    HELD = "held"  # kept by a hold of lakegc.yaml, and by nothing else
    UNCONFIRMED = "unconfirmed"  # not deleted yet: no two askings a gap apart have found it unreferenced
    LOST = "lost"  # referenced, and gone from the store
    CHANGED = "changed"  # not deleted: another object lies there than the mark listed
    LEFT = "left"  # not deleted: the sweep that planned it was closed, or stopped by a ring
    OVER_BUDGET = "over_budget"  # not deleted: the budget of the sweep was spent
    NOT_IN_BACKUP = "not_in_backup"  # not deleted: lakegc.yaml asks for a backup, and that lacks the object


FAILED = "failed:"
"""The beginning of the outcome of a delete that failed; a code follows."""
NO_ANSWER = f"{FAILED}no_answer"
"""Outcome of a delete whose answer was lost: the object may be gone."""
STILL_THERE = f"{FAILED}still_there"
"""Outcome of a delete that the store confirmed, of an object that the store shows all the same when it is asked."""
SEEN_AGAIN = "seen_again"
"""In a journal, beside the outcome: the object is there, although the sweep of another mark had recorded it as deleted,
or a restore was to bring it back."""
UNSWEPT = "unswept"
"""In the place of an outcome: no sweep of the mark was to delete the object yet."""
REFUSED = "refused:"
"""The beginning of the outcome of an object that a sweep was told to delete and does not: its name is not one that
lakeFS gives to data, or another tool's mark names it and lakegc's does not. The reason follows."""


class Reason(StrEnum):
    """The reason why an object is kept that no commit refers to; or `unreferenced`, which is garbage."""

    UNREFERENCED = "unreferenced"
    STAGED = "staged"
    HELD = "held"
    NEIGHBOUR = "neighbour"  # another repository refers to it
    YOUNG = "young"
    UNASKED = "unasked"  # it looks like an entry of a branch, which lakeFS was not asked for, or may not show
    FOREIGN = "foreign"  # not lakeFS's
    UNKNOWN = "unknown"  # below data/, under a name that lakeFS never gives
    MISSING = "missing"  # live, and not in the store
    GIVEN_UP = "given_up"  # the same, and a person accepted that for an earlier mark
    SWEPT_BEFORE = "swept_before"  # missing, and a sweep had deleted it: old commits that hold it count again now


class Symptom(StrEnum):
    """Symptoms on which messages send people to docs/runbook.md, by the names of its headings. Guards are others."""

    LEASE_HELD = "lease-held"
    LEASE_LOST = "lease-lost"
    NO_RULES = "no-rules"
    UNREADABLE_COMMIT = "unreadable-commit"
    LOST_OBJECTS = "lost-objects"
    PATHS_DO_NOT_READ = "paths-do-not-read"
    SWEEP_IS_BLIND = "sweep-is-blind"
    MARK_IS_BLIND = "mark-is-blind"
    DELETES_FAIL = "deletes-fail"
    SWEEP_GETS_NOWHERE = "sweep-gets-nowhere"
    SWEEP_BROKE_OFF = "sweep-broke-off"
    RETIRE_FAILS = "retire-fails"
    ROUNDS_MISSED = "rounds-missed"
    BILL_DID_NOT_FALL = "bill-did-not-fall"


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: 1 sweep, 1,200 sweeps. `one`: what one of them is called. `many`: what several are called, if
    that is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def see(symptom: str) -> str:
    """The sentence that sends people to the runbook for a symptom, or for a guard that failed (by its name)."""
    return f"See docs/runbook.md#{symptom}."


Rules = Literal["required", "keep-all-commits"]
"""The meaning of a repository without GC rules."""
RULES_MODES: tuple[Rules, ...] = get_args(Rules)

COMPLETE, SWEPT, RETIRED = "complete", "swept", "retired"
"""States of a mark that is whole."""
