"""Checks that ETags are MD5s where lakegc.yaml says so: HEADs of objects of all ages, the same ones each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.doctor.finding import Finding, alarm, note, sentence, warning
from lakegc_core.policy.xids import is_shard, slice_time
from lakegc_core.store.base import Store
from lakegc_core.store.etags import MD5_ETAG, ask_heads

T = TypeVar("T")

WHY = (
    "lakegc.yaml says `etags: md5` of this place. Where that is false, equal contents look different, and a sweep may "
    "delete an object that a branch shows."
)
REMOVE = "Remove `etags: md5` from lakegc.yaml, and make a new mark."

_DATA = "data/"
_FOLDERS, _OBJECTS = 20, 60  # of which HEADs are made
_PAGES = 100  # of folders among which those are chosen; a page has 1,000, and slices are begun once an hour


def examine_etags(store: Store) -> list[Finding]:
    """Findings of a store of which lakegc.yaml says `etags: md5`. Lists a few slices, and makes some HEADs."""
    rows = list(_chosen(store))
    found = ask_heads(store, rows)
    if found.contradiction:
        return [alarm("etags-no-md5", found.contradiction, WHY, REMOVE)]
    if found.shown:
        return []
    unchecked = "Whether ETags are MD5s, as lakegc.yaml says, cannot be checked"
    if not rows:
        what = f"{unchecked}: no object was found that was uploaded in one piece."
        return [note("etags-unchecked", what, WHY, "Ask the doctor again when there are objects.")]
    what = sentence(f"{unchecked}: HEAD shows none of {len(rows)} objects: {found.failure or 'they are gone'}")
    why = f"{WHY} A mark that cannot check it is refused."
    do = "Let the key see data (on S3 s3:GetObject), or remove `etags: md5` from lakegc.yaml."
    return [warning("etags-unchecked", what, why, do)]


def _chosen(store: Store) -> Iterator[tuple[str, int, str]]:
    """Objects whose ETags look like MD5s: from folders evenly spread over data/, as slices are named by time, and from
    what lies beside them, as servers before v0.84 wrote it."""
    for prefix in ("", _DATA):
        for level in islice(store.list_level(prefix), 1):
            yield from _alike(level.objects, _OBJECTS // _FOLDERS)
    folders = list(_slices(store, _DATA, _FOLDERS))
    for folder in folders:
        for batch in islice(store.list(folder), 1):
            yield from _alike(batch, _OBJECTS // len(folders))


def _slices(store: Store, folder: str, most: int, turn: int = 0) -> Iterator[str]:
    """At most so many folders below this one, evenly spread: those in shards are slices."""
    below = [prefix for level in islice(store.list_level(folder), _PAGES) for prefix in level.prefixes]
    some = _spread(below, most, turn)
    for number, each in enumerate(some):
        if is_shard(each) or (folder != _DATA and slice_time(each.split("/")[-2]) is None):
            yield from _slices(store, each, most // len(some), number)
        else:
            yield each


def _alike(objects: pa.RecordBatch, most: int) -> Iterator[tuple[str, int, str]]:
    rows = objects.filter(pc.fill_null(pc.match_substring_regex(objects["etag"], MD5_ETAG), False))
    for row in _spread(range(rows.num_rows), most):
        yield tuple(rows[name][row].as_py() for name in ("address", "size", "etag"))


def _spread(items: Sequence[T], most: int, turn: int = 0) -> Sequence[T]:
    """At most so many, from the first to the last, evenly spread. A single one is the first or the last, by `turn`."""
    if len(items) <= most:
        return items
    if most == 1:
        return [items[-(turn % 2)]]
    return [items[number * (len(items) - 1) // (most - 1)] for number in range(most)]
