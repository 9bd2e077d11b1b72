"""The context of a stage: the repository, its server, its stores, and the mark being made or swept.

Opening a mark (asking the server who it is, where its namespace lies, and which limits hold) belongs here; what is
done with it belongs to the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from lakegc_core import clock
from lakegc_core.config.settings import RepositoryPolicy, Settings
from lakegc_core.errors import IncompleteError, MarkError, RefusedError, ServerError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import ATTEMPTS
from lakegc_core.lakefs.models import Repository, ServerConfig
from lakegc_core.lakefs.named import repository_named
from lakegc_core.marks import lease
from lakegc_core.marks.artifacts import AUTO, MODES, Header, MarkArtifacts
from lakegc_core.marks.ids import check_new_mark_id
from lakegc_core.marks.lease import Lease
from lakegc_core.marks.local_folder import local_folder
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.marks.workspaces import check_moved, check_workspace, workspace_at
from lakegc_core.names import RULES_MODES
from lakegc_core.policy import safety
from lakegc_core.policy.namespace import ALLOW_LIST_VERSION, Namespace
from lakegc_core.policy.safety import Level
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.factory import config_for
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.settings import StoreSettings

DEFAULT_PREFIX = "_lakefs"
_SCHEMES_OF = {"s3": {"s3"}, "gs": {"gs"}, "azure": {"http", "https"}, "local": {"local"}}
_ANY_METARANGE = "0" * 64  # the server does not check that it exists; it tells where it would lie


def _say_nothing(message: str) -> None:
    pass


class Kept:
    """What stores say of how they keep objects. Each is asked once."""

    def __init__(self) -> None:
        self._told: dict[StoreConfig, StoreSettings] = {}
        self._lock = Lock()

    def by(self, config: StoreConfig) -> StoreSettings:
        with self._lock:
            if config not in self._told:
                self._told[config] = connect(config).settings()
            return self._told[config]


@dataclass(frozen=True)
class RepositoryContext:
    """One repository of one lakeFS, and where its bytes are."""

    settings: Settings
    policy: RepositoryPolicy
    client: LakeFSClient
    repository: Repository
    namespace: Namespace
    data: StoreConfig  # rooted at the namespace
    outputs: StoreConfig  # rooted where the server writes what it prepares for a collector
    workspace: StoreConfig  # rooted where marks lie
    home: str
    say: Callable[[str], None] = field(default=_say_nothing, compare=False)
    kept: Kept = field(default_factory=Kept, compare=False)  # for one command, whatever number of marks it judges

    @property
    def is_throw_away(self) -> bool:
        """True of the repository that `lakegc try` has made in this process."""
        return self.settings.throw_away == self.repository.id

    def artifacts(self, mark_id: str) -> MarkArtifacts:
        return MarkArtifacts(self.workspace, mark_id, self.home)


@dataclass(frozen=True)
class MarkContext(RepositoryContext):
    """A repository together with one mark of it."""

    header: Header = field(kw_only=True)
    level: Level = field(kw_only=True)

    @property
    def mark(self) -> MarkArtifacts:
        return self.artifacts(self.header.mark_id)

    def lease(self, verb: str) -> AbstractContextManager[Lease | None]:
        """Hold the repository's lease while a block runs; shared with whoever holds it in this process."""
        return lease.held(
            self.workspace,
            self.home,
            f"{verb} {self.header.repository} {self.header.mark_id}",
            external=self.settings.lease == "external",
            demanded=self.level is not safety.NONE,
        )

    @property
    def metadata(self) -> MetadataFiles:
        """The ranges and metaranges of the repository."""
        return MetadataFiles(self.data, self.header.block_prefix)


def open_repository(
    settings: Settings,
    name: str,
    *,
    client: LakeFSClient | None = None,
    say: Callable[[str], None] = _say_nothing,
) -> RepositoryContext:
    """Ask lakeFS for a repository and find its stores. Writes nothing."""
    client = client or LakeFSClient(settings.server)
    repository = repository_named(client, name)
    policy = settings.policy_for(name)
    namespace = Namespace(repository.storage_namespace)
    folder = local_folder(client, settings, name, namespace) if namespace.is_local else None
    data = config_for(namespace, settings, local_folder=folder)
    context = RepositoryContext(
        settings=settings,
        policy=policy,
        client=client,
        repository=repository,
        namespace=namespace,
        data=data,
        outputs=_outputs(data),
        workspace=data,
        home=MarkArtifacts(data, "x").home,
        say=say,
    )
    if policy.workspace:
        workspace = workspace_at(policy.workspace, settings)
        check_workspace(policy.workspace, workspace, name, data, other_roots(context))
        context = replace(context, workspace=workspace, home=name)
    return context


