"""The screens of `gone` and `verify`."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lakegc_core.views.accounts import gone_screen, verify_screen

STATED: dict[str, Any] = {
    "finished_at": 0.0,
    "planned": 1,
    "totals": {"deleted": 1, "lost": 0},
    "accepted": [{"guard": "shrink", "by": "ann@one", "because": "we dropped 2024", "at": 0.0}],
    "outcomes": {"root": "ab"},
}
SWEEP: dict[str, Any] = {
    "mark_id": "m1",
    "sweep": 1,
    "objects": 2,
    "finished_at": "1970-01-01T00:00:00Z",
    "statement": "ff",
    "versioned": True,
    "recoverable_until": None,
}
GONE: dict[str, Any] = {
    "repository": "lake",
    "mark_id": "m2",
    "at": "1970-01-01T00:00:00Z",
    "asked_at": "1970-01-02T00:00:00Z",
    "paths": "users/1/**",
    "objects": 3,
    "there": 0,
    "bytes": 0,
    "gone": 3,
    "standing": [],
    "vanished": [{"path": "users/1/a", "address": "data/a"}],
    "sweeps": [SWEEP],
    "otherwise": 1,
    "unread": [],
    "open": [],
    "statement": {"digest": "ee"},
}


def test_verify_says_who_accepted_what_and_why_and_what_differs() -> None:
    sweep = {"sweep": 1, "is_begun": True, "differs": [], "unread": [], "stated": STATED, "statement": "ff"}
    found = {"repository": "lake", "mark_id": "m1", "retired": False, "mark": {"differs": [], "unread": []}}
    screen = verify_screen(found | {"sweeps": [sweep], "differs": False, "whole": True})
    assert "guard shrink accepted by ann@one: we dropped 2024" in screen and "1 object planned; 1 deleted" in screen
    screen = verify_screen(found | {"sweeps": [sweep | {"differs": ["x is missing"]}], "differs": True, "whole": False})
    assert "✗ sweep 1" in screen and "x is missing" in screen and "Do not rely on this account" in screen
    idle = sweep | {"is_begun": False, "stated": None, "statement": None}
    screen = verify_screen(found | {"sweeps": [idle], "differs": False, "whole": True})
    assert "✓ sweep 1 · deleted nothing" in screen and "Everything is as lakegc wrote it" in screen


def test_gone_names_the_sweeps_and_their_statements_and_that_the_store_keeps_old_versions() -> None:
    screen = gone_screen(GONE)
    assert "2 gone by sweep 1 of mark m1, 1970-01-01 00:00 UTC: statement ff; the store keeps them as old" in screen
    assert "1 gone, and no sweep on record took them" in screen and "and 2 more that are gone" in screen
    assert screen.endswith("All of them are gone, as mark m2 of 1970-01-01 00:00 UTC knew them.\nstatement ee")


def test_gone_says_until_when_a_copy_lies_in_quarantine() -> None:
    until = {"until": "1970-01-08T00:00:00Z"}
    vanished = [{"path": "users/1/a", "address": "data/a", "copied": True}]
    screen = gone_screen(GONE | {"sweeps": [SWEEP | {"quarantine": until}], "vanished": vanished})
    assert "statement ff; in quarantine until 1970-01-08 00:00 UTC\n" in screen and "old versions" not in screen
    assert "users/1/a  data/a  (a copy lies in quarantine)" in screen


def test_gone_says_what_keeps_an_object_and_why_nobody_can_say_that_all_are_gone() -> None:
    keeper = {"name": "tag:v1", "why": "shows", "until": None, "sooner": "delete tag v1"}
    standing = {"paths": ["users/1/a"], "address": "data/a", "size": 1, "written": GONE["at"], "keepers": [keeper]}
    told = {"there": 2, "standing": [standing | {"earliest": None}], "open": ["2 objects are there"], "statement": None}
    screen = gone_screen(GONE | told)
    assert "3 objects ever stood there · still there: 2 (0 B) · gone: 3" in screen
    assert "\n  tag:v1 shows it, for as long as that stands\n" in screen and "sooner: delete tag v1" in screen
    assert "and 1 more that are there" in screen and screen.endswith("Not all of them are gone:\n  2 objects are there")


@pytest.mark.parametrize(
    ("name", "why", "until", "said"),
    [
        ("branch:main", "history", GONE["at"], "branch:main, by its rule, until 1970-01-01 00:00 UTC"),
        (
            "commits of deleted branches",
            "dangling",
            GONE["at"],
            "commits of deleted branches, by the default rule, until",
        ),
        ("branch:dev", "staged", None, "branch:dev: it is staged there, for as long"),
        ("repository:far", "neighbour", None, "repository:far refers to it, for as long"),
        ("hold by path", "held_by_path", None, "hold by path, for as long"),
        ("the mark", "unknown_to_mark", None, "the mark does not know it\n"),
        ("the mark", "brought_back", None, "the mark found it to be garbage, and it was brought back since\n"),
        ("foreign", "foreign", None, "not lakeFS's, for as long"),
        ("garbage", "unreferenced", GONE["at"], "garbage, which a sweep may delete after 1970-01-01 00:00 UTC"),
    ],
)
def test_gone_says_in_words_what_keeps_an_object(name: str, why: str, until: str | None, said: str) -> None:
    keeper = {"name": name, "why": why, "until": until, "sooner": "nothing"}
    standing = {"paths": [], "address": "data/a", "size": 1, "written": GONE["at"], "keepers": [keeper]}
    screen = gone_screen(GONE | {"there": 1, "standing": [standing | {"earliest": None}], "statement": None})
    assert f"\n  {said}" in screen


@pytest.mark.parametrize(
    ("paths", "asked"),
    [
        ("people", ["people/**"]),
        ("people/", ["people/**"]),
        ("/people/it's", ["people/it's", "people/it's/**"]),
        ("/people/", ["people/**"]),
        ("/people/*.csv", ["people/*.csv"]),
        ("people/*/", ["people/*/**"]),
        ("people/**", []),
        ("/", ["**"]),
    ],
)
def test_where_nothing_stands_at_a_folder_or_behind_a_slash_the_command_is_named_that_may_be_meant(
    paths: str, asked: list[str]
) -> None:
    nothing = {"paths": paths, "objects": 0, "gone": 0, "statement": None, "open": ["nothing is known"]}
    named = [line.partition(": ")[2] for line in gone_screen(GONE | nothing).splitlines() if ": lakegc gone " in line]
    assert [shlex.split(line) for line in named] == [["lakegc", "gone", "lake", each] for each in asked]
    assert ": lakegc gone" not in gone_screen(GONE | {"paths": paths, "statement": None})


def test_where_all_are_gone_and_nobody_can_say_so_it_is_not_said_that_some_are_left() -> None:
    screen = gone_screen(GONE | {"open": ["a copy lies in a backup"], "statement": None})
    assert screen.endswith("Nobody can say that all of them are gone:\n  a copy lies in a backup")
