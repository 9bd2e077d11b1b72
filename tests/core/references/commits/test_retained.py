"""What is asked of the server about refs and commits: answers that are short or of something else are errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import CorruptFileError, IncompleteError, RefusedError, ServerError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Commit, Ref
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.facts import CommitsFacts
from lakegc_core.policy.retention import Rules
from lakegc_core.references.commits import retained
from lakegc_core.references.commits.commit_walk import Walk
from lakegc_core.references.commits.retained import (
    _refs,
    fetch_commit,
    find_retained,
    heads_digest,
    walk_until_known,
    write_branches,
)
from lakegc_core.tables.parts import Part, read_part
from lakegc_sandbox import Repository
from lakegc_sandbox.files import graveler_writer
from tests.support.lake import NO_SPARK, NOW, lake

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake")
        yield served.begin("lake", "m1")


class Client:
    """A server that lists branches anew each time, and knows some commits."""

    def __init__(self, *listings: list[Ref], commits: dict[str, Commit] | None = None) -> None:
        self.listings, self.known, self.asked = list(listings), commits or {}, []

    def branches(self, repository: str) -> Iterator[Ref]:
        return iter(self.listings.pop(0))

    def tags(self, repository: str) -> Iterator[Ref]:
        return iter([Ref("v1", C)])

    def commit(self, repository: str, commit_id: str) -> Commit:
        self.asked.append(commit_id)
        if commit_id not in self.known:
            raise LakeFSError("not found", status=404)
        return self.known[commit_id]


def asking(context: MarkContext, client: Client) -> MarkContext:
    return replace(context, client=client)  # type: ignore[arg-type]


def names(context: MarkContext, parts: list[Part]) -> set[tuple[str, str, str]]:
    return {
        tuple(row.values())  # type: ignore[misc]
        for part in parts
        for batch in read_part(context.workspace, "refs", part)
        for row in batch.to_pylist()
    }


def test_a_repository_without_rules_is_refused_unless_every_commit_counts(context: MarkContext) -> None:
    with pytest.raises(RefusedError, match=r"no garbage collection rules.*keep-all-commits"):
        find_retained(NO_SPARK, context, "here", former=None)


@pytest.mark.parametrize(("default", "main", "told"), [(-1294967296, 7, True), (7, -5, True), (0, 0, False)])
def test_negative_days_which_keep_no_history_are_told_before_a_sweep_goes_by_them(
    context: MarkContext, default: int, main: int, told: bool
) -> None:
    says: list[str] = []
    retained._tell_of_negative_days(replace(context, say=says.append), Rules(default, {"main": main}))
    assert (f"a rule of {min(default, main)} days keeps no history at all" in "".join(says)) == told == bool(says)


def test_a_list_without_any_branch_is_not_whole(context: MarkContext) -> None:
    with pytest.raises(IncompleteError, match="lists no branch of lake"):
        write_branches(asking(context, Client([])), "refs")


def test_branches_are_listed_until_two_listings_agree(context: MarkContext) -> None:
    one, two = [Ref("main", A)], [Ref("main", B)]
    client = Client(one, two, two)
    digest, parts = _refs(asking(context, client), "refs")
    assert digest == heads_digest(two) and not client.listings
    assert names(context, parts) == {("branch", "main", B), ("tag", "v1", C)}


def test_of_listings_that_never_agree_all_count(context: MarkContext) -> None:
    listings = [[Ref("main", A)], [Ref("renamed", A)], [Ref("main", B)]]
    _, parts = _refs(asking(context, Client(*listings)), "refs")
    assert names(context, parts) == {
        ("branch", "main", A),
        ("branch", "renamed", A),
        ("branch", "main", B),
        ("tag", "v1", C),
    }


def test_a_commit_that_is_not_found_by_its_whole_id_is_asked_for_by_the_beginning_of_it(context: MarkContext) -> None:
    client = Client(commits={A[:40]: Commit(A, B, (), 1)})
    assert fetch_commit(asking(context, client), A).metarange_id == B
    assert client.asked == [A, A[:40]]


def test_another_commit_than_the_one_asked_for_is_an_error_and_so_is_none(context: MarkContext) -> None:
    with pytest.raises(ServerError, match="answered with commit b"):
        fetch_commit(asking(context, Client(commits={A: Commit(B, B, (), 1)})), A)
    with pytest.raises(LakeFSError):
        fetch_commit(asking(context, Client()), A)
    asked = asking(context, Client(commits={"main": Commit(A, B, (), 1)}))
    with pytest.raises(LakeFSError, match="'main' is no id of a commit"):
        fetch_commit(asked, "main")


def test_commits_that_the_dump_lacks_are_asked_for_until_all_are_known_and_not_without_end(
    context: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asking(context, Client(commits={A: Commit(A, B, (), 1)}))
    walk = Walk()

    def walked(items: Sequence[Walk], task: object) -> list[dict[str, Any]]:
        return [{"unknown": [A]}] if not items[0].extra else [{"facts": {}}]

    assert "facts" in walk_until_known(walked, asked, walk)[0]
    monkeypatch.setattr(retained, "MOST_FETCHED", 3)
    with pytest.raises(IncompleteError, match="missing from lakeFS's own dump"):
        walk_until_known(lambda items, _: [{"unknown": [B, C, "d" * 64] if items[0].extra else [A]}], asked, Walk())


@pytest.mark.parametrize("parent", [A, "main"])
@pytest.mark.parametrize("rules", [7, None])
def test_a_commit_whose_parent_lakefs_does_not_know_stops_a_mark_only_while_it_is_retained(
    tmp_path: Path, parent: str, rules: int | None
) -> None:
    """lakeFS 1.84 dies when it is asked for the commits that it retains, and has such a commit."""
    with lake(tmp_path) as served:
        repository = served.create("lake")
        if rules:
            repository.set_rules(rules)

        def found(*ignored: str) -> CommitsFacts:
            policy = RepositoryPolicy(match="*", ignore_commits=ignored, rules=None if rules else "keep-all-commits")
            marked = replace(served, policies=(policy,)).begin("lake", f"m{len(served.server.requests)}")
            return find_retained(NO_SPARK, marked, "here", former=None).facts

        child = orphan(repository, parent, days=30)
        if rules:
            assert (found().known, found().retained, found().server_retained) == (2, 1, None)
            child = orphan(repository, parent, days=1)
        with pytest.raises(CorruptFileError, match=rf"Commit {child} is retained.*ignore_commits: \[{child}\]"):
            found()
        assert found(child).retained == 2 and list(found(child).commits_ignored) == [child]
        assert not any("prepare_commits" in path for _, path in served.server.requests)


def orphan(repository: Repository, parent: str, days: int) -> str:
    """A commit on no branch, as a client may record it."""
    (first, *_) = repository.refs.commits.values()
    created = int((NOW - timedelta(days=days)).timestamp()) * 10**9
    commit = graveler_writer.Commit("me", "orphan", created, first.meta_range_id, (parent,), 1)
    repository.refs.commits[commit.id] = commit
    return commit.id


def test_an_answer_that_is_not_lakefs_own_makes_no_parent_missing(context: MarkContext) -> None:
    """A proxy may answer 404 in its place. An id that is no parent is an error, whoever answers."""

    class Refuses(Client):
        message = ""

        def commit(self, repository: str, commit_id: str) -> Commit:
            raise LakeFSError("not found", 404, self.message)

    def walked(items: Sequence[Walk], task: object) -> list[dict[str, Any]]:
        return [{"unknown": [A]}] if A not in items[0].missing or is_needed else [{"facts": {}}]

    is_needed, client = False, Refuses()
    with pytest.raises(LakeFSError):
        walk_until_known(walked, asking(context, client), Walk())
    client.message = "not found"
    assert walk_until_known(walked, asking(context, client), walk := Walk()) and walk.missing == {A}
    is_needed = True
    with pytest.raises(LakeFSError):
        walk_until_known(walked, asking(context, client), Walk())
