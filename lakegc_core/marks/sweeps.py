"""Records that sweeps leave for marks: numbers, plans and reports, and what a person accepted.

How a sweep writes its record is in `sweep.record`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import CorruptFileError, MarkError, ObjectNotFoundError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import decode, encode, read_json, read_sealed, sealed
from lakegc_core.marks.shelf import marks
from lakegc_core.names import Json, Outcome, Stage
from lakegc_core.store.base import Store, StoreConfig, connect
from lakegc_core.tables.parts import list_parts, read_part

STOPPED = "stopped.json"
"""The file of a sweep that a ring stopped: `gone` has the paths that cannot be read any more, with their addresses."""

ACCEPTED = "accepted.json"
"""The file of a sweep that a ring stopped, once somebody has accepted that for sweeps of other marks: `because`, and
`stop`, the SHA-256 of the record of the stop."""

OF_MARK = "accepted-{}.json"
"""The file of a mark for a guard that a person accepted for one of its sweeps, and of which later marks ask: `guard`,
`mark_digest` (of `expired_addresses`), `because` and `at`. A sweep need not leave a report: a quiet repository has
nothing to sweep."""

STATEMENT = "statement.json"
"""The file of a sweep in which it states what it did, sealed."""

DRILL = "drill:"
"""The beginning of the name that the sweep of a drill has: `only` of its plan and of its report."""

CLOSE = "close it (lakegc sweep … --close)"
"""The advice how to end a sweep that broke off."""

NOT_OVER = f"is not over: if it broke off, finish it, or {CLOSE}"
"""The end of a sentence on a sweep of an old mark that has no report."""

_NUMBER = re.compile("[1-9][0-9]*")


def sweeps_of(store: Store, mark_folder: str) -> list[int]:
    """The numbers of the sweeps of a mark, without dry runs. Folders of other names are passed over."""
    prefix = f"{mark_folder}/sweeps/"
    names = [each.removeprefix(prefix).rstrip("/") for level in store.list_level(prefix) for each in level.prefixes]
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def is_drill(told: Mapping[str, Any]) -> bool:
    """True if a sweep is part of a drill, by its plan or its report: what it deleted was to come back at once."""
    return str(told.get("only") or "").startswith(DRILL)


def without_drills(store: Store, mark_folder: str) -> list[int]:
    """The numbers of the sweeps of a mark that are no part of a drill, by their plans. One whose plan cannot be read
    counts as a sweep."""
    return [each for each in sweeps_of(store, mark_folder) if not is_drill(plan_of(store, mark_folder, each))]


def sweep_of_drill(store: Store, mark_folder: str, name: str) -> int | None:
    """The number of the sweep of a drill, whose name begins with DRILL; None if no plan of it was sealed. MarkError if
    a plan that may be its cannot be read."""
    unread = ""
    for number in sweeps_of(store, mark_folder):
        key = f"{mark_folder}/sweeps/{number}/plan.json"
        try:
            plan = _sealed(store, key)
        except MarkError as error:
            unread = str(error)
        else:
            if plan is not None and plan.get("only") == name:
                return number
    if unread:
        raise MarkError(f"Nobody knows whether the drill deleted anything: {unread}")
    return None


def plan_of(store: Store, mark_folder: str, number: int) -> Json:
    """The plan of a sweep as it stands; nothing of one that is not there or cannot be read."""
    key = f"{mark_folder}/sweeps/{number}/plan.json"
    with suppress(ObjectNotFoundError, MarkError):
        return decode(store.read(key), key)
    return {}


def missing(numbers: Sequence[int]) -> Iterator[str]:
    """Sentences on the sweeps that are missing before one that stands. `numbers`: those that stand, in order."""
    before = 0
    for number in numbers:
        first, last = before + 1, number - 1
        if first <= last:
            which = f"sweep {first} is" if first == last else f"sweeps {first} to {last} are"
            yield f"{which} missing, although sweep {number} stands"
        before = number


def files_of(store: Store, mark_folder: str, number: int) -> set[str]:
    """The names at the top of a sweep's folder: `plan.json` once it may have deleted, `report.json` once it is over."""
    prefix = f"{mark_folder}/sweeps/{number}/"
    return {
        name.removeprefix(prefix).rstrip("/")
        for level in store.list_level(prefix)
        for name in (*level.objects["address"].to_pylist(), *level.prefixes)
    }


def open_sweep(store: Store, mark_folder: str) -> int | None:
    """The lowest number of a sweep of a mark that may have deleted, and is not over; None if there is none. It need not
    be the last one: a person who removes a damaged report opens an old sweep again."""
    for number in sweeps_of(store, mark_folder):
        names = files_of(store, mark_folder, number)
        if "plan.json" in names and "report.json" not in names:
            return number
    return None


