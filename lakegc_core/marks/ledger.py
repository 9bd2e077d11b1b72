"""Records of what happened to objects: journals of sweeps and of restores, and what marks saw again.

One ledger for all who ask whether lakegc deleted an object. A plan, a list and a restore that was only begun say what
was meant: they are not in it. The last event of an object is worked out in `last_known`. When a mark is retired, its
records stay, in the folder KEPT of the home.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.clock import APART
from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import RESTORES, STAMP, MarkArtifacts
from lakegc_core.marks.backups import SAVED
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.json_files import encode, read_json
from lakegc_core.marks.one_copy import DIFFERENT, FAILED, MISSING
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import over_at, reads, sweeps_of
from lakegc_core.names import Json, Outcome, Stage
from lakegc_core.policy.facts import Amount
from lakegc_core.store.base import Store, connect
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, list_parts, part_named, read_part

KEPT = "journals"
"""The folder of a home for the records of retired marks: `<mark>/<kind>/<number>/`, the number being that of a sweep,
and for a restore or a mark the unix seconds of its event. A kind is one of Kind, or UNTOUCHED."""
UNTOUCHED = "untouched"
"""The kind of folder below KEPT for the parts of a journal that tell of no delete, such as what a budget left: a
collection of months has far more of these than of others. Only `verify` reads them."""
CAME_BACK = "came_back"
"""Dataset of a mark's last stage: objects that it listed although the ledger says that they are gone."""


class Kind(StrEnum):
    """The events that a record tells of."""

    SWEPT = "swept"  # outcomes of a sweep
    RESTORED = "restored"  # what a restore copied, or found in its place
    SEEN = "seen"  # what a mark listed again


_SIDE_BY_SIDE = 16  # marks whose records are asked for at a time
_UNTRIED = (Outcome.RESCUED, Outcome.HELD, Outcome.UNCONFIRMED, Outcome.LEFT)
_NOT_TRIED = pa.array([str(each) for each in (*_UNTRIED, Outcome.OVER_BUDGET, Outcome.NOT_IN_BACKUP)])
"""Outcomes of objects of which a sweep sent no delete, and learnt nothing that the ledger tells."""
_ADDRESS = pa.field("address", pa.string(), nullable=False)
_OUTCOME = pa.field("outcome", pa.string(), nullable=False)
_AT = pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False)
COLUMNS: Mapping[Kind, pa.Schema] = {
    Kind.SWEPT: pa.schema([_ADDRESS, pa.field("size", pa.int64(), nullable=False), _OUTCOME, _AT]),
    Kind.RESTORED: pa.schema([_ADDRESS, _OUTCOME]),
    Kind.SEEN: pa.schema([_ADDRESS, _AT]),
}
"""The columns that the ledger reads of a record; its parts may have more."""


@dataclass(frozen=True)
class Record:
    """One record. `number`: of the sweep; 0 of others. `rows`: COLUMNS of its kind. `at`: when the event was, unix
    seconds; 0 of sweeps, whose rows say it themselves."""

    kind: Kind
    mark_id: str
    number: int
    rows: Dataset
    at: float = 0.0


@dataclass(frozen=True)
class Records:
    """All records of a repository. `whole`: False if some file among them is known to be unreadable."""

    found: tuple[Record, ...]
    whole: bool = True


def journals(context: RepositoryContext, since: float) -> Iterator[Record]:
    """The journals of all sweeps of marks that stand, without sweeps that were over by then (unix seconds)."""
    yield from _of_marks(context, partial(_journals_of, since=since))


def sweeps_and_restores(context: RepositoryContext) -> Iterator[Record]:
    """The records of all sweeps and restores of marks that stand."""
    yield from _of_marks(context, _sweeps_and_restores_of)


