"""One mark: its id, its header, where its artifacts lie, and the manifests that make them count.

A stage exists once its manifest does; each manifest carries the digest of the one before it, so that a mark is a chain
that cannot be altered, reordered or half-replaced unnoticed. What the stages compute is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

import lakegc_core
from lakegc_core.clock import duration
from lakegc_core.errors import MarkError, ObjectNotFoundError, PreconditionFailedError
from lakegc_core.marks.ids import check_mark_id
from lakegc_core.marks.json_files import decode, digest, encode, sealed, unsealed
from lakegc_core.names import STAGES
from lakegc_core.policy.evidence import FinishedStage, MarkTerms
from lakegc_core.policy.facts import F, read_facts
from lakegc_core.store.base import Store, StoreConfig, connect
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part

FORMAT = 4
"""Version of the artifacts. A mark of another format is neither resumed nor swept."""

HOME = "_lakefs/retention/gc/lakegc"
"""The folder of artifacts below the storage namespace (or below the workspace, when one is set)."""

RESTORES = "restores"
"""The folder of a mark for restores from its backup, with a folder for each."""

STAMP = "%Y%m%dT%H%M%S%f"
"""The form of the time in the names of such folders, UTC."""

RETIRED = "retired"
"""The folder of a home for the records that stay of retired marks, one each."""

ANSWERS = "answers"
"""The folder of a home in which the tasks of an answer write on a cluster. Nobody needs what is left of it."""

AUTO, INCREMENTAL, CLEAN = MODES = ("auto", "incremental", "clean")
"""The ways in which a mark reads: all anew (clean), or only what may have changed since the mark before (incremental),
if it can rest on that one; `auto`: incremental until it is time for a clean one."""

_CHOICES = ["min_age", "safety", "protect_tags", "holds", "rules", "mode", "collect_unknown_names", "ignore_commits"]


@dataclass(frozen=True, kw_only=True)
class Header(MarkTerms):
    """The settings that a mark was begun with, written once. Times are unix seconds, durations seconds."""

    repository_created: int
    min_age: float
    grace_period: float
    safety: str
    protect_tags: bool
    holds: tuple[str, ...]
    rules: str  # required | keep-all-commits
    server_version: str
    blockstore_type: str
    block_prefix: str  # where ranges and metaranges lie, usually _lakefs
    allow_list: int
    mode: str = AUTO  # one of MODES
    ignore_commits: tuple[str, ...] = ()  # ids
    format: int = FORMAT
    version: str = lakegc_core.__version__

    @property
    def digest(self) -> str:
        return digest(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """What is written. `ignore_commits` is left out while it is empty: older headers of this format lack it."""
        return {name: value for name, value in asdict(self).items() if value or name != "ignore_commits"}

    def choices(self) -> dict[str, Any]:
        """The operator's choices: a mark is resumed only with the same ones."""
        values = {name: getattr(self, name) for name in _CHOICES}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def resuming(self, choices: Sequence[str] = ("mode",)) -> str:
        """The command that goes on with the mark, with its options for these choices, as far as there are any."""
        options = {
            "mode": "" if self.mode == AUTO else f" --{self.mode}",
            "min_age": f" --min-age {duration(timedelta(seconds=self.min_age))}",
            "safety": f" --safety {self.safety}",
            "rules": f" --rules {self.rules}",
            "protect_tags": " --protect-tags" if self.protect_tags else " --no-protect-tags",
        }
        more = "".join(options.get(name, "") for name in choices)
        return f"lakegc mark {self.repository} --mark-id {self.mark_id}{more}"


@dataclass(frozen=True, kw_only=True)
class Manifest(FinishedStage):
    """The record that makes a stage count: its datasets, its facts, and the digest of the manifest before it.

    `seconds` is what the work took. `digest` covers everything else in the manifest.
    """

    stage: str
    repository: str
    mark_id: str
    upstream: str
    seconds: float
    datasets: Mapping[str, Sequence[Part]]
    rows: int
    bytes: int
    format: int = FORMAT
    version: str = lakegc_core.__version__
    digest: str = field(default="")

    def sealed(self) -> Manifest:
        """The same manifest with its digest filled in."""
        return replace(self, digest=digest(_unsealed(self)))


def facts_of(manifests: Mapping[str, Manifest], kind: type[F]) -> F:
    """The facts of a stage, from the manifests of a mark."""
    return read_facts(kind, manifests[kind.stage].facts)