def _outputs(data: StoreConfig) -> StoreConfig:
    """The place of the files that the server prepares: it takes the slashes off both ends of the namespace's path."""
    written: str = getattr(data, "prefix", "")
    inner = written.strip("/")
    shared: Any = data
    return data if written == inner else replace(shared, prefix=inner)


def other_roots(context: RepositoryContext) -> Iterator[tuple[str, StoreConfig]]:
    """The places of all other repositories' namespaces, as far as they are in stores of a kind that lakegc knows."""
    for each in context.client.repositories():
        if each.id == context.repository.id:
            continue
        try:
            other = Namespace(each.storage_namespace)
            yield each.id, config_for(other, context.settings, local_folder=folder_beside(context, other))
        except SettingsError:
            continue  # nothing of lakegc's lies in a store that it cannot reach


def folder_beside(context: RepositoryContext, namespace: Namespace) -> str | None:
    """The folder of a `local://` namespace, by this repository's own: both lie below one folder of the server."""
    own = context.namespace
    if not (namespace.is_local and own.is_local and isinstance(context.data, LocalConfig)):
        return None
    below, folder = Path(own.path).parts, Path(context.data.path).parts
    return str(Path(*folder[: -len(below)], namespace.path)) if folder[-len(below) :] == below else None


def open_mark(
    context: RepositoryContext, mark_id: str, *, retired_too: bool = False, any_version: bool = False
) -> MarkContext:
    """An existing mark. MarkError if there is none, or if it belongs to another state of the repository.

    `retired_too`: one of which only its header is left will do, as it does to bring a backup back. `any_version`: one
    that another version of lakegc made will do, as it does to account for what its sweep deleted.
    """
    artifacts = context.artifacts(mark_id)
    header = artifacts.header(any_version=any_version)
    record = artifacts.retired() if header is None else None
    if record is not None:
        if not retired_too:
            raise MarkError(
                f"Mark {mark_id} of repository {context.repository.id} was retired: only a record of it is left. "
                f"`lakegc marks {context.repository.id} --retired` shows what it freed."
            )
        if record["header"] is None:
            raise MarkError(f"Mark {mark_id} could not be read when it was retired: nothing says what belonged to it.")
        header = artifacts.checked_header(record["header"], any_version=any_version)
    if header is None:
        raise MarkError(
            f"Repository {context.repository.id} has no mark {mark_id}. "
            f"`lakegc marks {context.repository.id}` lists those there are."
        )
    if header.repository != context.repository.id:
        raise MarkError(f"Mark {mark_id} belongs to repository {header.repository!r}, not {context.repository.id!r}.")
    if header.storage_namespace != context.repository.storage_namespace:
        raise RefusedError(
            f"Mark {mark_id} was made of {header.storage_namespace}, but {context.repository.id} now lies in "
            f"{context.repository.storage_namespace}: it was re-created. Make a new mark."
        )
    return _with_header(context, header)


def begin_mark(
    context: RepositoryContext,
    mark_id: str,
    *,
    min_age: timedelta | None = None,
    safety_level: str | None = None,
    rules: str | None = None,
    protect_tags: bool | None = None,
    mode: str = AUTO,
) -> MarkContext:
    """Begin a mark, or resume the one that stands under this id. Options left out come from the policy.

    Refuses (RefusedError, SettingsError) what must not be collected at all: read-only and bare repositories, a
    minimum age below the server's grace period, marks that were left behind when `workspace` was set.
    """
    check_new_mark_id(mark_id)
    policy = context.policy
    rules = rules or policy.rules or "required"
    _check_choices(context.repository, rules, mode)
    _check_branches(context)
    if context.workspace != context.data:
        check_moved(context.data, context.workspace, context.home, context.say)
    level = safety.level(safety_level or policy.safety or safety.FULL.name, throw_away=context.is_throw_away)
    age, grace = _ages(context, min_age, level)
    tags = next((said for said in (protect_tags, policy.protect_tags) if said is not None), True)
    header = _header(context, mark_id, age, grace=grace, safety=level.name, rules=rules, protect_tags=tags, mode=mode)
    return _with_header(context, context.artifacts(mark_id).begin(header))


