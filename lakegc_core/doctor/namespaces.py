"""Repositories whose data lies where this one's does, and repositories that may refer to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lakegc_core import clock
from lakegc_core.doctor.finding import Finding, Level, alarm, note, sentence, some, warning
from lakegc_core.errors import SettingsError
from lakegc_core.marks.backups import new_place
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.elsewhere import may_refer
from lakegc_core.marks.neighbours import Sighting, neighbours_of, sight_all, what_is_known
from lakegc_core.policy.facts import ExpiredFacts, NeighbourFacts
from lakegc_core.policy.known_neighbours import forgotten, not_known
from lakegc_core.policy.namespace import Namespace, overlapping
from lakegc_core.references.staged import lists_branches


def examine_namespaces(context: RepositoryContext) -> list[Finding]:
    """Repositories in the same place, by lakeFS's list; and those that may refer here, by their newest marks."""
    neighbours = neighbours_of(context)
    places = ((each.name, each.namespace) for each in neighbours)
    found = [*shared(context.repository.id, context.namespace, places), *_spelling(context.namespace)]
    seen = list(sight_all(neighbours, now := clock.now().timestamp()).values())
    return [*found, *_backups(context), *_unknown(context, seen, now), *_referring(context.namespace, seen)]


def shared(name: str, namespace: Namespace, others: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """The finding that other repositories (name and namespace) lie in the same place, or one in the other."""
    if touching := overlapping(namespace, others):
        yield alarm(
            "shared-namespace",
            f"The namespace of {name}, {namespace.uri}, is shared with, or nested in or around, that of "
            f"{some(touching)}.",
            "The data of one looks like garbage in the other. The guard `namespace` stops every sweep.",
            "Move one of them to a namespace of its own. Until then neither can be collected.",
        )


def _backups(context: RepositoryContext) -> Iterator[Finding]:
    """The finding that backups cannot go where `backup_to` leads: into the data of this repository, or of another."""
    place = context.policy.backups_of(context.repository.id)
    if place is None:
        return
    try:
        new_place(context, place)
    except SettingsError as error:
        yield alarm(
            "backup-place",
            f"`backup_to` leads to {place}. {sentence(str(error))}",
            "lakegc makes no backup there, and a sweep that asks for one is refused.",
            "Set `backup_to` to a place of its own, outside the namespaces of all repositories.",
        )


def _unknown(context: RepositoryContext, seen: Sequence[Sighting], now: float) -> Iterator[Finding]:
    """The finding that too little is known of other repositories: an alarm where that stops the next sweep."""
    wanted, mark = context.settings.neighbours, newest_mark(context)
    of_mark, header = (mark.facts(ExpiredFacts).neighbours, mark.header()) if mark else (None, None)
    if of_mark and header:
        seen = [_as_marked(each, of_mark, header.started_at) for each in seen]
    facts = what_is_known(seen, wanted, now)
    if wrong := not_known(facts, of_mark, strict=wanted.strict):
        level = Level.ALARM if wanted.strict or forgotten(facts, of_mark) else Level.WARNING
        stops = "This stops sweeps. " if level is Level.ALARM else ""
        what, do = wrong
        why = f"{stops}What another repository imported from here by address looks like garbage."
        yield Finding("neighbours", level, what, why, do)


def _as_marked(seen: Sighting, of_mark: NeighbourFacts, started_at: float) -> Sighting:
    """A neighbour whose marks the newest mark here could not read counts as unread until it is marked again: here only
    the head of its marks is read, and a sweep reads all that they refer to."""
    if seen.name not in of_mark.unread or seen.marked_at >= started_at:
        return seen
    why = dict(of_mark.named).get(seen.name, "the newest mark here could not read its marks")
    return replace(seen, unread=True, problem=seen.problem or why)


def _spelling(namespace: Namespace) -> Iterator[Finding]:
    if lists_branches(namespace) and not namespace.is_local:
        yield warning(
            "namespace-spelling",
            f"lakeFS spells the namespace {namespace.uri} as {namespace.spelled} in the addresses that it gives out.",
            "So lakeFS does not know these as its own: its list of what is staged leaves linked uploads out, and it "
            "links an address at any later time. Marks and looks list each branch with staged changes instead.",
            "See that clients link their uploads within the minimum age.",
        )


def _referring(namespace: Namespace, seen: Iterable[Sighting]) -> Iterator[Finding]:
    if namespace.is_local:  # there, addresses do not tell one repository from another; the newest mark counts them
        return
    names = sorted(each.name for each in seen if each.refers and may_refer(namespace, each.refers))
    if names:
        yield note(
            "referring",
            f"{some(names)} refer to objects outside of their own namespaces that may lie in this one.",
            "A sweep here keeps what their newest marks refer to, and knows of nothing newer.",
            "Mark them as often as this repository.",
        )
