"""lakeFS in small, without bytes, files or requests: what its users do, and what it tells a collector.

Objects are numbers. Defects that a collector must live with are here on purpose: identical re-uploads are in no dump,
and a commit in flight hides what was overwritten behind it. What is live is judged by `oracle`, by brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lakegc_core.policy.retention import Rules
from tests.support import oracle
from tests.support.oracle import Version, World

SECOND = 10**6  # microseconds; all other times here are seconds

Tree = dict[str, int]


def name_of(number: int) -> str:
    """An object's name in the store."""
    return f"data/{number:021}"


def number_of(name: str) -> int:
    return int(name.removeprefix("data/"))


@dataclass(frozen=True)
class Commit:
    """What a commit shows, by path, and when it was made."""

    parents: tuple[int, ...]
    created: int
    tree: Tree


@dataclass
class Branch:
    """A head, and what is staged over it: the open token over the sealed ones, newest first."""

    head: int
    staging: dict[str, int | None] = field(default_factory=dict)
    sealed: list[dict[str, int | None]] = field(default_factory=list)

    def staged(self) -> dict[str, int | None]:
        return merged([*reversed(self.sealed), self.staging])


@dataclass(frozen=True)
class Owed:
    """What a client has begun and will end by a time: an upload to be linked, or a commit behind its hooks."""

    begun: int
    due: int
    branch: str
    objects: frozenset[int]
    in_flight: bool  # a commit
    finish: Callable[[], None] = field(compare=False)


def merged(tokens: Iterable[dict[str, int | None]]) -> dict[str, int | None]:
    """Tokens over one another, the oldest first."""
    found: dict[str, int | None] = {}
    for token in tokens:
        found |= token
    return found


