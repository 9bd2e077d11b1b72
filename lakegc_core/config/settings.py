"""Everything a user can set, as frozen values: lakectl's file and environment, then lakegc.yaml; later wins.

The form of lakegc.yaml stands here, once: pydantic reads the file into these values, and its JSON Schema is
`LakegcYaml.model_json_schema()`, described by the texts below the fields. A value that code makes is not checked again.
What a safety level means is in `policy.safety`, what a hold keeps in `policy.retention`. Secrets come from lakectl's
file, the environment or a host program only, and are in no repr and no message.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from lakegc_core.config import strict_yaml
from lakegc_core.config.budget import BudgetSettings
from lakegc_core.config.credentials import AzureAccess, S3Access
from lakegc_core.config.fields import (
    Duration,
    Flag,
    Items,
    Percentage,
    Seconds,
    SparkConf,
    Text,
    WaitingTime,
    flag_by,
    place_of_backups,
    told,
)
from lakegc_core.config.lakectl import ACCESS_KEY, ENDPOINT, FILE, SECRET_KEY, load_lakectl
from lakegc_core.config.reach import is_below, unreachable, unreachable_store
from lakegc_core.config.rings import RingSettings
from lakegc_core.config.stores import StoreMapping, useful
from lakegc_core.config.urls import normalise_endpoint, pushgateway_url
from lakegc_core.config.which_file import CONFIG, file_of
from lakegc_core.errors import SettingsError
from lakegc_core.names import Rules
from lakegc_core.policy.holds import HOLD, problem_of
from lakegc_core.policy.safety import CLEAN_EVERY, KEEP_MARKS, LEAST_MARKS, NEIGHBOURS

Lease = Literal["internal", "external"]
Compaction = Literal["assume", "never"]
SafetyLevel = Literal["full", "standard", "none"]

_Count = Annotated[int, Strict(), Field(ge=1, json_schema_extra=lambda schema: schema.pop("default"))]


def _hold(value: object) -> object:
    if problem := problem_of(value):
        raise ValueError(problem)
    return value


_Hold = Annotated[str, BeforeValidator(_hold), WithJsonSchema({"type": "string", "pattern": HOLD})]


Entry = TypeVar("Entry", StoreMapping, "RepositoryPolicy")


def _all_reached(problem_of: Callable[[Sequence[str]], str | None]) -> AfterValidator:
    """Refuses a list with an entry that nothing reaches; `problem_of`: says why, of the last of some patterns."""

    def check(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        for number in range(len(entries)):
            if problem := problem_of([entry.match for entry in entries[: number + 1]]):
                raise PydanticCustomError("unreachable", "{error}", {"error": problem, "below": (number,)})
        return entries

    return AfterValidator(check)


@dataclass(frozen=True)
class ServerSettings:
    """The place of lakeFS and who asks. `endpoint_url` is kept without `/api/v1` and without a slash at its end.

    Timeouts in seconds: to connect, between two bytes of an answer, of a task. `compaction`: see `ServerSection`.
    """

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    connection_timeout: float = 10.0
    read_timeout: float = 60.0
    task_timeout: float = 1200.0
    compaction: Compaction = "assume"

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_url", normalise_endpoint(self.endpoint_url))

    def require(self) -> ServerSettings:
        """Return itself; SettingsError that says where to put what is missing."""
        wanted = {
            f"the endpoint of lakeFS (`server: {{endpoint_url: …}}` in ~/{FILE}, or {ENDPOINT})": self.endpoint_url,
            f"an access key id (`credentials: {{access_key_id: …}}` in ~/{FILE}, or {ACCESS_KEY})": self.access_key_id,
            f"a secret access key (`credentials: {{secret_access_key: …}}` in ~/{FILE}, or {SECRET_KEY})": (
                self.secret_access_key
            ),
        }
        missing = [what for what, value in wanted.items() if not value]
        if missing:
            raise SettingsError("lakeFS cannot be asked without " + "; and ".join(missing))
        return self


@dataclass(frozen=True)
class SparkSettings:
    """The Spark session to build."""

    master: Text = "local[*]"
    """Spark master, such as local[*] or spark://HOST:7077."""
    conf: SparkConf = field(default_factory=dict, hash=False, repr=False)
    """Spark properties, which go to the session as they are. They may hold a store's keys."""


@dataclass(frozen=True)
class Price:
    """What the store costs. Only ever shown."""

    per_gb_month: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
    """Price of 10^9 bytes kept for a month."""
    currency: Text = "USD"
    """Currency of the prices."""
    per_1000_writes: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    """Price of 1,000 requests that write or list: PUT, LIST."""
    per_1000_reads: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    """Price of 1,000 requests that read: GET, HEAD."""


