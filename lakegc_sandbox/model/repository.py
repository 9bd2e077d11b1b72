"""One repository of the sandbox: its commits, branches and tags, merges, and retention rules.

Objects and staging belong in `objects`, what the garbage collection endpoints compute in `gc_prepare`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakegc_sandbox.files.graveler_writer import FULL, Commit, Entry, rules_file
from lakegc_sandbox.model.merging import merged
from lakegc_sandbox.model.objects import NOW, OCTETS, Objects, Place, effective
from lakegc_sandbox.model.refs import Branch, Refs, SandboxError, Staging
from lakegc_sandbox.model.tree import Changes, Tree, TreeWriter

_DUMMY = b"this is dummy data - created by lakeFS to check accessibility"
_STRATEGY = ".lakefs.merge.strategy"
_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)


@dataclass(frozen=True)
class Backup:
    """The contents of a repository's database at one moment."""

    refs: Refs
    rules: tuple[int, dict[str, int]] | None
    creation_date: int


class Repository(Objects):
    """Branches over commits over ranges. Every public method is safe to call from any thread."""

    def __init__(self, name: str, place: Place, *, default_branch: str = "main", age: timedelta = NOW) -> None:
        super().__init__(place)
        self.name = name
        self.default_branch = default_branch
        self.rules: tuple[int, dict[str, int]] | None = None  # default days, days by branch
        self._trees = TreeWriter(self.write_metadata, place.layout.range_modulus, place.layout.range_max_size)
        created = self._time(age)
        self.creation_date = int(created)
        self.files.write(f"{self.place.layout.prefix}/dummy", _DUMMY, created)
        first = self._add_commit(Commit("", "Repository created", int(created * 1e9), "", (), 1))
        self.refs.branches[default_branch] = Branch(default_branch, first.id)

    def write_metadata(self, table_id: str, data: bytes) -> None:
        """Store a range or a metarange."""
        self.files.write(f"{self.place.layout.prefix}/{table_id}", data, self.place.clock())

    def commit(
        self,
        branch: str,
        message: str,
        *,
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        hooks: Callable[[], object] | None = None,
    ) -> Commit:
        """Seal what is staged, run the hooks (without holding the lock), write ranges, move the head.

        When the hooks raise, nothing is committed and what was staged stays sealed.
        """
        finish = self.begin_commit(branch, message, date=date, metadata=metadata, allow_empty=allow_empty)
        if hooks is not None:
            hooks()
        return finish()

    def begin_commit(
        self,
        branch: str,
        message: str,
        *,
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Callable[[], Commit]:
        """Seal what is staged, as a commit does before its hooks run; what is returned does the rest of it."""
        with self._lock:
            sealed = self._branch(branch).seal()

        def finish() -> Commit:
            with self._lock:
                target = self._branch(branch)
                tree, is_changed = self._applied(target, sealed)
                if not is_changed and not allow_empty:
                    raise SandboxError(400, "commit: no changes")
                commit = self._move(target, tree, message, date=date, metadata=metadata)
                kept = {id(token) for token in sealed}
                target.sealed = [token for token in target.sealed if id(token) not in kept]
                return commit

        return finish

    def compact(self, branch: str) -> None:
        """Move what is staged into a metarange that is read in place of the head: staging compaction."""
        with self._lock:
            target = self._branch(branch)
            target.compacted, target.sealed = self._applied(target, target.seal())[0], []

    def commit_metarange(self, branch: str, message: str, metarange_id: str, *, date: datetime | None = None) -> Commit:
        """Commit the content of a metarange that is stored already, whatever commits refer to it."""
        with self._lock:
            target = self._sealed(branch, "cannot use source MetaRange: ")
            if metarange_id not in self.refs.trees:
                raise SandboxError(404, f"metarange '{metarange_id}': not found")
            commit = self._move(target, self.refs.trees[metarange_id], message, date=date)
            target.sealed = []
            return commit

    def create_branch(self, name: str, source: str, *, hidden: bool = False) -> str:
        """Branch off a reference; return the new head."""
        return self.begin_branch(name, source, hidden=hidden)()

    def begin_branch(self, name: str, source: str, *, hidden: bool = False) -> Callable[[], str]:
        """Find the source's commit, as happens before the hooks run; what is returned makes the branch."""
        with self._lock:
            if self.read_only:
                raise SandboxError(403, "read-only repository")
            if not _BRANCH_NAME.fullmatch(name):
                raise SandboxError(400, "branch id must consist of letters, digits, underscores and dashes")
            self._check_free(name)
            commit = self.refs.resolve(source)

        def finish() -> str:
            with self._lock:
                self._check_free(name)
                self.refs.branches[name] = Branch(name, commit.id, hidden)
                return commit.id

        return finish

    def _check_free(self, name: str) -> None:
        if name in self.refs.branches or name in self.refs.tags:
            raise SandboxError(409, "branch already exists: not unique")

    def delete_branch(self, name: str) -> None:
        """Drop a branch and all that is staged on it. Its commits stay."""
        with self._lock:
            self._branch(name)
            if name == self.default_branch:
                raise SandboxError(403, "cannot delete repository default branch")
            del self.refs.branches[name]

    def tag(self, name: str, ref: str) -> str:
        """Tag a commit."""
        with self._lock:
            if name in self.refs.tags:
                raise SandboxError(409, "tag already exists: not unique")
            self.refs.tags[name] = self.refs.resolve(ref).id
            return self.refs.tags[name]

    def delete_tag(self, name: str) -> None:
        """Drop a tag."""
        with self._lock:
            if self.refs.tags.pop(name, None) is None:
                raise SandboxError(404, f"tag '{name}': not found")

    def merge(
        self,
        source: str,
        branch: str,
        *,
        message: str = "",
        strategy: str = "",
        squash: bool = False,
        date: datetime | None = None,
    ) -> Commit:
        """Three-way merge of a reference into a branch; `source-wins` and `dest-wins` settle conflicts."""
        with self._lock:
            target = self._sealed(branch)
            ours, theirs = self.refs.resolve(branch), self.refs.resolve(source)
            base = self.refs.tree(self.refs.merge_base(ours, theirs).id)
            changes = merged(base, self.refs.tree(theirs.id), self.refs.tree(ours.id), strategy)
            commit = self._advance(
                target,
                changes,
                message or f"Merge '{source}' into '{branch}'",
                date=date,
                metadata={_STRATEGY: strategy} if strategy else {},
                second_parent=None if squash else theirs.id,
            )
            target.sealed = []
            return commit

    def revert(self, branch: str, ref: str, *, parent_number: int = 1, date: datetime | None = None) -> Commit:
        """Commit the opposite of a commit."""
        with self._lock:
            commit = self.refs.resolve(ref)
            parent = self._parent_tree(commit, parent_number)
            target = self._sealed(branch)
            head = self.refs.tree(target.commit_id)
            changes = merged(self.refs.tree(commit.id), parent, head)
            if not changes:
                raise SandboxError(400, "no changes")
            reverted = self._advance(target, changes, f"Revert {commit.id}", date=date)
            target.sealed = []
            return reverted

    def cherry_pick(self, branch: str, ref: str, *, parent_number: int = 1, date: datetime | None = None) -> Commit:
        """Commit what another commit changed."""
        with self._lock:
            commit = self.refs.resolve(ref)
            parent = self._parent_tree(commit, parent_number)
            target = self._sealed(branch)
            head = self.refs.tree(target.commit_id)
            changes = merged(parent, self.refs.tree(commit.id), head)
            origin = {"cherry-pick-origin": commit.id, "cherry-pick-committer": commit.committer}
            metadata = {**commit.metadata, **origin}
            picked = self._advance(target, changes, commit.message, date=date, metadata=metadata)
            target.sealed = []
            return picked

    def hard_reset(self, branch: str, ref: str) -> None:
        """Move a branch to another commit; what is staged stays staged. Refused over visible sealed changes."""
        with self._lock:
            target = self._branch(branch)
            if effective(self.refs.tree(target.commit_id), Branch("", "", sealed=target.sealed).staged()):
                raise SandboxError(400, "uncommitted changes (dirty branch)")
            target.commit_id = self.refs.resolve(ref).id

    def import_objects(
        self,
        branch: str,
        sources: Mapping[str, tuple[str, int]],
        *,
        message: str = "import",
        date: datetime | None = None,
    ) -> Commit:
        """Commit entries (path -> full address, size) of objects that lie outside the repository."""
        changes = {}
        at = int(self.place.clock() * 1e9)
        for path, (address, size) in sources.items():
            if address.startswith(self.place.namespace):
                raise SandboxError(400, "import source is inside the repository's storage namespace")
            checksum = hashlib.md5(address.encode(), usedforsecurity=False).hexdigest()
            changes[path] = Entry(address, size, checksum, at, FULL, {}, OCTETS)
        with self._lock:
            target = self._sealed(branch)
            commit = self._advance(target, changes, message, date=date, metadata={_STRATEGY: "source-wins"})
            target.sealed = []
            return commit

    # --- the server's database ---

    def backup(self) -> Backup:
        """All that lakeFS keeps in its database: references, what is staged, rules. Not the files."""
        with self._lock:
            return Backup(self.refs.copy(), self.rules, self.creation_date)

    def restore(self, backup: Backup) -> None:
        """Put an older database in place of the present one, as after a disaster. The files stay as they are."""
        with self._lock:
            self.refs, self.rules, self.creation_date = backup.refs.copy(), backup.rules, backup.creation_date

    # --- retention rules ---

    def set_rules(self, default_days: int, branch_days: Mapping[str, int] | None = None) -> None:
        """Set the retention rules. All zero and no branches is no rules, as in lakeFS."""
        with self._lock:
            if self.read_only:
                raise SandboxError(403, "read-only repository")
            branches = {name: _int32(days) for name, days in (branch_days or {}).items()}
            data = rules_file(_int32(default_days), branches)
            self.rules = (_int32(default_days), branches) if data else None
            self.files.write(f"{self.place.layout.prefix}/retention/gc/rules/config.json", data, self.place.clock())

    def delete_rules(self) -> None:
        """Unset them: lakeFS writes an empty object."""
        self.set_rules(0)

    # --- within ---

    def _sealed(self, branch: str, what: str = "") -> Branch:
        """A branch whose head is about to move, its staging sealed. Refused where it shows changes.

        What was sealed is hidden behind the head. It is dropped when the new head stands; it stays if none does.
        """
        target = self._branch(branch)
        if self.uncommitted(branch):
            raise SandboxError(400, f"{what}uncommitted changes (dirty branch)")
        target.seal()
        return target

    def _parent_tree(self, commit: Commit, number: int) -> Tree:
        if not 1 <= number <= len(commit.parents):
            raise SandboxError(400, "parent number is out of range")
        return self.refs.tree(commit.parents[number - 1])

    def _advance(
        self,
        branch: Branch,
        changes: Changes,
        message: str,
        *,
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        second_parent: str | None = None,
    ) -> Commit:
        tree = self._trees.apply(self.refs.tree(branch.commit_id), changes)
        self.refs.trees[tree.meta_range_id] = tree
        return self._move(branch, tree, message, date=date, metadata=metadata, second_parent=second_parent)

    def _applied(self, branch: Branch, sealed: list[Staging]) -> tuple[Tree, bool]:
        """Sealed tokens applied to what lies under a branch's staging, and whether that differs from the head."""
        base = self._base(branch)
        changes = effective(base, Branch("", "", sealed=sealed).staged())
        tree = self._trees.apply(base, changes)
        self.refs.trees[tree.meta_range_id] = tree
        return tree, bool(changes) or branch.compacted is not None

    def _move(
        self,
        branch: Branch,
        tree: Tree,
        message: str,
        *,
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
        second_parent: str | None = None,
    ) -> Commit:
        parents = (branch.commit_id, second_parent) if second_parent else (branch.commit_id,)
        generation = 1 + max(self.refs.commits[parent].generation for parent in parents)
        at = self.place.clock() if date is None else date.astimezone(UTC).timestamp()
        commit = self._add_commit(
            Commit("admin", message, int(at * 1e9), tree.meta_range_id, parents, generation, dict(metadata or {}))
        )
        branch.commit_id, branch.compacted = commit.id, None
        return commit

    def _add_commit(self, commit: Commit) -> Commit:
        self.refs.commits[commit.id] = commit
        return commit


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
