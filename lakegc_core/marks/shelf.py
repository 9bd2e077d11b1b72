"""Marks of a repository as they stand at one moment: complete, unfinished, or unreadable, with the error.

A shelf is listed for one question and then let go: the next question lists anew, and sees marks that came meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.clock import APART
from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import HOME, RETIRED, Header, Manifest, MarkArtifacts, facts_of
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.ids import is_mark_id
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.facts import CommitsFacts, ListingFacts, largest_skew
from lakegc_core.policy.judgements import out_of_order
from lakegc_core.policy.safety import Level
from lakegc_core.store.base import StoreConfig, connect

T = TypeVar("T")


@dataclass(frozen=True)
class Standing:
    """The state of one mark. A header or a manifest is read when it is first asked for, and no second time. `level`: by
    whose limits its clock is judged; None: it is not judged. An error of the store is raised."""

    mark: MarkArtifacts
    level: Level | None = None
    _found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def mark_id(self) -> str:
        return self.mark.mark_id

    @property
    def header(self) -> Header | None:
        """None if there is none, or if it cannot be read."""
        return _unless_error(self._header)

    @property
    def error(self) -> MarkError | None:
        """The reason why the header cannot be read."""
        return self._header if isinstance(self._header, MarkError) else None

    @property
    def is_begun(self) -> bool:
        """True if there is a header, also one that cannot be read."""
        return self._header is not None

    @property
    def is_complete(self) -> bool:
        """True if the header and the last manifest are there and can be read."""
        return self.header is not None and isinstance(self._manifest(Stage.EXPIRED_ADDRESSES), Manifest)

    @property
    def is_unfinished(self) -> bool:
        """True if the header can be read and there is no last manifest, not even one that cannot be read."""
        return self.header is not None and self._manifest(Stage.EXPIRED_ADDRESSES) is None

    @property
    def has_listed(self) -> bool:
        """True if the first stage came to its end."""
        return isinstance(self._manifest(STAGES[0]), Manifest)

    @property
    def fault(self) -> MarkError | None:
        """The reason why the mark says nothing of what was live, or when: its header or a manifest cannot be read, a
        manifest is missing before one that stands, or its clock was wrong."""
        return self._once("fault", self._fault)

    @property
    def asked_until(self) -> float:
        """When the mark last asked lakeFS for anything, unix seconds; long after it was begun if it was resumed; 0 if
        it never did. One with a fault can have asked as long as it was written to."""
        return self._once("asked_until", self._asked_until)

    @property
    def _header(self) -> Header | MarkError | None:
        return self._once("header", partial(_told, self.mark.header))

    def _manifest(self, stage: str) -> Manifest | MarkError | None:
        return self._once(stage, partial(_told, partial(self.mark.manifest, stage)))

    def _manifests(self) -> dict[str, Manifest]:
        """The manifests that are there and can be read, by stage."""
        return {stage: found for stage in STAGES if (found := _unless_error(self._manifest(stage))) is not None}

    def _fault(self) -> MarkError | None:
        manifests = (self._manifest(stage) for stage in STAGES)
        unread = self.error or next((each for each in manifests if isinstance(each, MarkError)), None) or self._gap()
        if unread is not None or self.header is None or self.level is None:
            return unread
        return _told(partial(check_clock, self.header, self._manifests(), self.level))

    def _gap(self) -> MarkError | None:
        """The reason why the manifests that are there are not those of the first stages."""
        found = self._manifests()
        if tuple(found) == STAGES[: len(found)]:
            return None
        missing = next(stage for stage in STAGES if stage not in found)
        return MarkError(f"its manifest of {missing} is missing, and that of {list(found)[-1]} stands")

    def _asked_until(self) -> float:
        if self.fault is not None:
            return unreadable_until(self.mark)
        asking = (each.started_at for stage, each in self._manifests().items() if stage != STAGES[0])
        return max(asking, default=0.0)

    def _once(self, name: str, read: Callable[[], T]) -> T:
        if name not in self._found:
            self._found[name] = read()
        found: T = self._found[name]
        return found


@dataclass(frozen=True)
class Shelf:
    """The marks of a repository, newest id first."""

    standings: tuple[Standing, ...]

    @classmethod
    def of(cls, context: RepositoryContext, level: Level | None = None) -> Shelf:
        """List the marks of a repository. `level`: see `Standing`."""
        found = marks(context.workspace, context.home)
        return cls(tuple(Standing(context.artifacts(mark_id), level) for mark_id in found))

    def __iter__(self) -> Iterator[Standing]:
        return iter(self.standings)

    def newest_complete(self, wanted: Callable[[Header, Standing], bool]) -> MarkArtifacts | None:
        """The complete mark that was begun last of those that are `wanted`. One of which `wanted` raises MarkError
        vouches for nothing."""
        begun = [(each.header, each) for each in self if each.header is not None]
        for header, each in sorted(begun, key=lambda each: each[0].started_at, reverse=True):
            if each.is_complete and _told(partial(wanted, header, each)) is True:
                return each.mark
        return None


def check_clock(header: Header, manifests: Mapping[str, Manifest], level: Level) -> None:
    """MarkError if the clock of a mark's machine was wrong while it worked, by the limit of a level: such a mark says
    nothing of times. The guards `clocks` and `order` stop its own sweep; no other mark goes on from it either."""
    last = max([header.started_at, *(manifest.started_at for manifest in manifests.values())])
    if clock.is_to_come(last, clock.now().timestamp()):
        raise MarkError(f"it says that it was at work on {clock.minute(last)}, which is to come")
    if not manifests:
        return
    commits = facts_of(manifests, CommitsFacts) if Stage.RETENTION_COMMITS in manifests else None
    limit, skew = level.clock_skew.total_seconds(), largest_skew(facts_of(manifests, ListingFacts), commits)
    if abs(skew) > limit:
        raise MarkError(f"its clock and the store's differed by {skew:.0f} s")
    if stage := out_of_order(header.started_at, manifests):
        raise MarkError(f"its clock was set back: {stage} ended before it began, or before what it rests on had ended")


def unreadable_until(mark: MarkArtifacts) -> float:
    """When a mark that cannot be read (damaged, or of another version) can have asked lakeFS last, unix seconds: the
    newest time of its files by the store's clock, and APART more. Endless if it has no files."""
    times = [pc.max(batch.column("last_modified")).as_py() for batch in mark.store.list(f"{mark.folder}/")]
    return max((time.timestamp() for time in times if time is not None), default=math.inf) + APART