@dataclass(frozen=True)
class MetricsSettings:
    """Where metrics go besides the files of `--metrics`."""

    pushgateway: Annotated[Text, AfterValidator(told(pushgateway_url))] | None = None
    """URL of a Prometheus Pushgateway, which is sent the metrics of a repository after each mark and sweep."""


@dataclass(frozen=True)
class ScaleSettings:
    """How wide the work is spread. What is left out (0) follows the session's width and the work there is."""

    range_num_partitions: _Count = 0
    """Tasks that read ranges and metaranges. Named as in lakeFS's own collector, like the next one."""
    address_num_partitions: _Count = 0
    """Partitions of the joins over addresses."""
    listing_parallelism: _Count = 0
    """Tasks that list side by side."""
    delete_parallelism: _Count = 0
    """Tasks that delete side by side."""
    delete_rate: _Count = 0
    """Objects a second that one sweep deletes, at most."""
    lakefs_requests: _Count = 0
    """Requests by which one mark, or one look of a sweep, asks lakeFS what branches show, at most."""
    lakefs_parallelism: _Count = 0
    """How many of these requests run side by side."""
    store_heads: _Count = 0
    """HEADs of objects that one mark, or one look of a sweep, makes to ask lakeFS less, at most."""
    asking_share: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] = 1.0
    """For how long a mark makes such HEADs, as a share of the time that the rest of it took; a minute at least. The
    first mark that needs any makes all."""
    origin_entries: _Count = 0
    """Entries of old commits that one mark reads to find the paths of garbage, at most."""


@dataclass(frozen=True)
class NeighbourSettings:
    """What has to be known of the other repositories of the same lakeFS before one is swept."""

    within: Annotated[WaitingTime, Field(json_schema_extra={"default": f"{NEIGHBOURS.days}d"})] = NEIGHBOURS
    """How old the newest mark of each may be: a duration."""
    strict: Flag = False
    """Whether nothing is swept while one is older, or there is none."""
    ignore: Items[Text] = ()
    """Shell patterns of names of repositories that are known to refer to no other's objects."""


@dataclass(frozen=True)
class RepositoryPolicy:
    """How the repositories whose name matches are collected. What is left out follows the mark's option, if any."""

    match: Text
    """A pattern of repository names, as in a shell, case counts; write match: "*" for all."""
    safety: SafetyLevel | None = None
    """Safety level, full by default."""
    min_age: Duration | None = None
    """How old an object must be to be garbage: a duration, 25h by default."""
    protect_tags: Flag | None = None
    """Whether the commits of tags are retained, true by default."""
    holds: Items[_Hold] = ()
    """What is kept whatever the rules say: tag:PATTERN, branch:PATTERN, commit:ID or path:GLOB."""
    rules: Rules | None = None
    """Whether a repository without retention rules is refused (required, the default) or keeps all commits."""
    mark: Flag = True
    """Whether it takes part in rounds at all."""
    sweep: Flag = False
    """Whether rounds sweep it without anyone asking."""
    backup: Annotated[
        bool, flag_by(Literal["optional", "required"]), Field(json_schema_extra={"default": "optional"})
    ] = False
    """required: a whole backup is a condition of the sweep."""
    drill_within: WaitingTime | None = None
    """How long ago the last drill may be, which must have passed, for a sweep: a duration. Left out: none is needed."""
    backup_to: Annotated[Text, AfterValidator(told(place_of_backups))] | None = None
    """Where backups go that nobody asks for by hand: a URI or an absolute folder."""
    quarantine: WaitingTime | None = None
    """For how long a copy of each object that a sweep deletes is kept: a duration. Left out: no copies."""
    keep_marks: Annotated[int, Strict(), Field(ge=LEAST_MARKS)] = KEEP_MARKS
    """How many of the newest complete marks are never retired."""
    workspace: Text | None = None
    """URI below which marks lie, in a folder a repository, instead of below the storage namespace."""
    clean_every: Annotated[int, Strict(), Field(ge=1)] = CLEAN_EVERY
    """How many marks, the clean one among them, rest on one another at most; 1: every mark is a clean one."""
    origins: Flag = True
    """Whether marks find out under which paths garbage was last shown. false: no logical path is stored."""
    collect_unknown_names: Flag = False
    """Whether what lies below data/ under a name that lakeFS never gives is collected like its own data."""
    ignore_commits: Items[Text] = ()
    """Ids of commits that are passed over while their metarange cannot be read."""
    blast_radius: Percentage | None = None
    """How much of lakeFS's objects, and of their bytes, one sweep may take: a percentage; by the level if left out."""
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    """The most that one sweep does."""
    rings: RingSettings = field(default_factory=RingSettings)
    """The rings in which a sweep carries out its plan."""

    def backups_of(self, repository: str) -> str | None:
        """The place of the backups of a repository: `{repository}` in `backup_to` stands for its name. None if nobody
        said."""
        return None if self.backup_to is None else self.backup_to.replace("{repository}", repository)


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, defer_build=True, hide_input_in_errors=True
    )


