"""The actions that lakeFS demands for each of lakegc's calls are those that errors name, and that the policies hold."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import LakegcError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import Http, Reply, Request
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.policies import policy

OF_REPOSITORIES = {
    "GET": "fs:ReadRepository",
    "GET /branches": "fs:ListBranches",
    "GET /tags": "fs:ListTags",
    "GET /settings/gc_rules": "retention:GetGarbageCollectionRules",
    "POST /gc/prepare_commits/async": "retention:PrepareGarbageCollectionCommits",
    "GET /gc/prepare_commits/status": "retention:PrepareGarbageCollectionCommits",
    "POST /gc/prepare_commits": "retention:PrepareGarbageCollectionCommits",
    "POST /gc/prepare_uncommited": "retention:PrepareGarbageCollectionUncommitted",
    "POST /dump": "fs:ListTags fs:ListBranches fs:ListCommits",
    "GET /dump": "fs:ListTags fs:ListBranches fs:ListCommits",
    "GET /commits/*": "fs:ReadCommit",
    "GET /metadata/meta_range/*": "fs:ListObjects fs:ReadRepository",
    "GET /refs/*/objects/ls": "fs:ListObjects",
    "GET /branches/*/diff": "fs:ListObjects",
    "GET /refs/*/objects/stat": "fs:ReadObject",
    "GET /refs/*/objects": "fs:ReadObject",
}
OF_SERVERS = {
    "GET /config": "fs:ReadConfig",
    "GET /config/garbage-collection": "",  # whoever has a key; errors name fs:ReadConfig
    "GET /repositories": "fs:ListRepositories",
    "GET /user": "",  # whoever has a key
    "GET /auth/users/sandbox/policies": "auth:ReadUser",
}
"""What the handlers of lakeFS 1.84 authorize each call by (`pkg/api/controller.go`)."""

NEVER_OF_MARKS = {"stat", "read_byte"}
"""Calls of sweeps, and of `lakegc explain` where it is asked for a path."""

OF_THE_DOCTOR = {"own_policies"}
"""Calls that it does without."""


def actions(text: str) -> set[str]:
    return set(re.findall(r"\b(?:fs|retention|auth):[A-Z]\w+", text))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[LakeFSClient]:
    with SandboxServer(Sandbox(tmp_path)) as server:
        lake = server.sandbox.create_repository("lake", age=timedelta(days=9))
        lake.set_rules(7)
        lake.upload("main", "a", b"1")
        yield LakeFSClient(ServerSettings(server.url, ACCESS_KEY, SECRET_KEY), sleep=lambda seconds: None)


def calls_of(client: LakeFSClient) -> dict[str, Callable[[], Any]]:
    """A call of each method."""
    ref = ("lake", "main")
    head = next(client.branches("lake")).commit_id
    return {
        **{name: getattr(client, name) for name in ("config", "clock", "grace_period")},
        "repositories": lambda: list(client.repositories()),
        "own_policies": lambda: list(client.own_policies()),
        **{name: lambda name=name: getattr(client, name)("lake") for name in ("repository", "gc_rules", "dump")},
        **{name: lambda name=name: list(getattr(client, name)("lake")) for name in ("branches", "tags")},
        "odd_objects": lambda: list(client.odd_objects(*ref, ["\N{REPLACEMENT CHARACTER}"], "")[0]),
        "prepare_commits": lambda: client.prepare_commits("lake"),
        "prepare_uncommitted": lambda: client.prepare_uncommitted("lake"),
        "commit": lambda: client.commit("lake", head),
        "metarange_location": lambda: client.metarange_location("lake", "0" * 64),
        "objects": lambda: list(client.objects(*ref)),
        "objects_after": lambda: client.objects_after(*ref, "", 1),
        "first_objects": lambda: client.first_objects(*ref, 1),
        "staged_paths": lambda: client.staged_paths(*ref, 1),
        "stat": lambda: client.stat(*ref, "a"),
        "read_byte": lambda: client.read_byte(*ref, "a"),
    }


def test_each_call_names_the_actions_that_lakefs_demands_and_the_policies_allow_these_and_no_others(
    client: LakeFSClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, send, asked = calls_of(client), Http.send, list[Request]()
    public = {name for name, _ in inspect.getmembers(LakeFSClient, inspect.isfunction) if not name.startswith("_")}
    assert calls.keys() == public - {"close"}

    def recorded(http: Http, request: Request) -> Reply:
        asked.append(request)
        return send(http, request)

    monkeypatch.setattr(Http, "send", recorded)
    needed: dict[str, set[str]] = {}
    for name, call in calls.items():
        asked.clear()
        with suppress(LakegcError):
            call()
        assert asked
        needed[name] = set()
        for request in asked:
            where, demanded = _demanded(request)
            assert actions(request.action) == demanded or (not demanded and actions(request.action)), where
            needed[name] |= actions(request.action)
    for verb, left_out in (("mark", NEVER_OF_MARKS), ("sweep", set[str]())):
        has = {action for each in policy(f"lakefs-{verb}.json") for action in each["action"]}
        assert has == set().union(*(needed[name] for name in needed.keys() - left_out - OF_THE_DOCTOR))


def _demanded(request: Request) -> tuple[str, set[str]]:
    """The call as the tables have it, and its actions."""
    inside = re.sub(r"^/repositories/lake", "", request.path)
    if inside == request.path:
        where = f"{request.method} {request.path}"
        return where, actions(OF_SERVERS[where])
    inside = re.sub(r"(?<=/commits/)\w+|(?<=/meta_range/)\w+|(?<=/refs/)\w+|(?<=/branches/)\w+", "*", inside)
    where = f"{request.method} {inside}".strip()
    return where, actions(OF_REPOSITORIES[where])
