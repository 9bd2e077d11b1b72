"""The emptying of quarantines: which copies stay, and why; it deletes copies and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, pairwise
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.clock import minute
from lakegc_core.errors import CorruptFileError, MarkError, StoreError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.drills import unfinished
from lakegc_core.marks.findings import FINDINGS_SCHEMA, HELD, NEIGHBOURS
from lakegc_core.marks.findings import MISSING as GONE
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.ledger import has_lost, whole_restore_at
from lakegc_core.marks.quarantine import FOLDER, folder_of, place_of, quarantined, record_of
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import NOT_OVER, gone_in_rings, is_open, report_of, sweeps_of
from lakegc_core.names import FAILED, Stage, Symptom, see
from lakegc_core.store.base import Store, connect, heads
from lakegc_core.store.clock import ahead
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.key_scan import by_address, filter_of

OVERDUE = timedelta(days=2)
"""Time after which copies whose time is over are a fault: each night should empty them."""
_BATCH = 1_000  # keys a request
_FIRST = 1_000  # objects that are asked for one by one, at most
_ADDRESSES = pa.schema([FINDINGS_SCHEMA.field("address")])


@dataclass(frozen=True)
class Emptying:
    """The result of `empty`. `emptied` maps ids of marks to the objects and bytes of the copies that went, `kept` to
    the reasons why copies stay, `amounts` to how many those are, as far as records tell; `stuck`: those of them that no
    time ends, but a person; `overdue`: others of them whose time was over long ago. `failed`: why copies of marks
    stay whose time is over."""

    emptied: dict[str, dict[str, int]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    amounts: dict[str, dict[str, int]] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    overdue: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def empty(context: RepositoryContext, held: Lease | None, *, dry_run: bool = False) -> Emptying:
    """Delete the copies of marks whose time is over. The caller holds the lease of the repository.

    Copies stay while a sweep of the mark is not over, and while its records say that sweeps took live data which nobody
    has brought back. A record that cannot be read, or is missing, keeps them. So does the newest complete mark, if it
    began before their time was over, does not know of a hold, or says that objects are live or held of which only
    copies lie here: what nothing referred to at the sweep may be live again. What fails of one mark keeps no other; the
    next call goes on with it.
    """
    found, waiting = Emptying(), quarantined(context)
    if not waiting:
        return found
    now, newest, patience = _earliest(context), newest_mark(context), _patience(context)
    for mark_id in waiting:
        try:
            stuck, early = _stuck(context, mark_id), ""
            if not stuck:
                early = _early(context, mark_id, now, newest)
                stuck = _live_again(context, mark_id, newest, early=bool(early))
            if stuck:
                found.stuck[mark_id] = stuck
            if why := stuck or early:
                found.kept[mark_id] = why
                with suppress(MarkError):
                    if (record := record_of(context, mark_id)) is not None:
                        found.amounts[mark_id] = record.amount
                        if not stuck and now > record.until + patience:
                            found.overdue[mark_id] = why
            elif not dry_run:
                found.emptied[mark_id] = _empty(context, mark_id, held)
            elif (record := record_of(context, mark_id)) is not None:
                found.emptied[mark_id] = record.amount
        except StoreError as error:
            context.say(f"retire: {error}")
            found.failed[mark_id] = str(error)
    return found


def overdue(context: RepositoryContext) -> dict[str, float]:
    """The marks whose copies stay although their time was over long ago, with that time, unix seconds. Records that do
    not read are passed over: `empty` tells of them."""
    if not (waiting := quarantined(context)):
        return {}
    now, patience, found = clock.now().timestamp(), _patience(context), dict[str, float]()
    for mark_id in waiting:
        with suppress(MarkError):
            record = record_of(context, mark_id)
            if record is not None and now > record.until + patience:
                found[mark_id] = record.until
    return found


def _patience(context: RepositoryContext) -> float:
    """Seconds for which copies may stay after their time: OVERDUE, and as long as mostly passes between two complete
    marks (the median), as they go only once a complete mark began after their time. A mark whose time is to come does
    not count: its clock was wrong."""
    headers, now = [each.header for each in Shelf.of(context) if each.is_complete], clock.now().timestamp()
    began = sorted(each.started_at for each in headers if each and not clock.is_to_come(each.started_at, now))
    pace = median(after - before for before, after in pairwise(began)) if len(began) > 1 else 0.0
    return OVERDUE.total_seconds() + pace


def _stuck(context: RepositoryContext, mark_id: str) -> str:
    """The reason why copies of a mark stay until a person acts, in words; "" if there is none."""
    try:
        record = record_of(context, mark_id)
    except MarkError as error:
        return str(error)
    if record is None:
        return f"{context.workspace.root}/{folder_of(context, mark_id)}/ holds copies without a record"
    return _elsewhere(context, mark_id) or _live(context.artifacts(mark_id))


def _elsewhere(context: RepositoryContext, mark_id: str) -> str:
    """A sentence on the namespace of a mark if it is not the repository's, whose marks say nothing of what is live
    there; "" if it is, or if no header tells."""
    mark, header = context.artifacts(mark_id), None
    with suppress(MarkError):
        header = mark.header(any_version=True)
        if header is None and (told := (mark.retired() or {}).get("header")):
            header = mark.checked_header(told, any_version=True)
    if header is None or header.storage_namespace == context.repository.storage_namespace:
        return ""
    return (
        f"the mark is one of {header.storage_namespace}, not of {context.repository.storage_namespace}: a repository "
        "of this name in another lakeFS has the same workspace, or this one was created anew. In the first case give "
        f"each lakeFS a workspace of its own; in the second, remove {context.workspace.root}/"
        f"{folder_of(context, mark_id)}/ by hand once nobody needs these copies"
    )


def _live(mark: MarkArtifacts) -> str:
    """A sentence on live data that sweeps of a mark took, and that no restore has brought back since; "" if the records
    tell of none. A record that cannot be read may tell of some."""
    store, folder = mark.store, mark.folder
    since = whole_restore_at(mark)
    then = "its copies stay until a restore of the mark, without a place or paths, brings all of it back"
    for number in sweeps_of(store, folder):
        try:
            report = report_of(store, folder, number) or {}
        except MarkError:
            return (
                f"the report of sweep {number} cannot be read: its copies stay until that file is removed and the "
                "sweep is closed (lakegc sweep … --close)"
            )
        if has_lost(report, since):
            return f"sweep {number} lost objects: {then}"
    return f"a ring of a sweep took live data: {then}" if gone_in_rings(store, folder, since) else ""


def _live_again(context: RepositoryContext, mark_id: str, newest: MarkArtifacts | None, *, early: bool) -> str:
    """A sentence on objects that the newest mark calls live or held, and that are gone, while copies of a mark lie
    here; "" if there are none. `early`: only the first of them are looked for."""
    if newest is None:
        return ""
    copies, data = connect(place_of(context, mark_id)), connect(context.data)
    try:
        for here in _copied(copies, _needed(newest), early=early):
            gone = [key for key, there in zip(here, heads(data, here), strict=True) if there is None]
            if gone:
                return (
                    f"objects are gone that lie here, such as {gone[0]}, and mark {newest.mark_id} says that they are "
                    f"live, that a hold keeps them, or that another repository refers to them: lakegc restore "
                    f"{context.repository.id} {mark_id} brings them back"
                )
    except (MarkError, CorruptFileError) as error:
        return f"which live objects are gone is not known: {error}"
    return ""


def _needed(newest: MarkArtifacts) -> Dataset:
    """The addresses of which a mark does not know that they are there, and that must be: live ones that it missed, and
    all that neighbours refer to or holds by path keep. Each mark notes all of these anew."""
    gone, near, held = (
        newest.dataset(stage, _ADDRESSES, name)
        for stage, name in (
            (Stage.EXPIRED_ADDRESSES, GONE),
            (Stage.EXPIRED_ADDRESSES, NEIGHBOURS),
            (Stage.COMMITTED_ADDRESSES, HELD),
        )
    )
    return gone + near + held


def _copied(copies: Store, needed: Dataset, *, early: bool) -> Iterator[list[str]]:
    """The addresses among `needed` of which copies lie here, in batches. Few are asked for one by one, as are the first
    ones if it is `early`; many are looked up while the copies are listed."""
    if early or needed.rows <= _FIRST:
        first = list(islice(needed.values("address"), _FIRST))
        yield [key for key, copy in zip(first, heads(copies, first), strict=True) if copy is not None]
        return
    among = filter_of(needed.keys())
    for batch in copies.list():
        found = batch["address"].take(pa.array(among.rows(by_address(batch))))
        for start in range(0, len(found), _BATCH):
            yield found.slice(start, _BATCH).to_pylist()


def _early(context: RepositoryContext, mark_id: str, now: float, newest: MarkArtifacts | None) -> str:
    """The reason why copies of a mark stay for now, in words; "" if they may go. `now`: unix seconds."""
    mark, record = context.artifacts(mark_id), record_of(context, mark_id)
    if is_open(mark.store, mark.folder):
        return f"a sweep of the mark {NOT_OVER}"
    try:
        if any(each.mark_id == mark_id for each in unfinished(context)):
            return f"a drill of the mark is not over: finish it (lakegc drill {context.repository.id})"
    except MarkError as error:  # it may be one of this mark
        return str(error)
    until, header = record.until if record is not None else 0.0, newest.header() if newest is not None else None
    if now < until:
        return f"in quarantine until {minute(until)}"
    if header is None or header.started_at < until:
        name = context.repository.id
        return f"no complete mark began after {minute(until)}, to tell what is live again: lakegc mark {name}"
    if {*context.policy.holds} - {*header.holds}:
        return f"no complete mark knows all holds of lakegc.yaml: lakegc mark {context.repository.id}"
    return ""


def _empty(context: RepositoryContext, mark_id: str, held: Lease | None) -> dict[str, int]:
    """Delete the copies of a mark, then its record. Returns objects and bytes of the copies."""
    store, folder = connect(context.workspace), folder_of(context, mark_id)
    count, size, left = delete_below(store, f"{folder}/objects/", held)
    if left:
        raise StoreError(
            f"{left:,} of {count:,} copies in the quarantine of mark {mark_id} could not be deleted. Run `lakegc "
            f"retire` again for the rest. {see(Symptom.RETIRE_FAILS)}"
        )
    _, _, left = delete_below(store, f"{folder}/", held)
    if left:
        raise StoreError(f"{folder}/{FOLDER}.json could not be deleted. {see(Symptom.RETIRE_FAILS)}")
    store.remove_empty_folders(f"{folder}/")
    return {"objects": count, "bytes": size}


def delete_below(store: Store, prefix: str, held: Lease | None) -> tuple[int, int, int]:
    """Delete whatever lies below a prefix. Returns how many objects and bytes, and how many of the objects stay."""
    count = size = left = 0
    for batch in store.list(prefix):
        for start in range(0, batch.num_rows, _BATCH):
            if held is not None:
                held.check()
            piece = batch.slice(start, _BATCH)
            outcomes = store.delete_many(piece.column("address").to_pylist())
            left += sum(outcome.startswith(FAILED) for outcome in outcomes)
            count += piece.num_rows
            size += pc.sum(piece.column("size")).as_py() or 0
    return count, size, left


def _earliest(context: RepositoryContext) -> float:
    """Now, unix seconds, by the clock that is behind."""
    return clock.now().timestamp() + min(0.0, ahead(context.workspace))
