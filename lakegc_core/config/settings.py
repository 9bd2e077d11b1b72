"""Everything a user can set, as frozen values: lakectl's file and environment, then lakegc.yaml; later wins.

Reading and checking the form belongs here. What a safety level means is in `safety`, what a hold keeps is in
`retention`. Secrets come from lakectl's file or the environment only, and are in no repr and no message.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from lakegc_core.config.lakectl import ACCESS_KEY, ENDPOINT, FILE, SECRET_KEY, load_lakectl
from lakegc_core.config.reach import unreachable
from lakegc_core.config.strict_yaml import Section, read
from lakegc_core.errors import SettingsError
from lakegc_core.policy.holds import problem_of
from lakegc_core.policy.safety import CLEAN_EVERY, KEEP_MARKS, LEAST_MARKS, NEIGHBOURS
from lakegc_core.store.credentials import AzureAccess, S3Access

CONFIG = "LAKEGC_CONFIG"
CONFIG_FILE = "lakegc.yaml"
SAFETY_LEVELS = ("full", "standard", "none")
API = "/api/v1"

Rules = Literal["required", "keep-all-commits"]
RULES_MODES: tuple[Rules, ...] = ("required", "keep-all-commits")
Lease = Literal["internal", "external"]


@dataclass(frozen=True)
class ServerSettings:
    """Where lakeFS is and who asks. `endpoint_url` is kept without `/api/v1` and without a slash at its end.

    Both timeouts in seconds: to connect, and between two bytes of an answer.
    """

    endpoint_url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    connection_timeout: float = 10.0
    read_timeout: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint_url", normalise_endpoint(self.endpoint_url))

    def require(self) -> ServerSettings:
        """Return itself; SettingsError that says where to put what is missing."""
        missing = [
            f"{what} (`{section}: {{{key}: …}}` in ~/{FILE}, or {variable})"
            for value, what, section, key, variable in (
                (self.endpoint_url, "the endpoint of lakeFS", "server", "endpoint_url", ENDPOINT),
                (self.access_key_id, "an access key id", "credentials", "access_key_id", ACCESS_KEY),
                (
                    self.secret_access_key,
                    "a secret access key",
                    "credentials",
                    "secret_access_key",
                    SECRET_KEY,
                ),
            )
            if not value
        ]
        if missing:
            raise SettingsError("lakeFS cannot be asked without " + "; and ".join(missing))
        return self


@dataclass(frozen=True)
class StoreMapping:
    """How addresses that start with `match` are reached, where not as lakeFS names them, and how they are deleted.

    `delete_versions`: what is deleted leaves no old version in a bucket that keeps them; nothing brings it back then.
    """

    match: str
    endpoint: str | None = None
    root: str | None = None
    delete_versions: bool = False


@dataclass(frozen=True)
class SparkSettings:
    """The Spark session to build; `conf` goes to it as it is."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)  # may hold a store's keys


@dataclass(frozen=True)
class Price:
    """What the store costs: `per_gb_month` of `currency` for 10^9 bytes kept for a month. Only ever shown."""

    per_gb_month: float
    currency: str = "USD"


@dataclass(frozen=True)
class ScaleSettings:
    """How wide the work is spread; 0 leaves it to lakegc, which goes by the session's width and the work there is.

    The first two are named as in lakeFS's own collector: tasks that read ranges, and partitions of the joins over
    addresses. Then tasks that list side by side, tasks that delete side by side, and the most objects a second that one
    sweep deletes. The next two bound what lakeFS is asked about branches: requests of one mark or look, and how many of
    them side by side. The last one is how many HEADs of objects one mark makes to ask lakeFS less.
    """

    range_num_partitions: int = 0
    address_num_partitions: int = 0
    listing_parallelism: int = 0
    delete_parallelism: int = 0
    delete_rate: int = 0
    lakefs_requests: int = 0
    lakefs_parallelism: int = 0
    store_heads: int = 0


