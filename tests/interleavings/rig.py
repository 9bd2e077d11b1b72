"""What the rows of SAFETY.md's table share: a lake whose time is ours, rows as functions, and who judges them.

A row is a function that prepares a lake and says what happens at which moment. Rows of one file act on one lake, each
on objects and branches of its own, so that marks and sweeps are shared; each is judged by itself. With its mechanism
switched on its object must read afterwards; with the mechanism switched off it must be lost, or the row shows nothing.

By default all mechanisms of a group are off together when one is: LAKEGC_ONE_BY_ONE=1 switches them off one at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.judging import canaries, expired
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import neighbours
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_mark, open_repository
from lakegc_core.policy import guards
from lakegc_core.policy.namespace import Namespace
from lakegc_core.stages import MARKING, swept_report
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep import look, planning
from lakegc_core.sweep.canaries import Canaries
from lakegc_core.sweep.result import SweepResult
from lakegc_core.tables.key_scan import Wanted
from lakegc_sandbox import Layout, PageLimits, Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from lakegc_sandbox.model.refs import GoneError
from lakegc_sandbox.model.repository import Backup
from tests.support.lake import quick
from tests.support.tasks import tasks_run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()
NAME = "lake"
OLD = 60.0  # days; rules of these tests keep 7
_ACCEPTED = {
    "blast-radius": "half of a test's repository is garbage",
    "live-in-listing": "an upload that ends after the listing, and bears an older date, is a large share of it",
}

Act = Callable[[], object]
Off = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mechanism:
    """What stops an interleaving, and how a test takes it out."""

    name: str
    off: Off


@dataclass(frozen=True)
class Row:
    """What a row does: which reference and path must read in the end, and what happens at which moment."""

    ref: str
    path: str
    acts: Mapping[str, Act]


def row(ref: str, path: str, **acts: Act) -> Row:
    """A row of the table. The names of `acts` are moments of the story that its file tells."""
    return Row(ref, path, acts)


Setup = Callable[["Lake"], Row]
REGISTRY: dict[str, tuple[Setup, Mechanism]] = {}
"""Every row of every file that was imported, by the name of its test."""


def stopped_by(mechanism: Mechanism) -> Callable[[Setup], Callable[..., None]]:
    """Make a test of a row: `on`, its object reads in the end; `off`, it is lost."""

    def decorate(setup: Setup) -> Callable[..., None]:
        off = pytest.param(False, marks=pytest.mark.slow)  # shows that the row can lose its object, and guards none

        @pytest.mark.parametrize("is_on", [True, off], ids=["on", "off"])
        def test(is_on: bool, lost: Callable[[str, bool], bool]) -> None:
            if is_on:
                assert not lost(setup.__name__, True), f"lost in spite of: {mechanism.name}"
            else:
                assert lost(setup.__name__, False), f"nothing shows what this is good for: {mechanism.name}"

        test.__name__, test.__doc__, test.__module__ = setup.__name__, setup.__doc__, setup.__module__
        REGISTRY[setup.__name__] = (setup, mechanism)
        return test

    return decorate


@dataclass
class Lake:
    """A repository of the sandbox, and lakegc at work on it, both at whatever time the test says it is."""

    spark: SparkSession
    folder: Path
    blockstore: str = "s3"
    now: float = START
    moment: str = ""  # the last one that was fired
    ahead: float = 0.0  # seconds by which the collector's clock is ahead of all others
    options: dict[str, Any] = field(default_factory=dict)  # of `begin_mark`
    holds: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)  # what else lakegc.yaml says of the repository
    scanning: list[Callable[[str, str], object]] = field(default_factory=list)
    _objects: int = 0
    _saves: int = 0

    def __post_init__(self) -> None:
        self.sandbox = Sandbox(
            self.folder, blockstore=self.blockstore, clock=lambda: self.now, seed=1, layout=Layout(range_modulus=3)
        )
        self.sandbox.uncommitted_page = PageLimits(branches=2, scanning=self._scan)
        self.server = SandboxServer(self.sandbox)
        where = f"{self.blockstore}://{NAME}"
        self.repository = self.sandbox.create_repository(NAME, where, age=timedelta(days=400))
        self.repository.set_rules(7)
        self.wait()

    def _scan(self, branch: str, path: str) -> None:
        for each in self.scanning:
            each(branch, path)

    def wait(self, **duration: float) -> None:
        """Let time pass for lakeFS, the store and the collector."""
        self.now += timedelta(**duration).total_seconds()
        os.environ["LAKEGC_NOW"] = str(self.now + self.ahead)

    # --- what rows begin with ---

    def upload(self, branch: str, path: str, content: bytes = b"", *, days: float = OLD) -> str:
        """Upload an object, of a size that no other has if no content is given; return its relative address."""
        self._make_branch(branch)
        return self.repository.upload(branch, path, content or self.content(), age=timedelta(days=days))

    def content(self) -> bytes:
        """Bytes of a length that no other object has."""
        self._objects += 1
        return bytes(100 + self._objects)

    def commit(self, branch: str, *, days: float = OLD) -> str:
        date = datetime.fromtimestamp(self.now, UTC) - timedelta(days=days)
        return self.repository.commit(branch, f"of {branch}, {self._objects}", date=date).id

    def expired(self, path: str, content: bytes = b"") -> str:
        """A commit that was made on a branch long deleted, and shows `path`; its object is garbage. Its id."""
        branch = f"dropped-{self._objects}"
        self.upload(branch, path, content)
        found = self.commit(branch)
        self.repository.delete_branch(branch)
        return found

    def forgotten(self, content: bytes) -> str:
        """The relative address of an object that was uploaded long ago and then dropped."""
        address = self.repository.upload("main", "forgotten", content, age=timedelta(days=OLD))
        self.repository.delete("main", "forgotten")
        return address

    def dropped(self, path: str, content: bytes = b"") -> Callable[[str], object]:
        """A forgotten object; call what is returned to stage it on a branch by its address."""
        content = content or self.content()
        full = self.repository.place.qualify(self.forgotten(content))
        return lambda branch: self.repository.stage(branch, path, full, size=len(content), checksum="0" * 32)

    def uploaded_again(self, branch: str) -> None:
        """A branch whose head has path `a`, with an identical object uploaded there later."""
        content = self.content()
        self.repository.create_branch(branch, "main")
        self.repository.upload(branch, "a", content, age=timedelta(days=60))
        self.commit(branch)
        self.repository.upload(branch, "a", content, age=timedelta(days=45))

    def longer_rule(self, branch: str) -> Act:
        """A branch whose first commit has expired, with path `a`; what is returned lengthens its rule."""
        self.upload(branch, "a")
        self.commit(branch)
        self.upload(branch, "a")
        self.commit(branch, days=30)
        rules = self.repository.set_rules
        return lambda: rules(7, {**(self.repository.rules or (7, {}))[1], branch: 100})

    def _make_branch(self, name: str) -> None:
        if name not in self.repository.refs.branches:
            self.repository.create_branch(name, next(iter(self.repository.refs.commits)))

    def reads(self, ref: str, path: str) -> bool:
        """Whether the object that a reference shows under a path can be read; the path must be there. Without a
        reference: whether the store holds it."""
        if not ref:
            return (self.folder / NAME / path).is_file()
        name, _, own = ref.rpartition(":")  # of another repository
        repository = self.sandbox.repository(name) if name else self.repository
        try:
            return bool(repository.read(own, path))
        except GoneError:
            return False

    def stored(self) -> set[str]:
        """The relative addresses of all data in the store."""
        top = self.folder / NAME
        return {str(file.relative_to(top)) for file in (top / "data").rglob("*") if file.is_file()}

    # --- lakegc ---

    def held(self) -> tuple[str, ...]:
        """The holds that lakegc.yaml names."""
        return tuple(self.holds)

    def open(self, name: str = NAME) -> RepositoryContext:
        """A repository as lakegc opens it. An `s3` namespace lies in a folder, whose times a test can choose."""
        server = ServerSettings(self.server.url, ACCESS_KEY, SECRET_KEY)
        policy = RepositoryPolicy(match="*", holds=self.held(), **self.policy)
        # No lease: nobody renews one while hours pass at once.
        settings = Settings(server=server, lease="external", repositories=(policy,))
        context = open_repository(settings, name, client=LakeFSClient(server, sleep=lambda seconds: None))
        if self.blockstore == "local":
            return context
        config = LocalConfig(str(self.folder / name))
        return replace(context, data=config, outputs=config, workspace=config)

    def place_of(self, namespace: Namespace, *_: object, **__: object) -> LocalConfig:
        """The folder in which an `s3` namespace of the lake lies."""
        return LocalConfig(str(self.folder / namespace.authority / namespace.path))

    def begin(self, mark_id: str, name: str = NAME) -> MarkContext:
        """A mark of a repository that was begun with this lake's options."""
        return begin_mark(self.open(name), mark_id, **self.options)

    def mark(
        self, mark_id: str, fire: Callable[[str], None] = lambda moment: None, stages: int = 5, name: str = NAME
    ) -> MarkContext:
        """Make a mark, or the first stages of one, a minute a stage. `fire` is told the name of each that has ended."""
        context = self.begin(mark_id, name)
        with context.lease("mark"):
            for name in list(MARKING)[:stages]:
                MARKING[name](self.spark, context)
                self.wait(minutes=1)
                fire(name)
        return context

    def sweep(self, mark_id: str) -> SweepResult:
        """Sweep a mark, accepting that it takes much."""
        return swept_report(self.spark, open_mark(self.open(), mark_id), accepted=_ACCEPTED)

    # --- going back ---

    def save(self) -> Saved:
        """The lake as it is: time, database, files, marks."""
        self._saves += 1
        copy = self.folder / f"saved-{self._saves}"
        shutil.copytree(self.folder / NAME, copy, copy_function=shutil.copy2)
        return Saved(self.now, self.repository.backup(), copy, list(self.holds))

    def rewind(self, saved: Saved) -> None:
        """Make the lake what it was. Objects that came later stay, as nothing's; metadata files never change."""
        self.now, self.ahead, self.holds = saved.now, 0.0, list(saved.holds)
        self.wait()
        self.repository.restore(saved.database)
        self.server.fault = None
        ours = Path("_lakefs/retention/gc/lakegc")
        shutil.rmtree(self.folder / NAME / ours, ignore_errors=True)
        for file in saved.files.rglob("*"):
            target = self.folder / NAME / file.relative_to(saved.files)
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)