def records_of(context: RepositoryContext, since: float = 0.0) -> Records:
    """Every record of the repository, also of its retired marks. `since`: without sweeps that were over by then (unix
    seconds). Retired marks are left out then: none can have been swept since. What cannot be read is passed over."""
    found = list(_of_marks(context, partial(_of_mark, since=since)))
    if not since:
        here = {_name_of(record) for record in found}
        found += (record for record in _kept(context) if _name_of(record) not in here)
    return Records(tuple(found))


def _name_of(record: Record, *, untouched: bool = False) -> str:
    """The folder below KEPT in which a record stays, or those of its parts that are UNTOUCHED."""
    return f"{record.mark_id}/{UNTOUCHED if untouched else record.kind}/{record.number or f'{record.at:.6f}'}"


def _of_marks(context: RepositoryContext, records: Callable[[MarkArtifacts], Iterator[Record]]) -> Iterator[Record]:
    """The records of each mark that stands, mark by mark, without those that have no rows."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        # Each thread has a copy of the context, in which `read_once` keeps what was read.
        work = [pool.submit(copy_context().run, tuple, records(each.mark)) for each in Shelf.of(context)]
        for found in work:
            yield from (record for record in found.result() if record.rows.parts)


def _sweeps_and_restores_of(mark: MarkArtifacts, since: float = 0.0) -> Iterator[Record]:
    yield from _journals_of(mark, since)
    yield from restored(mark)


def _of_mark(mark: MarkArtifacts, since: float) -> Iterator[Record]:
    """The records of a mark that stands."""
    yield from _sweeps_and_restores_of(mark, since)
    with suppress(MarkError):
        last = mark.manifest(Stage.EXPIRED_ADDRESSES)
        if last is not None:
            seen = mark.dataset_of(last, COLUMNS[Kind.SEEN], CAME_BACK, may_lack=True)
            yield Record(Kind.SEEN, mark.mark_id, 0, seen, last.started_at)


def restored(mark: MarkArtifacts) -> Iterator[Record]:
    """The records of the restores of a mark that stands, as far as they came to their end."""
    for restore in restores_of(mark):
        if restore.report is not None:
            finished = float(restore.report["finished_at"])
            folder = DatasetFolder(mark.config, restore.folder, mark.mark_id)
            parts = [part for part in list_parts(mark.config, restore.folder) if part.sha256]  # others are not lakegc's
            rows = folder.dataset("", parts, COLUMNS[Kind.RESTORED])
            yield Record(Kind.RESTORED, mark.mark_id, 0, rows, finished)


def _journals_of(mark: MarkArtifacts, since: float) -> Iterator[Record]:
    """The journals of the sweeps of a mark that stands."""
    for number in sweeps_of(mark.store, mark.folder):
        if over_at(mark.store, mark.folder, number) < since - APART:
            continue
        folder = DatasetFolder(mark.config, f"{mark.folder}/sweeps/{number}/outcomes", mark.mark_id)
        yield Record(Kind.SWEPT, mark.mark_id, number, folder.listed(COLUMNS[Kind.SWEPT]))


@dataclass(frozen=True)
class Restore:
    """A restore of a mark. `begun_at`: unix seconds; `report`: None where it did not come to its end."""

    folder: str
    begun_at: float
    report: Json | None

    @property
    def may_have_copied(self) -> bool:
        """False if its report says that no object lies there by it. One that an earlier try copied is `already_there`,
        and one whose copy was made and not confirmed has `failed`."""
        outcomes = {} if self.report is None else self.report.get("outcomes", {})
        return self.report is None or any(outcomes.get(each, 0) for each in (*SAVED, FAILED))

    @property
    def is_whole(self) -> bool:
        """True if, by its report, all that the mark's sweeps deleted lies at its place."""
        if self.report is None or self.report.get("whole") is not True:
            return False
        outcomes = self.report.get("outcomes", {})
        failed = any(outcomes.get(each, 0) for each in (DIFFERENT, FAILED, MISSING))
        return not failed and any(outcomes.get(each, 0) for each in SAVED)


