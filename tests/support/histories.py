"""Random histories of a lakeFS repository: strategies for single steps and whole histories, and the player of them.

A history is a list of plain values. The player applies each step to a sandbox repository; what lakeFS would refuse is
refused there and counted. Every date is relative to the sandbox's present, which stands still at NOW unless a test
moves it. What is garbage afterwards belongs in `oracle`.
"""

from __future__ import annotations

import hashlib
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from lakegc_sandbox import Attributes, Layout, PageLimits, Repository, Sandbox
from lakegc_sandbox.model.refs import SandboxError
from tests.support.flights import Flight

NOW = datetime(2025, 3, 31, 12, tzinfo=UTC)
BRANCHES = ("main", "dev", "feature-x", "_hidden")
TAGS = ("v1", "v2.0")
PATHS = ("a", "b", "c/1", "c/2", "c/d e", "c/ü%2F+", "data/x,1", "z" * 200)
MOVES_THE_HEAD = ("commit", "save", "merge", "revert", "cherry_pick", "import_objects", "reset", "hard_reset")
NESTED = "data/other/_lakefs/dummy"  # another repository within this one: it is never swept
FOREIGN = (
    NESTED,
    "_SUCCESS",
    "tables/_delta_log/0.json",
    "logs/data/1",
    "0" * 32 + ".parquet",
    "README.md",
    "exports/x.csv",
    "0" * 31 + "G",
    "dataset/part-0",
    "data/raw/customers.csv",
    "data/_SUCCESS",
    "data.txt",
)
COMMITS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)  # by number, from the first one on
RANGE_MODULUS = 3  # a third of the paths ends a range, so that metaranges hold several


@dataclass(frozen=True)
class Step:
    """One thing that happens: a method of `Player` and its arguments."""

    verb: str
    arguments: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.verb}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


History = Sequence[Step]


class Refused(Exception):
    """The world is not so that the step makes sense."""