def marks(config: StoreConfig, home: str = HOME) -> list[str]:
    """The ids of the marks at a home, newest id first. Folders whose name is no mark id are passed over."""
    return sorted(filter(is_mark_id, _folders(config, f"{home}/marks/")), reverse=True)


def strangers(config: StoreConfig, home: str = HOME) -> list[str]:
    """The folders among the marks at a home whose name is no mark id: copies by hand, and what other tools left."""
    return sorted(name for name in _folders(config, f"{home}/marks/") if not is_mark_id(name))


def _folders(config: StoreConfig, prefix: str) -> Iterator[str]:
    for level in connect(config).list_level(prefix):
        yield from (each.removeprefix(prefix).removesuffix("/") for each in level.prefixes)


def retired_marks(config: StoreConfig, home: str = HOME) -> list[str]:
    """The ids of the marks at a home of which only a record is left, newest id first. Other files are passed over."""
    names = (
        key.rpartition("/")[2]
        for level in connect(config).list_level(f"{home}/{RETIRED}/")
        for key in level.objects["address"].to_pylist()
    )
    found = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return sorted(filter(is_mark_id, found), reverse=True)


def _told(read: Callable[[], T]) -> T | MarkError:
    try:
        return read()
    except MarkError as error:
        return error


def _unless_error(found: T | MarkError | None) -> T | None:
    return None if isinstance(found, MarkError) else found
