"""The records of drills: what was deleted to be brought back, how that went, and what of it is not over yet.

Each drill has a folder in the home of its repository. Both of its files are sealed: `begun.json` is written before
anything is deleted, `report.json` when the drill is over. They outlive the marks. How a drill is carried out is in
`copies.drill`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakegc_core.clock import minute
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.json_files import encode, read_sealed, sealed
from lakegc_core.marks.sweeps import DRILL
from lakegc_core.names import Json
from lakegc_core.policy.facts import DrillFacts
from lakegc_core.store.base import connect

FOLDER = "drills"
"""The folder of a home for drills, with a folder for each, named after the moment at which it began."""
QUARANTINE, STORE, BACKUP = "quarantine", "store", "backup"
"""Ways by which objects come back, in the order in which a restore takes them."""
PASSED, FAILED, UNFINISHED, DAMAGED = "passed", "failed", "unfinished", "damaged"
"""States of a drill. A damaged one has a record that cannot be read."""
_BEGUN, _REPORT = "begun.json", "report.json"


@dataclass(frozen=True)
class Drill:
    """A drill. `begun`: its record from before the delete. `report`: None while the drill is not over."""

    name: str
    begun: Json
    report: Json | None = None

    @property
    def sweep_name(self) -> str:
        """The name by which its sweep is known."""
        return f"{DRILL}{self.name}"

    @property
    def mark_id(self) -> str:
        return str(self.begun["mark_id"])


def begin(context: RepositoryContext, name: str, begun: Json) -> Drill:
    """Put on record what a drill is about to delete: `objects` with address, size, cause and sha256, `mark_id`, `way`
    and `place` by which they are to come back, and more. PreconditionFailedError if there is a drill of this name."""
    key = f"{_folder(context, name)}/{_BEGUN}"
    connect(context.workspace).write(key, encode(sealed(begun)), if_absent=True)
    return Drill(name, begun)


def close(context: RepositoryContext, name: str, report: Json) -> Json:
    """Put on record what came of a drill: it is over. Returns the report as it was sealed."""
    found = sealed(report)
    connect(context.workspace).write(f"{_folder(context, name)}/{_REPORT}", encode(found))
    return found


def unfinished(context: RepositoryContext) -> list[Drill]:
    """The drills that are not over, in order: something of what they deleted may be gone. MarkError if the record of
    one cannot be read."""
    return [_read(context, name) for name, files in _files(context) if _REPORT not in files and _BEGUN in files]


def last_drill(context: RepositoryContext) -> DrillFacts | None:
    """The facts of the last drill that deleted anything, or may have; None if there is none."""
    found = last_told(context)
    if found is None:
        return None
    name, at, way = str(found["drill"]), float(found["at"]), found["way"]
    if found["state"] != PASSED:
        return DrillFacts(name, at, str(found["why"]))
    return DrillFacts(name, at, lapsed=_lapsed(context, way), by_backup=way == BACKUP)


def _lapsed(context: RepositoryContext, way: str) -> str:
    """The reason why nothing comes back any more by the way of a drill; "" if something may."""
    if way == QUARANTINE and context.policy.quarantine is None:
        return "objects came back out of quarantine, and lakegc.yaml does not say `quarantine` any more"
    if way == STORE and context.kept.by(context.data).gives_nothing_back:
        return f"objects came back out of what the store kept, and {context.data.root} keeps nothing now"
    return ""


def last_told(context: RepositoryContext) -> Json | None:
    """The last drill that deleted anything, or may have: `drill` (its name), `at` (unix seconds: when it was over, or
    began), `state`, `why` (it did not pass), `mark_id`, `way`, and of what came back `objects`, `bytes` and `seconds`.
    None if there is none."""
    for name, files in reversed(list(_files(context))):
        try:
            drill = _read(context, name)
            if drill.report is None or drill.report["sweep"] is not None:
                return _told(drill)
        except (MarkError, KeyError, TypeError, ValueError):
            at = max(
                connect(context.workspace).head(f"{_folder(context, name)}/{each}").last_modified for each in files
            )
            why = f"its record in {context.workspace.root}/{_folder(context, name)}/ cannot be read"
            return {"drill": name, "at": at.timestamp(), "state": DAMAGED, "why": why, "mark_id": None} | _NOTHING
    return None


_NOTHING: Json = {"way": None, "objects": 0, "bytes": 0, "seconds": 0.0}


def _told(drill: Drill) -> Json:
    if drill.report is None:
        why = f"it began on {minute(drill.begun['begun_at'])} and is not over"
        found = {"at": drill.begun["begun_at"], "state": UNFINISHED, "why": why} | _NOTHING
    else:
        report = drill.report
        found = {
            "at": report["finished_at"],
            "state": PASSED if report["passed"] is True else FAILED,
            "why": report["why"],
            "objects": report["outcomes"].get("back", 0),
            "bytes": report["bytes"],
            "seconds": report["seconds"],
        }
    return {"drill": drill.name, "mark_id": drill.mark_id} | found | {"way": drill.begun["way"]}


def _read(context: RepositoryContext, name: str) -> Drill:
    begun = _sealed(context, name, _BEGUN)
    if begun is None:
        raise MarkError(f"{_folder(context, name)}/{_BEGUN} is missing.")
    return Drill(name, begun, _sealed(context, name, _REPORT))


def _sealed(context: RepositoryContext, name: str, file: str) -> Json | None:
    key = f"{_folder(context, name)}/{file}"
    changed = f"{key} was changed after it was written. Bring it back from a copy. Or: {by_hand(context, name)}"
    return read_sealed(connect(context.workspace), key, changed)


def by_hand(context: RepositoryContext, name: str) -> str:
    """What a person does about a drill that lakegc cannot finish."""
    return (
        f"Bring back what drill {name} deleted: its begun.json names the objects; `lakegc restore`, or by hand. Then "
        f"remove its folder: {context.workspace.root}/{_folder(context, name)}"
    )


def _files(context: RepositoryContext) -> Iterator[tuple[str, set[str]]]:
    """The names of the drills, in order, each with the names of its files."""
    prefix = f"{context.home}/{FOLDER}/"
    found: dict[str, set[str]] = {}
    for batch in connect(context.workspace).list(prefix):
        for key in batch["address"].to_pylist():
            name, _, file = key.removeprefix(prefix).partition("/")
            if file in (_BEGUN, _REPORT):
                found.setdefault(name, set()).add(file)
    yield from sorted(found.items())


def _folder(context: RepositoryContext, name: str) -> str:
    return f"{context.home}/{FOLDER}/{name}"