class ServerSection(_Section):
    """Where lakeFS is, and how long it is waited for."""

    model_config = ConfigDict(
        json_schema_extra={"$comment": f"credentials belong in ~/{FILE} or LAKECTL_CREDENTIALS_… variables, never here"}
    )
    endpoint_url: Annotated[Text, AfterValidator(told(normalise_endpoint))] | None = None
    """URL of lakeFS, such as https://lakefs.example.com; lakectl's by default."""
    connection_timeout: Seconds = 10.0
    """How long a connection to lakeFS may take: a duration."""
    read_timeout: Seconds = 60.0
    """How long lakeFS may be silent within an answer: a duration."""
    task_timeout: Seconds = 1200.0
    """How long lakeFS may take for a step of prepare_commits or of a dump: a duration."""
    compaction: Compaction = "assume"
    """Whether lakeFS compacts what is staged: `assume` that it does where it may, or `never`, as you state."""


class LakegcYaml(_Section):
    """lakegc.yaml. Every key is optional."""

    server: ServerSection = Field(default_factory=ServerSection)
    spark: SparkSettings = Field(default_factory=SparkSettings)
    scale: ScaleSettings = Field(default_factory=ScaleSettings)
    stores: Annotated[Items[Annotated[StoreMapping, AfterValidator(useful)]], _all_reached(unreachable_store)] = ()
    """Stores that lakeFS and the collector see under different names. The first match wins."""
    lease: Lease = "internal"
    """external: something else makes sure that there is one collector; for stores without conditional writes."""
    price: Annotated[Price | None, BeforeValidator(lambda value: None if value == {} else value)] = None
    """What the store costs."""
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    neighbours: NeighbourSettings = Field(default_factory=NeighbourSettings)
    repositories: Annotated[Items[RepositoryPolicy], _all_reached(unreachable)] = ()
    """How repositories are collected. The first match wins."""


@dataclass(frozen=True)
class Settings:
    """All settings of one process.

    `s3` and `azure` are what a host program has been given to reach its stores by; lakegc.yaml never holds them.
    `throw_away`: the repository that `lakegc try` has made in this process, on which alone it may do without waiting;
    no file and no variable can name one. `file`: the lakegc.yaml that was read; None if none was.
    """

    server: ServerSettings
    stores: tuple[StoreMapping, ...] = ()
    spark: SparkSettings = field(default_factory=SparkSettings)
    scale: ScaleSettings = field(default_factory=ScaleSettings)
    lease: Lease = "internal"
    price: Price | None = None
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    neighbours: NeighbourSettings = field(default_factory=NeighbourSettings)
    repositories: tuple[RepositoryPolicy, ...] = ()
    s3: S3Access | None = None
    azure: AzureAccess | None = None
    throw_away: str | None = None
    file: Path | None = field(default=None, compare=False)

    @classmethod
    def load(cls, path: str | None, env: Mapping[str, str]) -> Settings:
        """Read lakectl's file (home folder by `env`'s HOME), its variables, then lakegc.yaml (`file_of`); later wins.
        SettingsError on anything odd."""
        lakectl = load_lakectl(env)
        file, found = file_of(path, env), LakegcYaml()
        if file is not None:
            try:
                found = strict_yaml.load(file, LakegcYaml)
            except FileNotFoundError:
                named = "it was named by --config or LAKEGC_CONFIG" if path or env.get(CONFIG) else "a link leads to it"
                raise SettingsError(f"{file} does not exist; {named}") from None
        own = dict(found.server)
        server = ServerSettings(
            endpoint_url=own.pop("endpoint_url") or lakectl.server.endpoint_url,
            access_key_id=lakectl.credentials.access_key_id,
            secret_access_key=lakectl.credentials.secret_access_key,
            **own,
        )
        return cls(**(dict(found) | {"server": server, "file": file}))

    def policy_for(self, repository: str) -> RepositoryPolicy:
        """The first policy whose pattern matches the repository's name, else the default policy."""
        matching = (policy for policy in self.repositories if fnmatch.fnmatchcase(repository, policy.match))
        return next(matching, RepositoryPolicy(match="*"))

    def store_for(self, location: str) -> StoreMapping | None:
        """The first mapping whose `match` is this address or one above it, segment by segment; None: as lakeFS says."""
        return next((store for store in self.stores if is_below(location, store.match)), None)
