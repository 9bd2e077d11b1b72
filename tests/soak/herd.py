"""The repositories of the soak and what goes on in them: new history, new garbage, damage and repair; and the oracle.

Commits are dated two months back, so that no rule retains what they replace; objects are written now, so that every
mark has new slices to list. Nothing here knows of marks, runs or Dagster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakegc_sandbox import Repository, Sandbox
from tests.support import oracle

STORE = "lake"  # all namespaces lie below it: to the queue, one store
RULE_DAYS = 7
_TABLES = 12
_REWRITTEN = 4  # of them by each piece of work
_STRAYS = 3
_FIRST_COMMIT = timedelta(days=60)
_LOOKS = 20
_METADATA = re.compile(r"[0-9a-f]{64}")


@dataclass
class Herd:
    """So many repositories on a sandbox. `made`: all that ever was garbage, by repository.

    Nobody works on what is broken: a new commit would put a whole range in the place of a damaged one.
    """

    sandbox: Sandbox
    names: tuple[str, ...]
    made: dict[str, set[str]] = field(default_factory=dict)
    _pieces: int = 0
    _commits: int = 0
    _broken: set[str] = field(default_factory=set)
    _cut: dict[Path, bytes] = field(default_factory=dict)

    def create(self) -> None:
        """Every repository, with a first commit, a tag and a rule."""
        for name in self.names:
            repository = self.sandbox.create_repository(name, f"local://{STORE}/{name}", age=timedelta(days=100))
            for table in range(_TABLES):
                repository.upload("main", f"tables/{table:02d}.parquet", f"{name} {table} 0".encode())
            repository.commit("main", "the first day", date=self._date())
            repository.tag("first", "main")
            repository.set_rules(RULE_DAYS)

    def work(self) -> None:
        """A day's work everywhere, which leaves garbage of every kind behind."""
        self._pieces += 1
        for name in self._whole():
            self._work(self.sandbox.repository(name))
            self.made.setdefault(name, set()).update(self.garbage(name))

    def _work(self, repository: Repository) -> None:
        piece = self._pieces
        for table in range(_REWRITTEN):  # twice: the first is no commit's
            for turn in (1, 2):
                path = f"tables/{(piece + table) % _TABLES:02d}.parquet"
                repository.upload("main", path, f"{repository.name} {path} {piece}.{turn}".encode())
        repository.upload("main", f"days/{piece:03d}.parquet", f"{repository.name} {piece}".encode())
        repository.commit("main", f"day {piece}", date=self._date())
        for branch in [branch for branch in repository.refs.branches if branch.startswith("trial-")]:
            repository.delete_branch(branch)
        repository.create_branch(f"trial-{piece}", "main")
        repository.upload(f"trial-{piece}", "trial.parquet", f"{repository.name} trial {piece}".encode())
        repository.commit(f"trial-{piece}", "a trial", date=self._date())
        repository.upload(f"trial-{piece}", "staged.parquet", f"{repository.name} staged {piece}".encode())
        now = repository.place.clock()
        for stray in range(_STRAYS):
            repository.files.write(f"data/left-behind-{piece:04}-{stray:04}", b"nobody's", now)

    def meanwhile(self) -> None:
        """What users do while marks and sweeps are under way: new objects, committed. It leaves no garbage."""
        for name in self._whole():
            repository = self.sandbox.repository(name)
            path = f"meanwhile/{self._commits:05d}.parquet"
            repository.upload("main", path, f"{name} {path}".encode())
            repository.commit("main", "meanwhile", date=self._date())

    def _whole(self) -> list[str]:
        return [name for name in self.names if name not in self._broken]

    def _date(self) -> datetime:
        """A minute later than the commit before, two months ago."""
        self._commits += 1
        return datetime.now(UTC) - _FIRST_COMMIT + timedelta(minutes=self._commits)

    # --- damage and repair ---

    def forget_rules(self, name: str) -> None:
        """Leave a repository without rules: marks refuse it."""
        self._broken.add(name)
        self.sandbox.repository(name).delete_rules()

    def damage(self, name: str) -> None:
        """Cut the ends off the ranges of a new commit, so that no mark has read them before."""
        self._broken.add(name)
        folder, repository = self._folder(name) / "_lakefs", self.sandbox.repository(name)
        before = set(folder.iterdir())
        repository.upload("main", f"damaged/{self._commits:05d}.parquet", b"to be lost")
        repository.commit("main", "before the damage", date=self._date())
        metaranges = {commit.meta_range_id for commit in repository.refs.commits.values()}
        for file in set(folder.iterdir()) - before:
            if _METADATA.fullmatch(file.name) and file.name not in metaranges:
                self._cut[file] = file.read_bytes()
                file.write_bytes(self._cut[file][:-20])
        assert self._cut, "no new range was written"

    def heal(self, name: str) -> None:
        """As before `forget_rules` and `damage`."""
        repository = self.sandbox.repository(name)
        if repository.rules is None:
            repository.set_rules(RULE_DAYS)
        for file in [each for each in self._cut if each.is_relative_to(self._folder(name))]:
            file.write_bytes(self._cut.pop(file))
        self._broken.discard(name)
        self.made.setdefault(name, set()).update(self.garbage(name))  # without rules it was none

    # --- the oracle ---

    def garbage(self, name: str) -> set[str]:
        """What a collector that protects tags must find now."""
        return oracle.garbage(self._world(name), tags=True)

    def lost(self, name: str) -> set[str]:
        """What something still shows and is not in the store: nothing, ever."""
        world = self._world(name)
        return oracle.live(world, tags=True) - set(world.store)

    def shown(self, name: str) -> Mapping[str, list[str]]:
        """The paths that branches and tags show, by reference."""
        repository = self.sandbox.repository(name)
        refs = [*repository.refs.branches, *repository.refs.tags]
        return {ref: [path for path, _ in repository.objects(ref)] for ref in refs}

    def stored(self, name: str) -> set[str]:
        """What lies in a namespace, lakeFS's metadata apart."""
        return set(oracle.stored(self.sandbox.repository(name)))

    def _world(self, name: str) -> oracle.World:
        for _ in range(_LOOKS):
            with self.sandbox.lock, suppress(FileNotFoundError):  # a sweep deletes while the folder is walked
                return oracle.world_of(self.sandbox.repository(name), min_age=0)
        raise AssertionError(f"{name} never holds still")

    def _folder(self, name: str) -> Path:
        return self.sandbox.root / STORE / name

    def marks_folder(self, name: str) -> Path:
        """Where the artifacts of a repository's marks lie."""
        return self._folder(name) / "_lakefs" / "retention" / "gc" / "lakegc" / "marks"