@dataclass(frozen=True)
class NeighbourSettings:
    """What has to be known of the other repositories of the same lakeFS before one is swept.

    `within`: how old the newest mark of each may be. `strict`: nothing is swept while one is older, or there is none.
    `ignore`: patterns of names (as `match`) of repositories that are known to refer to no other's objects.
    """

    within: timedelta = NEIGHBOURS
    strict: bool = False
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class RepositoryPolicy:
    """How the repositories whose name matches `match` (shell pattern, case counts) are collected.

    `safety`, `min_age`, `protect_tags` (default: true) and `rules` (default: required) are None where nothing is said
    here: the mark's own option or the default counts then. `mark`: takes part in rounds at all. `sweep`: may be swept
    without anyone asking. `backup_to`: where backups go that nobody asks for by hand. `keep_marks`: how many of the
    newest complete marks are never retired.
    `clean_every`: at most so many marks, the clean one among them, rest on one another; 1: every mark is a clean one.
    `collect_unknown_names`: what lies below data/ under a name that lakeFS never gives is collected like its own data.
    """

    match: str
    safety: str | None = None
    min_age: timedelta | None = None
    protect_tags: bool | None = None
    holds: tuple[str, ...] = ()  # KIND:PATTERN, see policy.holds
    rules: Rules | None = None
    mark: bool = True
    sweep: bool = False
    backup: bool = False  # a whole backup is a condition of the sweep
    backup_to: str | None = None
    keep_marks: int = KEEP_MARKS
    workspace: str | None = None
    clean_every: int = CLEAN_EVERY
    collect_unknown_names: bool = False


@dataclass(frozen=True)
class Settings:
    """All settings of one process.

    `s3` and `azure` are what a host program has been given to reach its stores by; lakegc.yaml never holds them.
    """

    server: ServerSettings
    stores: tuple[StoreMapping, ...] = ()
    spark: SparkSettings = field(default_factory=SparkSettings)
    scale: ScaleSettings = field(default_factory=ScaleSettings)
    lease: Lease = "internal"
    price: Price | None = None
    neighbours: NeighbourSettings = field(default_factory=NeighbourSettings)
    repositories: tuple[RepositoryPolicy, ...] = ()
    s3: S3Access | None = None
    azure: AzureAccess | None = None

    @classmethod
    def load(cls, path: str | None, env: Mapping[str, str]) -> Settings:
        """Read lakectl's file (home folder by `env`'s HOME), its variables, then lakegc.yaml; later wins.

        lakegc.yaml is `path`, else LAKEGC_CONFIG, else ./lakegc.yaml if there. SettingsError on anything odd.
        """
        lakectl = load_lakectl(env)
        named = path or env.get(CONFIG)
        file = Path(named or CONFIG_FILE)
        top = Section(str(file), "", read(file) if named or file.is_file() else {})
        server = top.section("server")
        spark, scale = top.section("spark"), top.section("scale")
        settings = cls(
            server=ServerSettings(
                endpoint_url=server.text("endpoint_url", lakectl.endpoint_url),
                access_key_id=lakectl.access_key_id,
                secret_access_key=lakectl.secret_access_key,
                connection_timeout=server.seconds("connection_timeout", 10.0),
                read_timeout=server.seconds("read_timeout", 60.0),
            ),
            stores=tuple(_store(section) for section in top.sections("stores")),
            spark=SparkSettings(master=spark.text("master", "local[*]"), conf=spark.texts("conf")),
            scale=ScaleSettings(**{each.name: scale.count(each.name, 0, least=1) for each in fields(ScaleSettings)}),
            lease="external" if top.choice("lease", ("internal", "external")) == "external" else "internal",
            price=_price(top.section("price")),
            neighbours=_neighbours(top.section("neighbours")),
            repositories=_policies(top.sections("repositories")),
        )
        server.finish("credentials belong in ~/.lakectl.yaml or LAKECTL_CREDENTIALS_… variables, never here")
        spark.finish()
        scale.finish()
        top.finish()
        return settings

    def policy_for(self, repository: str) -> RepositoryPolicy:
        """The first policy whose pattern matches the repository's name, else the default policy."""
        for policy in self.repositories:
            if fnmatch.fnmatchcase(repository, policy.match):
                return policy
        return RepositoryPolicy(match="*")

    def store_for(self, location: str) -> StoreMapping | None:
        """The first mapping whose `match` is this address or one above it, segment by segment; None: use the name
        lakeFS uses."""
        below = f"{location.rstrip('/')}/"
        return next((store for store in self.stores if below.startswith(f"{store.match.rstrip('/')}/")), None)


