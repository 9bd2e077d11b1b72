"""The record that stays of a retired mark: of its findings, its sweeps and its restores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from lakegc_core import clock
from lakegc_core.clock import instant
from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import Manifest, MarkArtifacts
from lakegc_core.marks.backups import BACKUP
from lakegc_core.marks.json_files import encode, read_json, sealed
from lakegc_core.marks.ledger import restores_of
from lakegc_core.marks.sweeps import files_of, is_drill, journalled, report_of, statement_of, sweeps_of
from lakegc_core.names import RETIRED, STAGES, Json, Outcome, Stage

T = TypeVar("T")


def freed_by(record: Json) -> Json:
    """The record of a retired mark in a line: what the mark found, and what was deleted by its sweeps, drills apart."""
    facts = record["stages"].get(Stage.EXPIRED_ADDRESSES, {}).get("facts", {})
    expired, since = facts.get("expired", {}), facts.get("first_since")
    swept = [report for report in record["sweeps"].values() if not is_drill(report)]
    return {
        "mark_id": record["mark_id"],
        "started_at": instant(record["header"]["started_at"]) if record["header"] else None,
        "retired_at": instant(record["retired_at"]),
        "state": RETIRED,
        "expired": expired.get("objects", 0),
        "expired_bytes": expired.get("bytes", 0),
        "garbage_since": None if since is None else instant(since),
        "sweeps": len(swept),
        "deleted": sum(report.get("outcomes", {}).get(Outcome.DELETED, 0) for report in swept),
        "bytes_deleted": sum(report.get("bytes_deleted", 0) for report in swept),
        "backup": (record["backup"] or {}).get("place"),
    }


def record_of(repository: str, mark: MarkArtifacts) -> Json:
    """The record that stays of a mark, sealed: header, findings of stages, reports and statements of sweeps, as far as
    they read."""
    # That of another version is kept, too: by it a restore knows the mark.
    header, numbers = _or_none(partial(mark.header, any_version=True)), sweeps_of(mark.store, mark.folder)
    stages = {stage: manifest for stage in STAGES if (manifest := _or_none(mark.manifest, stage)) is not None}
    record = {
        "repository": repository,
        "mark_id": mark.mark_id,
        "retired_at": clock.now().timestamp(),
        "header": sealed(header.as_json()) if header else None,
        "stages": {stage: _condensed(manifest) for stage, manifest in stages.items()},
        "sweeps": {
            str(number): sweep_of(mark, number) or journalled(mark.config, mark.folder, number)
            for number in numbers
            if not {"report.json", "plan.json"}.isdisjoint(files_of(mark.store, mark.folder, number))
        },
        "statements": {
            str(number): found
            for number in numbers
            if (found := _or_none(statement_of, mark.store, mark.folder, number)) is not None
        },
        "restores": restores_in(mark),
        "backup": _or_none(read_json, mark.store, f"{mark.folder}/{BACKUP}"),
    }
    return sealed(record)


def restores_in(mark: MarkArtifacts) -> Json:
    """The reports of a mark's restores that came to their end, by the names of their folders."""
    return {each.folder.rpartition("/")[2]: each.report for each in restores_of(mark) if each.report is not None}


def add_restores(mark: MarkArtifacts) -> None:
    """Put the restores of a retired mark into its record: its folder is about to go. A record that cannot be read stays
    as it is."""
    record = _or_none(mark.retired)
    if record is not None and (more := restores_in(mark)):
        record |= {"restores": record.get("restores", {}) | more}
        mark.store.write(mark.retired_key, encode(sealed(record)))


def _or_none(read: Callable[..., T], *arguments: Any) -> T | None:
    try:
        return read(*arguments)
    except MarkError:
        return None


def _condensed(manifest: Manifest) -> Json:
    shown = ("digest", "started_at", "finished_at", "seconds", "rows", "bytes", "facts", "version")
    return {name: getattr(manifest, name) for name in shown}


def sweep_of(mark: MarkArtifacts, number: int) -> Json:
    """The report of a sweep; empty while the sweep is not over."""
    return report_of(mark.store, mark.folder, number) or {}
