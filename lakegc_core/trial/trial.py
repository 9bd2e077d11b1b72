"""A trial step by step: each step does one thing that lakegc does for a repository, and checks it by reading.

The waiting times are lifted for the repository that the trial has just made, and for no other: `Settings.throw_away`
names it, in this process alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lakegc_core import clock, pipeline
from lakegc_core.config.settings import MetricsSettings, NeighbourSettings, RepositoryPolicy, Settings
from lakegc_core.copies import backup
from lakegc_core.copies.copied import CopyResult
from lakegc_core.doctor.examine import examine
from lakegc_core.doctor.finding import Diagnosis
from lakegc_core.doctor.newest_mark import NO_MARK
from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks.backups import SAVED
from lakegc_core.marks.context import MarkContext, begin_mark, open_repository
from lakegc_core.marks.ids import new_mark_id
from lakegc_core.names import Outcome
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.safety import FULL, NONE
from lakegc_core.policy.xids import xid_times
from lakegc_core.store.base import Store, StoreProbe, connect, heads
from lakegc_core.sweep.result import SweepResult
from lakegc_core.trial.grounds import REPOSITORY, Grounds
from lakegc_core.trial.history import History, make_history
from lakegc_core.trial.writer import LakeFSWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTE = f"{REPOSITORY}/notes.txt"
"""An object that is not lakeFS's, below the grounds: no collector may touch it."""
_GONE = 410


class TrialFailedError(LakegcError):
    """lakegc, lakeFS or the store did not do what it must. Exit code 1."""


