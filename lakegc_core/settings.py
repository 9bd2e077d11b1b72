"""Everything a user can set, as frozen values: lakectl's file and environment, then lakegc.yaml; later wins.

Reading and checking the form belongs here. What a safety level means is in `safety`, what a hold keeps is in
`retention`. Secrets come from lakectl's file or the environment only, and are in no repr and no message.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import yaml

from lakegc_core.durations import parse_duration
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.settings import ACCESS_KEY, ENDPOINT, FILE, SECRET_KEY, load_lakectl, yaml_line

CONFIG = "LAKEGC_CONFIG"
CONFIG_FILE = "lakegc.yaml"
SAFETY_LEVELS = ("full", "standard", "none")
HOLD_KINDS = ("tag", "commit", "branch", "path")
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
    """A store that lakeFS and the collector see under different names: addresses that start with `match`."""

    match: str
    endpoint: str | None = None
    root: str | None = None


@dataclass(frozen=True)
class SparkSettings:
    """The Spark session to build; `conf` goes to it as it is."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)  # may hold a store's keys


@dataclass(frozen=True)
class ScaleSettings:
    """How wide the work is spread; 0 leaves it to lakegc, which goes by the session's width and the work there is.

    The first two are named as in lakeFS's own collector: tasks that read ranges, and partitions of the joins over
    addresses. Then tasks that list side by side, tasks that delete side by side, and the most objects a second that one
    sweep deletes.
    """

    range_num_partitions: int = 0
    address_num_partitions: int = 0
    listing_parallelism: int = 0
    delete_parallelism: int = 0
    delete_rate: int = 0


@dataclass(frozen=True)
class RepositoryPolicy:
    """How the repositories whose name matches `match` (shell pattern, case counts) are collected.

    `safety` None: not said here, so the mark's own level or the default counts. `min_age` None: the default
    applies. `sweep`: may be swept without anyone asking.
    """

    match: str
    safety: str | None = None
    min_age: timedelta | None = None
    protect_tags: bool = True
    holds: tuple[str, ...] = ()  # KIND:PATTERN, kinds in HOLD_KINDS
    rules: Rules = "required"
    sweep: bool = False
    backup: bool = False  # a whole backup is a condition of the sweep
    workspace: str | None = None


@dataclass(frozen=True)
class Settings:
    """All settings of one process."""

    server: ServerSettings
    stores: tuple[StoreMapping, ...] = ()
    spark: SparkSettings = field(default_factory=SparkSettings)
    scale: ScaleSettings = field(default_factory=ScaleSettings)
    lease: Lease = "internal"
    repositories: tuple[RepositoryPolicy, ...] = ()

    @classmethod
    def load(cls, path: str | None, env: Mapping[str, str]) -> Settings:
        """Read lakectl's file (home folder by `env`'s HOME), its variables, then lakegc.yaml; later wins.

        lakegc.yaml is `path`, else LAKEGC_CONFIG, else ./lakegc.yaml if there. SettingsError on anything odd.
        """
        lakectl = load_lakectl(env)
        named = path or env.get(CONFIG)
        file = Path(named or CONFIG_FILE)
        top = _Section(str(file), "", _read(file) if named or file.is_file() else {})
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
            scale=ScaleSettings(**{each.name: scale.count(each.name) for each in fields(ScaleSettings)}),
            lease="external" if top.choice("lease", ("internal", "external")) == "external" else "internal",
            repositories=tuple(_policy(section) for section in top.sections("repositories")),
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
        """The first mapping whose `match` this address starts with; None: use the name lakeFS uses."""
        return next((store for store in self.stores if location.startswith(store.match)), None)


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


def _store(section: _Section) -> StoreMapping:
    store = StoreMapping(match=section.text("match"), endpoint=section.maybe("endpoint"), root=section.maybe("root"))
    section.finish()
    if not store.match:
        raise section.error("`match` is missing: the beginning of the addresses it is for, such as local://")
    if store.endpoint is None and store.root is None:
        raise section.error("neither `endpoint` nor `root` is given, so it would change nothing")
    return store