def is_open(store: Store, mark_folder: str) -> bool:
    """True if a sweep of a mark may have deleted, and is not over."""
    return open_sweep(store, mark_folder) is not None


def report_of(store: Store, mark_folder: str, number: int) -> dict[str, Any] | None:
    """The report of a sweep; None while the sweep is not over. MarkError if it is none that lakegc wrote."""
    key = f"{mark_folder}/sweeps/{number}/report.json"
    report = read_json(store, key)
    if report is not None and not reads(report):
        raise MarkError(f"{key} does not say when the sweep was over, or what came of it. It was damaged or replaced.")
    return report


def planned_at(store: Store, mark_folder: str, number: int) -> float | None:
    """The moment at which the plan of a sweep was sealed, unix seconds: it deleted nothing before. None if there is
    none. MarkError if the plan does not say when."""
    key = f"{mark_folder}/sweeps/{number}/plan.json"
    plan = read_json(store, key)
    if plan is None:
        return None
    at = plan.get("planned_at")
    if not isinstance(at, int | float):
        raise MarkError(f"{key} does not say when it was sealed. It was damaged or replaced.")
    return float(at)


def gone_in_rings(
    store: Store, mark_folder: str, since: float = 0.0, *, unless_accepted: bool = False
) -> dict[str, str]:
    """The paths that rings of a mark's sweeps found gone after a moment (unix seconds), with their addresses. A record
    that cannot be read is named in their place. `unless_accepted`: without those that somebody accepted for other
    marks."""
    found: dict[str, str] = {}
    for number in sweeps_of(store, mark_folder):
        folder = f"{mark_folder}/sweeps/{number}"
        try:
            record = _sealed(store, f"{folder}/{STOPPED}")
        except MarkError:
            record = {}
        if record is None or (unless_accepted and _is_accepted(store, folder)):
            continue
        gone, at = record.get("gone"), record.get("at")
        if not (isinstance(gone, dict) and gone and isinstance(at, int | float)):
            key = f"{folder}/{STOPPED}"
            gone, at = {key: "cannot be read"}, store.head(key).last_modified.timestamp()
        found |= gone if at > since else {}
    return found


def stopped_by_rings(context: MarkContext) -> dict[str, dict[str, str]]:
    """What `gone_in_rings` finds, by the marks of a repository of which it finds any: of this mark, and of others until
    somebody accepts that for a sweep of another mark. Of marks that are retired nothing is known."""
    store, own = connect(context.workspace), context.header.mark_id
    folders = {mark_id: context.artifacts(mark_id).folder for mark_id in marks(context.workspace, context.home)}
    found = {each: gone_in_rings(store, folder, unless_accepted=each != own) for each, folder in folders.items()}
    return {mark_id: gone for mark_id, gone in found.items() if gone}


def accept_rings(context: MarkContext, because: str) -> None:
    """Put on record, beside each stop of another mark by a ring, that somebody accepted it for a sweep of this mark."""
    store, accepted = connect(context.workspace), {"by_sweep_of": context.header.mark_id, "because": because}
    for mark_id in stopped_by_rings(context).keys() - {context.header.mark_id}:
        folder = context.artifacts(mark_id).folder
        for number in sweeps_of(store, folder):
            if STOPPED in files_of(store, folder, number):
                place = f"{folder}/sweeps/{number}"
                told = accepted | {"stop": _sha256(store, f"{place}/{STOPPED}")}
                store.write(f"{place}/{ACCEPTED}", encode(sealed(told)))


def accept(context: MarkContext, guard: str, because: str) -> None:
    """Put on record that a person accepted a guard for a mark. It counts whatever becomes of the sweep."""
    mark, at = context.mark, clock.now().timestamp()
    told = {"guard": guard, "mark_digest": mark.require(Stage.EXPIRED_ADDRESSES).digest, "because": because, "at": at}
    mark.store.write(f"{mark.folder}/{OF_MARK.format(guard)}", encode(sealed(told)))


def is_accepted(mark: MarkArtifacts, guard: str) -> bool:
    """True if a person accepted a guard for a mark. A record that cannot be read, or that is one of another guard or of
    other findings, accepts nothing."""
    key = f"{mark.folder}/{OF_MARK.format(guard)}"
    try:
        found = mark.require(Stage.EXPIRED_ADDRESSES).digest
        return _sealed(mark.store, key, guard=guard, mark_digest=found) is not None
    except MarkError:
        return False


