"""lakegc.yaml against the repositories that there are: patterns that fit none, and repositories that share a place."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence

from lakegc_core.config.settings import Settings
from lakegc_core.doctor.finding import Finding, note, warning
from lakegc_core.doctor.namespaces import shared
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.models import Repository
from lakegc_core.policy.namespace import Namespace

MOST = 500
"""Repositories that are compared with one another."""


def examine_patterns(settings: Settings, names: Sequence[str]) -> Iterator[Finding]:
    """Patterns of lakegc.yaml that fit no repository. One for all (`*`) always fits."""
    if idle := _idle((policy.match for policy in settings.repositories), names):
        yield warning(
            "policy-without-repository",
            f"No repository is called like these entries of `repositories` in lakegc.yaml: {', '.join(idle)}.",
            "A misspelt entry protects nothing: the repository that was meant has the next entry's policy, or none.",
            "Correct or remove them.",
        )
    if idle := _idle(settings.neighbours.ignore, names):
        yield note(
            "ignored-without-repository",
            f"No repository is called like these entries of `neighbours.ignore` in lakegc.yaml: {', '.join(idle)}.",
            "They do nothing.",
            "Correct or remove them.",
        )


def _idle(patterns: Iterable[str], names: Sequence[str]) -> list[str]:
    return [
        pattern
        for pattern in patterns
        if pattern != "*" and not any(fnmatch.fnmatchcase(name, pattern) for name in names)
    ]


def examine_places(repository: Repository, every: Sequence[Repository]) -> Iterator[Finding]:
    """The finding that another repository lies in the same place; not asked among very many."""
    if len(every) > MOST:
        return
    try:
        namespace = Namespace(repository.storage_namespace)
    except SettingsError as error:
        why, do = "lakegc cannot reach its data.", "Collect it with something else."
        yield note("unknown-store", str(error), why, do)
        return
    others = ((each.id, each.storage_namespace) for each in every if each.id != repository.id)
    yield from shared(repository.id, namespace, others)
