"""Lists the marks of a repository: lakegc's own, and those that lakeFS's tools left in the namespace."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.clock import instant
from lakegc_core.errors import LakegcError
from lakegc_core.marks.artifacts import Header, MarkArtifacts
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.shelf import Shelf, Standing, retired_marks
from lakegc_core.marks.sweeps import without_drills
from lakegc_core.names import COMPLETE, STAGES, SWEPT, Stage
from lakegc_core.policy import safety
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.store.base import Store, connect, head_if_there

GC = "_lakefs/retention/gc"
_SIDE_BY_SIDE = 16  # marks that are asked for at a time
FOLDERS = {
    "unified": f"{GC}/unified/{{}}/deleted/",
    "addresses": f"{GC}/addresses/mark_id={{}}/",
    "uncommitted": f"{GC}/uncommitted/{{}}/deleted/",
    "reports": f"{GC}/reports/{{}}/",
}
"""The folders of addresses that lakeFS's own collectors leave, by the prefix that names them on the command line."""

EMPTY_PART = "part-empty.parquet"
"""The file without addresses that lakegc writes first into each list of its own, and no other tool."""

_PREFIXES = {kind: folder.partition("{}")[0].rpartition("/")[0] + "/" for kind, folder in FOLDERS.items()}


def list_marks(context: RepositoryContext) -> list[dict[str, Any]]:
    """All marks, newest first; those of other tools last, named `KIND:ID`. `retire` lists the retired ones."""
    own = own_marks(context)
    names = {mark["mark_id"] for mark in own} | set(retired_marks(context.workspace, context.home))
    store = connect(context.data)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        found = [(kind, name) for kind, name in _foreign(store) if name not in names]
        ours = list(pool.map(lambda each: _is_ours(store, *each), found))
        others = [each for each, is_ours in zip(found, ours, strict=True) if not is_ours]
        written = list(pool.map(lambda each: _written(store, *each), others))
    return own + [
        {"mark_id": f"{kind}:{name}", "by": "lakefs", "written_at": at}
        for (kind, name), at in zip(others, written, strict=True)
    ]


def own_marks(context: RepositoryContext) -> list[dict[str, Any]]:
    """The marks of lakegc's own, newest first. Asks nothing of the store but their small files."""
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        own = list(pool.map(_own, [each.mark for each in Shelf.of(context)]))
    gone = set(retired_marks(context.workspace, context.home))
    own = [mark for mark in own if mark["state"] != "not begun" or mark["mark_id"] not in gone]
    return sorted(own, key=lambda mark: (mark["started_at"] or "", mark["mark_id"]), reverse=True)


def newest_mark(context: RepositoryContext) -> MarkArtifacts | None:
    """The newest complete mark of lakegc's own of this repository where it lies now. One whose time is to come is not
    the newest: the clock that it was made by was wrong or replaced."""
    place, now = (context.repository.id, context.namespace.uri), clock.now().timestamp()

    def wanted(mark: Header, _: Standing) -> bool:
        return (mark.repository, mark.storage_namespace) == place and not clock.is_to_come(mark.started_at, now)

    return Shelf.of(context).newest_complete(wanted)


def newest_to_sweep(context: RepositoryContext) -> str | None:
    """Id of the newest complete mark, if it is still young enough to be swept."""
    mark = newest_mark(context)
    header = mark.header() if mark else None
    if mark is None or header is None:
        return None
    age = clock.now().timestamp() - header.started_at
    return mark.mark_id if age <= safety.level(header.safety).mark_validity.total_seconds() else None


def _own(mark: MarkArtifacts) -> dict[str, Any]:
    found: dict[str, Any] = {"mark_id": mark.mark_id, "by": "lakegc", "started_at": None, "state": "damaged"}
    try:
        header = mark.header()
        if header is None:
            return found | {"state": "not begun"}
        found |= {"started_at": instant(header.started_at), "safety": header.safety}
        last = mark.manifest(Stage.EXPIRED_ADDRESSES)
        if last is None:
            done = [stage for stage in STAGES if mark.manifest(stage)]
            return found | {"state": f"after {done[-1]}" if done else "begun"}
        facts = mark.facts(ExpiredFacts)
        sweeps = len(without_drills(mark.store, mark.folder))
        return found | {
            "state": SWEPT if sweeps else COMPLETE,
            "expired": facts.expired.objects,
            "expired_bytes": facts.expired.bytes,
            "garbage_since": None if facts.first_since is None else instant(facts.first_since),
            "taken_back": [asdict(each) for each in facts.taken_back],
            "sweeps": sweeps,
        }
    except LakegcError as error:
        return found | {"problem": str(error)}


def _foreign(store: Store) -> Iterator[tuple[str, str]]:
    for kind, prefix in _PREFIXES.items():
        for level in store.list_level(prefix):
            for each in level.prefixes:
                name = each.removeprefix(prefix).rstrip("/").removeprefix("mark_id=")
                if kind == "uncommitted" and not _has(store, f"{each}deleted/"):
                    continue  # lakeFS's own lists of staged addresses lie in the same place
                if kind == "addresses" and name.endswith(".meta"):
                    continue
                yield kind, name


def _is_ours(store: Store, kind: str, name: str) -> bool:
    """True if lakegc wrote this list for a sweep, of a mark that lies elsewhere: `workspace` was set since, or is not
    set here."""
    return kind == "unified" and head_if_there(store, FOLDERS[kind].format(name) + EMPTY_PART) is not None


def _written(store: Store, kind: str, name: str) -> str | None:
    """The instant at which another tool's list was written, by the store's clock; None if it holds no file."""
    level = next(iter(store.list_level(FOLDERS[kind].format(name))), None)
    at = pc.min(level.objects["last_modified"]).as_py() if level else None
    return None if at is None else instant(at.timestamp())


def _has(store: Store, prefix: str) -> bool:
    return any(level.objects.num_rows or level.prefixes for level in store.list_level(prefix))