@dataclass
class Trial:
    """One trial on its grounds. The methods are its steps, in order. `is_left`: something of it lies there."""

    settings: Settings
    grounds: Grounds
    say: Callable[[str], None]
    is_left: bool = False
    history: History = field(default_factory=History)

    @classmethod
    def below(cls, place: str, settings: Settings, say: Callable[[str], None]) -> Trial:
        """A trial below a place that the user names. Makes nothing yet."""
        if clock.is_replaced():
            raise SettingsError("LAKEGC_NOW replaces the clock, and a trial needs the real one. Unset it.")
        return cls(settings, Grounds.below(place, settings), say)

    @cached_property
    def client(self) -> LakeFSClient:
        return LakeFSClient(self.settings.server)

    @cached_property
    def writer(self) -> LakeFSWriter:
        return LakeFSWriter(self.settings.server, self.grounds.name)

    def check(self) -> None:
        """RefusedError or StoreError if the trial cannot be made at its place. Writes nothing."""
        self.grounds.check_blockstore(self.client)
        self.grounds.check_free(self.client)

    def make(self) -> None:
        """Claim the grounds that were checked, and make the repository with its history. RefusedError where anything
        lies already."""
        self.is_left = True
        try:
            self.grounds.claim()
        except LakegcError:
            self.is_left = self.grounds.is_claimed()
            raise
        made = self.writer.create(self.grounds.namespace)
        if (made.id, made.storage_namespace.rstrip("/")) != (self.grounds.name, self.grounds.namespace):
            raise TrialFailedError(
                f"lakeFS has created {made.id} in {made.storage_namespace}, not what it was asked for."
            )
        self._lift_waiting()
        self.history = make_history(self.writer, Namespace(self.grounds.namespace))
        connect(self.grounds.store).write(_NOTE, b"Nobody but its owner may delete this.\n")
        self._check_store()
        self.check_live()

    def _check_store(self) -> None:
        """TrialFailedError unless what lakeFS has written lies where lakegc looks."""
        lying = connect(self.grounds.store).list(f"{REPOSITORY}/data/")
        found = {each for batch in lying for each in batch.column("address").to_pylist()}
        missing = {f"{REPOSITORY}/{address}" for address in self.history.garbage} - found
        if missing:
            raise TrialFailedError(
                f"lakeFS has written {len(missing):,} objects that {self.grounds.store.root} does not have: lakegc and "
                "lakeFS use different stores. Correct the store's SDK, or `stores` in lakegc.yaml. What lakeFS has "
                f"written to its own store, below {self.grounds.uri}/, nobody but you can remove."
            )

    def _lift_waiting(self) -> None:
        """From here on the repository, which lakeFS has just made for this trial, needs no waiting. What lakegc.yaml
        says of repositories is meant for others."""
        own = RepositoryPolicy(match=self.grounds.name)
        self.settings = replace(
            self.settings,
            repositories=(own, *self.settings.repositories),
            neighbours=NeighbourSettings(ignore=("*",)),  # nobody had the time to import anything from here
            metrics=MetricsSettings(),
            throw_away=self.grounds.name,
        )

    def examine(self) -> Diagnosis:
        """Ask the doctor what the key and the store can do. That the new repository has no mark yet is no finding."""
        found = examine(self.settings, self.grounds.name, client=self.client, say=self.say)
        return replace(found, findings=tuple(each for each in found.findings if each.name != NO_MARK))

    def begin_mark(self) -> MarkContext:
        """Begin a mark without a minimum age, once every object is older than now. RefusedError if clocks differ too
        much."""
        repository = open_repository(self.settings, self.grounds.name, client=self.client, say=self.say)
        _await_age(connect(repository.data), self.say)
        return begin_mark(repository, new_mark_id(clock.now()), min_age=timedelta(0), safety_level=NONE.name)

    def mark(self, spark: SparkSession, context: MarkContext) -> pipeline.Review:
        """Mark the repository. TrialFailedError unless the mark finds what is garbage, all of it and nothing else."""
        review = pipeline.mark(spark, context)
        found, right = set(pipeline.expired_of(context)), self.history.garbage
        if found != right:
            raise TrialFailedError(
                f"The mark found {len(found):,} objects of garbage where there are {len(right):,}; it has "
                f"{len(found - right):,} that are not garbage, and lacks {len(right - found):,}. Please report this."
            )
        return review

    def back_up(self, spark: SparkSession, context: MarkContext) -> CopyResult:
        """Copy the garbage away. TrialFailedError unless all of it is copied."""
        return self._whole(backup.backup(spark, context, self.grounds.backup))

    def sweep(self, spark: SparkSession, context: MarkContext) -> SweepResult:
        """Sweep the mark. TrialFailedError unless all garbage is deleted and all that is live reads as before."""
        result = pipeline.sweep(spark, context)
        deleted = result.outcomes.get(Outcome.DELETED, 0)
        if deleted != len(self.history.garbage) or result.failed:
            raise TrialFailedError(f"{deleted:,} of {len(self.history.garbage):,} objects of garbage were deleted.")
        there = self._there(context)
        if there:
            raise TrialFailedError(f"The store still shows {there:,} of the objects whose deletes it confirmed.")
        for commit, path in self.history.expired:
            self._check_gone(commit, path)
        connect(self.grounds.store).head(_NOTE)
        self.check_live()
        return result

    def restore(self, spark: SparkSession, context: MarkContext) -> CopyResult:
        """Bring the garbage back from the backup. TrialFailedError unless old commits read as they were written."""
        result = self._whole(backup.restore(spark, context, self.grounds.backup))
        self._check_reads(self.history.expired)
        there = self._there(context)
        if there != len(self.history.garbage):
            raise TrialFailedError(f"{there:,} of {len(self.history.garbage):,} restored objects are in the store.")
        return result

    def remove(self) -> int:
        """Remove all that the trial made; return the number of objects."""
        count = self.grounds.remove(self.client, self.writer)
        self.is_left = False
        return count

    @staticmethod
    def probe(context: MarkContext) -> StoreProbe:
        """Ask what becomes of deleted objects in this store."""
        return connect(context.data).probe()

    def check_live(self) -> None:
        """Read all that is live through lakeFS. TrialFailedError unless it reads as it was written."""
        self._check_reads(self.history.live)

    def _check_reads(self, contents: dict[tuple[str, str], bytes]) -> None:
        for (ref, path), data in contents.items():
            try:
                read = self.writer.read(ref, path)
            except LakeFSError as error:
                raise TrialFailedError(f"{path} of {ref[:12]} cannot be read: {error}") from None
            if read != data:
                raise TrialFailedError(f"{path} of {ref[:12]} does not read as it was written. Please report this.")

    def _check_gone(self, commit: str, path: str) -> None:
        status = self.client.read_byte(self.grounds.name, commit, path)
        if status != _GONE:
            raise TrialFailedError(f"{path} of {commit[:12]} was swept, yet lakeFS answers {status}, not {_GONE}.")

    def _there(self, context: MarkContext) -> int:
        """How many objects of the garbage the store shows."""
        return sum(found is not None for found in heads(connect(context.data), sorted(self.history.garbage)))

    def _whole(self, result: CopyResult) -> CopyResult:
        copied = sum(result.outcomes.get(outcome, 0) for outcome in SAVED)
        if result.failed or copied != len(self.history.garbage):
            raise TrialFailedError(
                f"The {result.verb} has {copied:,} of {len(self.history.garbage):,} objects. {_first(result)}".rstrip()
            )
        return result


def _await_age(store: Store, say: Callable[[str], None]) -> None:
    """Wait until every object is older than now, by the store's date and by lakeFS's in the name: clocks differ.
    RefusedError if they differ by more than any level allows."""
    newest = max(_times(store))
    ahead = newest - clock.now().timestamp()
    if ahead > FULL.clock_skew.total_seconds():
        raise RefusedError(
            f"The store's clock or lakeFS's is {ahead:.0f} s ahead of this machine's: no age can be judged. Set the "
            "clocks right (NTP)."
        )
    if ahead > 1:
        say(f"the store's clock or lakeFS's is {ahead:.0f} s ahead: waiting for that long")
    while (ahead := newest - clock.now().timestamp()) >= 0:
        time.sleep(ahead + 0.01)


def _times(store: Store) -> Iterator[float]:
    """The later time of each object of the trial, unix seconds: a few dozen."""
    for batch in store.list("data/"):
        modified = [each.timestamp() for each in batch.column("last_modified").to_pylist()]
        yield from np.fmax(modified, xid_times(batch.column("address"))).tolist()


def _first(result: CopyResult) -> str:
    return str(result.problems[0]["problem"]) if result.problems else ""
