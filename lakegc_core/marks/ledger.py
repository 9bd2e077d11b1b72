"""What happened to objects, by the records that say so: journals of sweeps and of restores, and what marks saw again.

One ledger for all who ask whether lakegc deleted an object. A plan, a list and a restore that was only begun say what
was meant: they are not in it. The last event of an object is worked out in `last_known`. When a mark is retired, its
records stay, in the folder KEPT of the home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakegc_core.clock import APART
from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import RESTORES, STAMP, MarkArtifacts, marks
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.json_files import decode, encode
from lakegc_core.marks.sweeps import over_at, reads, sweeps_of
from lakegc_core.names import Stage
from lakegc_core.store.base import Store, connect
from lakegc_core.tables.parts import Part, list_parts, part_named, read_part

Json = dict[str, Any]

KEPT = "journals"
"""Where a home keeps the records of retired marks: `<mark>/<kind>/<number>/`, the number being that of a sweep, and
for a restore or a mark the unix seconds of its event."""
CAME_BACK = "came_back"
"""Dataset of a mark's last stage: objects that it listed although the ledger says that they are gone."""


class Kind(StrEnum):
    """Of what a record tells."""

    SWEPT = "swept"  # outcomes of a sweep
    RESTORED = "restored"  # what a restore copied, or found in its place
    SEEN = "seen"  # what a mark listed again


@dataclass(frozen=True)
class Record:
    """One record: parts in a folder of the workspace. `number`: of the sweep; 0 of others. `at`: when the event was,
    unix seconds; 0 of sweeps, whose rows say it themselves."""

    kind: Kind
    mark_id: str
    number: int
    folder: str
    parts: tuple[Part, ...]
    at: float = 0.0


@dataclass(frozen=True)
class Records:
    """All records of a repository. `whole`: nothing in their folders is known not to read."""

    found: tuple[Record, ...]
    whole: bool = True


def journals(context: RepositoryContext, since: float) -> Iterator[tuple[str, str, list[Part]]]:
    """The journals of all sweeps that were not over by then: of which mark, where, and their parts."""
    for mark_id in marks(context.workspace, context.home):
        mark = context.artifacts(mark_id)
        for number in sweeps_of(mark.store, mark.folder):
            folder = f"{mark.folder}/sweeps/{number}/outcomes"
            if over_at(mark.store, mark.folder, number) < since - APART:
                continue
            if parts := list_parts(context.workspace, folder):
                yield mark_id, folder, parts


def records_of(context: RepositoryContext, since: float = 0.0) -> Records:
    """Every record of the repository, also of its retired marks. `since`: without sweeps that were over by then (unix
    seconds), and without retired marks, none of which was swept since. What does not read of a mark is passed over."""
    found: list[Record] = []
    for mark_id in marks(context.workspace, context.home):
        found += (record for record in _of_mark(context.artifacts(mark_id), since) if record.parts)
    if not since:
        here = {_name_of(record) for record in found}
        found += (record for record in _kept(context) if _name_of(record) not in here)
    return Records(tuple(found))


def _name_of(record: Record) -> str:
    """The folder below KEPT in which a record stays."""
    return f"{record.mark_id}/{record.kind}/{record.number or f'{record.at:.6f}'}"


def _of_mark(mark: MarkArtifacts, since: float) -> Iterator[Record]:
    """The records of a mark that stands."""
    for number in sweeps_of(mark.store, mark.folder):
        if over_at(mark.store, mark.folder, number) >= since - APART:
            folder = f"{mark.folder}/sweeps/{number}/outcomes"
            yield Record(Kind.SWEPT, mark.mark_id, number, folder, tuple(list_parts(mark.config, folder)))
    for restore in restores_of(mark):
        if restore.report is not None:
            finished = float(restore.report["finished_at"])
            parts = _parts_below(mark.store, restore.folder)
            yield Record(Kind.RESTORED, mark.mark_id, 0, restore.folder, parts, finished)
    with suppress(MarkError):
        last = mark.manifest(Stage.EXPIRED_ADDRESSES)
        if last is not None and (seen := last.datasets.get(CAME_BACK)):
            folder = mark.stage_folder(Stage.EXPIRED_ADDRESSES, CAME_BACK)
            yield Record(Kind.SEEN, mark.mark_id, 0, folder, tuple(seen), last.started_at)


@dataclass(frozen=True)
class Restore:
    """A restore of a mark. `begun_at`: unix seconds; `report`: None where it did not come to its end."""

    folder: str
    begun_at: float
    report: Json | None

    @property
    def may_have_copied(self) -> bool:
        """False if its report says that nothing was copied."""
        return self.report is None or bool(self.report.get("outcomes", {}).get("copied", 0))


def restores_of(mark: MarkArtifacts) -> Iterator[Restore]:
    """The restores of a mark, as far as the names of their folders tell when they were. A report that does not read
    counts as none."""
    for level in mark.store.list_level(f"{mark.folder}/{RESTORES}/"):
        for prefix in level.prefixes:
            folder = prefix.rstrip("/")
            with suppress(ValueError):
                begun = datetime.strptime(f"{folder.rpartition('/')[2]}+0000", f"{STAMP}%z").timestamp()
                yield Restore(folder, begun, _report(mark.store, f"{folder}/report.json"))


def _report(store: Store, key: str) -> Json | None:
    try:
        found = decode(store.read(key), key)
    except (ObjectNotFoundError, MarkError):
        return None
    return found if reads(found) and {"finished_at", "taken_back"} <= found.keys() else None


def write_report(store: Store, folder: str, report: Mapping[str, Any]) -> None:
    """Close a restore: from here on the ledger believes what its journal says."""
    store.write(f"{folder}/report.json", encode(report))


def _parts_below(store: Store, folder: str) -> tuple[Part, ...]:
    found = [
        part
        for level in store.list_level(f"{folder}/")
        for key, size in zip(level.objects["address"].to_pylist(), level.objects["size"].to_pylist(), strict=True)
        if (part := part_named(key, size)) is not None
    ]
    return tuple(sorted(found, key=lambda part: part.name))


def keep_records(mark: MarkArtifacts) -> None:
    """Copy the records of a mark that is to be retired to where they stay. What does not read is left out."""
    for record in _of_mark(mark, 0.0):
        for part in record.parts:
            with suppress(CorruptFileError, ObjectNotFoundError):
                for _ in read_part(mark.config, record.folder, part):
                    pass
                target = f"{mark.home}/{KEPT}/{_name_of(record)}/{part.name}"
                mark.store.write(target, mark.store.read(f"{record.folder}/{part.name}"))


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
            folder = f"{root}{mark_id}/{kind}/{number}"
            at = 0.0 if swept else float(number)
            yield Record(Kind(kind), mark_id, int(number) if swept else 0, folder, tuple(parts), at)
