"""The statement of a sweep: what it says, and that all of it follows from the artifacts."""

from __future__ import annotations

import getpass
import re
from typing import Any

import pytest

from lakegc_core.marks.json_files import digest
from lakegc_core.sweep import statement as module
from lakegc_core.sweep.statement import operator, statement

MARK = {"digest": "1a", "rules": {"default": 7}}
ACCEPTED = {
    "name": "shrink",
    "passed": False,
    "severity": "ERROR",
    "description": "…",
    "accepted_because": "we dropped 2024",
}
HOLDS = {"name": "reads", "passed": True, "severity": "ERROR", "description": "…", "accepted_because": None}
WARNS = {"name": "holds", "passed": False, "severity": "WARN", "description": "…", "accepted_because": None}
PLAN: dict[str, Any] = {"planned_at": 1.0, "guards": [ACCEPTED, HOLDS], "by": "ann@one"}
REPORT: dict[str, Any] = {
    "repository": "lake",
    "mark_id": "m1",
    "sweep": 2,
    "finished_at": 9.0,
    "planned": 3,
    "counted": {"safety": "full"},
    "outcomes": {"deleted": 3},
    "look": {"retention_commits": {"judged_by": {"default": 3}}},
    "guards": [ACCEPTED, HOLDS, WARNS],
    "by": "bob@two",
    "closed": False,
}


def test_a_statement_says_who_accepted_what_and_why_when_the_plan_was_sealed_and_when_the_last_call_ended() -> None:
    found = statement(MARK, PLAN, REPORT, {"rows": 3})
    assert found["accepted"] == [
        {"guard": "shrink", "by": "ann@one", "because": "we dropped 2024", "at": 1.0},
        {"guard": "shrink", "by": "bob@two", "because": "we dropped 2024", "at": 9.0},
    ]
    assert found["guards"]["verdicts"] == {"shrink": "accepted", "reads": "holds", "holds": "failed"}
    assert found["rules"] == {"mark": {"default": 7}, "look": {"default": 3}} and found["mark"] == "1a"
    assert found["plan"] == digest(PLAN) and found["settings"] == {"safety": "full"}


def test_the_statement_covers_all_of_the_report_but_the_name_of_the_statement_itself() -> None:
    found = statement(MARK, PLAN, REPORT, {})
    assert statement(MARK, PLAN, REPORT | {"statement": "ff"}, {}) == found
    assert statement(MARK, PLAN, REPORT | {"seconds": 1}, {})["report"] != found["report"]


def test_a_sweep_that_was_closed_without_a_plan_that_reads_states_that_it_has_none() -> None:
    found = statement({"digest": None, "rules": None}, None, REPORT | {"look": None, "guards": []}, {})
    assert (found["plan"], found["mark"], found["accepted"]) == (None, None, [])
    assert found["rules"] == {"mark": None, "look": None}


def test_the_operator_is_a_login_and_a_machine_also_where_the_login_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert re.fullmatch(r"[^@]+@[^@]+", operator())

    def nameless() -> str:
        raise KeyError("uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert module.operator().startswith("unknown@")
