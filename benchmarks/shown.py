"""What a generated repository's branches show, page by page, as lakeFS's `objects/ls` answers it.

A head's entries are read from its ranges, each range once, and only those that a page reaches: heads share them. What
is staged is shown with them. Prefixes, delimiters and refs that are no branches are not told apart: no mark asks so.
"""

from __future__ import annotations

import json
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from lakegc_core.lakefs.files import graveler
from lakegc_sandbox.api.wire import MAX_PER_PAGE, object_json
from lakegc_sandbox.files.graveler_writer import RELATIVE, Entry
from lakegc_sandbox.model.addresses import shown_address
from lakegc_sandbox.model.objects import OCTETS
from lakegc_sandbox.model.repository import Repository

_LISTING = re.compile(r"/repositories/[^/]+/refs/([^/]+)/objects/ls")


@dataclass(frozen=True)
class _Rows:
    """Objects in the order of their paths, and the JSON of each."""

    paths: Sequence[str]
    texts: Sequence[bytes]

    def after(self, path: str) -> Iterator[tuple[str, bytes]]:
        start = bisect_right(self.paths, path)
        return ((self.paths[row], self.texts[row]) for row in range(start, len(self.paths)))


@dataclass(frozen=True)
class _Head:
    """The ranges of a metarange, in order: their last paths, and their ids."""

    last: Sequence[str]
    ids: Sequence[str]


class Shown:
    """Answers listings of branches: a `fault` of the sandbox's server, which leaves all other calls to the sandbox.

    `pages` counts them; `seconds` lie between the first one's beginning and the last one's end. `forget` counts anew.
    """

    def __init__(self, repository: Repository, folder: Path) -> None:
        self._repository, self._folder = repository, folder / repository.place.layout.prefix
        self._lock = threading.Lock()
        self._heads: dict[str, _Head] = {}
        self._ranges: dict[str, _Rows] = {}
        self._staged: dict[str, _Rows] = {}
        self.forget()

    def forget(self) -> None:
        self.pages, self.began, self.ended = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def __call__(self, method: str, path: str, query: Mapping[str, str]) -> tuple[int, bytes] | None:
        found = _LISTING.fullmatch(path) if method == "GET" else None
        branch = self._repository.refs.branches.get(unquote(found[1])) if found else None
        if branch is None:
            return None
        began = time.perf_counter()
        metarange_id = self._repository.refs.commit(branch.commit_id).meta_range_id
        amount = min(int(query.get("amount", "100")), MAX_PER_PAGE)
        body = self._page(branch.name, metarange_id, query.get("after", ""), amount)
        with self._lock:
            self.began = self.began or began
            self.pages, self.ended = self.pages + 1, time.perf_counter()
        return 200, body

    def _page(self, branch: str, metarange_id: str, after: str, amount: int) -> bytes:
        rows = list(islice(self._committed(metarange_id, after), amount + 1))
        if staged := list(islice(self._staged_on(branch).after(after), amount + 1)):
            rows = sorted((dict(rows) | dict(staged)).items())
        page, more = rows[:amount], len(rows) > amount
        pagination = {
            "has_more": more,
            "max_per_page": MAX_PER_PAGE,
            "next_offset": page[-1][0] if more else "",
            "results": len(page),
        }
        texts = b",".join(text for _, text in page)
        return b'{"pagination":%s,"results":[%s]}' % (json.dumps(pagination).encode(), texts)

    def _committed(self, metarange_id: str, after: str) -> Iterator[tuple[str, bytes]]:
        head = self._head(metarange_id)
        for range_id in head.ids[bisect_left(head.last, after) :]:
            yield from self._range(range_id).after(after)

    def _head(self, metarange_id: str) -> _Head:
        with self._lock:
            if metarange_id not in self._heads:
                rows = graveler.read_metarange((self._folder / metarange_id).read_bytes())
                last = [key.decode() for key in rows["max_key"].to_pylist()]
                self._heads[metarange_id] = _Head(last, rows["range_id"].to_pylist())
            return self._heads[metarange_id]

    def _range(self, range_id: str) -> _Rows:
        with self._lock:
            if range_id not in self._ranges:
                table = graveler.read_range((self._folder / range_id).read_bytes(), paths=True)
                paths = [path.decode() for path in table["path"].to_pylist()]
                columns = (table[name].to_pylist() for name in ("address", "size", "e_tag"))
                told = zip(*columns, strict=True)
                entries = (Entry(address, size, tag, 0, RELATIVE, {}, OCTETS) for address, size, tag in told)
                self._ranges[range_id] = self._rows(dict(zip(paths, entries, strict=True)))
            return self._ranges[range_id]

    def _staged_on(self, branch: str) -> _Rows:
        """What is staged on a branch; a generated repository's staging never changes."""
        with self._lock:
            if branch not in self._staged:
                staged = self._repository.refs.branches[branch].staged()
                self._staged[branch] = self._rows({path: entry for path, entry in staged.items() if entry})
            return self._staged[branch]

    def _rows(self, entries: Mapping[str, Entry]) -> _Rows:
        place, paths = self._repository.place, sorted(entries)
        told = ((path, entries[path]) for path in paths)
        rows = (object_json(path, entry, shown_address(place, entry)) for path, entry in told)
        return _Rows(paths, [json.dumps(each).encode() for each in rows])
