"""A list of repositories that may lack some is told, as far as the key's own policies tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakegc_core.doctor.finding import Level
from tests.core.doctor.conftest import Patient, refuse
from tests.support.policies import policy
from tests.support.scripted_lakefs import page

NAME = "list-of-repositories"
POLICIES = "/auth/users/sandbox/policies"


def statement(action: str = "fs:ListRepositories", resource: str = "*", effect: str = "allow", **more: Any) -> Any:
    return {"effect": effect, "action": ["fs:ReadConfig", action], "resource": resource, **more}


def has(patient: Patient, *policies: list[Any]) -> None:
    """The key has these policies."""
    answer = page([{"id": str(number), "statement": each} for number, each in enumerate(policies)])
    patient.server.fault = refuse(POLICIES, 200, answer.body)


def levels(patient: Patient) -> list[Level]:
    return [each.level for each in patient.examine().findings if each.name == NAME]


@pytest.mark.parametrize("verb", ["mark", "sweep"])
def test_the_policies_of_lakegc_list_all(on_folder: Patient, verb: str) -> None:
    has(on_folder, policy(f"lakefs-{verb}.json"))
    assert levels(on_folder) == []


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([[statement()], [statement(resource="arn:lakefs:fs:::repository/lake")]], []),
        ([[statement("fs:List*", "arn:lakefs:fs:::repository/*")]], []),
        ([[statement("fs:*")]], []),
        ([[statement(resource=json.dumps(["arn:lakefs:fs:::repository/a", "*"]))]], []),
        ([[statement(resource="arn:lakefs:fs:::repository/lake")]], [Level.WARNING]),
        ([[statement(resource=json.dumps(["arn:lakefs:fs:::repository/a*"]))]], [Level.WARNING]),
        ([[statement()], [statement("fs:List*", "arn:lakefs:fs:::repository/b", "deny")]], [Level.WARNING]),
        ([[statement(condition={"IpAddress": {"SourceIp": ["10.0.0.0/8"]}})]], [Level.WARNING]),
        ([[statement("fs:ReadObject")]], [Level.WARNING]),
        ([], [Level.WARNING]),
    ],
)
def test_a_key_that_may_list_some_repositories_is_warned_of(
    on_folder: Patient, policies: list[list[Any]], expected: list[Level]
) -> None:
    has(on_folder, *policies)
    assert levels(on_folder) == expected


def test_a_key_that_may_not_read_its_policies_gets_a_note_with_the_right_for_it(on_folder: Patient) -> None:
    on_folder.server.fault = refuse(POLICIES)
    found = on_folder.finding(NAME)
    assert found.level is Level.NOTE and "auth:ReadUser on arn:lakefs:auth:::user/sandbox" in found.what
    on_folder.server.sandbox.version = "1.76.0"
    assert levels(on_folder) == [], "before 1.77 such a key may not list at all"