class Player:
    """Plays steps on one repository. `days` are days before the present; negative ones lie in the future.

    A branch that is not there stands for main, so that few steps come to nothing. Several histories may be played side
    by side on branches with a prefix (see `together`); each then has a main of its own.
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.addresses: list[str] = []  # every key that was ever given out
        self.flights: list[Flight] = []
        self.counts: Counter[str] = Counter()

    def play(self, history: Iterable[Step]) -> None:
        """Play all steps; count those that happened and those that were refused."""
        for step in history:
            arguments = dict(step.arguments)
            if "branch" in arguments:
                arguments["branch"] = self._branch(arguments["branch"])
            try:
                if step.verb in MOVES_THE_HEAD and self.flight_of(arguments["branch"]):
                    raise Refused
                getattr(self, step.verb)(**arguments)
            except (SandboxError, Refused):
                self.counts["refused"] += 1
            else:
                self.counts["steps"] += 1

    # --- objects ---

    def upload(self, branch: str, path: str, content: bytes, days: float) -> None:
        self.addresses.append(self.repository.upload(branch, path, content, age=timedelta(days=days)))

    def upload_again(self, branch: str, path: str, days: float) -> None:
        """The same content under the same path: a new object that lakeFS takes for the old one."""
        entry, content = self.repository.entry(branch, path), self.repository.read(branch, path)
        age, attributes = timedelta(days=days), Attributes(entry.content_type, entry.metadata)
        address = self.repository.upload(branch, path, content, age=age, attributes=attributes)
        self.addresses.append(address)

    def delete(self, branch: str, path: str) -> None:
        self.repository.delete(branch, path)

    def link(self, branch: str, path: str, content: bytes, days: float, written: float) -> None:
        """An upload by presigned address: named, written and staged, perhaps at different times."""
        key = self.leave(branch, content, days, written)
        self._stage(branch, path, key, content, days)

    def leave(self, branch: str, content: bytes, days: float, written: float) -> str:
        """The same, but never linked."""
        address = self.repository.physical_address(branch, age=timedelta(days=days))
        self.repository.put(address, content, age=timedelta(days=written))
        self.addresses.append(address.removeprefix(self.repository.place.qualify("")))
        return self.addresses[-1]

    def stage(self, branch: str, path: str, number: int, content: bytes, days: float) -> None:
        """Stage an address that was once given out, whatever became of it, whatever its content."""
        self._stage(branch, path, self._of(self.addresses, number), content, days)

    def copy(self, branch: str, path: str, source: str, source_path: str, shallow: bool) -> None:
        self.addresses.append(
            self.repository.copy(branch, path, self._ref(source), source_path, shallow=shallow).address
        )

    def old_object(self, branch: str, path: str, layout: int, content: bytes, days: float, staged: bool) -> None:
        """An object as servers of old named them, staged or forgotten."""
        number = hashlib.md5(repr((path, content, days)).encode(), usedforsecurity=False).hexdigest()
        key = (
            number,
            f"data/{self.repository.name}-{branch}:{uuid.UUID(number)}/{number[:21]}",
            f"data/{number[:21]}",
            f"{number}-00001",
        )[layout]
        self.repository.files.write(key, content, self._date(days).timestamp())
        self.addresses.append(key)
        if staged:
            self._stage(branch, path, key, content, days)

    def foreign(self, name: str, days: float) -> None:
        self.repository.files.write(name, b"not lakeFS's", self._date(days).timestamp())

    # --- branches and commits ---

    def commit(self, branch: str, days: float, hook_fails: bool) -> None:
        self.repository.commit(branch, "step", date=self._date(days), hooks=_fail if hook_fails else None)

    def begin_commit(self, branch: str) -> None:
        """A commit that waits in its hooks until `land` is called; what it sealed can be overwritten meanwhile."""
        if self.flight_of(branch) or not self.repository.refs.branches[branch].staged():
            raise Refused
        self.flights.append(Flight(self.repository, branch))

    def flight_of(self, branch: str) -> Flight | None:
        """The commit of a branch that waits in its hooks."""
        return next((flight for flight in self.flights if flight.branch == branch), None)

    def land(self, flight: Flight) -> None:
        """Let the hooks of a commit end, and the head move."""
        self.flights.remove(flight)
        self.counts["steps" if flight.land() else "refused"] += 1

    def save(self, branch: str, path: str, content: bytes, days: float) -> None:
        """Upload and commit, as most users do."""
        self.upload(branch, path, content, days + 1)
        self.commit(branch, days, hook_fails=False)

    def create_branch(self, name: str, source: str) -> None:
        self.repository.create_branch(name, self._ref(source), hidden="_hidden" in name)

    def delete_branch(self, name: str) -> None:
        self.repository.delete_branch(name)

    def merge(self, source: str, branch: str, strategy: str, squash: bool, days: float) -> None:
        source = self._ref(source)
        self.repository.merge(source, branch, strategy=strategy, squash=squash, date=self._date(days))

    def revert(self, branch: str, ref: str, parent: int, days: float) -> None:
        self.repository.revert(branch, self._ref(ref), parent_number=parent, date=self._date(days))

    def cherry_pick(self, branch: str, ref: str, parent: int, days: float) -> None:
        self.repository.cherry_pick(branch, self._ref(ref), parent_number=parent, date=self._date(days))

    def reset(self, branch: str, prefix: str) -> None:
        self.repository.reset(branch, prefix)

    def hard_reset(self, branch: str, ref: str) -> None:
        self.repository.hard_reset(branch, self._ref(ref))

    def import_objects(self, branch: str, path: str, days: float) -> None:
        outside = f"{self.repository.place.namespace.partition('://')[0]}://elsewhere/{path[:9]}"
        self.repository.import_objects(branch, {path: (outside, 7)}, date=self._date(days))

    def tag(self, name: str, ref: str) -> None:
        self.repository.tag(name, self._ref(ref))

    def delete_tag(self, name: str) -> None:
        self.repository.delete_tag(name)

    def set_rules(self, default: int, branches: dict[str, int]) -> None:
        """The default as given; days of branches beside those that were set before."""
        self.repository.set_rules(default, {**(self.repository.rules or (0, {}))[1], **branches})

    def delete_rules(self) -> None:
        self.repository.delete_rules()

    # --- within ---

    def _branch(self, name: str) -> str:
        prefix, dash, _ = name.rpartition("-")
        return next(each for each in (name, f"{prefix}{dash}main", "main") if each in self.repository.refs.branches)

    def _stage(self, branch: str, path: str, key: str, content: bytes, days: float) -> None:
        checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
        address = self.repository.place.qualify(key)
        age = timedelta(days=days)
        self.repository.stage(branch, path, address, size=len(content), checksum=checksum, age=age)

    def _ref(self, ref: str) -> str:
        """`#n` stands for the n-th commit ever made, which no reference need reach."""
        return self._of(list(self.repository.refs.commits), int(ref[1:])) if ref.startswith("#") else ref

    def _of(self, options: Sequence[str], number: int) -> str:
        if not options:
            raise Refused
        return options[number % len(options)]

    def _date(self, days: float) -> datetime:
        return datetime.fromtimestamp(self.repository.place.clock(), UTC) - timedelta(days=days)


def _fail() -> None:
    raise Refused("the hook says no")


def sandbox(folder: Path) -> Sandbox:
    """A sandbox on blockstore `local`, at NOW. It cuts small ranges, and some pages of its dump are empty."""
    found = Sandbox(folder, clock=NOW.timestamp, seed=1, layout=Layout(range_modulus=RANGE_MODULUS))
    found.uncommitted_page = PageLimits(branches=1, rows=2)
    return found


def played(sandbox: Sandbox, name: str, history: History) -> Player:
    """A new repository with this history behind it."""
    player = Player(sandbox.create_repository(name, age=timedelta(days=400)))
    player.play(history)
    return player


def together(several: Sequence[History]) -> History:
    """Several histories as one, step by step in turn, each on its own branches; all share the default of the rules."""
    joined: list[Step] = [Step("create_branch", {"name": f"{n}-main", "source": "#0"}) for n in range(1, len(several))]
    for row in itertools.zip_longest(*several):
        joined += [_on_its_own(step, f"{number}-" if number else "") for number, step in enumerate(row) if step]
    return joined


def _on_its_own(step: Step, prefix: str) -> Step:
    names = {"branch", "source", "ref"} if step.verb == "foreign" else {"branch", "source", "ref", "name"}
    changed = {
        key: f"{prefix}{value}" if key in names and not value.startswith("#") else value
        for key, value in step.arguments.items()
    }
    if "branches" in changed:
        changed["branches"] = {f"{prefix}{name}": days for name, days in changed["branches"].items()}
    return Step(step.verb, changed)


def smallest(history: History, fails: Callable[[History], bool], seconds: float = 60) -> History:
    """A shorter history that still fails: what can be left out is, larger pieces first, while there is time."""
    until = time.monotonic() + seconds
    piece = len(history) // 2
    while piece:
        for start in range(len(history) - piece, -1, -piece):
            shorter = [*history[:start], *history[start + piece :]]
            if time.monotonic() > until:
                return history
            if fails(shorter):
                history = shorter
        piece //= 2
    return history


# --- strategies ---

branches = st.sampled_from((*BRANCHES, "main", "dev"))
refs = st.sampled_from((*BRANCHES, *TAGS, "main~1", "main~2", "dev~1", "main^2", *(f"#{n}" for n in COMMITS)))
paths = st.sampled_from(PATHS)
contents = st.sampled_from(tuple(bytes(size) for size in range(16)))
moments = st.sampled_from((3, 0.5, 1, 2, 5, 6.75, 7, 7.25, 10, 14, 15, 29, 30, 31, 60, 90, 365, 0, -0.5, -40))
ages = st.sampled_from((3, 5, 8, 20, 31, 90, 0.25, 0, 1, 0.75, 300))
days = st.sampled_from((7, 0, 1, 14, 30, -1, -100, 365, 2**31 - 1, -(2**31)))
parents = st.sampled_from((1, 1, 1, 2))
layouts = st.integers(0, 3)
flags = st.booleans()


def _step(verb: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(arguments).map(lambda given: Step(verb, given))


uploads = _step("upload", branch=branches, path=paths, content=contents, days=ages)
commits = _step("commit", branch=branches, days=moments, hook_fails=st.sampled_from((False, False, False, True)))
new_branches = _step("create_branch", name=st.sampled_from(BRANCHES[1:]), source=refs)
deletions = _step("delete", branch=branches, path=paths)
saves = _step("save", branch=branches, path=paths, content=contents, days=moments)
rules = _step("set_rules", default=days, branches=st.dictionaries(branches, days, max_size=2))
rare_steps: tuple[st.SearchStrategy[Step], ...] = (
    _step("upload_again", branch=branches, path=paths, days=ages),
    _step("link", branch=branches, path=paths, content=contents, days=ages, written=ages),
    _step("leave", branch=branches, content=contents, days=ages, written=ages),
    _step("stage", branch=branches, path=paths, number=st.integers(0, 500), content=contents, days=ages),
    _step("copy", branch=branches, path=paths, source=refs, source_path=paths, shallow=flags),
    _step(
        "old_object", branch=branches, path=paths, layout=st.integers(0, 3), content=contents, days=ages, staged=flags
    ),
    _step("foreign", name=st.sampled_from(FOREIGN), days=ages),
    _step("delete_branch", name=st.sampled_from(BRANCHES[1:])),
    _step(
        "merge",
        source=refs,
        branch=branches,
        strategy=st.sampled_from(("source-wins", "dest-wins", "")),
        squash=flags,
        days=moments,
    ),
    _step("revert", branch=branches, ref=refs, parent=parents, days=moments),
    _step("cherry_pick", branch=branches, ref=refs, parent=parents, days=moments),
    _step("reset", branch=branches, prefix=st.sampled_from(("", "c/", "a"))),
    _step("hard_reset", branch=branches, ref=refs),
    _step("import_objects", branch=branches, path=paths, days=moments),
    _step("tag", name=st.sampled_from(TAGS), ref=refs),
    _step("delete_tag", name=st.sampled_from(TAGS)),
    rules,
    rules,
    rules,
    _step("delete_rules"),
)
steps: st.SearchStrategy[Step] = st.one_of(
    *[saves] * 9, *[uploads] * 6, *[commits] * 3, *[new_branches] * 2, deletions, *rare_steps
)
"""One step; the common ones are common."""

histories: st.SearchStrategy[list[Step]] = st.builds(
    lambda first, rest: [first, *rest], rules, st.lists(steps, min_size=30, max_size=80)
)
"""A whole history. Most have rules at the end, some lose them."""


user_histories: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        steps.filter(lambda step: step.verb not in ("set_rules", "delete_rules", "foreign")),
        *[_step("begin_commit", branch=branches)] * 3,
    ),
    min_size=30,
    max_size=80,
)
"""What users do, but for rules, which a whole repository shares; somebody else has to land commits in flight."""


def drawn(seed: int, strategy: st.SearchStrategy[list[Step]] = histories) -> History:
    """One history, the same one for the same seed."""
    found: list[History] = []

    # The first example is the simplest there is, the second a random one; later ones resemble those before them.
    @seeded(seed)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(history: History) -> None:
        found.append(history)

    draw()
    return found[-1]
