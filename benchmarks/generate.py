"""Makes large repositories of the sandbox quickly, none of their objects over REST.

Here: what a repository of a given shape holds, written as lakeFS would have written it: object files of the right age
and size in slices (`uploads`), ranges and metaranges, and commits, branches and staged entries in the sandbox's memory.
How much of it is garbage follows from the shape. Not here: serving it (`lake`), and what it is measured for (`mark`).

The sandbox's own trees stay empty: what commits hold stands in their files alone, as in lakeFS. What branches show is
read from there (`shown`). So the endpoints that a mark asks all answer, while objects cannot be read through lakeFS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from math import prod
from pathlib import Path

from benchmarks.uploads import Uploaded, Uploads
from lakegc_sandbox.files.graveler_writer import (
    RELATIVE,
    Commit,
    Entry,
    RangeInfo,
    Record,
    write_metarange,
    write_range,
)
from lakegc_sandbox.files.names import SLICE_NAMES, SLICE_SECONDS
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.objects import OCTETS
from lakegc_sandbox.model.refs import Branch
from lakegc_sandbox.model.tree import Tree

REPOSITORY = "lake"
BUCKET = "bench"
MAIN = "main"
RULE_DAYS = 14
BRANCH_OBJECTS = 3
"""Objects that each branch but main has of its own."""

_DAY = 86_400
_OLD = (80, 20)  # days before now: commits that the rule does not retain, but for the last one
_RECENT = (10, 2)  # those that it does; all of them older than the youngest age of garbage


@dataclass(frozen=True)
class Shape:
    """What a repository is to hold. Counts are of the whole repository; ValueError if they do not fit together.

    `commits` counts the first, empty one, those of main, one a branch and one a deleted branch; `retained` are those of
    main that the rule keeps. `garbage` lies in a table that every commit of main rewrites, in branches that were
    deleted, and in uploads that nobody linked. `spare`: branches that are there to be deleted, with so many objects.
    `touched`: so many ranges of that many objects, which every retained commit of main writes anew. `lean`: commits
    that are not retained have no metadata files, which no mark reads.

    Each object has a size that no other has. `sizes`: so many different ones, dealt out in turn; where there is one,
    there is one content. `by_lot`: what is uploaded together, and so lives and expires together, shares a size.
    `length`: instead, each object has so many bytes, which no other has; entries claim their MD5.
    `added_every`: of the commits that are not retained, one in so many writes what was added to main since.
    """

    objects: int
    commits: int = 100
    branches: int = 10
    staged: int = 0
    garbage: int = 0
    retained: int = 10
    dropped: int = 10  # deleted branches
    spare: tuple[int, ...] = ()
    touched: tuple[int, int] = (0, 0)
    lean: bool = False
    added_every: int = 1
    range_entries: int = 20_000
    slice_objects: int = SLICE_NAMES
    sizes: int = 0
    by_lot: bool = False
    length: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.slice_objects <= SLICE_NAMES:
            raise ValueError(f"a slice takes 1 to {SLICE_NAMES} objects, not {self.slice_objects}")
        if self.branches < 1 or self.dropped < 1 or not 1 <= self.retained <= self.on_main:
            raise ValueError(
                f"{self.commits} commits leave {self.on_main} to main, of which {self.retained} are to stay"
            )
        if self.grown < (1 if self.rewritten else self.on_main):
            raise ValueError(f"{self.objects} objects are too few for so many commits, staged, garbage and branches")
        for (begin, end), objects in ((_OLD, self.uploaded_before), (_RECENT, self.objects - self.uploaded_before)):
            if objects > (begin - end) * _DAY // SLICE_SECONDS * self.slice_objects:
                raise ValueError(
                    f"{objects} objects of {begin - end} days need slices of more than {self.slice_objects}"
                )

    @cached_property
    def on_main(self) -> int:
        """Commits of main, without the first, empty one."""
        return self.commits - 1 - (self.branches - 1) - self.dropped - len(self.spare)

    @cached_property
    def expired(self) -> int:
        """Commits of main that the rule does not retain: the oldest ones."""
        return self.on_main - self.retained

    @cached_property
    def unlinked(self) -> int:
        """Objects that were uploaded and never linked."""
        return self.garbage // 10

    @cached_property
    def rewritten(self) -> int:
        """Objects of the table that every commit of main rewrites."""
        return (self.garbage - self.unlinked) // 2 // self.expired if self.expired else 0

    @cached_property
    def left_behind(self) -> list[int]:
        """Objects of each deleted branch."""
        return shares(self.garbage - self.unlinked - self.rewritten * self.expired, self.dropped)

    @cached_property
    def grown(self) -> int:
        """Objects of the table to which main only adds."""
        beside = (
            self.garbage + self.staged + sum(self.spare) + BRANCH_OBJECTS * (self.branches - 1) + prod(self.touched)
        )
        return self.objects - beside - self.rewritten * self.retained

    @cached_property
    def additions(self) -> list[int]:
        """What each commit of main adds to that table."""
        return shares(self.grown, self.on_main)

    @cached_property
    def uploaded_before(self) -> int:
        """Objects of the older period: all garbage, the spare branches, and main up to its first retained commit."""
        grown = sum(self.additions[: self.expired + 1])
        return self.garbage + sum(self.spare) + self.rewritten + prod(self.touched) + grown


def shares(total: int, parts: int) -> list[int]:
    """So many parts of a total, as equal as whole numbers can be."""
    return [total * (number + 1) // parts - total * number // parts for number in range(parts)]


class GeneratedLake:
    """A repository of a shape in a sandbox of its own, below `root`. `note` is told every address that is garbage.

    `garbage` is how many there are, `entries` how many the ranges of all retained commits hold, each range once.
    """

    def __init__(self, root: Path, shape: Shape, note: Callable[[str], object] = lambda address: None) -> None:
        self.shape = shape
        self.sandbox = Sandbox(root, blockstore="s3", seed=shape.objects)
        self.repository = self.sandbox.create_repository(
            REPOSITORY, f"s3://{BUCKET}/{REPOSITORY}", default_branch=MAIN, age=timedelta(days=100)
        )
        self.repository.set_rules(RULE_DAYS)
        self.folder = self.sandbox.root / BUCKET / REPOSITORY
        self.garbage = 0
        self._note = note
        self._live: dict[str, int] = {}  # ranges of retained commits, and how many entries they have
        self._uploads = Uploads(
            self.folder,
            self.sandbox.names,
            shape.slice_objects,
            sizes=shape.sizes,
            by_lot=shape.by_lot,
            length=shape.length,
        )
        self._full: list[RangeInfo] = []  # of the growing table
        self._open: list[Record] = []  # its last range, to which the next commit adds
        self._rows = 0
        self._last: list[RangeInfo] = []  # the same as it is now
        self._table: list[RangeInfo] = []  # the rewritten table
        self._touched: list[list[tuple[bytes, Entry]]] = []  # ranges of the table whose objects stay the same
        self._touching: list[RangeInfo] = []  # these as they are now
        self._spare: list[tuple[str, list[RangeInfo], list[Uploaded]]] = []
        now = self.sandbox.clock()
        self._uploads.over(now - _OLD[0] * _DAY, now - _OLD[1] * _DAY, shape.uploaded_before)
        self._old_period()
        recent = shape.objects - shape.uploaded_before
        self._uploads.over(now - _RECENT[0] * _DAY, now - _RECENT[1] * _DAY, recent)
        self._recent_period()

    @property
    def entries(self) -> int:
        return sum(self._live.values())

    def change(self, uploads: int) -> None:
        """Commit so many new objects to main, as of now, and delete the next spare branch, whose objects expire."""
        now = self.sandbox.clock()
        self._uploads.over(now, now, SLICE_NAMES)
        self._add(uploads, f"change at {now}", retained=True)
        name, ranges, uploaded = self._spare.pop(0)
        self.repository.delete_branch(name)
        for info in ranges:
            del self._live[info.id]
        self._give_up(uploaded)

    # --- history ---

    def _old_period(self) -> None:
        shape = self.shape
        for number in range(shape.expired):
            self._next(number)
        for number, objects in enumerate(shape.left_behind):
            own, uploaded = self._write(f"dropped/{number:05}", objects, files=not shape.lean)
            shown = None if shape.lean else [*own, *self._shown]
            self._commit(MAIN, f"dropped {number}", shown, moves=False)
            self._give_up(uploaded)
        for number, objects in enumerate(shape.spare):
            own, uploaded = self._write(f"spare/{number:05}", objects)
            name = f"spare-{number}"
            self._branch(name, own)
            self._spare.append((name, own, uploaded))
        self._uploads.begin_lot()
        for _ in range(shape.unlinked):
            self._give_up([self._uploads.upload()])
        self._uploads.begin_lot()
        for number in range(shape.touched[0]):
            paths = (f"tables/accounts/{number:04}/part-{row:08}".encode() for row in range(shape.touched[1]))
            self._touched.append([(path, self._entry(self._uploads.upload())) for path in paths])
        # The one that main showed when the rule's days began. Nothing forks off it: lakeFS's own walk would forget it.
        self._next(shape.expired)

    def _recent_period(self) -> None:
        shape = self.shape
        for number in range(shape.expired + 1, shape.on_main):
            self._next(number)
        names = [f"branch-{number:05}" for number in range(shape.branches - 1)]
        for name in names:
            self._branch(name, [*self._write(f"branches/{name}", BRANCH_OBJECTS)[0], *self._shown])
        names.append(MAIN)
        self._uploads.begin_lot()
        for number in range(shape.staged):
            staging = self.repository.refs.branches[names[number % len(names)]].staging
            staging[f"staged/part-{number:012}"] = self._entry(self._uploads.upload())

    def _next(self, number: int) -> None:
        """The commit of main with this number: it rewrites one table, and adds to the other."""
        retained = number >= self.shape.expired
        if self.shape.rewritten:
            files = retained or not self.shape.lean
            folder = f"tables/customers/{number:05}"  # new paths: lakeFS takes one content at one path for unchanged
            self._table, uploaded = self._write(folder, self.shape.rewritten, files=files)
            if not retained:
                self._give_up(uploaded)
        if retained:
            self._touching = [self._touch(entries, number) for entries in self._touched]
        is_written = retained or (not self.shape.lean and number % self.shape.added_every == 0)
        self._add(self.shape.additions[number], f"commit {number}", retained=retained, is_written=is_written)

    def _add(self, added: int, message: str, *, retained: bool, is_written: bool = True) -> None:
        """A commit of main, which adds to the growing table. Unless it `is_written`, a later one shows it."""
        self._uploads.begin_lot()
        for _ in range(added):
            self._open.append(self._record(f"tables/events/part-{self._rows:012}", self._uploads.upload()))
            self._rows += 1
            if len(self._open) == self.shape.range_entries:
                self._full.append(self._write_range(self._open))
                self._open, self._last = [], []
        if is_written:
            self._last = [self._write_range(self._open)] if self._open else []
        self._commit(MAIN, message, self._shown if retained or not self.shape.lean else None)
        if retained:
            self._keep(self._shown)

    @property
    def _shown(self) -> list[RangeInfo]:
        """The ranges of main's head."""
        return [*self._touching, *self._table, *self._full, *self._last]

    def _branch(self, name: str, ranges: Sequence[RangeInfo]) -> None:
        """A branch off main with a commit of its own."""
        refs = self.repository.refs
        refs.branches[name] = Branch(name, refs.branches[MAIN].commit_id)
        self._commit(name, f"commit of {name}", ranges)
        self._keep(ranges)

    def _commit(self, branch: str, message: str, ranges: Iterable[RangeInfo] | None, *, moves: bool = True) -> None:
        """A commit of these ranges; None: without files of its own."""
        refs = self.repository.refs
        if ranges is None:
            table_id = hashlib.sha256(message.encode()).hexdigest()
        else:
            table = write_metarange(ranges)
            self.repository.write_metadata(table.id, table.data)
            table_id = table.id
        refs.trees[table_id] = Tree(table_id)
        parent = refs.commit(refs.branches[branch].commit_id)
        date = (self._uploads.at + SLICE_SECONDS // 2) * 10**9
        commit = Commit("bench", message, date, table_id, (parent.id,), parent.generation + 1)
        refs.commits[commit.id] = commit
        if moves:
            refs.branches[branch].commit_id = commit.id

    def _keep(self, ranges: Iterable[RangeInfo]) -> None:
        self._live |= {info.id: info.count for info in ranges}

    def _give_up(self, uploaded: Sequence[Uploaded]) -> None:
        self.garbage += len(uploaded)
        for each in uploaded:
            self._note(each.address)

    # --- files ---

    def _write(self, prefix: str, objects: int, *, files: bool = True) -> tuple[list[RangeInfo], list[Uploaded]]:
        """Upload objects below a prefix and, unless without `files`, write the ranges that hold them."""
        self._uploads.begin_lot()
        uploaded = [self._uploads.upload() for _ in range(objects)]
        if not files:
            return [], uploaded
        records = [self._record(f"{prefix}/part-{row:012}", each) for row, each in enumerate(uploaded)]
        size = self.shape.range_entries
        return [self._write_range(records[at : at + size]) for at in range(0, objects, size)], uploaded

    def _touch(self, entries: Sequence[tuple[bytes, Entry]], number: int) -> RangeInfo:
        """A range of the same objects, which is another one by what its first entry says."""
        (path, first), *rest = entries
        other = replace(first, metadata={"touched": str(number)})
        return self._write_range([(path, other.value), *((each, entry.value) for each, entry in rest)])

    def _write_range(self, records: Sequence[Record]) -> RangeInfo:
        table = write_range(records)
        self.repository.write_metadata(table.id, table.data)
        return table.info

    def _record(self, path: str, uploaded: Uploaded) -> Record:
        return path.encode(), self._entry(uploaded).value

    def _entry(self, uploaded: Uploaded) -> Entry:
        """What an upload of this object makes of it."""
        at = self._uploads.at * 10**9
        return Entry(uploaded.address, uploaded.size, uploaded.e_tag, at, RELATIVE, {}, OCTETS)
