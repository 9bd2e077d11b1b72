"""A repository whose objects go and come back: by sweeps, by restores, by other hands, and by a store that lies.

`Town` runs the real collector and books, object by object, what became of each. What is compared with what lakegc says
is in the tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.copies.backup import backup, restore
from lakegc_core.copies.copied import CopyResult
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import NO_ANSWER
from lakegc_core.stages import swept_report
from lakegc_core.store.local import LocalStore
from lakegc_core.sweep.result import SweepResult
from lakegc_core.sweep.sweep import close_sweep
from lakegc_core.views.history import history_of
from tests.support.lake import NOW, Lake, leave
from tests.support.swept import ACCEPTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE, DAY = 60, 86_400
SLICE = "data/gk5b63g7lm5ii54909u0"
DELETES, LIES, SILENT, REFUSES = "deletes", "lies", "is silent", "refuses"
Behaviour = Callable[[str], str]
"""What the store does when it is asked to delete a key: one of the words above."""


def key(number: int) -> str:
    """The address of an object by its number."""
    return f"{SLICE}/ca5b63g7lm5ii549{number:03x}0"


@contextmanager
def behaving(how: Behaviour) -> Iterator[None]:
    """The store behaves so when it is asked to delete data: it deletes, or says so and does nothing, or deletes and
    does not answer, or refuses."""
    delete = LocalStore.delete_many

    def told(store: LocalStore, keys: Sequence[str], *more: Any) -> list[str]:
        if not all(each.startswith("data/") for each in keys):
            return delete(store, keys, *more)
        found = []
        for each in keys:
            if (what := how(each)) in (LIES, REFUSES):
                found.append("deleted" if what == LIES else "failed:AccessDenied")
                continue
            (outcome,) = delete(store, [each], *more)
            found.append(NO_ANSWER if what == SILENT and outcome == "deleted" else outcome)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", told)
        yield


@dataclass
class Town:
    """A repository `lake` of garbage alone: objects of `sizes` bytes by address."""

    spark: SparkSession
    lake: Lake
    place: Path
    level: str = "standard"
    sizes: dict[str, int] = field(default_factory=dict)
    minutes: int = 0

    def __post_init__(self) -> None:
        self.repository = self.lake.create("lake")
        self.repository.set_rules(7)

    def later(self, minutes: int) -> None:
        """The time goes on, for the collector and until the lake ends."""
        self.minutes += minutes
        os.environ["LAKEGC_NOW"] = str(NOW.timestamp() + MINUTE * self.minutes)

    def litter(self, number: int, size: int) -> str:
        """An object that nothing refers to, anew or once more; an old one by its date."""
        leave(self.repository, key(number), 30, bytes(size))
        self.sizes[key(number)] = size
        return key(number)

    def mark(self, mark_id: str, mode: str = CLEAN) -> MarkContext:
        self.later(MINUTE)
        context = self.lake.begin("lake", mark_id, mode=mode, safety_level=self.level)
        pipeline.mark(self.spark, context)
        self.later(20)
        return context

    def sweep(self, mark: MarkContext) -> SweepResult:
        self.later(1)
        return swept_report(self.spark, mark, accepted=ACCEPTED)

    def close(self, mark: MarkContext) -> SweepResult:
        self.later(1)
        return close_sweep(self.spark, mark)

    def backup(self, mark: MarkContext) -> CopyResult:
        return backup(self.spark, mark, str(self.place))

    def restore(self, mark: MarkContext, *paths: str, place: Path | None = None) -> CopyResult:
        self.later(1)
        found = restore(self.spark, mark, str(place or self.place), paths=paths)
        self.later(1)
        return found

    def lying(self) -> set[str]:
        """What an independent listing finds."""
        root = self.lake.files("lake")
        return {path.relative_to(root).as_posix() for path in (root / SLICE).glob("*") if path.is_file()}

    def remove(self, address: str) -> None:
        """By other hands."""
        (self.lake.files("lake") / address).unlink()

    def told(self) -> tuple[int, int]:
        """How many objects and bytes the history says were deleted."""
        totals = history_of(self.lake.open("lake"))["totals"]
        return totals["deleted"], totals["bytes_deleted"]
