"""What lakeFS answers, as frozen values in lakeFS's own words, and the checks that an answer has that shape.

Nothing here asks the server (`client`, `http`). A missing key or an odd type is a ServerError: a default in
its place could read as "nothing here", and that as a deletion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakegc_core.errors import ServerError

Json = Mapping[str, object]


@dataclass(frozen=True)
class Storage:
    """One object store of the server. `blockstore_id` is empty when there is only one."""

    blockstore_type: str  # s3, gs, azure, local, mem
    blockstore_id: str = ""
    pre_sign_support: bool = False


@dataclass(frozen=True)
class Repository:
    """A repository. `creation_date` in unix seconds; `storage_id` empty on servers with one storage."""

    id: str
    storage_id: str
    storage_namespace: str
    default_branch: str
    creation_date: int
    read_only: bool


@dataclass(frozen=True)
class ServerConfig:
    """The server: its version (`dev` for a build of one's own, empty if it does not say) and its storages."""

    version: str
    storages: tuple[Storage, ...]

    def storage_for(self, repository: Repository) -> Storage:
        """The storage that holds the repository. ServerError if the server does not name it."""
        if len(self.storages) == 1:
            return self.storages[0]
        for storage in self.storages:
            if storage.blockstore_id == repository.storage_id:
                return storage
        raise ServerError(
            f"repository {repository.id} lies in storage {repository.storage_id!r}, which lakeFS does not "
            "list; nothing can be collected before it does"
        )


@dataclass(frozen=True)
class Ref:
    """A branch or a tag, and the commit it points at."""

    name: str
    commit_id: str


@dataclass(frozen=True)
class GcRules:
    """The retention rules as they are set, in days; negative and absurd numbers are passed on as they are."""

    default_retention_days: int
    branches: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class PreparedCommits:
    """One answer of prepare_commits: `commits_location` is the full address of a commits.csv."""

    run_id: str
    commits_location: str


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
class DumpRefs:
    """The three metaranges that a dump of the repository wrote."""

    commits_metarange_id: str
    branches_metarange_id: str
    tags_metarange_id: str


@dataclass(frozen=True)
class Commit:
    """A commit. The first one has an empty `metarange_id`. `creation_date` in unix seconds."""

    id: str
    metarange_id: str
    parents: tuple[str, ...]
    creation_date: int
    version: int


@dataclass(frozen=True)
class ObjectStats:
    """One object as a ref shows it. `physical_address` is a full URI; `size_bytes` in bytes."""

    path: str
    physical_address: str
    size_bytes: int
    checksum: str


class Answer:
    """A JSON object that lakeFS answered, read key by key; `of` says which call, for the message."""

    def __init__(self, of: str, value: object) -> None:
        self.of = of
        if not isinstance(value, dict):
            raise self.odd(f"a JSON object was expected, not {type(value).__name__}")
        self.json: Json = value

    def odd(self, what: str) -> ServerError:
        return ServerError(
            f"odd answer of lakeFS to {self.of}: {what}. lakegc stops here rather than guess; "
            "check that the endpoint is a lakeFS server and that nothing between changes its answers"
        )

    def has(self, key: str) -> bool:
        """True if the key is there and not null."""
        return self.json.get(key) is not None

    def _typed(self, key: str, kind: str) -> ServerError:
        found = type(self.json[key]).__name__ if key in self.json else "nothing"
        return self.odd(f"`{key}` must be {kind}, and is {found}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.json.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self._typed(key, "a text")
        return value

    def name(self, key: str) -> str:
        """A text that is not empty."""
        value = self.text(key)
        if not value:
            raise self.odd(f"`{key}` is empty")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        value = self.json.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._typed(key, "a whole number")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self.json.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise self._typed(key, "true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.json.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._typed(key, "a list of texts")
        return tuple(value)

    def below(self, key: str) -> Answer:
        value = self.json.get(key)
        if not isinstance(value, dict):
            raise self._typed(key, "an object")
        return Answer(self.of, value)

    def each(self, key: str, *, optional: bool = False) -> list[Answer]:
        value = self.json.get(key)
        if value is None and optional:
            return []
        if not isinstance(value, list):
            raise self._typed(key, "a list")
        return [Answer(self.of, item) for item in value]


def server_config(answer: Answer) -> ServerConfig:
    """The server's storages: `storage_config_list` where it names several, else `storage_config`."""
    listed = answer.each("storage_config_list", optional=True)
    storages = listed if len(listed) > 1 else [answer.below("storage_config")]
    version = answer.below("version_config").text("version", "") if answer.has("version_config") else ""
    return ServerConfig(
        version=version,
        storages=tuple(
            Storage(
                blockstore_type=storage.name("blockstore_type"),
                blockstore_id=storage.text("blockstore_id", ""),
                pre_sign_support=storage.flag("pre_sign_support", False),
            )
            for storage in storages
        ),
    )


def repository(answer: Answer) -> Repository:
    return Repository(
        id=answer.name("id"),
        storage_id=answer.text("storage_id", ""),
        storage_namespace=answer.name("storage_namespace"),
        default_branch=answer.text("default_branch"),
        creation_date=answer.number("creation_date"),
        read_only=answer.flag("read_only", False),
    )


def ref(answer: Answer) -> Ref:
    return Ref(name=answer.name("id"), commit_id=answer.text("commit_id"))


def gc_rules(answer: Answer) -> GcRules:
    return GcRules(
        default_retention_days=answer.number("default_retention_days"),
        # lakeFS keeps the last one of two rules for a branch; so does a mapping.
        branches={
            rule.text("branch_id"): rule.number("retention_days") for rule in answer.each("branches", optional=True)
        },
    )


def commit(answer: Answer) -> Commit:
    return Commit(
        id=answer.name("id"),
        metarange_id=answer.text("meta_range_id"),
        parents=answer.texts("parents"),
        creation_date=answer.number("creation_date"),
        version=answer.number("version", 1),
    )


def object_stats(answer: Answer) -> ObjectStats:
    return ObjectStats(
        path=answer.name("path"),
        physical_address=answer.name("physical_address"),
        size_bytes=answer.number("size_bytes"),
        checksum=answer.text("checksum"),
    )
