"""Commits, branches and tags of one repository, and what a reference expression means.

What a commit contains belongs in `tree`, what users do to a branch in `repository`.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakegc_core.errors import LakegcError
from lakegc_sandbox.files.graveler_writer import Commit, Entry
from lakegc_sandbox.model.tree import EMPTY_TREE, Tree

_MODIFIER = re.compile(r"(?:~(\d*)|\^(\d*))$")

Staging = dict[str, Entry | None]  # None = a tombstone


class SandboxError(LakegcError):
    """The sandbox refuses a request, as lakeFS would; `status` is the HTTP status it says so with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class GoneError(SandboxError):
    """The entry is there, its data is not."""

    def __init__(self, message: str = "No data") -> None:
        super().__init__(410, message)


@dataclass
class Branch:
    """A head and the staging area over it: the current token and the sealed ones, newest first.

    `compacted`: what a compaction made of the head and of what was staged; it is read in place of the head.
    """

    name: str
    commit_id: str
    hidden: bool = False
    staging: Staging = field(default_factory=dict)
    sealed: list[Staging] = field(default_factory=list)
    compacted: Tree | None = None

    def seal(self) -> list[Staging]:
        """Freeze what is staged so far, as a commit begins by doing; return the sealed tokens."""
        if self.staging:
            self.sealed.insert(0, self.staging)
            self.staging = {}
        return list(self.sealed)

    def copy(self) -> Branch:
        """The same branch. Sealed tokens are shared: a commit that holds them knows them by what they are."""
        return Branch(self.name, self.commit_id, self.hidden, dict(self.staging), list(self.sealed), self.compacted)

    def staged(self) -> Staging:
        """The staged entries, newer tokens over older ones."""
        merged: Staging = {}
        for token in reversed(self.sealed):
            merged |= token
        return merged | self.staging


class Refs:
    """All commits of a repository, also those no reference reaches, and the references."""

    def __init__(self) -> None:
        self.commits: dict[str, Commit] = {}
        self.trees: dict[str, Tree] = {"": EMPTY_TREE}  # by metarange id
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, str] = {}

    def copy(self) -> Refs:
        """The same commits and references, apart from these."""
        found = Refs()
        found.commits, found.trees, found.tags = dict(self.commits), dict(self.trees), dict(self.tags)
        found.branches = {name: branch.copy() for name, branch in self.branches.items()}
        return found

    def branch(self, name: str) -> Branch:
        try:
            return self.branches[name]
        except KeyError:
            raise SandboxError(404, f"branch '{name}' not found") from None

    def commit(self, commit_id: str) -> Commit:
        try:
            return self.commits[commit_id]
        except KeyError:
            raise SandboxError(404, f"commit '{commit_id}': not found") from None

    def tree(self, commit_id: str) -> Tree:
        return self.trees[self.commit(commit_id).meta_range_id]

    def resolve(self, expression: str) -> Commit:
        """The commit a branch, tag, commit id or id prefix names, with `@`, `~n` and `^n` behind it."""
        if expression.endswith("@"):
            return self.resolve(expression[:-1])
        modifier = _MODIFIER.search(expression)
        if modifier and modifier.start():
            commit = self.resolve(expression[: modifier.start()])
            back, which = modifier.groups()
            for _ in range(int(back or 1) if back is not None else 1):
                place = int(which or 1) - 1 if which is not None else 0
                if place >= len(commit.parents):
                    raise SandboxError(404, f"reference '{expression}': not found")
                commit = self.commit(commit.parents[place])
            return commit
        if expression in self.branches:
            return self.commit(self.branches[expression].commit_id)
        if expression in self.tags:
            return self.commit(self.tags[expression])
        if expression in self.commits:
            return self.commits[expression]
        if re.fullmatch(r"[0-9a-f]{6,63}", expression):
            found = [commit for commit_id, commit in self.commits.items() if commit_id.startswith(expression)]
            if len(found) == 1:
                return found[0]
        raise SandboxError(404, f"reference '{expression}': not found")

    def log(self, commit: Commit, first_parent: bool = False) -> Iterator[Commit]:
        """The commit and its ancestors, descendants always before their ancestors."""
        queue = [(-commit.generation, commit.id)]
        seen = {commit.id}
        while queue:
            current = self.commits[heapq.heappop(queue)[1]]
            yield current
            for parent in current.parents[:1] if first_parent else current.parents:
                if parent not in seen:
                    seen.add(parent)
                    heapq.heappush(queue, (-self.commits[parent].generation, parent))

    def merge_base(self, left: Commit, right: Commit) -> Commit:
        """The nearest common ancestor."""
        ours = {commit.id for commit in self.log(left)}
        return next(commit for commit in self.log(right) if commit.id in ours)