def _policy(section: _Section) -> RepositoryPolicy:
    rules = section.choice("rules", RULES_MODES)
    policy = RepositoryPolicy(
        match=section.text("match"),
        safety=section.choice("safety", SAFETY_LEVELS) if section.has("safety") else None,
        min_age=section.duration("min_age"),
        protect_tags=section.flag("protect_tags", True),
        holds=section.holds("holds"),
        rules="keep-all-commits" if rules == "keep-all-commits" else "required",
        sweep=section.flag("sweep", False),
        backup=section.choice("backup", ("optional", "required")) == "required",
        workspace=section.maybe("workspace"),
    )
    section.finish()
    if not policy.match:
        raise section.error('`match` is missing: a pattern of repository names; write match: "*" for all')
    return policy


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: one of two policies would be dropped without a word."""


def _mapping_once(loader: _StrictLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[str] = set()
    for key, _ in node.value:
        name = str(key.value)
        if name in seen and key.tag != "tag:yaml.org,2002:merge":
            raise yaml.constructor.ConstructorError(None, None, f"key {name!r} twice", key.start_mark)
        seen.add(name)
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping_once)


def _read(file: Path) -> object:
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except FileNotFoundError:
        raise SettingsError(f"{file} does not exist; it was named by --config or {CONFIG}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        twice = str(getattr(error, "problem", ""))
        problem = f": {twice}" if twice.endswith(" twice") else ""
        # The text of the line stays out: somebody may have put a secret where none belongs.
        raise SettingsError(f"{file} is not valid YAML{yaml_line(error)}{problem}") from None


class _Section:
    """One mapping of lakegc.yaml: gives out typed values, and knows which keys nobody asked for."""

    def __init__(self, file: str, where: str, value: object) -> None:
        self._file = file
        self._where = where
        self._asked: list[str] = []
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.error("keys and values are expected here")
        self._values: dict[object, object] = value

    def error(self, sentence: str) -> SettingsError:
        return SettingsError(f"{self._file}: {self._where + ': ' if self._where else ''}{sentence}")

    def finish(self, hint: str = "") -> None:
        """SettingsError that names the first key nobody asked for, and the allowed ones."""
        for key in self._values:
            if key not in self._asked:
                allowed = ", ".join(self._asked)
                raise self.error(f"unknown key `{key}`; allowed are {allowed}" + (f" ({hint})" if hint else ""))

    def _get(self, key: str) -> object:
        if key not in self._asked:
            self._asked.append(key)
        return self._values.get(key)

    def _below(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def section(self, key: str) -> _Section:
        return _Section(self._file, self._below(key), self._get(key))

    def _list(self, key: str) -> list[object]:
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(f"`{key}` must be a list")
        return value

    def sections(self, key: str) -> list[_Section]:
        items = self._list(key)
        return [_Section(self._file, f"{self._below(key)}[{n}]", item) for n, item in enumerate(items)]

    def maybe(self, key: str) -> str | None:
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self.error(f"`{key}` must be a text")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self.maybe(key)
        return default if value is None else value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`; the first one is the default."""
        value = self._get(key)
        if value is None:
            return allowed[0]
        if not isinstance(value, str) or value not in allowed:
            raise self.error(f"`{key}` must be one of {', '.join(allowed)}, not {value!r}")
        return value

    def has(self, key: str) -> bool:
        """True where the key stands with a value."""
        return self._get(key) is not None

    def flag(self, key: str, default: bool) -> bool:
        value = self._get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"`{key}` must be true or false, not {value!r}")
        return value

    def count(self, key: str) -> int:
        """A whole number of at least 1; 0 where the key is left out."""
        value = self._get(key)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.error(
                f"`{key}` must be a whole number of at least 1, not {value!r}; leave it out for the default"
            )
        return value

    def duration(self, key: str) -> timedelta | None:
        value = self._get(key)
        return None if value is None else self._explained(key, lambda: parse_duration(value))

    def seconds(self, key: str, default: float) -> float:
        value = self.duration(key)
        if value is None:
            return default
        if value <= timedelta(0):
            raise self.error(f"`{key}` must be more than 0")
        return value.total_seconds()

    def _explained(self, key: str, parse: Callable[[], timedelta]) -> timedelta:
        try:
            return parse()
        except SettingsError as error:
            raise self.error(f"`{key}`: {error}") from None

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of texts; numbers and truth values are written as Spark writes them."""
        values = self.section(key)._values
        found: dict[str, str] = {}
        for name, value in values.items():
            if not isinstance(name, str) or not isinstance(value, str | int | float):
                raise self.error(f"`{key}`: `{name}` must be a text, a number, or true or false")
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def holds(self, key: str) -> tuple[str, ...]:
        holds: list[str] = []
        for value in self._list(key):
            kind, _, pattern = value.partition(":") if isinstance(value, str) else ("", "", "")
            if kind not in HOLD_KINDS or not pattern:
                # A hold nobody understands would hold nothing.
                forms = " or ".join(f"{allowed}:PATTERN" for allowed in HOLD_KINDS)
                raise self.error(f"`{key}`: {value!r} is no hold; write {forms}")
            holds.append(f"{kind}:{pattern}")
        return tuple(holds)
