"""The lint of rules, tags and minimum ages: one finding for each mistake, none for what is meant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.rules import examine_rules
from tests.core.doctor.conftest import Patient, worst


def lint(patient: Patient, **policy: object) -> list[tuple[str, Level]]:
    chosen = RepositoryPolicy(match="*", **policy)  # type: ignore[arg-type]
    found = examine_rules(patient.client, patient.client.repository("lake"), chosen)
    assert all(each.what.endswith(".") and each.why and each.do for each in found)
    return [(each.name, each.level) for each in found]


def test_rules_that_fit_have_no_findings_and_branches_are_not_listed_without_need(on_folder: Patient) -> None:
    assert lint(on_folder) == []
    on_folder.repository.set_rules(14)
    before = len(on_folder.server.requests)
    assert lint(on_folder) == []
    asked = {path.rpartition("/")[2] for _, path in on_folder.server.requests[before:]}
    assert asked == {"lake", "gc_rules", "garbage-collection"}


def test_no_rules_are_an_alarm_unless_that_is_meant(on_folder: Patient) -> None:
    on_folder.repository.delete_rules()
    assert lint(on_folder) == [("no-rules", Level.ALARM)]
    assert lint(on_folder, rules="keep-all-commits") == [("no-rules", Level.NOTE)]


@pytest.mark.parametrize(
    ("default", "branches", "found"),
    [
        (0, {"main": 5}, [("zero-rule", Level.WARNING)]),
        (-1, {}, [("negative-rule", Level.ALARM)]),
        (7, {"main": 0}, [("zero-rule", Level.WARNING)]),
        (7, {"main": -3}, [("negative-rule", Level.ALARM)]),
        (-1, {"main": 0}, [("negative-rule", Level.ALARM), ("zero-rule", Level.WARNING)]),
        (7, {"gone": 5}, [("rule-without-branch", Level.WARNING)]),
        (7, {"main": 5, "feature/*": 1}, [("rule-without-branch", Level.WARNING)]),
        (3650, {}, [("keeps-everything", Level.WARNING)]),
        (3650, {"main": 30}, []),
        (90, {}, []),
    ],
)
def test_each_mistake_in_the_rules_is_named(
    on_folder: Patient, default: int, branches: dict[str, int], found: list[tuple[str, Level]]
) -> None:
    on_folder.repository.set_rules(default, branches)
    assert lint(on_folder) == found


def test_the_branches_that_do_not_exist_are_named(on_folder: Patient) -> None:
    on_folder.repository.set_rules(7, {f"b{number}": 3 for number in range(9)} | {"main": 2})
    finding = on_folder.finding("rule-without-branch")
    assert "9 rules" in finding.what and "b0, b1, b2, b3, b4 and 4 more" in finding.what
    assert [each.name for each in worst(on_folder.examine())] == ["rule-without-branch"]


def test_rules_that_reach_beyond_the_beginning_of_an_old_repository_are_a_note(on_folder: Patient) -> None:
    old = on_folder.server.sandbox.create_repository("old", age=timedelta(days=400))
    old.set_rules(500)
    found = examine_rules(on_folder.client, on_folder.client.repository("old"), RepositoryPolicy(match="*"))
    assert [(each.name, each.level) for each in found] == [("keeps-everything", Level.NOTE)]


def test_tags_that_are_not_protected_are_a_warning_where_there_are_any(on_folder: Patient) -> None:
    assert lint(on_folder, protect_tags=False) == []
    on_folder.repository.tag("v1", "main")
    assert lint(on_folder, protect_tags=False) == [("tags-not-protected", Level.WARNING)]
    assert lint(on_folder, protect_tags=True) == lint(on_folder) == []


def test_a_minimum_age_below_the_grace_period_is_an_alarm(on_folder: Patient) -> None:
    assert lint(on_folder, min_age=timedelta(hours=2)) == [("min-age", Level.ALARM)]
    on_folder.server.sandbox.grace_period = 200_000
    assert lint(on_folder) == [("min-age", Level.ALARM)]