def _header(context: RepositoryContext, mark_id: str, age: timedelta, grace: timedelta, **choices: Any) -> Header:
    """The header of a mark that begins. One that stands under this id keeps its start."""
    policy, repository = context.policy, context.repository
    standing = context.artifacts(mark_id).header()
    started = standing.started_at if standing else clock.now().timestamp()
    server = context.client.config()
    return Header(
        repository=repository.id,
        mark_id=mark_id,
        storage_namespace=repository.storage_namespace,
        repository_created=repository.creation_date,
        started_at=started,
        cutoff=started - age.total_seconds(),
        min_age=age.total_seconds(),
        grace_period=grace.total_seconds(),
        holds=policy.holds,
        server_version=server.version,
        blockstore_type=_blockstore_type(server, repository, context.namespace),
        block_prefix=block_prefix(context.client, repository.id),
        allow_list=ALLOW_LIST_VERSION,
        collect_unknown_names=policy.collect_unknown_names,
        ignore_commits=policy.ignore_commits,
        **choices,
    )


def _check_choices(repository: Repository, rules: str, mode: str) -> None:
    if rules not in RULES_MODES:
        raise SettingsError(f"`rules` is {rules!r}; it is one of {', '.join(RULES_MODES)}.")
    if mode not in MODES:
        raise SettingsError(f"The mode of a mark is one of {', '.join(MODES)}, not {mode!r}.")
    if repository.read_only:
        raise RefusedError(
            f"Repository {repository.id} is read-only: lakeFS prepares no garbage collection for it. "
            "Collect the repository that owns the data."
        )


def is_bare(client: LakeFSClient, repository: str, *, attempts: int = ATTEMPTS) -> bool:
    """True if a repository has no branch at all: it was created bare, for a dump to be restored into it."""
    return next(client.branches(repository, attempts=attempts), None) is None


def _check_branches(context: RepositoryContext) -> None:
    """RefusedError for a bare repository: nothing in it says what is live."""
    name = context.repository.id
    if is_bare(context.client, name):
        raise RefusedError(
            f"lakeFS lists no branch of repository {name}: it is bare, or this key may not see its branches. Nothing "
            "says what of its objects is live, so that none can be called garbage. Restore its branches, or delete it; "
            f'to leave it out of rounds, write `- {{match: "{name}", mark: false}}` below `repositories` in '
            "lakegc.yaml, before the patterns that match it."
        )


def _blockstore_type(server: ServerConfig, repository: Repository, namespace: Namespace) -> str:
    """The kind of the storage that holds a repository. ServerError where lakeFS does not say, or contradicts itself."""
    kind = server.storage_for(repository).blockstore_type
    if namespace.scheme not in _SCHEMES_OF.get(kind, {namespace.scheme}):
        raise ServerError(
            f"lakeFS says that repository {repository.id} lies in a storage of type {kind}, but its namespace is "
            f"{namespace.uri}. One of both is wrong, so that the right store is not known. Look into the storages of "
            "lakeFS's configuration."
        )
    return kind


def _ages(context: RepositoryContext, wanted: timedelta | None, level: Level) -> tuple[timedelta, timedelta]:
    """The minimum age of a mark, and the server's grace period. SettingsError for an age that is too short."""
    known = wanted if wanted is not None else context.policy.min_age
    age = safety.DEFAULT_MIN_AGE if known is None else known
    grace = timedelta(seconds=context.client.grace_period())
    safety.check_min_age(age, grace, level, throw_away=context.is_throw_away)
    return age, grace


def _with_header(context: RepositoryContext, header: Header) -> MarkContext:
    shared = {name: getattr(context, name) for name in RepositoryContext.__dataclass_fields__}
    return MarkContext(**shared, header=header, level=safety.level_to_read(header.safety))


def block_prefix(client: LakeFSClient, repository: str) -> str:
    """The folder of ranges and metaranges, relative to the namespace: `committed.block_storage_prefix`."""
    location = client.metarange_location(repository, _ANY_METARANGE)
    prefix, separator, identifier = location.rpartition("/")
    if not separator or identifier != _ANY_METARANGE or not prefix or prefix.startswith("/") or "://" in prefix:
        raise ServerError(f"lakeFS says that a metarange lies at {location!r}; expected <prefix>/<id>.")
    return prefix


def output_key(context: RepositoryContext, location: str) -> str:
    """The key, relative to `context.outputs`, of a location that the server returned for something it wrote."""
    namespace = context.namespace
    if namespace.is_local:
        marker = f"/{namespace.path}/"
        _, found, key = location.rpartition(marker + "_lakefs/") if marker + "_lakefs/" in location else ("", "", "")
        key = f"_lakefs/{key}" if found else location.rpartition(marker)[2] if marker in location else ""
    else:
        head = f"{namespace.spelled}/"
        key = location[len(head) :] if location.startswith(head) else ""
    if "retention/gc/" not in key:
        raise IncompleteError(
            f"lakeFS says it wrote to {location}, which is not below {namespace.uri}. "
            "What it wrote cannot be read, so nothing can be called garbage."
        )
    return key