def restores_of(mark: MarkArtifacts) -> Iterator[Restore]:
    """The restores of a mark, as far as the names of their folders tell when they were. A report that cannot be read
    counts as none."""
    for level in mark.store.list_level(f"{mark.folder}/{RESTORES}/"):
        for prefix in level.prefixes:
            folder = prefix.rstrip("/")
            with suppress(ValueError):
                begun = datetime.strptime(f"{folder.rpartition('/')[2]}+0000", f"{STAMP}%z").timestamp()
                yield Restore(folder, begun, _report(mark.store, f"{folder}/report.json"))


def whole_restore_at(mark: MarkArtifacts) -> float:
    """When the last restore began that brought back all that the mark's sweeps had deleted, unix seconds; 0 if none
    did."""
    return max((each.begun_at for each in restores_of(mark) if each.is_whole), default=0.0)


def brought_back(mark: MarkArtifacts) -> Amount:
    """What the sweeps of a mark deleted and its restores brought back, also for drills, by the reports of the restores.
    No sweep of the mark deletes it again."""
    told = (each for restore in restores_of(mark) if restore.report for each in restore.report["taken_back"])
    own = [each for each in told if each["mark_id"] == mark.mark_id]
    return Amount(sum(each["objects"] for each in own), sum(each["bytes"] for each in own))


def has_lost(report: Json, since: float) -> bool:
    """True if a sweep that was over after a moment (unix seconds) lost objects, by its report."""
    return bool(report.get("outcomes", {}).get(Outcome.LOST, 0)) and report.get("finished_at", since + 1) > since


def _report(store: Store, key: str) -> Json | None:
    try:
        found = read_json(store, key)
    except MarkError:
        return None
    return found if found is not None and reads(found) and {"finished_at", "taken_back"} <= found.keys() else None


def write_report(store: Store, folder: str, report: Mapping[str, Any]) -> None:
    """Close a restore: from here on the ledger believes what its journal says."""
    store.write(f"{folder}/report.json", encode(report))


def keep_records(mark: MarkArtifacts) -> None:
    """Copy the records of a mark that is to be retired to where they stay. What cannot be read is left out."""
    for record in _of_mark(mark, 0.0):
        for source in record.rows.sources:
            with suppress(CorruptFileError, ObjectNotFoundError):
                # All of it is read, so that a part that cannot be read stays out.
                tells = [_tells(record, rows) for rows in read_part(source.config, source.folder, source.part)]
                target = f"{mark.home}/{KEPT}/{_name_of(record, untouched=not any(tells))}/{source.part.name}"
                mark.store.write(target, mark.store.read(f"{source.folder}/{source.part.name}"))


def _tells(record: Record, rows: pa.RecordBatch) -> bool:
    """False if the rows are of a journal, and none tells of a delete."""
    if record.kind != Kind.SWEPT:
        return True
    return not pc.all(pc.is_in(rows["outcome"], _NOT_TRIED)).as_py()


def _kept(context: RepositoryContext) -> Iterator[Record]:
    """The records of retired marks."""
    root = f"{context.home}/{KEPT}/"
    found: dict[tuple[str, str, str], list[Part]] = {}
    for batch in connect(context.workspace).list(root):
        for key, size in zip(batch["address"].to_pylist(), batch["size"].to_pylist(), strict=True):
            names = key.removeprefix(root).split("/")
            part = part_named(key, size)
            if part is not None and len(names) == 4 and names[1] in set(Kind):
                found.setdefault((names[0], names[1], names[2]), []).append(part)
    for (mark_id, kind, number), parts in found.items():
        with suppress(ValueError):
            swept = kind == Kind.SWEPT
            at = 0.0 if swept else float(number)
            folder = DatasetFolder(context.workspace, f"{root}{mark_id}/{kind}/{number}", mark_id)
            rows = folder.dataset("", parts, COLUMNS[Kind(kind)])
            yield Record(Kind(kind), mark_id, int(number) if swept else 0, rows, at)
