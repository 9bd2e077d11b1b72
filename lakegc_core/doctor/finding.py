"""The doctor's findings, with what, why and what to do, and a diagnosis that holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TypeVar

from lakegc_core.errors import LakegcError
from lakegc_core.names import Json
from lakegc_core.store.settings import Untold

T = TypeVar("T")
_NAMED = 5


class Level(StrEnum):
    """Levels of a finding, worst first."""

    ALARM = "alarm"  # data is in danger, or marks and sweeps cannot work
    WARNING = "warning"  # something is likely not as it was meant
    NOTE = "note"  # good to know, or not to be told


@dataclass(frozen=True)
class Finding:
    """One thing that was found. `what`, `why` it matters and what to `do` are sentences; `name` is for machines."""

    name: str
    level: Level
    what: str
    why: str
    do: str


def alarm(name: str, what: str, why: str, do: str) -> Finding:
    """A finding of level ALARM."""
    return Finding(name, Level.ALARM, what, why, do)


def warning(name: str, what: str, why: str, do: str) -> Finding:
    """A finding of level WARNING."""
    return Finding(name, Level.WARNING, what, why, do)


def note(name: str, what: str, why: str, do: str) -> Finding:
    """A finding of level NOTE."""
    return Finding(name, Level.NOTE, what, why, do)


@dataclass(frozen=True)
class Need:
    """The consequence if something cannot be done: how bad that is, why, and what to do."""

    level: Level
    why: str
    do: str


@dataclass(frozen=True)
class Diagnosis:
    """The things looked at, and the findings, worst first. `repository`: "" for the server and the settings.

    `server`: version, edition, and the known defects that lakegc works around. `parts`: of each repository, if all were
    looked at. `cost`: see `requests_and_cost`; empty if nothing is known.
    """

    repository: str
    server: Json
    looked_at: tuple[str, ...]
    findings: tuple[Finding, ...]
    parts: tuple[Diagnosis, ...] = field(default=())
    cost: Json = field(default_factory=dict)

    @property
    def every_finding(self) -> tuple[Finding, ...]:
        """The findings, those of the parts too."""
        return (*self.findings, *(finding for part in self.parts for finding in part.every_finding))

    @property
    def is_alarming(self) -> bool:
        """True if anything is an alarm."""
        return any(finding.level is Level.ALARM for finding in self.every_finding)

    def as_json(self) -> Json:
        """The contract of `lakegc doctor --json`."""
        found: Json = {
            "repository": self.repository or None,
            "server": self.server,
            "looked_at": list(self.looked_at),
            "findings": [asdict(finding) for finding in self.findings],
            "cost": self.cost or None,
            "counts": {level.value: sum(each.level is level for each in self.every_finding) for level in Level},
        }
        if not self.repository:
            keys = ("repository", "looked_at", "findings")
            found["repositories"] = [{key: part.as_json()[key] for key in keys} for part in self.parts]
        return found


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by level; those of one level stay in order."""
    order = list(Level)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.level)))


def cannot_be_told(name: str, subject: str, told: Untold) -> Finding:
    """The note that something stays unknown. `subject`: a noun, such as `Whether old versions stay`."""
    needs = f" (needs {told.right})" if told.right else ""
    look = "look into the store's own settings yourself"
    do = f"Allow the key {told.right}, or {look}." if told.right else f"{look.capitalize()}."
    return note(
        name,
        f"{subject} cannot be told: {told.why.rstrip('.')}{needs}.",
        "What cannot be told may be fine or not.",
        do,
    )


class Trials:
    """Tries one thing after another, and keeps a finding for each that fails."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def attempt(self, name: str, what: str, ask: Callable[[], T], need: Need) -> T | None:
        """The result of `ask`; None, and a finding, if it raises an error of lakegc's. `what`: a noun."""
        try:
            return ask()
        except LakegcError as error:
            self.failed(name, f"{what} fails: {error}", need)
            return None

    def failed(self, name: str, what: str, need: Need) -> None:
        """Keep a finding."""
        self.findings.append(Finding(name, need.level, sentence(what), need.why, need.do))


def some(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def sentence(text: str) -> str:
    """A text with a full stop at its end."""
    return text if text.endswith((".", "!", "?", '."')) else f"{text}."
