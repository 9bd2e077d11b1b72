"""Of objects that are gone: whether copies lie in backups that lakegc made, and where lakegc left things behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from lakegc_core.answers.in_quarantine import copies_lie
from lakegc_core.errors import LakegcError, MarkError, StoreError
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.backups import place_on_record
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.shelf import marks, retired_marks
from lakegc_core.marks.workspaces import left_behind
from lakegc_core.names import Json
from lakegc_core.store.base import PROBE_KEY, StoreConfig, connect, heads
from lakegc_core.store.factory import config_at

_SIDE_BY_SIDE = 16  # records that are read at a time


def backups_of(context: RepositoryContext, deleted: Mapping[str, Iterable[str]]) -> dict[str, Json]:
    """Of some of these addresses, each with the marks whose sweeps deleted it: the last by id of these marks that has a
    backup (`mark_id`), and the place of that (`place`). A record that cannot be read names none."""
    found: dict[str, Json] = {}
    for mark_id in sorted(set[str]().union(*deleted.values())):
        with suppress(LakegcError):
            if place := place_on_record(context.artifacts(mark_id)):
                told = {"mark_id": mark_id, "place": place}
                found |= {address: told for address, by in deleted.items() if mark_id in by}
    return found


@dataclass(frozen=True)
class Backups:
    """The backups of a repository, by their places: of all marks that stand or were retired, as far as the record of
    each says, and where lakegc.yaml has them made. `named`: all of these; `places`: those that answer; `unknown`:
    sentences on what nobody can look into."""

    named: frozenset[str]
    places: Mapping[str, StoreConfig]
    unknown: tuple[str, ...]


def backups(context: RepositoryContext) -> Backups:
    """Find the backups, and ask each place for an object, as `gone` does for many."""
    named, unknown = _named(context)
    places: dict[str, StoreConfig] = {}
    for place in sorted(named):
        try:
            places[place] = config_at(place, context.settings)
            heads(connect(places[place]), [PROBE_KEY])
        except LakegcError as error:
            places.pop(place, None)
            unknown.append(f"nobody can look for copies in the backup in {place}: {error}")
    return Backups(frozenset(named), places, tuple(unknown))


def made_since(context: RepositoryContext, before: Backups) -> Iterator[str]:
    """Sentences on backups that were not there when `before` was found: sweeps may have followed them."""
    named, _ = _named(context)
    for place in sorted(named - before.named):
        yield f"a backup was made in {place} meanwhile: ask again"


def saved(groups: Iterable[Json]) -> Iterator[str]:
    """Sentences on backups in which copies of some of the objects lie: a restore brings them back. `groups`: of
    objects, each with `saved` (the place of such a backup, or None)."""
    copies = Counter[str]()
    for each in groups:
        if each["saved"]:
            copies[each["saved"]] += each["objects"]
    for place, objects in sorted(copies.items()):
        yield (
            f"{copies_lie(objects)} in the backup in {place}, and lakegc deletes nothing there: "
            "delete them yourself, each under the address of its object"
        )


def left(context: RepositoryContext) -> Iterator[str]:
    """Sentences on marks and copies that lie where no `workspace` leads: nobody looks into them."""
    if context.workspace == context.data:
        return
    try:
        places = left_behind(context.data)
    except StoreError as error:
        yield f"nobody knows if copies from before `workspace` was set lie in {context.data.root}/{HOME}/: {error}"
        return
    if places:
        yield (
            f"{' and '.join(places)} hold marks or copies of this repository where `workspace` does not lead, and "
            "nobody looked there: lakegc doctor says what to do"
        )


def _named(context: RepositoryContext) -> tuple[set[str], list[str]]:
    """The places of backups by the records of marks and by lakegc.yaml, and sentences on unreadable records."""
    config, home = context.workspace, context.home
    ids = sorted({*marks(config, home), *retired_marks(config, home)})
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        told = list(pool.map(lambda mark_id: _of_mark(context, mark_id), ids))
    places = {place for place, _ in told} | {context.policy.backups_of(context.repository.id) or ""}
    return places - {""}, [problem for _, problem in told if problem]


def _of_mark(context: RepositoryContext, mark_id: str) -> tuple[str, str]:
    """The place of the backup of a mark, and what is wrong with its record; "" for none."""
    try:
        return place_on_record(context.artifacts(mark_id)) or "", ""
    except MarkError as error:
        return "", f"nobody knows if mark {mark_id} has a backup: its record cannot be read ({error})"
