"""The world of a recording, from its commits, branches, tags, rules and recorded ranges: for the oracle of tests.

Nothing of lakegc is used. What is staged is not in it: each recording's `outcome.json` tells that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property

from tests.support import oracle
from tests.support.golden_replay import Entry, Recording
from tests.support.oracle import Version, World

Paths = dict[str, set[str]]
"""The paths of each object."""


class RecordedWorld:
    """What commits of a recording show, by object."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._ranges: dict[str, Paths] = {}
        self._ranges_of: dict[str, set[str]] = {}  # by metarange
        self._holders: dict[tuple[frozenset[str], int | None], frozenset[str]] = {}
        self._pasts: dict[frozenset[str], set[tuple[str, str, str | None]]] = {}
        for metarange_id in {commit["meta_range_id"] for commit in recording.commits.values()}:
            ranges = recording.ranges(metarange_id)
            self._ranges_of[metarange_id] = set(ranges)
            for range_id in ranges.keys() - self._ranges.keys():
                self._ranges[range_id] = self._paths(ranges[range_id].items())

    def _paths(self, entries: Collection[tuple[str, Entry]]) -> Paths:
        found: Paths = {}
        for path, entry in entries:
            for name in self._names(entry):
                found.setdefault(name, set()).add(path)
        return found

    def _names(self, entry: Entry) -> Iterator[str]:
        """The object of an entry, unless it lies outside the namespace."""
        if entry.relative:
            yield entry.address
        elif (place := f"/{self._recording.place}/") in entry.address:
            yield entry.address.partition(place)[2]

    @cached_property
    def world(self) -> World:
        """Of the moment at which a replay judges."""
        recording = self._recording
        rules = recording.about["rules"]
        return World(
            now=recording.cutoff_for_replay[0] * 10**6,
            commits={
                commit["id"]: Version(
                    tuple(commit["parents"] or ()),
                    commit["creation_date"] * 10**6,
                    frozenset().union(*(self._ranges[each] for each in self._ranges_of[commit["meta_range_id"]])),
                    0 if commit.get("version", 1) else -1,
                )
                for commit in recording.commits.values()
            },
            heads={each["id"]: each["commit_id"] for each in recording.results("{repo}/branches")},
            tags={each["id"]: each["commit_id"] for each in recording.results("{repo}/tags")},
            rules=rules
            and (
                rules["default_retention_days"],
                {each["branch_id"]: each["retention_days"] for each in rules.get("branches") or ()},
            ),
        )

    @cached_property
    def showing(self) -> dict[str, frozenset[str]]:
        """The commits that show each object."""
        found: dict[str, set[str]] = {}
        for commit, version in self.world.commits.items():
            for name in version.objects:
                found.setdefault(name, set()).add(commit)
        return {name: frozenset(commits) for name, commits in found.items()}

    @cached_property
    def counting(self) -> set[str]:
        """The commits that count, those of tags too."""
        return oracle.counting(self.world, tags=True)

    def paths(self, name: str, commits: Collection[str], most: int | None = None) -> set[str]:
        """The paths of an object in some commits. `most`: in the first so many of their ranges that hold it."""
        metaranges = {self._recording.commits[commit]["meta_range_id"] for commit in commits}
        ranges = {each for metarange in metaranges for each in self._ranges_of[metarange] if name in self._ranges[each]}
        return set[str]().union(*(self._ranges[each][name] for each in sorted(ranges)[:most]))

    def holders(self, showing: frozenset[str], now: int | None = None) -> frozenset[str]:
        """What keeps an object that these commits show: by the oracle, asked once for all such objects."""
        if (showing, now) not in self._holders:
            world = self.world if now is None else replace(self.world, now=now)
            self._holders[showing, now] = frozenset(oracle.holders(world, showing))
        return self._holders[showing, now]

    def pasts(self, showing: frozenset[str]) -> set[tuple[str, str, str | None]]:
        """The same of what may be said of their past."""
        if showing not in self._pasts:
            self._pasts[showing] = oracle.pasts(self.world, showing, within=10**6)
        return self._pasts[showing]
