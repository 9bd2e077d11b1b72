"""Figures that each marking stage found: the facts that manifests carry, guards judge and reports show.

One frozen dataclass a stage. They stand in manifests as JSON objects with the same names; `read_facts` is the only way
back. A key that a manifest lacks must never be read as "nothing found". So a field by which anything is decided has no
default, but `staged_lost`, `accepted`, `given_up` and `unconfirmed`, without which a guard is stricter, and some of
neighbours. Counts are of objects unless the name says otherwise; bytes are bytes; times are unix seconds.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lakegc_core.errors import MarkError
from lakegc_core.names import Stage
from lakegc_core.policy.prices import GUESSED, Prices


class _Whole:
    """A value that is read from a manifest only with all of its keys, and no others."""

    __pydantic_config__ = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Amount(_Whole):
    """A group of objects."""

    objects: int
    bytes: int

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.objects + other.objects, self.bytes + other.bytes)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.objects - other.objects, self.bytes - other.bytes)


NOTHING = Amount(0, 0)


@dataclass(frozen=True)
class AgeOrSize(_Whole):
    """The expired objects of one class of age, or of size."""

    name: str
    objects: int
    bytes: int


@dataclass(frozen=True)
class Folder(_Whole):
    """The objects of one folder."""

    prefix: str
    objects: int
    bytes: int


@dataclass(frozen=True)
class StageFacts(_Whole):
    """The facts of one stage. `stage`: its name."""

    stage: ClassVar[Stage]

    def as_json(self) -> dict[str, Any]:
        """The facts as they stand in a manifest."""
        return asdict(self)


@dataclass(frozen=True)
class ListingFacts(StageFacts):
    """The objects in the namespace."""

    stage: ClassVar[Stage] = Stage.NAMESPACE_LISTING

    objects: int
    bytes: int
    foreign: int  # objects that are not lakeFS's
    foreign_bytes: int
    nested: int  # metadata files of another repository below data/
    rests_on: tuple[tuple[str, str], ...]  # ids and seals of the marks below, newest first; none for a clean mark
    why_clean: str
    units: int
    units_listed: int
    clock_skew: float  # seconds by which the store's clock is ahead of the collector's
    overlapping: tuple[str, ...]  # repositories that share the namespace
    nested_file: str = ""  # one of the `nested` ones, or the unit of one


@dataclass(frozen=True)
class StagedFacts(StageFacts):
    """The content of the staged dump."""

    stage: ClassVar[Stage] = Stage.UNCOMMITTED_ADDRESSES

    began_at: float
    run_id: str
    pages: int
    pages_with_location: int  # pages that named a file
    files: int
    rows: int  # addresses in the files
    rows_of_branch_listings: int  # addresses that branches show, where branches are listed
    elsewhere: Mapping[str, int]  # addresses outside the namespace, by authority


@dataclass(frozen=True)
class CommitsFacts(StageFacts):
    """The commits that count, and the reasons why."""

    stage: ClassVar[Stage] = Stage.RETENTION_COMMITS

    known: int
    retained: int
    retained_metaranges: int  # distinct ones
    branches: int
    tags: int
    tags_protected: bool
    holds: tuple[str, ...]
    holds_idle: tuple[str, ...]  # those that hold nothing
    former_heads_unknown: int  # heads that an earlier mark saw and lakeFS does not know
    refs_not_retained: int
    server_retained: int | None  # None where no rules stand, so that the server was not asked
    kept_beyond_server: int | None
    server_beyond_ours: int | None
    kept_by: Mapping[str, int]  # commits by the kind of what keeps them
    began_at: float
    heads: str  # digest of the names and commits of all branches
    rules: Mapping[str, Any] | None  # as they stand: default and branches, in days
    judged_by: Mapping[str, Any] | None  # those and the longer ones that are remembered
    rules_remembered: int
    dump: str  # the dump's metarange of commits
    run_id: str | None
    clock_skew: float | None  # seconds by which the store's clock is ahead of the collector's; None: of a look
    commits_ignored: tuple[str, ...] = ()  # by `ignore_commits`: the metarange cannot be read, or a parent is unknown
    commits_odd: int | None = None  # not retained, and their metarange's id is none; None: not counted


def largest_skew(listing: ListingFacts, commits: CommitsFacts | None) -> float:
    """The clock_skew of a mark that is farthest from 0. `commits`: None while that stage is not finished."""
    return max(listing.clock_skew, (commits and commits.clock_skew) or 0.0, key=abs)


@dataclass(frozen=True)
class ReadFacts(StageFacts):
    """The amount read of metaranges and ranges. Sums of checksums are modulo 2^64."""

    stage: ClassVar[Stage] = Stage.COMMITTED_ADDRESSES

    metaranges: int
    ranges: int
    entries: int
    references: int  # of metaranges to ranges, as the metaranges say
    references_read: int  # for which the ranges that were read stand
    checksum: int
    checksum_read: int
    addresses: int
    ranges_ignored: int = field(default=0, kw_only=True)  # they cannot be read, and only `ignore_commits` have them


@dataclass(frozen=True)
class ChangedFacts(ReadFacts):
    """The amount read, and the ranges that changed since the mark below."""

    ranges_added: int
    ranges_dropped: int


@dataclass(frozen=True)
class CommittedFacts(ChangedFacts):
    """The addresses that the retained commits refer to."""

    held_by_path: int
    holds_idle: tuple[str, ...]  # holds by path that hold nothing
    holds_untold: tuple[str, ...]  # and those of which that was not found out
    elsewhere: Mapping[str, int]  # addresses outside the namespace, by authority
    ranges_ignored_ids: tuple[str, ...] = ()  # some of them


@dataclass(frozen=True)
class NeighbourFacts(_Whole):
    """The facts known of the other repositories of the same lakeFS."""

    repositories: int
    unknown: int  # of which too little is known
    named: tuple[tuple[str, str], ...]  # some of these, with the reason
    within: float  # seconds
    addresses: int  # which they refer to here
    known: tuple[str, ...] | None = None  # names of those whose mark, now or before it was out of sight, refers here
    unread: tuple[str, ...] = ()  # names of those that have marks of which none reads
    ignored: int = 0  # repositories that the settings say to ignore


@dataclass(frozen=True)
class Compared(_Whole):
    """The figures that the guards compare with the mark before."""

    listed: Amount
    committed: Amount
    uncommitted: Amount
    held: Amount
    expired: Amount

    @property
    def committed_and_held(self) -> int:
        """Objects that commits show, and those that only a hold by path keeps."""
        return self.committed.objects + self.held.objects


@dataclass(frozen=True)
class Groups(Compared):
    """Every listed object by what became of it. `listed` is the sum of the groups down to `foreign`."""

    neighbour: Amount
    young: Amount
    unasked: Amount  # new, and lakeFS was not asked, or may not show it (compaction)
    foreign: Amount  # not lakeFS's, `unknown` included
    unknown: Amount  # below data/, under a name that lakeFS never gives
    confirmed: Amount  # of the expired: unreferenced for as long as the level wants


@dataclass(frozen=True)
class Previous(_Whole):
    """The mark that a mark is compared with."""

    mark_id: str
    expired_addresses: Compared


@dataclass(frozen=True)
class Cause(_Whole):
    """Expired objects with the same fate: `replaced` on a branch, or `deleted` with it ("" if its name is not known).
    `gone`: the time at which a mark first missed the branch; None for replaced objects."""

    cause: str
    branch: str
    gone: int | None
    objects: int
    bytes: int


@dataclass(frozen=True)
class OriginFacts(_Whole):
    """The origins of the expired objects, as far as commits that are not retained were read for that."""

    causes: tuple[Cause, ...]  # those with the most bytes
    folders: tuple[Folder, ...]  # of their paths, those with the most bytes
    found: Amount  # of the expired: those that a commit has shown
    unread: int  # metaranges of such commits that later marks read; with 0 all others were never committed


@dataclass(frozen=True)
class TakenBack(_Whole):
    """Objects that a sweep had counted as deleted and that are there again."""

    mark_id: str
    sweep: int
    objects: int
    bytes: int


@dataclass(frozen=True)
class ExpiredFacts(Groups, StageFacts):
    """The fate of every listed object, and the place and age of the garbage."""

    stage: ClassVar[Stage] = Stage.EXPIRED_ADDRESSES

    missing: int  # live addresses that the store lacks, `given_up` included
    violations: int  # expired rows that a second judgement refuses; always 0
    ages: tuple[AgeOrSize, ...]
    sizes: tuple[AgeOrSize, ...]
    text_lists: tuple[str, ...]
    prefixes: tuple[Folder, ...]  # folders with the most expired bytes
    foreign_prefixes: tuple[Folder, ...]
    asked_at: float | None  # when lakeFS had answered what branches show; None where nothing had to be asked
    pages_asked: int
    heads: int  # HEAD requests
    waiting: Amount  # candidates for which the requests did not suffice, or that compaction may hide
    previous: Previous | None
    neighbours: NeighbourFacts
    refers_elsewhere: Mapping[str, int]  # addresses outside the namespace that entries refer to, by authority
    missing_paths: tuple[Mapping[str, str], ...]  # some of the missing: address and path
    staged_lost: int | None = (
        None  # of the objects staged at `previous`: neither staged nor committed; None: not counted
    )
    swept_before: int = 0  # live addresses that the store lacks because a sweep had deleted them; not among `missing`
    came_back: Amount = (
        NOTHING  # listed, although a sweep had recorded them as deleted and no restore brought them back
    )
    came_back_examples: tuple[str, ...] = ()  # addresses of some of these
    taken_back: tuple[TakenBack, ...] = ()  # what sweeps had counted of these
    origins: OriginFacts | None = None  # None where nobody looked, as in marks from before there was this key
    prices: Prices = GUESSED  # of HEADs and pages, as this mark or an earlier one measured them
    young_until: float | None = None  # when the first of the young is old enough; None if anything is expired
    first_since: float | None = None  # since when the first expired one is unreferenced; None if nothing is expired
    canaries: Mapping[str, int] = field(default_factory=dict)  # smuggled in and taken out again, by kind
    given_up: int = 0  # missing at the mark before, too, and a person accepted that for it or for an earlier one
    accepted: Amount = NOTHING  # of the expired, at most: what earlier sweeps left of what a person accepted
    unconfirmed: tuple[tuple[float, Amount], ...] | None = None  # expired and not `confirmed`, by `since`

    @property
    def compared(self) -> Compared:
        """The part that the next mark is compared with."""
        return Compared(self.listed, self.committed, self.uncommitted, self.held, self.expired)


@dataclass(frozen=True)
class BackupFacts:
    """The backup of a mark."""

    place: str
    objects: int = 0  # that are in it
    problem: str = ""  # what is wrong with it; "": nothing


@dataclass(frozen=True)
class DrillFacts:
    """The last drill of a repository."""

    name: str
    at: float  # unix seconds: when it was over; if it is not over, when it began
    problem: str = ""  # why it does not count as passed; "": it passed
    lapsed: str = ""  # why its way back is none any more; "": it is one
    by_backup: bool = False  # objects came back out of a backup: only a mark that has one is like it


F = TypeVar("F", bound=StageFacts)


def read_facts(kind: type[F], value: Mapping[str, Any]) -> F:
    """The facts of a stage from a manifest. MarkError if they are not those of this version."""
    try:
        return cast("F", _adapter(cast("Any", kind)).validate_json(json.dumps(value), strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise MarkError(
            f"The facts of stage {kind.stage} are not those of this version of lakegc ({where}: {first['msg']}). "
            "Make a new mark."
        ) from None


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
