"""What stays staged, what is hidden behind a head, and what is dropped: resets, hard resets, and moves of the head."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_sandbox import Layout, Repository, Sandbox, SandboxError

SAME = b"the same bytes"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Sandbox(tmp_path, blockstore="s3", seed=1, layout=Layout(range_modulus=5)).create_repository("lake")


def visible(repo: Repository, branch: str = "main") -> dict[str, str]:
    """The address that a branch shows under each path."""
    return {path: entry.address for path, entry in repo.objects(branch)}


def named(repo: Repository, branch: str = "main") -> set[str]:
    """The addresses of a branch that the server's dump of staged objects names."""
    return {entry.address for _, change, entry in repo.uncommitted(branch) if change != "removed"}


def hide(repo: Repository, path: str = "same") -> tuple[str, str]:
    """Commit an object and upload it once more: the committed address, and that of the hidden re-upload."""
    committed = repo.upload("main", path, SAME)
    repo.commit("main", f"has {path}")
    hidden = repo.upload("main", path, SAME)
    assert visible(repo)[path] == hidden and hidden not in named(repo)
    return committed, hidden


def test_a_reset_of_the_whole_branch_drops_hidden_re_uploads_too(repo: Repository) -> None:
    committed, _ = hide(repo)
    repo.reset("main")
    assert visible(repo) == {"same": committed}
    assert repo.refs.branch("main").staged() == {}


@pytest.mark.parametrize("reset", [Repository.reset_path, Repository.reset_prefix, Repository.reset])
def test_a_reset_of_a_path_or_prefix_leaves_hidden_re_uploads(
    repo: Repository, reset: Callable[[Repository, str, str], None]
) -> None:
    _, hidden = hide(repo)
    reset(repo, "main", "same")
    assert visible(repo) == {"same": hidden}


@pytest.mark.parametrize("reset", [Repository.reset_path, Repository.reset_prefix])
def test_a_reset_stages_the_entry_of_the_head_or_a_tombstone(
    repo: Repository, reset: Callable[[Repository, str, str], None]
) -> None:
    committed, _ = hide(repo)
    changed = repo.upload("main", "same", b"changed")
    repo.upload("main", "same, added", b"added")
    repo.delete("main", "same, never there")
    for path in ("same", "same, added", "same, never there"):
        reset(repo, "main", path)
    assert visible(repo) == {"same": committed}
    assert changed not in named(repo) and repo.uncommitted("main") == []
    assert repo.refs.branch("main").staged().keys() == {"same", "same, added"}
    # Both stay staged: after a hard reset the branch shows the old head's entry still, and never the added path.
    first = next(iter(repo.refs.commits))
    if not repo.refs.branch("main").sealed:
        repo.hard_reset("main", first)
        assert visible(repo) == {"same": committed} and named(repo) == {committed}


def test_a_reset_of_a_prefix_seals_what_it_covers_and_a_hard_reset_is_refused_over_it(repo: Repository) -> None:
    hide(repo)
    repo.upload("main", "same", b"changed")
    repo.reset_prefix("main", "sa")
    with pytest.raises(SandboxError, match="dirty branch"):
        repo.hard_reset("main", "main~1")
    repo.upload("main", "other", b"1")
    repo.commit("main", "sealed tokens go with it")
    repo.hard_reset("main", "main~1")
    assert list(visible(repo)) == ["same"]


def test_a_hard_reset_turns_hidden_entries_visible_and_visible_ones_hidden(repo: Repository) -> None:
    _, hidden = hide(repo)
    first = next(iter(repo.refs.commits))
    head = repo.refs.branch("main").commit_id
    repo.hard_reset("main", first)
    assert named(repo) == {hidden} and visible(repo) == {"same": hidden}
    repo.hard_reset("main", head)
    assert named(repo) == set() and visible(repo) == {"same": hidden}


def test_a_tombstone_outlives_a_hard_reset(repo: Repository) -> None:
    first = next(iter(repo.refs.commits))
    repo.upload("main", "a", b"1")
    head = repo.commit("main", "has a").id
    repo.hard_reset("main", first)
    repo.upload("main", "a", b"2")
    repo.delete("main", "a")
    repo.hard_reset("main", head)
    assert visible(repo) == {}


MOVES: dict[str, Callable[[Repository], object]] = {
    "commit": lambda repo: (repo.upload("main", "new", b"new"), repo.commit("main", "moves")),
    "merge": lambda repo: repo.merge("dev", "main"),
    "revert": lambda repo: repo.revert("main", "other"),
    "cherry-pick": lambda repo: repo.cherry_pick("main", "dev"),
    "import": lambda repo: repo.import_objects("main", {"in": ("s3://elsewhere/in", 1)}),
    "metarange": lambda repo: repo.commit_metarange("main", "again", repo.refs.resolve("dev").meta_range_id),
}


def prepared(repo: Repository) -> tuple[str, str]:
    """Main with a hidden re-upload, and `dev` beside it with a commit of its own; `other` is a tag on main."""
    repo.upload("main", "other", b"other")
    repo.tag("other", repo.commit("main", "other").id)
    committed = repo.upload("main", "same", SAME)
    repo.commit("main", "same")
    repo.create_branch("dev", "main")
    repo.upload("dev", "dev", b"dev")
    repo.commit("dev", "dev")
    return committed, repo.upload("main", "same", SAME)