def normalise_endpoint(url: str) -> str:
    """`http(s)://host[:port][/path]`, without `/api/v1` and slashes at its end. Empty stays empty.

    SettingsError for another scheme, for credentials inside the URL, and for a query or fragment.
    """
    text = url.strip()
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port  # raises on a port that is none
    except ValueError:
        parts, host = urlsplit(""), None
    if "@" in parts.netloc:
        raise SettingsError(
            f"the endpoint of lakeFS must not hold credentials; they belong in ~/{FILE} or {SECRET_KEY}"
        )
    if parts.scheme.lower() not in ("http", "https") or not host or parts.query or parts.fragment:
        shown = text.split("@")[-1].split("?")[0]
        raise SettingsError(f"the endpoint of lakeFS must read like https://lakefs.example.com, not {shown!r}")
    return text.rstrip("/").removesuffix(API).rstrip("/")


def _store(section: Section) -> StoreMapping:
    store = StoreMapping(
        match=section.text("match"),
        endpoint=section.maybe("endpoint"),
        root=section.maybe("root"),
        delete_versions=section.choice("versions", ("keep", "delete")) == "delete",
    )
    section.finish()
    if not store.match:
        raise section.error("`match` is missing: the beginning of the addresses it is for, such as local://")
    if store == StoreMapping(store.match):
        raise section.error("neither `endpoint` nor `root` nor `versions: delete` is given, so it would change nothing")
    if store.root and not store.match.startswith("local://"):
        raise section.error("`root` is for addresses of blockstore local: `match` must begin with local://")
    if store.delete_versions and not store.match.startswith("s3://"):
        raise section.error("`versions: delete` is for addresses on S3: `match` must begin with s3://")
    return store


def _price(section: Section) -> Price | None:
    price = None
    if section.has("per_gb_month"):
        price = Price(section.amount("per_gb_month"), section.text("currency", Price.currency))
    section.finish()
    return price


def _neighbours(section: Section) -> NeighbourSettings:
    ignore = section.items("ignore")
    if not all(isinstance(each, str) and each for each in ignore):
        raise section.error("`ignore` must be a list of patterns of repository names")
    within = section.seconds("within", NEIGHBOURS.total_seconds())
    found = NeighbourSettings(timedelta(seconds=within), section.flag("strict", False), tuple(map(str, ignore)))
    section.finish()
    return found


def _policies(sections: Sequence[Section]) -> tuple[RepositoryPolicy, ...]:
    policies = tuple(map(_policy, sections))
    for number, section in enumerate(sections):
        if problem := unreachable([policy.match for policy in policies[: number + 1]]):
            raise section.error(problem)
    return policies


def _policy(section: Section) -> RepositoryPolicy:
    rules = section.choice("rules", RULES_MODES) if section.has("rules") else None
    policy = RepositoryPolicy(
        match=section.text("match"),
        safety=section.choice("safety", SAFETY_LEVELS) if section.has("safety") else None,
        min_age=section.duration("min_age"),
        protect_tags=section.flag("protect_tags", True) if section.has("protect_tags") else None,
        holds=_holds(section, "holds"),
        rules=next((mode for mode in RULES_MODES if mode == rules), None),
        mark=section.flag("mark", True),
        sweep=section.flag("sweep", False),
        backup=section.choice("backup", ("optional", "required")) == "required",
        backup_to=section.maybe("backup_to"),
        keep_marks=section.count("keep_marks", KEEP_MARKS, least=LEAST_MARKS),
        workspace=section.maybe("workspace"),
        clean_every=section.count("clean_every", CLEAN_EVERY, least=1),
        collect_unknown_names=section.flag("collect_unknown_names", False),
    )
    section.finish()
    if not policy.match:
        raise section.error('`match` is missing: a pattern of repository names; write match: "*" for all')
    return policy


def _holds(section: Section, key: str) -> tuple[str, ...]:
    holds: list[str] = []
    for value in section.items(key):
        if problem := problem_of(value):
            raise section.error(f"`{key}`: {problem}")
        holds.append(str(value))
    return tuple(holds)
