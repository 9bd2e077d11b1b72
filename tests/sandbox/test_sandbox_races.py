"""The sandbox held in the middle of things: commits and branches in flight, a dump while the repository changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakegc_sandbox import PageLimits, Repository, Sandbox, SandboxError, ScanError
from lakegc_sandbox.model.gc_prepare import prepare_uncommitted

NOW = 1_750_000_000.0


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Sandbox(tmp_path, clock=lambda: NOW, seed=1).create_repository("lake")


def dumped(repo: Repository, scanning: Callable[[str, str], object], **limits: int) -> set[str]:
    """What a dump names while `scanning` interferes."""
    token: str | None = ""
    found: set[str] = set()
    while token is not None:
        answer = prepare_uncommitted(repo, token, PageLimits(scanning=scanning, **limits))
        token = answer.get("continuation_token")
        place = answer["gc_uncommitted_location"].removeprefix("local://")
        for file in Path(place).iterdir() if place else ():
            found |= set(pq.read_table(file)["physical_address"].to_pylist())
    return found


def nothing(branch: str, path: str) -> None:
    pass


def test_a_commit_is_finished_when_the_test_wants(repo: Repository) -> None:
    address = repo.upload("main", "a", b"1")
    finish = repo.begin_commit("main", "held")
    repo.upload("main", "a", b"22")
    assert address not in dumped(repo, nothing)
    assert finish().id == repo.refs.branches["main"].commit_id
    assert repo.entry("main@", "a").address == address


def test_a_branch_is_made_of_what_its_source_was_when_it_was_begun(repo: Repository) -> None:
    repo.create_branch("dev", "main")
    repo.upload("dev", "a", b"1")
    commit = repo.commit("dev", "one").id
    finish = repo.begin_branch("late", "dev")
    repo.delete_branch("dev")
    assert finish() == commit
    with pytest.raises(SandboxError, match="not unique"):
        finish()


def test_a_stored_metarange_is_committed_only_onto_a_clean_branch(repo: Repository) -> None:
    repo.upload("main", "a", b"1")
    old = repo.commit("main", "one")
    repo.delete("main", "a")
    repo.commit("main", "two")
    assert repo.commit_metarange("main", "again", old.meta_range_id).meta_range_id == old.meta_range_id
    assert repo.read("main", "a") == b"1"
    repo.upload("main", "b", b"2")
    with pytest.raises(SandboxError, match="dirty branch"):
        repo.commit_metarange("main", "again", old.meta_range_id)
    with pytest.raises(SandboxError, match="not found"):
        repo.reset("main")
        repo.commit_metarange("main", "again", "0" * 64)


def test_an_old_database_is_restored_and_the_files_stay(repo: Repository) -> None:
    repo.set_rules(7)
    backup = repo.backup()
    address = repo.upload("main", "a", b"1")
    repo.commit("main", "one")
    repo.create_branch("dev", "main")
    repo.set_rules(9)
    newer = repo.backup()
    repo.restore(backup)
    assert repo.rules == (7, {}) and list(repo.refs.branches) == ["main"] and not list(repo.objects("main"))
    assert repo.files.read(address) == b"1"
    repo.upload("main", "b", b"2")
    repo.restore(newer)
    assert [path for path, _ in repo.objects("dev")] == [path for path, _ in repo.objects("main")] == ["a"]


def test_an_error_while_scanning_ends_the_branch_and_nobody_hears_of_it(repo: Repository) -> None:
    first, _ = repo.upload("main", "a", b"1"), repo.upload("main", "b", b"2")
    repo.create_branch("next", "main")
    last = repo.upload("next", "c", b"3")

    def fail(branch: str, path: str) -> None:
        if branch == "main" and path > "a":
            raise ScanError

    assert dumped(repo, fail) == {first, last}


def test_what_moves_behind_the_scan_is_missed(repo: Repository) -> None:
    moved, seen = repo.upload("main", "z", b"1"), repo.upload("main", "m", b"2")

    def move(branch: str, path: str) -> None:
        if path > "m":
            repo.copy("main", "a", "main", "z", shallow=True)
            repo.delete("main", "z")

    assert dumped(repo, move) == {seen}
    assert moved in dumped(repo, nothing)


@pytest.mark.parametrize(("rows_after", "uploaded"), [(False, False), (True, True)])
def test_a_page_on_which_a_branch_vanishes_is_dropped_unless_rows_follow(
    repo: Repository, rows_after: bool, uploaded: bool
) -> None:
    address = repo.upload("main", "a", b"1")
    for name in ("vanishing", "with-rows", "zz"):
        repo.create_branch(name, "main~0")
    if rows_after:
        repo.upload("with-rows", "b", b"2")

    def vanish(branch: str, path: str) -> None:
        repo.refs.branches.pop("vanishing", None)

    assert (address in dumped(repo, vanish, branches=3)) is uploaded


def test_a_branch_that_vanishes_last_fails_the_call(repo: Repository) -> None:
    repo.create_branch("vanishing", "main")
    with pytest.raises(SandboxError, match="not found"):
        dumped(repo, lambda branch, path: repo.refs.branches.pop("vanishing", None))
