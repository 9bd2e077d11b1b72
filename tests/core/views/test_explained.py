"""What people see of `explain`."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lakegc_core.views.explained import explain_screen
from tests.core.views.test_answer_screens import COMMIT, EVIL, HEAD, seen


def explained(**more: Any) -> dict[str, Any]:
    own = {
        "address": "data/a/b",
        "paths": ["t/1"],
        "size": 10,
        "written": HEAD["at"],
        "holders": [],
        "holders_in_all": 0,
        "past": None,
        "staged": False,
        "held": False,
        "neighbour": False,
        "neighbours": [],
        "reason": None,
        "since": None,
        "kept_by_name": False,
        "swept": [],
        "restored": [],
        "quarantine": None,
        "backup": None,
    }
    return HEAD | {"what": "t/1", "objects": [own | more], "objects_in_all": 1}


def test_what_keeps_an_object_is_named_with_its_end() -> None:
    history = {"name": "branch:main", "why": "history", "commit": COMMIT, "days": 30, "until": "2026-12-04T01:00:00Z"}
    tag = {"name": "tag:v1", "why": "shows", "commit": COMMIT, "days": None, "until": None}
    screen = explain_screen(explained(holders=[tag, history], holders_in_all=2, staged=True))
    assert "kept: tag:v1 shows it, for as long as that stands" in screen
    assert "kept: branch:main, by the rule of 30 days, until 2026-12-04 01:00 UTC" in screen
    assert "kept: it is staged on a branch" in screen and "garbage" not in screen


def test_garbage_has_a_past_and_what_is_gone_has_its_sweep() -> None:
    past = {
        "commit": COMMIT,
        "committed": "2026-10-01T01:00:00Z",
        "cause": "replaced",
        "by": "d" * 64,
        "by_committed": "2026-10-02T01:00:00Z",
        "branch": "main",
        "days": 7,
    }
    swept = [{"mark_id": "m0", "outcome": "deleted", "at": "2026-11-19T01:00:00Z"}]
    screen = explain_screen(explained(past=past, reason="unreferenced", since=HEAD["at"], swept=swept, size=None))
    assert "data/a/b · not in the store" in screen
    assert "\n  was garbage, unreferenced since 2026-11-20 01:00 UTC" in screen
    assert "\n  garbage, unref" in explain_screen(explained(past=past, reason="unreferenced", since=HEAD["at"]))
    assert "deleted by the sweep of mark m0, 2026-11-19 01:00 UTC" in screen
    assert f"last in commit {'c' * 12} of 2026-10-01 01:00 UTC; replaced or deleted in commit {'d' * 12}" in screen
    gone = past | {"cause": "deleted", "by": None, "branch": None}
    assert "which no branch has any more" in explain_screen(explained(past=gone))


SHOWN = {"name": "branch:main", "why": "shows", "commit": COMMIT, "days": None, "until": None}
DELETED = {"mark_id": "m0", "outcome": "deleted", "at": "2026-11-19T01:00:00Z"}


def test_an_object_that_is_needed_again_and_was_deleted_is_said_to_be_gone_and_by_whom() -> None:
    rescued = {"mark_id": "m9", "outcome": "rescued", "at": "2026-11-18T01:00:00Z"}
    screen = explain_screen(
        explained(size=None, holders=[SHOWN], holders_in_all=1, swept=[rescued, DELETED], reason="unreferenced")
    )
    gone = "data/a/b · gone: deleted by the sweep of mark m0, 2026-11-19 01:00 UTC. Reads of it fail."
    assert screen.splitlines()[3:] == [
        gone,
        "  rescued by the sweep of mark m9, 2026-11-18 01:00 UTC",
        "  needed: branch:main shows it, for as long as that stands",
        "  to bring it back, if a copy is kept: lakegc restore lake m0 --path data/a/b",
    ]


def test_the_repositories_that_refer_to_an_object_are_named_where_their_marks_tell() -> None:
    screen = explain_screen(explained(neighbour=True, neighbours=["far", "near"]))
    assert "\n  kept: repository:far refers to it\n  kept: repository:near refers to it\n" in screen
    assert "\n  kept: another repository refers to it\n" in explain_screen(explained(neighbour=True))


def test_of_an_object_whose_copy_lies_in_quarantine_it_is_said_until_when() -> None:
    back = "to bring it back: lakegc restore lake m7 --path data/a/b"
    for until, said in (("2026-11-27T01:00:00Z", "until 2026-11-27 01:00 UTC"), (None, "nobody knows until when")):
        copy = {"mark_id": "m7", "until": until}
        screen = explain_screen(explained(size=None, swept=[DELETED], reason="young", quarantine=copy))
        assert f"\n  a copy lies in quarantine, {said}; {back}\n" in screen


def test_of_an_object_whose_mark_has_a_backup_the_way_back_names_its_place() -> None:
    saved = {"mark_id": "m7", "place": "s3://spare/my lake"}
    screen = explain_screen(explained(size=None, swept=[DELETED], reason="young", backup=saved))
    back = "lakegc restore lake m7 's3://spare/my lake' --path data/a/b"
    assert f"\n  to bring it back from the backup of that mark: {back}\n" in screen
    copy = {"mark_id": "m8", "until": None}
    both = explain_screen(explained(size=None, swept=[DELETED], reason="young", backup=saved, quarantine=copy))
    assert "a copy lies in quarantine" in both and "spare" not in both


@pytest.mark.parametrize(("outcome", "said"), [("seen_again", "seen there again"), ("already_gone", "found gone")])
def test_what_a_sweep_found_is_told_in_words_and_not_by_the_name_of_its_outcome(outcome: str, said: str) -> None:
    screen = explain_screen(explained(swept=[DELETED | {"outcome": outcome}], reason="young"))
    assert f"{said} by the sweep of mark m0" in screen and outcome not in screen


def test_an_object_that_is_needed_and_gone_without_a_sweep_is_said_to_be_gone() -> None:
    screen = explain_screen(explained(size=None, staged=True))
    assert "data/a/b · gone: not in the store, and no sweep on record deleted it. Reads of it fail." in screen
    assert "needed: it is staged on a branch" in screen
    lost = DELETED | {"outcome": "lost"}
    screen = explain_screen(explained(size=None, held=True, swept=[lost]))
    assert "gone: found referenced and gone by the sweep of mark m0" in screen and "bring it back" not in screen


@pytest.mark.parametrize("what", ["data/a/b", "s3://bucket/lake/data/a/b", "lakefs://lake/main/t/1"])
def test_of_an_address_that_is_not_there_that_is_said_first_and_whether_anything_refers_to_it(what: str) -> None:
    absent = explained(size=None, paths=[]) | {"what": what}
    assert explain_screen(absent).splitlines()[2] == f"{what} is not in the namespace, and nothing refers to it."
    lost = explained(size=None, holders=[SHOWN], holders_in_all=1) | {"what": what}
    said = f"{what} is not in the namespace, but something refers to it: the object is lost. See docs/runbook.md#lost"
    assert explain_screen(lost).splitlines()[2].startswith(said)
    for each in (explained() | {"what": what}, explained(size=None), explained() | {"what": what, "objects": []}):
        assert "in the namespace" not in explain_screen(each), "it is there, or a path was asked for"


def test_a_sweep_that_dealt_with_an_object_is_told_also_where_the_object_is_kept() -> None:
    screen = explain_screen(explained(holders=[SHOWN], holders_in_all=1, swept=[DELETED]))
    assert "10 B, written" in screen and "  deleted by the sweep of mark m0, 2026-11-19 01:00 UTC" in screen
    assert "  kept: branch:main shows it" in screen and "gone" not in screen


BACK = {"mark_id": "m0", "outcome": "copied", "at": "2026-11-19T02:00:00Z"}


def test_what_a_restore_brought_back_after_the_sweep_is_told_after_it_with_whether_it_lies_there_now() -> None:
    told = [
        "  deleted by the sweep of mark m0, 2026-11-19 01:00 UTC",
        "  brought back by the restore of mark m0, 2026-11-19 02:00 UTC",
    ]
    there = explain_screen(explained(swept=[DELETED], restored=[BACK], reason="young"))
    assert there.splitlines()[-4:-1] == [*told, "  it lies there now"] and "bring it back" not in there
    found = BACK | {"outcome": "already_there"}
    assert "lay there at the restore of mark m0" in explain_screen(explained(swept=[DELETED], restored=[found]))
    gone = explain_screen(explained(swept=[DELETED], restored=[BACK], size=None, staged=True))
    assert "gone: not in the store, and no sweep on record deleted it since. Reads of it fail." in gone
    assert told == gone.splitlines()[-4:-2] and "lies there now" not in gone
    again = DELETED | {"mark_id": "m1", "at": "2026-11-20T01:00:00Z"}
    gone = explain_screen(explained(swept=[DELETED, again], restored=[BACK], size=None, staged=True))
    assert "gone: deleted by the sweep of mark m1" in gone and told == gone.splitlines()[-5:-3]


def test_a_path_that_no_commit_shows_is_said_to_be_none() -> None:
    screen = explain_screen(explained() | {"objects": [], "objects_in_all": 0})
    assert "No commit that lakeFS knows shows t/1 with an object in this namespace." in screen
    assert (
        "Objects that were imported from elsewhere are not found by their paths: lakegc never deletes them." in screen
    )


def not_shown(what: str) -> list[str]:
    """The lines on a path that no commit shows."""
    return explain_screen(explained() | {"what": what, "objects": [], "objects_in_all": 0}).splitlines()


def test_of_a_path_with_a_slash_before_it_and_of_a_folder_it_is_said_how_to_spell_them() -> None:
    lines = not_shown("/t/")
    assert "Without the slash before it, it is another path: lakegc explain lake t" in lines
    assert "A folder is no path. What lies there: lakectl fs ls lakefs://lake/BRANCH/t/" in lines
    assert not any("slash" in line for line in not_shown("t/1"))


@pytest.mark.parametrize(
    ("what", "folder"),
    [
        ("t/u/1.parqet", "t/u/"),
        ("/t/u/1", "t/u/"),
        ("t/u", "t/"),
        ("u", ""),
        ("t/u*/1", "t/"),
        ("a b/1", "a b/"),
    ],
)
def test_of_a_path_that_may_have_a_slip_in_it_the_folder_above_is_named(what: str, folder: str) -> None:
    (line,) = [line for line in not_shown(what) if "lakectl" in line]
    said = "A folder is no path. What lies beside it: lakectl fs ls "
    assert line.startswith(said) and shlex.split(line.removeprefix(said)) == [f"lakefs://lake/BRANCH/{folder}"]


def test_commands_in_an_answer_can_be_pasted_whatever_the_name() -> None:
    gone = explained(address="data/a b/it's", size=None, swept=[DELETED], reason="young")
    (line,) = [line for line in explain_screen(gone).splitlines() if "bring it back" in line]
    assert shlex.split(line.partition(": ")[2]) == ["lakegc", "restore", "lake", "m0", "--path", "data/a b/it's"]
    lines = not_shown("/a 'b*")
    for said, verb in (("Without the slash", "explain"), ("takes no globs", "gone")):
        (line,) = [line for line in lines if said in line]
        assert shlex.split(line.partition(": ")[2]) == ["lakegc", verb, "lake", "a 'b*"]


def test_of_a_young_object_whose_name_keeps_it_the_name_is_told_and_not_the_age() -> None:
    named, other = (explain_screen(explained(reason="young", kept_by_name=each)) for each in (True, False))
    assert "with a name that lakeFS does not give" in named and "too young" not in named
    assert "too young" in other and "with a name" not in other


def test_of_a_glob_the_command_that_takes_globs_is_named() -> None:
    screen = explain_screen(explained() | {"what": "t/*", "objects": [], "objects_in_all": 0})
    assert "takes no globs; another does: lakegc gone lake 't/*'\n" in screen


def test_where_no_commit_shows_a_path_it_is_said_how_a_staged_object_is_found() -> None:
    screen = explain_screen(explained() | {"objects": [], "objects_in_all": 0})
    assert "An object that is only staged is found with its branch: lakefs://lake/BRANCH/t/1" in screen


def test_names_that_others_gave_cannot_change_the_screen() -> None:
    holder = SHOWN | {"name": f"hold:{EVIL}"}
    assert seen(explain_screen(explained(address=EVIL, paths=[EVIL], holders=[holder], holders_in_all=1))) == 3
    assert seen(explain_screen(explained() | {"what": EVIL, "objects": [], "objects_in_all": 0})) >= 1


def test_one_day_is_one_day() -> None:
    history = {"name": "branch:main", "why": "history", "commit": COMMIT, "days": 1, "until": "2026-12-04T01:00:00Z"}
    assert "by the rule of 1 day, until" in explain_screen(explained(holders=[history], holders_in_all=1))
