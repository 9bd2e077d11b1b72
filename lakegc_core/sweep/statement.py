"""The statement of a sweep: one sealed JSON object that names, by digests, all that the sweep went by and came to.

Everything in it follows from the artifacts of the mark and of the sweep, so that anybody can compute it again
(`answers.verify`).
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import decode, digest, encode, sealed
from lakegc_core.marks.sweeps import STATEMENT
from lakegc_core.names import Json, Stage
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.merkle import Tree, tree_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORM = 1
"""Version of the statement's form. One of another form is not computed again."""


def operator() -> str:
    """The login and the machine of whoever runs this process, as `login@machine`."""
    try:
        login = getpass.getuser()
    except (OSError, KeyError, ImportError):  # of a container whose user has no name
        login = "unknown"
    return f"{login}@{socket.gethostname()}"


def close_with_statement(
    spark: SparkSession, context: MarkContext, record: SweepRecord, report: Mapping[str, Any]
) -> str:
    """Write the statement of a sweep, and close the sweep with this report, which names it. Returns its digest."""
    said = _statement_of(spark, context, record, report)
    record.check_open()  # the statement of whoever closed it is the one that its report names
    # A statement of a call that died before its report stood counts for nothing, and is written anew.
    context.mark.store.write(f"{record.folder}/{STATEMENT}", encode(said))
    digest_of_it: str = said["digest"]
    record.close({**report, "statement": digest_of_it})
    return digest_of_it


def _statement_of(spark: SparkSession, context: MarkContext, record: SweepRecord, report: Mapping[str, Any]) -> Json:
    """The sealed statement of a sweep that is about to be closed with this report."""
    journal = record.journalled()
    tree = tree_of(spark, journal, "outcome")
    plan: Json | None = record.plan()
    if f"{record.folder}/plan.json" in record.unread:
        plan = None
    told = decode(encode(report), "the report")  # as it will be read: digests are of that form
    return sealed(statement(mark_of(context.mark), plan, told, outcomes_of(journal, tree)))


def mark_of(mark: MarkArtifacts) -> Json:
    """The part of a statement about the mark: the digest that covers its header and all of its datasets, and the rules
    that it judged by. None where the mark cannot be read: a sweep can be closed all the same."""
    try:
        last, commits = mark.require(Stage.EXPIRED_ADDRESSES), mark.require(Stage.RETENTION_COMMITS)
    except MarkError:
        return {"digest": None, "rules": None}
    return {"digest": last.digest, "rules": commits.facts.get("judged_by")}


def outcomes_of(journal: Dataset, tree: Tree) -> Json:
    """The part of a statement about a journal, by its tree: `branches` are those of the tree."""
    return {
        "rows": tree.rows,
        "by_outcome": dict(tree.counts),
        "root": tree.root,
        "branches": {f"{number:02x}": [rows, told] for number, (rows, told) in sorted(tree.branches.items())},
        "parts": [part.name for part in journal.parts],
    }


def statement(mark: Json, plan: Json | None, report: Json, outcomes: Json) -> Json:
    """The statement of a sweep, by those artifacts that can be read. `plan`: without its seal; None if it cannot be
    read."""
    look = report.get("look") or {}
    guards = report.get("guards", [])
    return {
        "form": FORM,
        "repository": report.get("repository"),
        "mark_id": report.get("mark_id"),
        "sweep": report.get("sweep"),
        "finished_at": report.get("finished_at"),
        "mark": mark["digest"],
        "rules": {"mark": mark["rules"], "look": look.get("retention_commits", {}).get("judged_by")},
        "plan": None if plan is None else digest(plan),
        "planned": report.get("planned"),
        "settings": report.get("counted"),
        "guards": {"digest": digest(guards), "verdicts": {each["name"]: _word(each) for each in guards}},
        "accepted": [*_accepted(plan or {}), *_accepted(report)],
        "closed": report.get("closed"),
        "outcomes": outcomes,
        "totals": report.get("outcomes"),
        "report": digest({key: each for key, each in report.items() if key != "statement"}),
    }


def _word(verdict: Json) -> str:
    if verdict["passed"]:
        return "holds"
    return "accepted" if verdict.get("accepted_because") else "failed"


def _accepted(artifact: Json) -> Iterator[Json]:
    """Guards that were accepted when a plan was sealed, or when a call ended: by whom, and why."""
    when = artifact.get("planned_at") or artifact.get("finished_at")
    for each in artifact.get("guards", []):
        if each.get("accepted_because"):
            yield {"guard": each["name"], "by": artifact.get("by"), "because": each["accepted_because"], "at": when}
