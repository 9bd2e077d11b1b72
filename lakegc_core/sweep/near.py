"""Paths near to what a ring of a sweep deletes: those that can be read before it must be readable after it.

Nearest is the path at which a deleted object itself was last shown, on the branch where that was and on others. Then
come paths of the same folder, of the same slice or size first, and the canaries of the plan. All are read through
lakeFS's object API, which asks the store, as its users do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from lakegc_core.errors import IncompleteError, LakegcError, MarkError, ServerError
from lakegc_core.judging.canaries import if_told, some
from lakegc_core.lakefs.client import READS
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.listed_objects import NOT_TEXT
from lakegc_core.lakefs.models import ObjectStats
from lakegc_core.lakefs.named import ref_of_tag
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.json_files import encode, read_sealed, sealed
from lakegc_core.names import Stage
from lakegc_core.past.origins import last_paths
from lakegc_core.policy.namespace import ADDRESS_FULL
from lakegc_core.policy.safety import ASKED_AT_ONCE
from lakegc_core.references.commits.commit_walk import REFS, REFS_SCHEMA
from lakegc_core.spark.tasks import collected
from lakegc_core.store.base import connect
from lakegc_core.sweep.canaries import Canaries
from lakegc_core.sweep.deletion import Piece
from lakegc_core.sweep.read_sample import status_at
from lakegc_core.sweep.record import SweepRecord
from lakegc_core.tables.parts import read_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Path = tuple[str, str]
"""Ref and path."""


class Near(NamedTuple):
    """A path that could be read before a ring. `address`: of its object, as lakeFS shows it, a full URI."""

    ref: str
    path: str
    address: str


T = TypeVar("T")
_NOTED = "near.json"
_PIECES, _ROWS = 10, 10  # of a ring so many pieces are looked into, and so many rows of each
_MOST_OWN, _MOST_OTHERS = 200, 50
_FOLDERS, _LISTED, _BESIDE = 5, 50, 10  # folders that are listed, objects of each, and those of them that are read
_NO_ANSWER, _GONE = 0, 410
_PASSED_OVER = 404  # says nothing of a loss: no path or ref, an object elsewhere, another object


def near_paths(spark: SparkSession, context: MarkContext, ring: Sequence[Piece], canaries: Canaries) -> list[Near]:
    """A few hundred paths near to a ring's objects that can be read now, and whose objects lie in the namespace. Where
    objects were last shown, only the mark knows; what refs show is asked of lakeFS. ServerError if it gives no answer,
    IncompleteError if no path can be read and one answers in a way that says nothing of its data: then nothing would
    tell of a loss."""
    sizes = dict(_some_of(ring))
    shown = last_paths(spark, context, sorted(sizes))
    names, refs = _refs(context)
    own = [each for each in shown if each[0] in names]
    # Each path on every ref; the paths begin with different refs.
    own += [(refs[(row + turn) % len(refs)], path) for turn in range(len(refs)) for row, (_, path) in enumerate(shown)]
    near = [
        *islice(own, _MOST_OWN),
        *islice(_beside(context, own, sizes), _MOST_OTHERS),
        *islice(_in_use(context, canaries), _MOST_OTHERS),
    ]
    asked = [each for each in dict.fromkeys(near) if NOT_TEXT not in each[1]]
    told = _told(partial(_seen, context), asked)
    readable = [each for each, status in told if status in READS]
    odd = [pair for pair in told if pair[1] not in (*READS, _GONE, _PASSED_OVER)]
    if odd and not readable:
        (ref, path, _), status = odd[0]
        raise IncompleteError(
            f"No path near to what is to be deleted can be read; {path!r} on {ref} answers {status}. So "
            f"nobody would notice a loss. {_until_it_reads(context)}"
        )
    return readable


def _seen(context: MarkContext, each: Path) -> tuple[Near, int]:
    """What a ref shows at a path, and lakeFS's status for it; _PASSED_OVER for what lies elsewhere, as most imports do:
    no sweep of this repository can take that."""
    ref, path = each
    try:
        shown = context.client.stat(context.header.repository, ref, path)
    except LakeFSError as error:
        return Near(ref, path, ""), error.status
    if shown is None or not _keys(context, shown.physical_address):
        return Near(ref, path, ""), _PASSED_OVER
    return Near(ref, path, shown.physical_address), status_at(context, ref, path)


def _keys(context: MarkContext, address: str) -> list[str]:
    """All keys of the namespace that an address may name."""
    rows = context.namespace.protected_keys(pa.array([address]), pa.array([ADDRESS_FULL], pa.int8()))
    return list(rows["address"].to_pylist())


def _in_use(context: MarkContext, canaries: Canaries) -> Iterator[Path]:
    """The paths of canaries in this repository."""
    return ((each.ref, each.path) for each in canaries.found if each.repository == context.header.repository)


def taken(
    context: MarkContext, paths: Sequence[Near], planned: Callable[[Collection[str]], Collection[str]]
) -> dict[str, str]:
    """Read paths again that could be read before. Returns those whose object the sweep took: ref and path, with the
    physical address. `planned` tells which of some keys the plan of the sweep has.

    A path that shows another object by now is not among them. IncompleteError if the sweep took none, and one is gone
    that it did not plan, or answers in a way that says nothing of its data.
    """
    told = _told(partial(_seen_again, context), paths)
    lost = {each: _keys(context, each.address) for each, status in told if status == _GONE}
    of_plan = set(planned(sorted({key for keys in lost.values() for key in keys}))) if lost else set[str]()
    found = {f"{each.ref}/{each.path}": each.address for each, keys in lost.items() if not of_plan.isdisjoint(keys)}
    if found:
        return found
    name = f"{context.header.repository} {context.header.mark_id}"
    if lost:
        each = next(iter(lost))
        raise IncompleteError(
            f"{each.path!r} on {each.ref} could be read before objects near to it were deleted, and its data "
            f"({each.address}) is gone now. This sweep did not plan to delete it: something else deletes what is in "
            "use, or the store takes two names for one. Nothing more is deleted. Find out which; then close the sweep "
            f"(lakegc sweep {name} --close), and make a new mark."
        )
    for each, status in told:
        if status not in (*READS, _PASSED_OVER):
            raise IncompleteError(
                f"{each.path!r} on {each.ref} could be read before objects near to it were deleted, and now lakeFS "
                f"answers {status or 'nothing'}, which says nothing of its data. {_until_it_reads(context)}"
            )
    return {}


def planned_among(spark: SparkSession, record: SweepRecord, addresses: Collection[str]) -> Collection[str]:
    """Those of a few addresses that the first plan of a sweep has; all of them where the plan cannot be read."""
    planned = record.planned().frame(spark)
    rows = collected(planned.where(planned["address"].isin(*addresses)).select("address").distinct())
    return addresses if record.unread else {row["address"] for row in rows}


def _seen_again(context: MarkContext, each: Near) -> tuple[Near, int]:
    """A path that could be read before, and lakeFS's status for it; _PASSED_OVER if its data is gone, and it shows
    another object than before: somebody moved the ref meanwhile. _NO_ANSWER if there is none, which must not hide the
    answer for another path."""
    try:
        status = status_at(context, each.ref, each.path)
    except ServerError:
        return each, _NO_ANSWER
    return each, _PASSED_OVER if status == _GONE and _shows_another(context, each) else status


def _shows_another(context: MarkContext, each: Near) -> bool:
    """True if a path surely shows another object than before."""
    try:
        shown = context.client.stat(context.header.repository, each.ref, each.path)
    except LakegcError:
        return False
    return shown is not None and shown.physical_address != each.address


def _until_it_reads(context: MarkContext) -> str:
    again = f"lakegc sweep {context.header.repository} {context.header.mark_id}"
    return f"Nothing more is deleted. When lakeFS reads its store again, run the same sweep: {again}."


def note(context: MarkContext, folder: str, ring: int, paths: Sequence[Near]) -> None:
    """Put paths on record below the folder of a sweep before their ring is deleted: a sweep may be killed in it."""
    found = {"ring": ring, "paths": [list(each) for each in paths]}
    connect(context.workspace).write(f"{folder}/{_NOTED}", encode(sealed(found)))


def noted(context: MarkContext, folder: str) -> tuple[int, list[Near]]:
    """The last ring that a sweep began, and its paths; 0 and none if none was noted."""
    key = f"{folder}/{_NOTED}"
    name = f"{context.header.repository} {context.header.mark_id}"
    said = (
        f"{key} does not name the paths that were read before the last ring. Nothing more is deleted. Close the "
        f"sweep: lakegc sweep {name} --close."
    )
    found = read_sealed(connect(context.workspace), key, said)
    if found is None:
        return 0, []
    try:
        return int(found["ring"]), [Near(*map(str, (ref, path, address))) for ref, path, address in found["paths"]]
    except (KeyError, TypeError, ValueError):
        raise MarkError(said) from None


def _told(ask: Callable[[T], tuple[Near, int]], paths: Sequence[T]) -> list[tuple[Near, int]]:
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, paths))


def _some_of(ring: Sequence[Piece]) -> Iterator[tuple[str, int]]:
    """Address and size of a few objects of a ring, spread over its pieces."""
    for piece in islice(ring[:: max(1, len(ring) // _PIECES)], _PIECES):
        left, at = _ROWS, 0
        (start, stop), *_ = piece.ranges
        for batch in read_part(piece.source.config, piece.source.folder, piece.source.part, ["address", "size"]):
            first = max(0, start - at)
            rows = batch.slice(first, max(0, min(left, stop - at - first)))
            yield from zip(rows["address"].to_pylist(), rows["size"].to_pylist(), strict=True)
            left, at = left - rows.num_rows, at + batch.num_rows
            if not left or at >= stop:
                break


def _refs(context: MarkContext) -> tuple[set[str], list[str]]:
    """The names of all branches, and a few refs to ask: first those that are new or moved since the mark."""
    refs = context.mark.dataset(Stage.RETENTION_COMMITS, REFS_SCHEMA, REFS)
    seen = {(each["name"], each["commit_id"]) for each in refs.dicts("name", "commit_id")}
    branches = list(context.client.branches(context.header.repository))
    tags = list(context.client.tags(context.header.repository)) if context.header.protect_tags else []
    named = [*((each, each.name) for each in branches), *((each, ref_of_tag(each)) for each in tags)]
    new = some(ref for each, ref in named if (each.name, each.commit_id) not in seen)
    known = some(each.name for each in branches if (each.name, each.commit_id) in seen)
    return {each.name for each in branches}, new + known


def _beside(context: MarkContext, own: Iterable[Path], sizes: dict[str, int]) -> Iterator[Path]:
    """Paths that come after some of these in the listings of the refs, those of the same slice or size first."""
    first: dict[Path, str] = {}
    for ref, path in own:
        first.setdefault((ref, path[: path.rfind("/") + 1]), path)
    slices, same = {_folder(each) for each in sizes}, set(sizes.values())

    def distance(each: ObjectStats) -> tuple[bool, bool]:
        return not any(known in each.physical_address for known in slices), each.size_bytes not in same

    for (ref, _), path in islice(first.items(), _FOLDERS):
        page = if_told(partial(_after, context, ref, path))
        yield from ((ref, each.path) for each in sorted(page, key=distance)[:_BESIDE])


def _after(context: MarkContext, ref: str, path: str) -> list[ObjectStats]:
    return context.client.objects_after(context.header.repository, ref, path, _LISTED)[0]


def _folder(address: str) -> str:
    return address[: address.rfind("/") + 1]
