"""Why objects are garbage, in words."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_core.policy import causes
from lakegc_core.policy.facts import ExpiredFacts, read_facts
from tests.support.facts import whole_facts


def facts(origins: Any, objects: int = 100, size: int = 1000) -> ExpiredFacts:
    expired = {"objects": objects, "bytes": size}
    return read_facts(ExpiredFacts, whole_facts("expired_addresses", {"expired": expired, "origins": origins}))


def cause(kind: str, branch: str, gone: int | None, objects: int, size: int) -> dict[str, Any]:
    return {"cause": kind, "branch": branch, "gone": gone, "objects": objects, "bytes": size}


def origins(*found: dict[str, Any], unread: int = 0) -> dict[str, Any]:
    sums = {name: sum(each[name] for each in found) for name in ("objects", "bytes")}
    return {"causes": list(found), "folders": [], "found": sums, "unread": unread}


def test_the_three_largest_causes_are_named_with_their_shares_of_the_bytes() -> None:
    found = facts(
        origins(
            cause("replaced", "main", None, 1, 50),
            cause("deleted", "exp-7", 1_762_128_000, 60, 910),
            cause("deleted", "", None, 2, 10),
        )
    )
    assert causes.largest(found) == (
        " Of the bytes, 91% were left by branch exp-7, which was gone on 3 November 2025, 5% were replaced or deleted "
        "on branch main, 3% were never committed."
    )
    assert [share.words for share in causes.shares(found)][-1] == "were left by a deleted branch or a reset"
    assert sum((share.amount.objects for share in causes.shares(found)), 0) == 100


def test_what_no_commit_is_known_to_have_shown_is_called_never_committed_only_once_all_were_read() -> None:
    assert causes.largest(facts(origins())) == " Of the bytes, 100% were never committed."
    text = causes.largest(facts(origins(unread=2)))
    assert text == " Of the bytes, 100% were never committed, or in commits that later marks read."


def missing(*paths: str) -> ExpiredFacts:
    told = [{"address": f"data/{number}", "path": path} for number, path in enumerate(paths)]
    return read_facts(ExpiredFacts, whole_facts("expired_addresses", {"missing_paths": told}))


def test_the_three_folders_with_most_of_the_missing_objects_are_named() -> None:
    found = missing("t/a/1", "t/a/x/2", "t/b/3", "t/b/4", "t/b/5", "u/6", "7", "8", "")
    assert causes.missing(found) == " Of 8 whose paths were looked up: 3 in t/b/, 2 in (root), 2 in t/a/."


def test_where_no_path_is_known_no_folder_is_named() -> None:
    assert causes.missing(missing()) == causes.missing(missing("", "")) == ""


@pytest.mark.parametrize("found", [facts(None), facts(origins(), 0, 0)])
def test_where_nobody_looked_or_nothing_is_garbage_there_is_no_cause(found: ExpiredFacts) -> None:
    assert causes.shares(found) == [] and causes.largest(found) == ""
