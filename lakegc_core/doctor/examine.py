"""The doctor's rounds: through one repository with its stores, or through all of them as far as lakeFS tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lakegc_core import clock
from lakegc_core.config.settings import Settings
from lakegc_core.doctor.cost import requests_and_cost
from lakegc_core.doctor.etags import examine_etags
from lakegc_core.doctor.finding import Diagnosis, Finding, Level, sentence, worst_first
from lakegc_core.doctor.lakefs_rights import MARK, no_lakefs, try_lakefs, try_server
from lakegc_core.doctor.namespaces import examine_namespaces
from lakegc_core.doctor.newest_mark import examine_newest_mark
from lakegc_core.doctor.policies import MOST, examine_patterns, examine_places
from lakegc_core.doctor.rules import examine_rules
from lakegc_core.doctor.server import about, examine_server
from lakegc_core.doctor.store_rights import UNREACHABLE, missing, try_clock, try_server_clock, try_store
from lakegc_core.doctor.store_settings import examine_settings
from lakegc_core.doctor.whole_list import examine_whole_list
from lakegc_core.errors import LakegcError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Repository
from lakegc_core.lakefs.named import repository_named
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.names import Json
from lakegc_core.policy import safety
from lakegc_core.store.base import connect

_REFUSED = {401, 403}


def _say_nothing(message: str) -> None:
    pass


@dataclass
class _Round:
    """The things looked at so far, and the findings."""

    say: Callable[[str], None]
    looked_at: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def look(self, at: str, examine: Callable[[], Iterable[Finding]]) -> None:
        """Look at one thing. An error ends this look alone, and is a finding."""
        self.say(f"looking at {at}")
        try:
            self.findings += examine()
            self.looked_at.append(at)
        except LakegcError as error:
            self.findings.append(_broken_off(at, error))

    def diagnosis(self, repository: str, server: Json, cost: Json | None = None) -> Diagnosis:
        """The diagnosis so far. A finding that two looks made in the same words counts once."""
        findings = worst_first(dict.fromkeys(self.findings))
        return Diagnosis(repository, server, tuple(self.looked_at), findings, cost=cost or {})


def examine(
    settings: Settings, name: str, *, client: LakeFSClient | None = None, say: Callable[[str], None] = _say_nothing
) -> Diagnosis:
    """One repository: every right tried, its stores, its neighbours, its rules, its newest mark.

    LakeFSError if lakeFS knows no such repository; SettingsError where lakegc.yaml does not lead to its store.
    """
    client = client or LakeFSClient(settings.server)
    found = _Round(say)
    if alarm := no_lakefs(client):
        found.findings.append(alarm)
        return found.diagnosis(name, {})
    try:
        repository = repository_named(client, name)
    except LakeFSError as error:
        if error.status not in _REFUSED:
            raise
        found.look("the server", lambda: try_server(client))
        refused = Finding("right-repository", Level.ALARM, sentence(str(error)), MARK.why, MARK.do)
        found.findings.append(refused)
        return found.diagnosis(name, {})
    server: Json = {}
    found.look("the server", lambda: [*try_server(client), *_version(client, settings, server)])
    context = open_repository(settings, name, client=client, say=say)
    is_there = _look_at_stores(found, context)
    if is_there:
        found.look("namespaces and neighbours", lambda: examine_namespaces(context))
    found.look("rules and policy", lambda: examine_rules(client, repository, context.policy))
    cost: Json = {}
    if is_there:
        found.look("the newest mark", lambda: examine_newest_mark(context))
        found.look("requests and cost", lambda: _cost(context, cost))
    return found.diagnosis(name, server, cost)


def _look_at_stores(found: _Round, context: RepositoryContext) -> bool:
    """The rights in lakeFS and in the stores, and how the store keeps objects. False if the store cannot be asked: that
    nothing can be told of it goes without saying."""
    level = safety.level(context.policy.safety or safety.FULL.name)
    told = try_clock(context, level)
    is_reached = all(finding.name != UNREACHABLE for finding in told)

    def clocks() -> list[Finding]:
        return [*told, *try_server_clock(context.client, level)]

    if is_reached and (alarm := missing(context)):
        found.findings.append(alarm)
        found.look("clocks", clocks)
        return False
    answers = try_lakefs(context.client, context.repository, found.say)
    found.look("rights in lakeFS", lambda: answers.findings)
    found.look("clocks", clocks)
    if not is_reached:
        return False
    data = connect(context.data)
    kept = data.settings()
    versions = kept.versioning is not False
    found.look("rights in the store", lambda: try_store(context, answers, versions=versions))
    found.look(
        "how the store keeps objects",
        lambda: examine_settings(
            kept,
            metadata=answers.prefix,
            now=clock.now(),
            etags_are_md5=data.listed_digests,
            quarantine=context.policy.quarantine,
            backed_up=context.policy.backup,
            workspace=None if context.workspace == context.data else connect(context.workspace).settings(),
            home=context.home,
        ),
    )
    if data.listed_digests:
        found.look("ETags", lambda: examine_etags(data))
    return True


def examine_all(
    settings: Settings, *, client: LakeFSClient | None = None, say: Callable[[str], None] = _say_nothing
) -> Diagnosis:
    """The server, lakegc.yaml, and of each repository what lakeFS tells cheaply: its place, its rules. No store."""
    client = client or LakeFSClient(settings.server)
    found = _Round(say)
    if alarm := no_lakefs(client):
        found.findings.append(alarm)
        return found.diagnosis("", {})
    server: Json = {}
    found.look("the server", lambda: [*try_server(client), *_version(client, settings, server)])
    try:
        every = list(client.repositories())
    except LakegcError as error:
        found.findings.append(_broken_off("repositories", error))
        return found.diagnosis("", server)
    found.look("lakegc.yaml", lambda: examine_patterns(settings, [each.id for each in every]))
    if len(every) > MOST:
        found.findings.append(_too_many(len(every)))
    parts = tuple(_cheaply(settings, client, each, every, say) for each in every)
    whole = found.diagnosis("", server)
    return Diagnosis("", server, whole.looked_at, whole.findings, parts)


def _cheaply(
    settings: Settings,
    client: LakeFSClient,
    repository: Repository,
    every: list[Repository],
    say: Callable[[str], None],
) -> Diagnosis:
    found, policy = _Round(say), settings.policy_for(repository.id)
    found.look(f"the place of {repository.id}", lambda: examine_places(repository, every))
    if not repository.read_only and policy.mark:
        found.look(f"the rules of {repository.id}", lambda: examine_rules(client, repository, policy))
    return found.diagnosis(repository.id, {})


def _version(client: LakeFSClient, settings: Settings, server: Json) -> list[Finding]:
    """The findings on the version, and on what depends on it; fills `server` with what it is."""
    try:
        config = client.config()
    except LakegcError:
        return []  # tried with the rights
    server.update(about(config))
    return [*examine_server(config, settings.server), *examine_whole_list(client, config)]


def _cost(context: RepositoryContext, cost: Json) -> list[Finding]:
    """Fills `cost` with what the next mark and sweep will ask for. There is nothing to find fault with."""
    cost.update(requests_and_cost(context))
    return []


def _broken_off(at: str, error: LakegcError) -> Finding:
    return Finding(
        "not-looked-at",
        Level.WARNING,
        sentence(f"The look at {at} broke off: {error}"),
        "What it would have found is not known.",
        "Correct what the message names, and ask the doctor again.",
    )


def _too_many(count: int) -> Finding:
    return Finding(
        "places-not-compared",
        Level.NOTE,
        f"There are {count:,} repositories; whether some share a namespace was not looked at.",
        "Repositories that share a namespace cannot be collected.",
        "Ask for single ones: lakegc doctor REPO.",
    )
