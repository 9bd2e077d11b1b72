"""lakegc.yaml against the repositories that there are."""

from __future__ import annotations

from lakegc_core.config.settings import NeighbourSettings, RepositoryPolicy, ServerSettings, Settings
from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.policies import examine_patterns, examine_places
from lakegc_core.lakefs.models import Repository

SERVER = ServerSettings("", "", "")


def repository(name: str, namespace: str) -> Repository:
    return Repository(name, "", namespace, "main", 1)


def test_patterns_that_fit_no_repository_are_named() -> None:
    policies = tuple(RepositoryPolicy(match=each) for each in ("lake", "analitics", "team-*", "*"))
    settings = Settings(SERVER, repositories=policies, neighbours=NeighbourSettings(ignore=("archive-*", "la*")))
    found = list(examine_patterns(settings, ["lake", "analytics"]))
    assert [(each.name, each.level) for each in found] == [
        ("policy-without-repository", Level.WARNING),
        ("ignored-without-repository", Level.NOTE),
    ]
    assert "analitics, team-*" in found[0].what and "archive-*" in found[1].what
    assert list(examine_patterns(Settings(SERVER), [])) == []


def test_repositories_in_one_place_are_an_alarm_for_each() -> None:
    lake, inside = repository("lake", "s3://b/lake"), repository("in", "s3://b/lake/x")
    far = repository("far", "s3://b/lake2")
    every = [lake, inside, far]
    assert [[each.level for each in examine_places(one, every)] for one in every] == [[Level.ALARM], [Level.ALARM], []]


def test_a_store_of_an_unknown_kind_is_a_note() -> None:
    strange = repository("mem", "mem://lake")
    assert [(each.name, each.level) for each in examine_places(strange, [strange])] == [("unknown-store", Level.NOTE)]
