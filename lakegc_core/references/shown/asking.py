"""Asks lakeFS what branches show, page by page, in tasks on the executors.

A page shows a branch as of that page, staged entries over committed ones. `reuploads` decides which paths are worth
asking for; here they come as intervals, and the addresses that branches show there go to parts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import PAGE
from lakegc_core.lakefs.listed_objects import BEHIND_TEXT, furthest, raw
from lakegc_core.lakefs.models import ObjectStats
from lakegc_core.names import Json
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.places import ODD_PATH
from lakegc_core.references.staged import STAGED_SCHEMA, protect_listed, unless_vanished
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.key_scan import Wanted, sieve_of
from lakegc_core.tables.parts import PartWriter, part_results

SHOWN = "shown"
SHOWN_SCHEMA = pa.schema([STAGED_SCHEMA.field("address")])

INTERVALS = pa.schema(
    [
        pa.field("branch", pa.string(), nullable=False),
        pa.field("first", pa.binary(), nullable=False),  # path; the interval begins there
        pa.field("last", pa.binary(), nullable=True),  # path; the interval ends there. Null: at the branch's end
        pa.field("reach", pa.int64(), nullable=False),  # entries that the head has there; 0: not known
    ]
)

_HAS_WAYS = re.compile("[%?]")
_NOTHING = "^\\b$"  # a pattern that no text matches
_SPARE = 20  # objects that are asked for beyond the entries of the head: a branch may show staged ones between them


@dataclass(frozen=True)
class Interval:
    """Paths of a branch from `first` to `last`, both included; `last` None: to the end."""

    branch: str
    first: bytes
    last: bytes | None
    reach: int


@dataclass(frozen=True)
class Asking:
    """Asks for intervals of branches.

    `candidates`: the objects that are looked for. Addresses that branches show and that may be among them go to parts
    in `folder`. `threads`: requests side by side in one task.
    """

    server: ServerSettings
    repository: str
    namespace: Namespace
    artifacts: StoreConfig
    folder: str
    candidates: Wanted
    threads: int

    def ask_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Json]:
        """Ask for the intervals of a partition: INTERVALS, in order."""
        yield from self.ask([Interval(**row) for batch in batches for row in batch.to_pylist()])

    def ask(self, rows: Sequence[Interval]) -> Iterator[Json]:
        """Ask for intervals, those of a branch in the order of their paths; yield the parts and the number of pages."""
        sieve_of(self.candidates)  # before threads ask for it
        writer = PartWriter(self.artifacts, self.folder, SHOWN_SCHEMA)
        share = -(-len(rows) // self.threads) or 1
        walks = [_Walk(self, rows[start : start + share]) for start in range(0, len(rows), share)]
        pages = 0
        with ThreadPoolExecutor(max(1, len(walks))) as pool:
            for walk, found in zip(walks, pool.map(_Walk.run, walks), strict=True):
                pages += walk.pages
                for batch in found:
                    writer.write(batch)
        yield {"pages": pages}
        yield from part_results(SHOWN, writer.close())

    def wanted(self, page: Sequence[ObjectStats]) -> pa.RecordBatch:
        """The addresses of a page that may be candidates."""
        shown = keys_of(self.namespace, [stats.physical_address for stats in page])
        return shown.take(pa.array(sieve_of(self.candidates).rows(self.candidates.keys(shown))))


class _Walk:
    """One thread's way through intervals in order. A page often reaches over several of them."""

    def __init__(self, asking: Asking, intervals: Sequence[Interval]) -> None:
        self._asking, self._intervals = asking, intervals
        self.pages = 0

    def run(self) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        branch, reached, ended = "", "", False  # what was asked for so far: of which branch, and up to which path
        for interval in self._intervals:
            if interval.branch != branch:
                branch, reached, ended = interval.branch, "", False
            after = max(reached, before(interval.first), key=raw)
            amount = min(PAGE, interval.reach + _SPARE) if interval.reach else PAGE
            while not ended and not _covers(reached, interval.last):
                page, ended = self._page(branch, after, amount)
                found.append(self._asking.wanted(page))
                paths = [stats.path for stats in page]
                onward = furthest(paths, after)
                if not ended and onward == after and amount == PAGE:
                    odd, onward = self._odd(branch, paths, after)
                    found += odd
                if not ended and onward != after:
                    reached = after = onward
                amount = PAGE
        return found

    def _page(self, branch: str, after: str, amount: int) -> tuple[list[ObjectStats], bool]:
        """A page, and whether it is the branch's last one. A branch that is deleted meanwhile shows nothing more."""
        client, repository = client_of(self._asking.server), self._asking.repository
        self.pages += 1
        page, more = list[ObjectStats](), False
        with unless_vanished(client, repository, branch):
            page, more = client.objects_after(repository, branch, after, amount)
        return page, not more

    def _odd(self, branch: str, paths: Sequence[str], after: str) -> tuple[list[pa.RecordBatch], str]:
        """What lies where all paths of a page hold a byte that is not UTF-8, and where to go on behind it."""
        client, repository = client_of(self._asking.server), self._asking.repository
        pages, onward = client.odd_objects(repository, branch, paths, after)
        found = []
        with unless_vanished(client, repository, branch):
            for page in pages:
                self.pages += 1
                found.append(self._asking.wanted(page))
        return found, onward


def keys_of(namespace: Namespace, addresses: Sequence[str]) -> pa.RecordBatch:
    """The keys that physical addresses protect: SHOWN_SCHEMA, in any order.

    Plain addresses, which are nearly all, have one reading: the root is cut off all of them at once, which is fast. An
    address in which something may be decoded or cut off goes through `protect_listed`.
    """
    told = pa.array(addresses, pa.string())
    root = f"{namespace.spelled}/"
    many_ways = namespace.is_local or namespace.is_azure or namespace.path.endswith("/") or _HAS_WAYS.search(root)
    # In a namespace that can be spelled in many ways no address is plain.
    starts = pc.match_substring_regex(told, _NOTHING if many_ways else f"^{re.escape(root)}")
    plain = pc.and_not(starts, pc.match_substring_regex(told, ODD_PATH))
    odd = protect_listed(namespace, told.filter(pc.invert(plain)).to_pylist())
    keys = [pc.utf8_slice_codeunits(told.filter(plain), len(root)), odd["address"]]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(keys)], schema=SHOWN_SCHEMA)


def before(path: bytes) -> str:
    """A text that sorts before a path, and after nearly all that do; lakeFS lists what comes after it.

    Paths are bytes, and texts sort like their UTF-8.
    """
    try:
        text = path.decode()
    except UnicodeDecodeError as error:
        return path[: error.start].decode() + BEHIND_TEXT
    if not text:
        return ""
    code = ord(text[-1]) - 1
    if code < 0:
        return text[:-1]
    code = 0xD7FF if 0xD800 <= code <= 0xDFFF else code
    return f"{text[:-1]}{chr(code)}\U0010ffff"


def _covers(reached: str, last: bytes | None) -> bool:
    return last is not None and bool(reached) and raw(reached) >= last


@functools.lru_cache(maxsize=2)
def client_of(server: ServerSettings) -> LakeFSClient:
    """The worker process's one client."""
    return LakeFSClient(server)
