"""Reads the objects that a ref shows, page by page, past entries that lakeFS itself cannot show.

lakeFS answers 500 for a whole page if one address on it is no URL; one import of an object named `100%.csv` brings such
an address. Pages are then made smaller up to that entry. Its address is in the error, its path is searched for, and the
walk goes on behind it. Nothing that could be shown is passed over: if the path is not found, the error stays.

Paths are bytes. lakeFS's answers do not tell bytes that are not UTF-8, but its requests take them. Where a whole page
has such a byte at the same place, each value of this byte is asked for by itself, as prefix. In texts here such bytes
stand as Python's `surrogateescape` writes them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import PAGE, RAW, UNRESOLVED, Http, LakeFSError, Request
from lakegc_core.lakefs.models import ListedPath, ObjectStats, Page

NOT_TEXT = "\N{REPLACEMENT CHARACTER}"
"""Stands in lakeFS's answers for every byte of a path that is not UTF-8."""

BEHIND_TEXT = "\x7f\U0010ffff"
"""Behind some beginning of a path: sorts before every byte that is not UTF-8, and after nearly all that is."""

_BEHIND_ALL = "\udcff" * 64  # behind some beginning: sorts after all that goes on from there
_NOT_ASCII = range(0x80, 0x100)
_BEGINS_REPLACEMENT = "\udcef"  # a path that goes on so may be told as it is, or hold a byte that is not UTF-8

_QUOTED = re.compile(re.escape(UNRESOLVED) + r'("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Shown:
    """The objects that a ref shows. `listing`: the call, without what is asked for. `begins`: the prefix of
    all their paths, if it ends in a byte that is not UTF-8."""

    http: Http
    listing: Request
    begins: str = ""

    def pages(self) -> Iterator[list[ObjectStats]]:
        """Every object, page by page in the order of paths. An object may come twice where paths are not text."""
        after, more = "", True
        while more:
            page, more = self.page(after, PAGE)
            if not more:
                yield page
                return
            paths = [self._known(each.path) for each in page]
            onward = furthest(paths, after)
            if onward != after:
                yield page[: _reached(paths, onward)]  # the others come again
                after = onward
                continue
            yield page
            odd, after = self.odd(paths, after)
            yield from odd

    def odd(self, paths: Sequence[str], after: str) -> tuple[Iterator[list[ObjectStats]], str]:
        """All objects that have a byte which is not ASCII where all of some paths have one that is not UTF-8, page by
        page; and the text from which the listing goes on behind them.

        For a page from which `furthest` does not lead on. ServerError if a part of its paths stays unknown.
        """
        start = paths[-1].partition(NOT_TEXT)[0]
        if not start.startswith(self.begins) or after.startswith(start + _BEHIND_ALL):
            raise ServerError(
                f"{self.listing}: lakeFS shows {len(paths):,} paths in a row after {after!r} that are not UTF-8. What "
                "lies behind them cannot be asked for, so nothing can be called garbage. Rename some of them."
            )
        return self._odd(start), start + _BEHIND_ALL

    def _odd(self, start: str) -> Iterator[list[ObjectStats]]:
        for byte in _NOT_ASCII:
            begins = start + bytes([byte]).decode("utf-8", "surrogateescape")
            listing = replace(self.listing, params={**self.listing.params, "prefix": begins})
            yield from replace(self, listing=listing, begins=begins).pages()

    def _known(self, told: str) -> str:
        """A path as far as it is known: `begins` in its place."""
        shown = re.sub("[\udc80-\udcff]", NOT_TEXT, self.begins)
        if not told.startswith(shown) or self.begins.endswith(_BEGINS_REPLACEMENT):
            return told
        return self.begins + told[len(shown) :]

    def page(self, after: str, amount: int) -> tuple[list[ObjectStats], bool]:
        """Up to `amount` objects with paths after `after`, and whether there are more."""
        try:
            page = self.http.page(self.listing, Page[ObjectStats], after=after, amount=amount)
        except LakeFSError as error:
            address = _address(error)
            if address is None:
                raise
            if amount > 1:
                return self.page(after, amount // 2)
            return [ObjectStats(self._path(after, address, error), address, 0, "")], True
        objects, more = page.results, page.pagination.has_more
        first = objects[0].path if objects else None
        # Go's strings hold bytes, JSON only text: what is no text arrives with U+FFFD, and sorts elsewhere.
        if first is not None and NOT_TEXT not in first and raw(first) <= raw(after):
            raise self.listing.odd(f"a page after {after!r} begins with {first!r}")
        if more and not objects:
            raise self.listing.odd(f"there is more after {after!r}, but the page is empty")
        return objects, more

    def _path(self, after: str, address: str, error: LakeFSError) -> str:
        """The path of the first entry after `after`, which has this address: `error` if it is not found."""
        # lakeFS does not resolve an entry with the delimiter in its path, and tells its path up to there. An import
        # keeps the ends of names. Where the path that was told shows the address, no other entry comes before it.
        for name in dict.fromkeys((address.rpartition("/")[2], address[-1:])):
            told = ""
            while name and (longer := self._first(after, {"delimiter": name} | ({"prefix": told} if told else {}))):
                if longer <= told:
                    break
                told = longer
                if told > after and self._is_at(told, name, address):
                    return told
        raise error

    def _first(self, after: str, params: Mapping[str, str]) -> str:
        """The first path after `after`, or its beginning; empty if there is none, or lakeFS does not tell."""
        asked = replace(self.listing, params={**self.listing.params, **params})
        try:
            found = self.http.page(asked, Page[ListedPath], after=after, amount=1).results
        except LakeFSError as error:
            if _address(error) is None:
                raise
            return ""
        return found[0].path if found else ""

    def _is_at(self, path: str, name: str, address: str) -> bool:
        """True if a path shows this address, which lakeFS does not resolve: that of the first entry below `path` which
        is `path` itself, or has no `name` behind it. A mark has no right to ask for a single path."""
        asked = {**self.listing.params, "prefix": path, "delimiter": name}
        try:
            self.http.page(replace(self.listing, params=asked), Page[ListedPath], after="", amount=1)
        except LakeFSError as error:
            return _address(error) == address
        return False


def furthest(paths: Sequence[str], after: str) -> str:
    """The text behind which the next page may begin: not behind the last of these paths. `after` if none leads on.

    A path that is not text comes with other bytes than it has: to go on from there would pass over others.
    """
    text = next((path for path in reversed(paths) if NOT_TEXT not in path), "")
    known, odd, _ = paths[-1].partition(NOT_TEXT) if paths else ("", "", "")
    return max(after, text, known + BEHIND_TEXT if odd else "", key=raw)


def _reached(paths: Sequence[str], onward: str) -> int:
    """The number of paths, the first of a page, that a listing which goes on behind `furthest` does not show again."""
    if onward in paths:
        return paths.index(onward) + 1
    odd = onward.removesuffix(BEHIND_TEXT) + NOT_TEXT
    return next(number for number, path in enumerate(paths) if path.startswith(odd))


def raw(text: str) -> bytes:
    """The bytes of a text in which some may not be UTF-8. Paths sort like these."""
    return text.encode(*RAW)


def _address(error: LakeFSError) -> str | None:
    """The address that lakeFS could not resolve; None for any other error."""
    found = _QUOTED.search(error.message)
    try:
        return str(ast.literal_eval(found[1])) if found else None  # Go quotes as Python does
    except (SyntaxError, ValueError):
        return None