@dataclass(frozen=True)
class Saved:
    """A lake as it was at one moment."""

    now: float
    database: Backup
    files: Path
    holds: list[str]


@contextmanager
def lake(spark: SparkSession, folder: Path, blockstore: str = "s3") -> Iterator[Lake]:
    """A lake, served; Spark is quick on little data and the clock is the lake's until the block ends.

    The store's clock is the lake's, as that of a file server would be; the collector's may be ahead of it. Small tasks
    run in this process: that is quicker, and nothing here is about how they are spread.
    """
    with pytest.MonkeyPatch.context() as patch, quick(spark):
        patch.setenv("LAKEGC_UNSAFE", "yes")
        patch.setenv("LAKEGC_NOW", str(START))
        found = Lake(spark, folder, blockstore)
        tasks_run_here(patch)
        patch.setattr(LocalStore, "clock", lambda store: datetime.fromtimestamp(found.now, UTC))
        patch.setattr(LocalStore, "now", lambda store: store.clock())
        if blockstore != "local":
            patch.setattr(neighbours, "config_for", found.place_of)
        with found.server:
            yield found


class Story:
    """The rows of one file on one lake. Its class lets marks and sweeps happen and fires the moments between them."""

    groups: ClassVar[Mapping[str, str]]  # for each mechanism the group that is switched off together
    blockstore: ClassVar[str] = "s3"
    large_at: ClassVar[str] = ""  # a level at which branches are not listed whole, as in a large repository

    def __init__(self, found: Lake) -> None:
        self.lake = found
        self.setups = {name: each for name, each in REGISTRY.items() if each[0].__module__ == type(self).__module__}
        self.rows = {name: setup(found) for name, (setup, _) in self.setups.items()}
        self.acting = set(self.rows)
        self._lost: dict[tuple[str, bool], bool] = {}
        self._judged: dict[str, bool] = {}
        self._broken: dict[frozenset[str], Exception] = {}

    def tell(self, off: frozenset[str]) -> None:
        """Play the story with these mechanisms off, for the rows that take part."""
        raise NotImplementedError

    def fire(self, moment: str) -> None:
        """Let the rows that take part act at this moment."""
        self.lake.moment = moment
        for name, each in self.rows.items():
            if name in self.acting and moment in each.acts:
                each.acts[moment]()

    def judge(self, *mechanisms: Mechanism) -> None:
        """See now which rows that take part have lost their object: all, or those of these mechanisms."""
        for name in self.acting - self._judged.keys():
            if not mechanisms or self.setups[name][1] in mechanisms:
                self._judged[name] = not self.lake.reads(self.rows[name].ref, self.rows[name].path)

    def lost(self, name: str, is_on: bool) -> bool:
        """Whether a row lost its object, its mechanism being on or off."""
        if (name, is_on) not in self._lost:
            self._tell(frozenset() if is_on else self._off_with(self.setups[name][1]))
        return self._lost[name, is_on]

    def _tell(self, off: frozenset[str]) -> None:
        if off in self._broken:
            raise self._broken[off]
        self.acting = {name for name, (_, mechanism) in self.setups.items() if not off or mechanism.name in off}
        self._judged = {}
        try:
            with pytest.MonkeyPatch.context() as patch:
                if off:
                    without_canaries(patch)
                for mechanism in {each for _, each in self.setups.values() if each.name in off}:
                    mechanism.off(patch)
                self.tell(off)
            self.judge()
            self._lost |= {(each, not off): lost for each, lost in self._judged.items()}
        except Exception as error:
            self._broken[off] = error  # the other rows need not wait for the same again
            raise

    def _off_with(self, own: Mechanism) -> frozenset[str]:
        if os.environ.get("LAKEGC_ONE_BY_ONE"):
            return frozenset({own.name})
        return frozenset(name for name, group in self.groups.items() if group == self.groups[own.name])


def without_guards(*names: str) -> Off:
    """These guards are not asked."""

    def off(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(guards, "GUARDS", tuple(each for each in guards.GUARDS if each.name not in names))

    return off


def without_canaries(patch: pytest.MonkeyPatch) -> None:
    """No sweep is refused because it is blind, and no mark fails for it."""
    patch.setattr(planning, "choose", lambda context, paths: Canaries(context))
    no_canaries_in_marks(patch)


def no_canaries_in_marks(patch: pytest.MonkeyPatch) -> None:
    """No mark fails because it is blind."""
    patch.setattr(expired, "smuggle", lambda context, own: canaries.Canaries())


def look_is_blind(patch: pytest.MonkeyPatch) -> None:
    """Nothing that the sweep's look sees is believed."""

    def nothing(self: look.Look) -> Wanted:
        return Wanted(())

    for name in ("referred_to", "kept_by_holds"):
        patch.setattr(look.Look, name, nothing)
    patch.setattr(planning, "find_reuploads", lambda *arguments, **named: None)