class Lake:
    """One repository. Steps that make no sense come to nothing."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.commits = [Commit((), now, {})]
        self.branches = {"main": Branch(0)}
        self.tags: dict[str, int] = {}
        self.rules: Rules | None = None
        self.store: dict[int, int] = {}  # object -> when it was written, as the store says
        self.contents: list[int] = []  # by object
        self.owed: list[Owed] = []

    # --- what users do ---

    def put(self, content: int, age: int = 0) -> int:
        """An object that nothing refers to yet."""
        self.contents.append(content)
        number = len(self.contents) - 1
        self.store[number] = self.now - age
        return number

    def upload(self, branch: str, path: str, content: int) -> None:
        self.stage(branch, path, self.put(content))

    def stage(self, branch: str, path: str, number: int | None) -> None:
        if branch in self.branches:
            self.branches[branch].staging[path] = number

    def upload_again(self, branch: str, path: str) -> None:
        """The same bytes to the same path: a new object that lakeFS takes for the old one."""
        shown = self.shown(branch).get(path)
        if shown is not None:
            self.upload(branch, path, self.contents[shown])

    def promise(self, branch: str, path: str, content: int, within: int, age: int = 0) -> None:
        """An object that is there already and will be linked within a time."""
        number = self.put(content, age)
        self.owed.append(
            Owed(
                self.now,
                self.now + within,
                branch,
                frozenset({number}),
                False,
                lambda: self.stage(branch, path, number),
            )
        )

    def move(self, branch: str, path: str, target: str) -> None:
        """Rename without copying: stage the same object elsewhere, remove it here."""
        number = self.shown(branch).get(path)
        if number is not None and path != target:
            self.stage(branch, target, number)
            self.stage(branch, path, None)

    def commit(self, branch: str) -> None:
        if not self.busy(branch):
            self._finish(branch, self._seal(branch))

    def begin_commit(self, branch: str, within: int) -> None:
        """A commit whose hooks take their time: what is staged is sealed now, the head moves later."""
        if self.busy(branch) or not self.branches[branch].staged():
            return
        sealed = self._seal(branch)
        head = self.commits[self.branches[branch].head].tree
        taken = {number for path, number in merged(reversed(sealed)).items() if self._differs(head.get(path), number)}
        objects = frozenset(number for number in taken if number is not None)
        self.owed.append(Owed(self.now, self.now + within, branch, objects, True, lambda: self._finish(branch, sealed)))

    def create_branch(self, name: str, commit: int) -> None:
        self.branches.setdefault(name, Branch(commit))

    def delete_branch(self, name: str) -> None:
        if name != "main" and self.branches.pop(name, None):
            self.owed = [each for each in self.owed if each.branch != name]

    def tag(self, name: str, commit: int) -> None:
        self.tags.setdefault(name, commit)

    def hard_reset(self, branch: str, commit: int) -> None:
        if not self.busy(branch):
            self.branches[branch].head = commit

    def reset(self, branch: str) -> None:
        if not self.busy(branch):
            self.branches[branch].staging, self.branches[branch].sealed = {}, []

    def bring(self, branch: str, tree: Tree, second: int | None = None) -> None:
        """A commit that brings entries of other commits: merge, revert, cherry-pick."""
        head = self.branches[branch].head
        mine = self.commits[head].tree
        changed = {path: number for path, number in tree.items() if self._differs(mine.get(path), number)}
        if changed and not self.busy(branch):
            parents = (head,) if second is None else (head, second)
            self._advance(branch, {**mine, **changed}, parents)

    def pass_time(self, seconds: int) -> None:
        """Let time pass; what is owed until then is done in time."""
        until = self.now + seconds
        while due := sorted((each for each in self.owed if each.due <= until), key=lambda each: each.due):
            self.now = max(self.now, due[0].due)
            self.settle(due[0])
        self.now = until

    def settle(self, owed: Owed) -> None:
        self.owed.remove(owed)
        if owed.branch in self.branches:
            owed.finish()

    def busy(self, branch: str) -> bool:
        """True while a commit of the branch waits for its hooks."""
        return branch not in self.branches or any(each.branch == branch and each.in_flight for each in self.owed)

    def _seal(self, branch: str) -> list[dict[str, int | None]]:
        target = self.branches[branch]
        target.sealed.insert(0, target.staging)
        target.staging = {}
        return list(target.sealed)

    def _finish(self, branch: str, sealed: list[dict[str, int | None]]) -> None:
        target = self.branches[branch]
        target.sealed = []
        tree = dict(self.commits[target.head].tree)
        changes = merged(reversed(sealed))
        changes = {path: number for path, number in changes.items() if self._differs(tree.get(path), number)}
        if changes:
            tree |= {path: number for path, number in changes.items() if number is not None}
            kept = {path: number for path, number in tree.items() if changes.get(path, 0) is not None}
            self._advance(branch, kept, (target.head,))

    def _advance(self, branch: str, tree: Tree, parents: tuple[int, ...]) -> None:
        self.commits.append(Commit(parents, self.now, tree))
        self.branches[branch].head = len(self.commits) - 1

    def _differs(self, one: int | None, other: int | None) -> bool:
        if one is None or other is None:
            return one is not other
        return self.contents[one] != self.contents[other]

    # --- what lakeFS tells ---

    def shown(self, branch: str) -> Tree:
        """What reads of a branch see."""
        if branch not in self.branches:
            return {}
        both = {**self.commits[self.branches[branch].head].tree, **self.branches[branch].staged()}
        return {path: number for path, number in both.items() if number is not None}

    def dumped(self, branch: str) -> set[int]:
        """What lakeFS's dump says is staged on a branch: not what equals the head's entry."""
        head = self.commits[self.branches[branch].head].tree
        staged = self.branches[branch].staged().items()
        return {number for path, number in staged if number is not None and self._differs(head.get(path), number)}

    def twins(self, branch: str) -> set[int]:
        """Identical re-uploads: staged, shown, and in no dump for as long as the head stays."""
        staged = self.branches[branch].staged().values()
        return {number for number in staged if number is not None} - self.dumped(branch)

    # --- what is true ---

    def world(self, rules: Rules | None, *, now: int | None = None, min_age: int = 0) -> World:
        """All there is to know at this moment, for the oracle; `rules` in place of those in force."""
        return World(
            now=(self.now if now is None else now) * SECOND,
            commits={
                str(number): Version(
                    tuple(map(str, commit.parents)),
                    commit.created * SECOND,
                    frozenset(map(name_of, commit.tree.values())),
                )
                for number, commit in enumerate(self.commits)
            },
            heads={name: str(branch.head) for name, branch in self.branches.items()},
            tags={name: str(commit) for name, commit in self.tags.items()},
            rules=None if rules is None else (rules.default_days, rules.branch_days),
            shown=frozenset(name_of(number) for name in self.branches for number in self.shown(name).values()),
            store={name_of(number): written * SECOND for number, written in self.store.items()},
            min_age=min_age * SECOND,
        )

    def live(self, rules: Iterable[Rules | None]) -> set[int]:
        """What something shows under any of these rules, or will show once what is owed is done."""
        found = {number for each in self.owed for number in each.objects}
        return found.union(*(map(number_of, oracle.live(self.world(each), tags=True)) for each in rules))