@pytest.mark.parametrize("move", MOVES)
def test_hidden_re_uploads_are_dropped_when_the_head_moves(repo: Repository, move: str) -> None:
    committed, hidden = prepared(repo)
    assert visible(repo)["same"] == hidden
    MOVES[move](repo)
    assert visible(repo)["same"] == committed
    branch = repo.refs.branch("main")
    assert (branch.staging, branch.sealed) == ({}, [])


@pytest.mark.parametrize("move", [move for move in MOVES if move != "commit"])
def test_a_branch_that_shows_changes_refuses_to_move(repo: Repository, move: str) -> None:
    _, hidden = prepared(repo)
    added = repo.upload("main", "added", b"added")
    with pytest.raises(SandboxError, match="dirty branch"):
        MOVES[move](repo)
    assert visible(repo)["same"] == hidden and visible(repo)["added"] == added


@pytest.mark.parametrize("move", ["merge", "cherry-pick", "metarange"])
def test_what_a_failed_move_has_sealed_is_still_shown(repo: Repository, move: str) -> None:
    _, hidden = prepared(repo)
    repo.upload("main", "dev", b"a conflict")
    repo.commit("main", "conflicts")
    hidden = repo.upload("main", "same", SAME)
    failing = {**MOVES, "metarange": lambda repo: repo.commit_metarange("main", "none", "0" * 64)}[move]
    with pytest.raises(SandboxError):
        failing(repo)
    branch = repo.refs.branch("main")
    assert branch.staging == {} and branch.sealed
    assert visible(repo)["same"] == hidden
    newer = repo.upload("main", "same", SAME)
    assert visible(repo)["same"] == newer


def test_a_branch_begins_without_what_its_source_has_staged(repo: Repository) -> None:
    committed, hidden = hide(repo)
    repo.create_branch("dev", "main")
    assert visible(repo, "dev") == {"same": committed} and visible(repo) == {"same": hidden}


def test_a_copy_onto_itself_has_the_sources_checksum_and_is_hidden(repo: Repository) -> None:
    address = repo.physical_address("main")
    repo.put(address, SAME)
    repo.stage("main", "linked", address, size=len(SAME), checksum="not-a-digest-2")
    repo.commit("main", "linked")
    copied = repo.copy("main", "linked", "main", "linked")
    assert copied.e_tag == "not-a-digest-2" and copied.address not in address
    assert visible(repo)["linked"] == copied.address and named(repo) == set()


def test_a_link_may_claim_a_size_that_is_not_the_objects(repo: Repository) -> None:
    committed = repo.upload("main", "a", SAME)
    repo.commit("main", "a")
    address = repo.physical_address("main")
    repo.put(address, b"much longer than what is claimed", age=timedelta(days=2))
    checksum = hashlib.md5(SAME, usedforsecurity=False).hexdigest()
    linked = repo.stage("main", "a", address, size=len(SAME), checksum=checksum).address
    assert visible(repo) == {"a": linked} and linked != committed
    assert named(repo) == set(), "the claims are those of the head's entry"
    assert repo.read("main", "a") == b"much longer than what is claimed"


# --- compaction ---


def test_a_compaction_moves_what_is_staged_and_the_branch_shows_and_dumps_the_same(repo: Repository) -> None:
    repo.upload("main", "committed", b"1")
    repo.commit("main", "one")
    head = repo.refs.branch("main").commit_id
    staged = repo.upload("main", "staged", SAME)
    repo.delete("main", "committed")
    before, dumped = visible(repo), repo.uncommitted("main")
    repo.compact("main")
    assert repo.refs.branch("main").staged() == {} and repo.refs.branch("main").commit_id == head
    assert (visible(repo), repo.uncommitted("main")) == (before, dumped)
    assert before == {"staged": staged}
    repo.reset("main")
    assert set(visible(repo)) == {"committed"}


@pytest.mark.parametrize("settle", [Repository.compact, lambda repo, branch: repo.commit(branch, "settled")])
def test_of_identical_uploads_the_compacted_one_stays_though_only_the_later_one_was_shown_and_dumped(
    repo: Repository, settle: Callable[[Repository, str], object]
) -> None:
    first = repo.upload("main", "same", SAME)
    repo.compact("main")
    second = repo.upload("main", "same", SAME)
    assert visible(repo) == {"same": second} and named(repo) == {second}
    settle(repo, "main")
    assert visible(repo) == {"same": first} and second not in named(repo)


def test_the_dump_names_what_a_compaction_holds_under_a_re_upload_of_the_heads_content(repo: Repository) -> None:
    repo.upload("main", "same", SAME)
    repo.commit("main", "one")
    changed = repo.upload("main", "same", b"other")
    repo.compact("main")
    again = repo.upload("main", "same", SAME)
    assert visible(repo) == {"same": again} and named(repo) == {changed}


@pytest.mark.parametrize("reset", [Repository.reset_path, Repository.reset_prefix])
def test_what_was_compacted_is_taken_back_by_path_or_prefix(
    repo: Repository, reset: Callable[[Repository, str, str], None]
) -> None:
    committed = repo.upload("main", "changed", SAME)
    repo.commit("main", "one")
    repo.upload("main", "changed", b"other")
    repo.upload("main", "changed too", b"other")
    repo.compact("main")
    reset(repo, "main", "changed")
    assert visible(repo)["changed"] == committed
