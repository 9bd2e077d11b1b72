"""The answers of lakeFS, as frozen values in lakeFS's own words, which pydantic reads from JSON.

Nothing here asks the server (`client`, `http`). Types are strict, and a key without a default must be there: a default
in its place could read as "nothing here", and that as a deletion. Keys that lakegc does not know are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticUseDefault

from lakegc_core.errors import ServerError

T = TypeVar("T")


class Answer:
    """A part of an answer: an int is no bool, a text no int."""

    __pydantic_config__ = ConfigDict(strict=True)


def _default_for_null(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


OR_NULL = BeforeValidator(_default_for_null)
"""Lets null stand for the default of a field."""

Name = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Storage(Answer):
    """One object store of the server. `blockstore_id` is empty when there is only one.

    `blockstore_type` may be empty in a storage that is not asked for; `LakeFSClient.config` checks the others.
    """

    blockstore_type: Annotated[str, Field(default=""), OR_NULL]  # s3, gs, azure, local, mem
    blockstore_id: Annotated[str, OR_NULL] = ""
    pre_sign_support: Annotated[bool, OR_NULL] = False


@dataclass(frozen=True)
class Repository(Answer):
    """A repository. `creation_date` in unix seconds; `storage_id` empty on servers with one storage."""

    id: Name
    storage_id: Annotated[str, Field(default=""), OR_NULL]
    storage_namespace: Name
    default_branch: str
    creation_date: int
    read_only: Annotated[bool, OR_NULL] = False


_OPEN_SOURCE = "lakeFS"  # what open-source servers call themselves
_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)\.[0-9]+")
_COMPACTS_SINCE = (1, 100)


@dataclass(frozen=True)
class ServerConfig:
    """The server: its version (`dev` for a build of one's own, empty if it does not say) and its storages.

    `edition`: what it calls itself (`version_context`, which lakeFS has since v1.57); empty if it does not say.
    """

    version: str
    storages: tuple[Storage, ...]
    edition: str = ""

    @property
    def is_enterprise(self) -> bool:
        """True if the server calls itself anything but open source, as lakeFS Enterprise does."""
        return self.edition not in ("", _OPEN_SOURCE)

    @property
    def may_compact(self) -> bool:
        """True if the server may compact what is staged, as Enterprise can since v1.100.

        No answer of lakeFS says whether compaction is on. A server that is not known to be without it may have it.
        """
        if self.edition == _OPEN_SOURCE:
            return False
        return self.release is None or self.release >= _COMPACTS_SINCE

    @property
    def release(self) -> tuple[int, int] | None:
        """The first two numbers of the version; None for a build between two releases, which may have what the next
        one has."""
        found = _RELEASE.fullmatch(self.version)
        return (int(found[1]), int(found[2])) if found else None

    def storage_for(self, repository: Repository) -> Storage:
        """The storage that holds the repository. ServerError if the server does not name it."""
        said = repository.storage_id
        if len(self.storages) == 1 and not (said and self.storages[0].blockstore_id):
            return self.storages[0]
        for storage in self.storages:
            if storage.blockstore_id == said:
                return storage
        listed = ", ".join(sorted(repr(storage.blockstore_id) for storage in self.storages))
        raise ServerError(
            f"repository {repository.id} lies in storage {said!r}, which lakeFS does not list (it lists {listed}); "
            "nothing can be collected before it does. Look into `blockstores` of lakeFS's configuration"
        )


@dataclass(frozen=True)
class Ref(Answer):
    """A branch or a tag, and the commit it points at."""

    name: Annotated[Name, Field(validation_alias="id")]
    commit_id: str


@dataclass(frozen=True)
class GcRules:
    """The retention rules as they are set, in days; negative and absurd numbers are passed on as they are."""

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class PreparedCommits(Answer):
    """One answer of prepare_commits: `commits_location` is the full address of a commits.csv."""

    run_id: Name
    commits_location: Annotated[Name, Field(validation_alias="gc_commits_location")]


@dataclass(frozen=True)
class StagedDump:
    """One whole run of prepare_uncommitted.

    `locations` holds the directory once per page that wrote a file: it must hold at least as many files.
    """

    run_id: str
    locations: tuple[str, ...]
    pages: int

    @property
    def location(self) -> str | None:
        """The directory of the parquet files; None when nothing is staged anywhere."""
        return self.locations[0] if self.locations else None


@dataclass(frozen=True)
class DumpRefs(Answer):
    """The three metaranges that a dump of the repository wrote."""

    commits_metarange_id: Annotated[Name, Field(validation_alias="commits_meta_range_id")]
    branches_metarange_id: Annotated[Name, Field(validation_alias="branches_meta_range_id")]
    tags_metarange_id: Annotated[Name, Field(validation_alias="tags_meta_range_id")]


@dataclass(frozen=True)
class Commit(Answer):
    """A commit. The first one has an empty `metarange_id`. `creation_date` in unix seconds."""

    id: Name
    metarange_id: Annotated[str, Field(validation_alias="meta_range_id")]
    parents: tuple[str, ...]
    creation_date: int
    version: Annotated[int, OR_NULL] = 1


@dataclass(frozen=True)
class ObjectStats(Answer):
    """One object as a ref shows it. `physical_address` is a full URI; `size_bytes` in bytes."""

    path: Name
    physical_address: Name
    size_bytes: int
    checksum: str


# ---- what only the client reads ----


@dataclass(frozen=True)
class ListedPath(Answer):
    """One path of a listing, or the beginning that several paths share."""

    path: Name


@dataclass(frozen=True)
class Pagination(Answer):
    """lakeFS's account of one page: the number of its elements, and the place where the next one begins."""

    has_more: bool
    results: int
    next_offset: Annotated[str, OR_NULL] = ""


@dataclass(frozen=True)
class Page(Answer, Generic[T]):
    """One page of a listing."""

    pagination: Pagination
    results: list[T]


@dataclass(frozen=True)
class _Version(Answer):
    version: Annotated[str, OR_NULL] = ""
    version_context: Annotated[str, OR_NULL] = ""


@dataclass(frozen=True)
class ConfigAnswer(Answer):
    """The server's configuration. Servers with one storage name it in `storage_config`.

    A server that is told its storages by their ids lists them all, and names none in `storage_config` but the one in
    which repositories of before lie, if there is one.
    """

    storage_config: Storage | None = None
    storage_config_list: Annotated[list[Storage], OR_NULL] = field(default_factory=list)
    version_config: Annotated[_Version, OR_NULL] = field(default_factory=_Version)

    @property
    def storages(self) -> tuple[Storage, ...]:
        """All of them; none where the server names none."""
        if len(self.storage_config_list) > 1 or self.storage_config is None:
            return tuple(self.storage_config_list)
        return (self.storage_config,)


@dataclass(frozen=True)
class GracePeriod(Answer):
    """Seconds for which the server lets an uploaded object be linked."""

    grace_period: Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class _BranchRule(Answer):
    branch_id: str
    retention_days: int


@dataclass(frozen=True)
class RulesAnswer(Answer):
    """The retention rules as a list."""

    default_retention_days: int
    branches: Annotated[list[_BranchRule], OR_NULL] = field(default_factory=list)

    @property
    def rules(self) -> GcRules:
        # lakeFS keeps the last one of two rules for a branch; so does a mapping.
        return GcRules(self.default_retention_days, {rule.branch_id: rule.retention_days for rule in self.branches})


@dataclass(frozen=True)
class Task(Answer):
    """Work that the server has begun."""

    id: Name


@dataclass(frozen=True)
class TaskStatus(Answer, Generic[T]):
    """The progress of a task. `update_time`: a text that changes with each step. No `result` where there is an error: a
    dump that failed half-way shows the ids that it has beside empty ones."""

    done: bool
    error: Annotated[str, OR_NULL] = ""
    result: T | None = None
    update_time: Annotated[str, OR_NULL] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_part(cls, answer: Any) -> Any:
        if isinstance(answer, dict) and answer.get("error"):
            return {name: value for name, value in answer.items() if name not in ("refs", "result")}
        return answer


def _message(error: object) -> object:
    return error.get("message") or "it does not say why" if isinstance(error, dict) else error


@dataclass(frozen=True)
class CommitsStatus(TaskStatus[PreparedCommits]):
    """The progress of prepare_commits."""

    done: Annotated[bool, Field(validation_alias="completed")]
    error: Annotated[str, BeforeValidator(_message), OR_NULL] = ""
    result: PreparedCommits | None = None


@dataclass(frozen=True)
class DumpStatus(TaskStatus[DumpRefs]):
    """The progress of a dump."""

    result: Annotated[DumpRefs | None, Field(validation_alias="refs")] = None


@dataclass(frozen=True)
class StagedPage(Answer):
    """One page of prepare_uncommitted; the location is empty where it wrote nothing, the token on the last page."""

    run_id: Name
    gc_uncommitted_location: str
    continuation_token: Annotated[str, OR_NULL] = ""


@dataclass(frozen=True)
class Location(Answer):
    """The place of something, relative to the namespace."""

    location: Name
