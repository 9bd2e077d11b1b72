"""Reads the objects that a ref shows, page by page, past entries that lakeFS itself cannot show.

lakeFS answers 500 for a whole page if one address on it is no URL; one import of an object named `100%.csv` brings such
an address. Pages are then made smaller up to that entry. Its address is in the error, its path is searched for, and the
walk goes on behind it. Nothing that could be shown is passed over: if the path is not found, the error stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import PAGE, UNRESOLVED, Http, LakeFSError, Request
from lakegc_core.lakefs.models import ListedPath, ObjectStats, Page

NOT_TEXT = "\N{REPLACEMENT CHARACTER}"
"""Stands in lakeFS's answers for every byte of a path that is not UTF-8."""

_QUOTED = re.compile(re.escape(UNRESOLVED) + r'("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True)
class Shown:
    """The objects that a ref shows. `listing`: the call, without what is asked for."""

    http: Http
    listing: Request

    def pages(self) -> Iterator[list[ObjectStats]]:
        """Every object, page by page in the order of paths."""
        after, more = "", True
        while more:
            page, more = self.page(after, PAGE)
            if more:  # what is no text at its end comes again
                after = furthest(page, after)
                page = page[: [each.path for each in page].index(after) + 1]
            yield page

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
        if first is not None and NOT_TEXT not in first and first <= after:
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


def furthest(page: Sequence[ObjectStats], after: str) -> str:
    """The last path of a page from which the next one may begin. ServerError if none leads on.

    A path that is not text comes with other bytes than it has: to go on from there would pass over others.
    """
    found = next((stats.path for stats in reversed(page) if NOT_TEXT not in stats.path), "")
    if found <= after:
        raise ServerError(
            f"lakeFS shows {len(page):,} paths in a row after {after!r} that are not UTF-8. What lies behind them "
            "cannot be asked for, so nothing can be called garbage. Rename some of them."
        )
    return found


def _address(error: LakeFSError) -> str | None:
    """The address that lakeFS could not resolve; None for any other error."""
    found = _QUOTED.search(error.message)
    try:
        return str(ast.literal_eval(found[1])) if found else None  # Go quotes as Python does
    except (SyntaxError, ValueError):
        return None
