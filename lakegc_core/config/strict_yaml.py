"""Reads lakegc.yaml strictly: typed values by key, and an error that names whatever is not understood.

Which keys there are, and what they mean, is said in `settings`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import yaml

from lakegc_core.config.durations import parse_duration
from lakegc_core.config.lakectl import yaml_line
from lakegc_core.errors import SettingsError


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


def read(file: Path) -> object:
    """What a file holds. SettingsError, without any of its text, if it cannot be read or is not valid."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except FileNotFoundError:
        raise SettingsError(f"{file} does not exist; it was named by --config or LAKEGC_CONFIG") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        twice = str(getattr(error, "problem", ""))
        problem = f": {twice}" if twice.endswith(" twice") else ""
        # The text of the line stays out: somebody may have put a secret where none belongs.
        raise SettingsError(f"{file} is not valid YAML{yaml_line(error)}{problem}") from None


class Section:
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
        """An error that says where it stands."""
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

    def section(self, key: str) -> Section:
        """The mapping below a key; empty where it is left out."""
        return Section(self._file, self._below(key), self._get(key))

    def items(self, key: str) -> list[object]:
        value = self._get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(f"`{key}` must be a list")
        return value

    def sections(self, key: str) -> list[Section]:
        items = self.items(key)
        return [Section(self._file, f"{self._below(key)}[{n}]", item) for n, item in enumerate(items)]

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

    def amount(self, key: str) -> float:
        value = self._get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise self.error(f"`{key}` must be a number above 0, not {value!r}")
        return float(value)

    def count(self, key: str, default: int, *, least: int) -> int:
        value = self._get(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(
                f"`{key}` must be a whole number of at least {least}, not {value!r}; leave it out for the default"
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
