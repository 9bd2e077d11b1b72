"""The content of commits: sorted entries cut into ranges, sharing every range that did not change.

A tree is cut by its content alone: equal content gives equal ids, and a commit rewrites only what it touched.
(lakeFS also keeps cuts whose key is gone; the sandbox closes them.)
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakegc_sandbox.files import graveler_writer
from lakegc_sandbox.files.graveler_writer import Entry, RangeInfo, cuts_behind

Changes = Mapping[str, Entry | None]  # None = the path is removed


@dataclass(frozen=True)
class Segment:
    """Entries between two cuts; one range, or several if the size limit split it."""

    digest: bytes  # over the records: equal digests, equal entries
    paths: tuple[str, ...] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)
    ranges: tuple[RangeInfo, ...] = field(repr=False)


@dataclass(frozen=True)
class Tree:
    """All entries of one commit. `meta_range_id` is empty for the first commit of a repository."""

    meta_range_id: str = ""
    segments: tuple[Segment, ...] = ()

    def get(self, path: str) -> Entry | None:
        place = bisect.bisect_left(self.segments, path, key=lambda segment: segment.paths[-1])
        if place == len(self.segments):
            return None
        segment = self.segments[place]
        row = bisect.bisect_left(segment.paths, path)
        return segment.entries[row] if segment.paths[row] == path else None

    def items(self, start: str = "") -> Iterator[tuple[str, Entry]]:
        """Paths from `start` on, in order."""
        place = bisect.bisect_left(self.segments, start, key=lambda segment: segment.paths[-1])
        for segment in self.segments[place:]:
            row = bisect.bisect_left(segment.paths, start)
            yield from zip(segment.paths[row:], segment.entries[row:], strict=True)

    def ranges(self) -> Iterator[tuple[RangeInfo, Iterator[tuple[str, Entry]]]]:
        """Every range, and its entries."""
        for segment in self.segments:
            row = 0
            for info in segment.ranges:
                rows = slice(row, row + info.count)
                yield info, zip(segment.paths[rows], segment.entries[rows], strict=True)
                row = rows.stop


EMPTY_TREE = Tree()


def diff(old: Tree, new: Tree) -> dict[str, Entry | None]:
    """The changes that turn `old` into `new`; entries of one identity are equal wherever their data lies."""
    shared = {segment.digest for segment in old.segments} & {segment.digest for segment in new.segments}

    def unshared(tree: Tree) -> dict[str, Entry]:
        segments = (segment for segment in tree.segments if segment.digest not in shared)
        return dict(itertools.chain.from_iterable(zip(s.paths, s.entries, strict=True) for s in segments))

    before, after = unshared(old), unshared(new)
    changes: dict[str, Entry | None] = dict.fromkeys(before.keys() - after.keys())
    for path, entry in after.items():
        if path not in before or before[path].identity != entry.identity:
            changes[path] = entry
    return changes


class TreeWriter:
    """Writes trees of one repository: hands every new range and metarange to `write(id, bytes)`."""

    def __init__(self, write: Callable[[str, bytes], None], modulus: int, max_size: int) -> None:
        self._write = write
        self._modulus = modulus
        self._max_size = max_size
        self._segments: dict[bytes, Segment] = {}

    def apply(self, tree: Tree, changes: Changes) -> Tree:
        """The tree after the changes, written out."""
        pending = sorted(changes)
        start = 0
        segments: list[Segment] = []
        carried: dict[str, Entry] = {}  # entries behind the last cut
        for place, segment in enumerate(tree.segments, 1):
            end = bisect.bisect_right(pending, segment.paths[-1], start)
            if place == len(tree.segments):  # it need not end in a cut: what comes behind it belongs to it
                end = len(pending)
            if start == end and not carried:
                segments.append(segment)
                continue
            carried.update(zip(segment.paths, segment.entries, strict=True))
            carried = self._close(_apply(carried, changes, pending[start:end]), segments)
            start = end
        carried = self._close(_apply(carried, changes, pending[start:]), segments)
        if carried:
            segments.append(self._segment(carried.items()))
        table = graveler_writer.write_metarange(info for segment in segments for info in segment.ranges)
        self._write(table.id, table.data)
        return Tree(table.id, tuple(segments))

    def _close(self, entries: dict[str, Entry], segments: list[Segment]) -> dict[str, Entry]:
        """Append a segment for every cut among the entries; return those behind the last cut."""
        rest: dict[str, Entry] = {}
        for path in sorted(entries):
            rest[path] = entries[path]
            if cuts_behind(path.encode(), self._modulus):
                segments.append(self._segment(rest.items()))
                rest = {}
        return rest

    def _segment(self, entries: Iterable[tuple[str, Entry]]) -> Segment:
        items = tuple(entries)
        records = [(path.encode(), entry.value) for path, entry in items]
        digest = graveler_writer.record_digest(records).digest()
        known = self._segments.get(digest)
        if known is not None:
            return known
        tables = graveler_writer.write_ranges(records, modulus=self._modulus, max_size=self._max_size)
        for table in tables:
            self._write(table.id, table.data)
        paths = tuple(path for path, _ in items)
        segment = Segment(digest, paths, tuple(entry for _, entry in items), tuple(table.info for table in tables))
        self._segments[digest] = segment
        return segment


def _apply(entries: dict[str, Entry], changes: Changes, paths: Iterable[str]) -> dict[str, Entry]:
    for path in paths:
        entry = changes[path]
        if entry is None:
            entries.pop(path, None)
        else:
            entries[path] = entry
    return entries
