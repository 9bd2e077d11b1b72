"""The records of backups, for marks, sweeps and restores: where a backup lies, and whether it is whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import LakegcError, MarkError, SettingsError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext, RepositoryContext, other_roots
from lakegc_core.marks.json_files import read_json, read_sealed
from lakegc_core.marks.workspaces import overlap
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import BackupFacts
from lakegc_core.policy.namespace import COLLECTABLE
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.factory import config_at
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = "_lakegc/"
"""The folder of a place for the lists of backups, one for each repository and mark."""

BACKUP = "backup.json"
"""The record of a mark's backup, in the mark's folder."""
COPIED, ALREADY_THERE = SAVED = ("copied", "already_there")
"""Outcomes of objects that are in a backup as they must be."""
_MOST_NAMED = 5
_COPIES = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("address", "outcome")])
"""The columns that are read here of a backup's journal, which has more."""


def backup_facts(context: MarkContext) -> BackupFacts | None:
    """The facts of the mark's backup, for the guard; None if there is none.

    The manifest at the place is read again, so that a backup that was moved or belongs to another mark shows.
    """
    if (place := place_on_record(context.mark)) is None:
        return None
    try:
        manifest = _of_this_mark(context, place_of(context, place))
    except LakegcError as error:
        return BackupFacts(place, problem=str(error))
    if manifest is None:
        return BackupFacts(place, problem="it is not there any more, or belongs to another mark")
    return BackupFacts(place, saved(manifest))


def readable_backup(context: MarkContext) -> BackupFacts | None:
    """The facts of the mark's backup; None if there is none, or if it does not read."""
    with suppress(LakegcError):
        found = backup_facts(context)
        return found if found and not found.problem else None
    return None


def backup_place(context: MarkContext) -> str | None:
    """The place of the mark's backup, if it is there and reads."""
    found = readable_backup(context)
    return found.place if found else None


def place_on_record(mark: MarkArtifacts) -> str | None:
    """The place of the mark's backup by its record, or by that of its retirement; None if there is no backup. MarkError
    if the record cannot be read, or names no place."""
    record = read_json(mark.store, f"{mark.folder}/{BACKUP}")
    if record is None and (record := (mark.retired() or {}).get("backup")) is None:
        return None
    place = record.get("place") if isinstance(record, dict) else None
    if not isinstance(place, str) or not place:
        raise MarkError(
            f"The record of the backup of mark {mark.mark_id} ({mark.folder}/{BACKUP}) names no place. It was damaged: "
            "make the backup again, or remove the file if there is none."
        )
    return place


def backed_up(spark: SparkSession, context: MarkContext) -> DataFrame:
    """The addresses of the objects that are in the mark's backup as they must be, by its manifest. MarkError if there
    is no such backup."""
    if (named := place_on_record(context.mark)) is None:
        raise MarkError(f"Mark {context.header.mark_id} has no backup.")
    place = place_of(context, named)
    if (manifest := _of_this_mark(context, place)) is None:
        raise MarkError(f"The backup of mark {context.header.mark_id} is not in {place.root} any more.")
    parts = [Part.from_json(part) for part in manifest["parts"]]
    rows = DatasetFolder(place, f"{folder_of(context)}/objects").dataset("", parts, _COPIES).frame(spark)
    return rows.where(rows["outcome"].isin(*SAVED)).select("address").distinct()


def _of_this_mark(context: MarkContext, place: StoreConfig) -> Json | None:
    """The manifest of the backup of the mark as it stands; None if none is there, or that of other findings."""
    manifest = backup_manifest(context, place)
    digest = context.mark.require(Stage.EXPIRED_ADDRESSES).digest
    return manifest if manifest is not None and manifest["mark_digest"] == digest else None


def saved(manifest: Json) -> int:
    """The number of objects that are in a backup as they must be, by its manifest."""
    return sum(manifest["objects"].get(outcome, 0) for outcome in SAVED)


def place_of(context: RepositoryContext, place: str) -> StoreConfig:
    """The store of a backup. It must lie outside the namespace: there it would be listed, and could be collected."""
    config = config_at(place, context.settings)
    if overlap(config, context.data):
        raise SettingsError(f"A backup in {config.root} would overlap with the repository's own {context.data.root}.")
    return config


def new_place(context: RepositoryContext, place: str) -> StoreConfig:
    """`place_of` a backup that is to be made: outside the namespaces of all other repositories, too."""
    config = place_of(context, place)
    for name, root in other_roots(context):
        if overlap(config, root):
            raise SettingsError(
                f"A backup in {config.root} would overlap with {root.root}, the namespace of repository {name}, whose "
                "collector takes it for garbage. Choose a place of its own."
            )
    return config


def folder_of(context: MarkContext) -> str:
    return f"{_OWN}{context.header.repository}/{context.header.mark_id}"


def backup_manifest(context: MarkContext, place: StoreConfig) -> Json | None:
    """The manifest of a mark's backup; None where there is none. SettingsError if the backup of another repository lies
    there: servers may have repositories of one name."""
    key = f"{folder_of(context)}/manifest.json"
    changed = f"{place.root}/{key} was changed after it was written. Look at what lies there."
    found = read_sealed(connect(place), key, changed)
    if found is None:
        return None
    if (of := found.get("storage_namespace")) != context.header.storage_namespace:
        raise SettingsError(
            f"{place.root}/{key} belongs to a repository of the same name in {of}, and this one lies in "
            f"{context.header.storage_namespace}. Give the backups of each a place of their own."
        )
    return found


def source_of(context: MarkContext, place: str) -> tuple[StoreConfig, Json | None]:
    """The store of a mark's backup that is to be read, and its manifest; None of a backup that another tool made.
    SettingsError, with what lies there, for a place that holds no backup of this repository."""
    source = place_of(context, place)
    manifest = backup_manifest(context, source)
    if manifest is None and (instead := _instead(source, context.header.repository)):
        made_to = place_on_record(context.mark)
        known = f" The backup of this mark was made to {made_to}." if made_to else ""
        raise SettingsError(
            f"{source.root} holds no backup of repository {context.header.repository}: {instead}. Nothing was brought "
            f"back. Name the place that the backup was made to.{known}"
        )
    return source, manifest


def _instead(place: StoreConfig, repository: str) -> str:
    """What lies at a place that cannot hold objects of a repository; "" where some may lie."""
    there, data, lists = (_first_names(place, prefix) for prefix in ("", "data/", _OWN))
    of = [each.removeprefix(_OWN).rstrip("/") for each in lists]
    if of and repository not in of:
        return f"it holds those of {_some(of)}"
    if data or any(re.match(COLLECTABLE, name) for name in there):
        return ""
    return f"it holds {_some(there)}, and nothing below data/" if there else "nothing lies there"


def _first_names(place: StoreConfig, prefix: str) -> list[str]:
    """The first folders and objects directly below a prefix."""
    first = next(iter(connect(place).list_level(prefix)), None)
    return [] if first is None else [*first.prefixes, *first.objects["address"].to_pylist()]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