def _is_accepted(store: Store, folder: str) -> bool:
    """True if somebody accepted the last stop of the sweep in a folder. An unreadable record accepts nothing."""
    try:
        accepted = _sealed(store, f"{folder}/{ACCEPTED}")
    except MarkError:
        return False
    return accepted is not None and accepted.get("stop") == _sha256(store, f"{folder}/{STOPPED}")


def _sha256(store: Store, key: str) -> str:
    return hashlib.sha256(store.read(key)).hexdigest()


def _sealed(store: Store, key: str, **expected: Any) -> Json | None:
    return read_sealed(store, key, f"{key} was changed after it was written", **expected)


def statement_of(store: Store, mark_folder: str, number: int) -> Json | None:
    """The statement of a sweep as it stands, seal and all; None if there is none. MarkError if it is no JSON object."""
    return read_json(store, f"{mark_folder}/sweeps/{number}/{STATEMENT}")


def first_planned_at(store: Store, mark_folder: str) -> float | None:
    """The moment at which the first plan of a mark was sealed, unix seconds: the mark deleted nothing before. None if
    there is no plan, or one that does not say when."""
    try:
        found = [planned_at(store, mark_folder, number) for number in sweeps_of(store, mark_folder)]
    except MarkError:
        return None
    return min((each for each in found if each is not None), default=None)


def planned_before(store: Store, mark_folder: str, moment: float) -> float | None:
    """The moment at which the first plan of a mark was sealed whose sweep was still open at `moment`; unix seconds.
    None if there is none. Plans that do not say when are passed over."""
    found = []
    for number in sweeps_of(store, mark_folder):
        with suppress(MarkError):
            at = planned_at(store, mark_folder, number)
            if at is not None and at < moment <= over_at(store, mark_folder, number):
                found.append(at)
    return min(found, default=None)


def reads(report: dict[str, Any]) -> bool:
    """True if the report of a sweep or of a restore has the form that lakegc gives it, as far as others read it."""
    told, sent = report.get("taken_back", []), report.get("sent", {})
    delay, oldest = report.get("delay", {}), report.get("oldest", {})
    return (
        isinstance(report.get("finished_at", 0.0), int | float)
        and isinstance(report.get("outcomes", {}), dict)
        and isinstance(sent, dict)
        and all(isinstance(each, int | float) for each in sent.values())
        and isinstance(delay, dict)
        and all(isinstance(delay.get(name), int | float) for name in ("objects", "p50", "p99") if delay)
        and isinstance(oldest, dict)
        and (not oldest or (isinstance(oldest.get("since"), int | float) and isinstance(oldest.get("outcome"), str)))
        and isinstance(told, list)
        and all(isinstance(each, dict) and isinstance(each.get("mark_id"), str) for each in told)
        and all(isinstance(each.get(name), int) for each in told for name in ("sweep", "objects", "bytes"))
    )


def over_at(store: Store, mark_folder: str, number: int) -> float:
    """The end of a sweep, unix seconds; endless if no report that can be read says so: its journal counts then."""
    try:
        return float((report_of(store, mark_folder, number) or {}).get("finished_at", math.inf))
    except MarkError:
        return math.inf


def journalled(config: StoreConfig, mark_folder: str, number: int) -> dict[str, Any]:
    """Objects and bytes that a sweep which broke off deleted, by the parts of its journal that can be read."""
    folder = f"{mark_folder}/sweeps/{number}/outcomes"
    objects = size = unread = 0
    for part in list_parts(config, folder):
        try:
            for batch in read_part(config, folder, part, ["outcome", "size"]):
                deleted = batch.filter(pc.equal(batch["outcome"], Outcome.DELETED))
                objects, size = objects + deleted.num_rows, size + (pc.sum(deleted["size"]).as_py() or 0)
        except CorruptFileError:
            unread += 1
    found = {"broke_off": True, "outcomes": {Outcome.DELETED.value: objects}, "bytes_deleted": size}
    return found | ({"parts_that_do_not_read": unread} if unread else {})


def finished_sweeps(context: MarkContext, *, drills: bool = False) -> list[dict[str, Any]]:
    """The reports of the sweeps of a mark that are over, in order. `drills`: also those of drills."""
    store, folder = connect(context.workspace), context.mark.folder
    found = (report_of(store, folder, number) for number in sweeps_of(store, folder))
    return [report for report in found if report is not None and (drills or not is_drill(report))]


def left_nothing(report: dict[str, Any]) -> bool:
    """True if all that a mark found is gone by the report of its last sweep, which was of the whole mark."""
    gone = (Outcome.DELETED, Outcome.ALREADY_GONE)
    return not report.get("only") and not any(n for outcome, n in report["outcomes"].items() if outcome not in gone)