class MarkArtifacts:
    """The artifacts of one mark on its store: headers and manifests are read and written here, never altered."""

    def __init__(self, config: StoreConfig, mark_id: str, home: str = HOME) -> None:
        self.config, self.mark_id, self.home = config, check_mark_id(mark_id), home
        self.folder = f"{home}/marks/{mark_id}"

    @property
    def store(self) -> Store:
        return connect(self.config)

    @property
    def location(self) -> str:
        """URI of the mark's folder, for people."""
        return f"{self.config.root}/{self.folder}"

    def stage_folder(self, stage: str, dataset: str = "") -> str:
        """Folder of a stage's dataset; the stage's own dataset, named like it, lies in the stage's folder."""
        return f"{self.folder}/{stage}" if dataset in ("", stage) else f"{self.folder}/{stage}/{dataset}"

    def header(self, *, any_version: bool = False) -> Header | None:
        """The header, or None if there is no such mark. `any_version`: see `checked_header`."""
        value = self._read(f"{self.folder}/mark.json")
        return None if value is None else self.checked_header(value, any_version=any_version)

    def checked_header(self, value: dict[str, Any], *, any_version: bool = False) -> Header:
        """A header as it was written; MarkError if it was changed, or is another version's. `any_version`: that one's
        will do, as far as this one knows its keys: to account for the mark, never to go on from it."""
        stated, found = value.pop("digest", None), value.get("format")
        if found != FORMAT and not any_version:
            raise MarkError(f"Mark {self.mark_id} has format {found}, this lakegc reads {FORMAT}. Make a new mark.")
        known = {each.name for each in fields(Header)}
        told = {name: each for name, each in value.items() if name in known or not any_version}
        try:
            header = Header(**told | {name: tuple(value.get(name, ())) for name in ("holds", "ignore_commits")})
        except TypeError:
            raise MarkError(
                f"{self.location}/mark.json is not a header of this version of lakegc. Make a new mark."
            ) from None
        if (digest(value) if any_version else header.digest) != stated:
            raise MarkError(f"{self.location}/mark.json was changed after it was written. Make a new mark.")
        return header

    def begin(self, header: Header) -> Header:
        """Write the header, or return the one that stands if the mark was begun with the same choices."""
        standing = self.header()
        if standing is None:
            self._check_never_retired()
            self._write_once(f"{self.folder}/mark.json", sealed(header.as_json()))
            return header
        differing = [key for key, value in standing.choices().items() if value != header.choices()[key]]
        if standing.repository != header.repository or standing.storage_namespace != header.storage_namespace:
            raise MarkError(f"Mark {self.mark_id} here belongs to repository {standing.repository!r}.")
        if differing:
            raise MarkError(
                f"Mark {self.mark_id} was begun with other settings ({', '.join(differing)}). "
                "A mark is never changed: choose a new mark id, or resume it with the same settings: "
                f"{standing.resuming(differing)}."
            )
        return standing

    def _check_never_retired(self) -> None:
        if self.retired() is not None:
            raise MarkError(
                f"Mark {self.mark_id} was retired; a second one of its name would overwrite what is known of it. "
                "Choose a new mark id."
            )

    def retired(self) -> dict[str, Any] | None:
        """The record that stays of a retired mark (see `retire`); None if this one was not retired."""
        record = self._read(self.retired_key)
        if record is None:
            return None
        changed = f"{self.config.root}/{self.retired_key} was changed after it was written."
        return unsealed(record, changed, mark_id=self.mark_id)

    @property
    def retired_key(self) -> str:
        """The key of the record that stays of a retired mark."""
        return f"{self.home}/{RETIRED}/{self.mark_id}.json"

    def manifest(self, stage: str) -> Manifest | None:
        """The manifest of a stage, or None if the stage is not finished. MarkError if it was tampered with."""
        key = f"{self.stage_folder(stage)}/manifest.json"
        value = self._read(key)
        if value is None:
            return None
        try:
            value["datasets"] = {
                name: tuple(Part.from_json(part) for part in parts) for name, parts in value["datasets"].items()
            }
            manifest = Manifest(**value)
        except (TypeError, KeyError, AttributeError):
            raise MarkError(f"{key} is not a manifest of this version of lakegc. Make a new mark.") from None
        if digest(_unsealed(manifest)) != manifest.digest:
            raise MarkError(f"{key} was changed after it was written (its digest differs). Make a new mark.")
        if (manifest.stage, manifest.mark_id) != (stage, self.mark_id):
            raise MarkError(f"{key} belongs to stage {manifest.stage!r} of mark {manifest.mark_id!r}. Make a new mark.")
        return manifest

    def require(self, stage: str) -> Manifest:
        """The manifest of a finished stage; MarkError when it is missing."""
        manifest = self.manifest(stage)
        if manifest is None:
            raise MarkError(
                f"Stage {stage} of mark {self.mark_id} is not finished: its manifest is missing at "
                f"{self.location}/{stage}. Go on with the mark: {self._resuming}. In Dagster, run the stages in order "
                f"({' → '.join(STAGES)})."
            )
        return manifest

    @property
    def _resuming(self) -> str:
        """The command that goes on with the mark, for people."""
        with suppress(MarkError):
            if (header := self.header(any_version=True)) is not None:
                return header.resuming()
        return f"lakegc mark REPO --mark-id {self.mark_id}"

    def out(self, stage: str) -> DatasetFolder:
        """The folder of a stage's datasets."""
        return DatasetFolder(self.config, self.stage_folder(stage), self.mark_id)

    def dataset(self, stage: str, schema: pa.Schema, name: str = "", *, may_lack: bool = False) -> Dataset:
        """A dataset of a finished stage, its own one unless it is named. MarkError if the stage is not finished, or if
        its manifest does not name the dataset; with `may_lack` such a dataset is empty."""
        return self.dataset_of(self.require(stage), schema, name, may_lack=may_lack)

    def dataset_of(self, manifest: Manifest, schema: pa.Schema, name: str = "", *, may_lack: bool = False) -> Dataset:
        """The same by a manifest that was read before."""
        parts = manifest.datasets.get(name or manifest.stage, () if may_lack else None)
        if parts is None:
            raise MarkError(
                f"Stage {manifest.stage} of mark {self.mark_id} has no dataset {name or manifest.stage}. Make a new "
                "mark."
            )
        return self.out(manifest.stage).dataset(name, parts, schema)

    def facts(self, kind: type[F]) -> F:
        """The facts of a finished stage; MarkError if it is not finished."""
        return read_facts(kind, self.require(kind.stage).facts)

    def chain(self) -> dict[str, Manifest]:
        """All five manifests, after checking that each names the digest of the one before it."""
        header = self.header()
        if header is None:
            raise MarkError(
                f"There is no mark {self.mark_id} at {self.config.root}/{self.home}. `lakegc marks` lists them."
            )
        before = header.digest
        manifests: dict[str, Manifest] = {}
        for stage in STAGES:
            manifest = self.require(stage)
            self.check_upstream(manifest, before)
            manifests[stage], before = manifest, manifest.digest
        return manifests

    def check_upstream(self, manifest: Manifest, upstream: str) -> None:
        """MarkError unless the manifest was made from the input with this digest."""
        if manifest.upstream != upstream:
            raise MarkError(
                f"Stage {manifest.stage} of mark {self.mark_id} was made from another input than the one that stands "
                "now. Make a new mark."
            )

    def upstream_digest(self, stage: str) -> str:
        """The digest that the manifest of this stage has to name."""
        number = STAGES.index(stage)
        if number:
            return self.require(STAGES[number - 1]).digest
        header = self.header()
        if header is None:
            raise MarkError(f"Mark {self.mark_id} has not been begun: its header is missing at {self.location}.")
        return header.digest

    def finish(self, manifest: Manifest) -> Manifest:
        """Seal a manifest and write it: from here on the stage counts."""
        manifest = manifest.sealed()
        self._write_once(f"{self.stage_folder(manifest.stage)}/manifest.json", asdict(manifest))
        return manifest

    def _write_once(self, key: str, value: Mapping[str, Any]) -> None:
        try:
            self.store.write(key, encode(value), if_absent=True)
        except PreconditionFailedError:
            raise MarkError(
                f"{key} was written by somebody else meanwhile: another collector works on mark {self.mark_id}. "
                "Let it finish, or choose another mark id."
            ) from None

    def _read(self, key: str) -> dict[str, Any] | None:
        seen = _seen.get()
        data = seen.get((self.config, key)) if seen is not None else None
        if data is None:
            try:
                data = self.store.read(key)
            except ObjectNotFoundError:
                return None
            if seen is not None:
                seen[self.config, key] = data
        return decode(data, f"{self.config.root}/{key}")


_seen: ContextVar[dict[tuple[StoreConfig, str], bytes] | None] = ContextVar("_seen", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Within the outermost block no header and no manifest is asked for twice: they are never changed. What is not
    there yet is asked for again."""
    token = _seen.set({} if (outer := _seen.get()) is None else outer)
    try:
        yield
    finally:
        _seen.reset(token)


def _unsealed(manifest: Manifest) -> dict[str, Any]:
    value = asdict(manifest)
    del value["digest"]
    return value
