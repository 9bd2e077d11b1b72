"""Reads the objects that a ref shows, page by page, past entries that lakeFS itself cannot show.

lakeFS answers 500 for a whole page if it cannot resolve one address on it: one import of an object named `100%.csv`
brings such an address, and one link without an address, or with any text as one. Pages are then made smaller up to that
entry. Its path is searched for, and the walk goes on behind it. Nothing that could be shown is passed over: if the path
is not found, the error stays, and says where to look.

Paths are bytes. lakeFS's answers do not tell bytes that are not UTF-8, but its requests take them. Where a whole page
has such a byte at the same place, each value of this byte is asked for by itself, as prefix. Where that may be the
beginning of U+FFFD, by which lakeFS tells such bytes, so are the next two. In texts here such bytes stand as Python's
`surrogateescape` writes them.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import PAGE, RAW, UNRESOLVED, Http, LakeFSError, Request
from lakegc_core.lakefs.models import ListedPath, ObjectStats, Page

NOT_TEXT = "\N{REPLACEMENT CHARACTER}"
"""Stands in lakeFS's answers for every byte of a path that is not UTF-8."""

BEHIND_TEXT = "\x7f\U0010ffff"
"""Behind some beginning of a path: sorts before every byte that is not UTF-8, and after nearly all that is."""

_BEHIND_ALL = "\udcff" * 64  # behind some beginning: sorts after all that goes on from there
_NOT_ASCII, _EVERY = range(0x80, 0x100), range(0x100)
_REPLACEMENT = "\udcef\udcbf\udcbd"  # the bytes of U+FFFD itself, which lakeFS tells as it is
_BEGINS_REPLACEMENT = (_REPLACEMENT[0], _REPLACEMENT[:2])  # what goes on so may be that, or no UTF-8

_NO_URL = "could not parse URI: "
_QUOTED = re.compile(_NO_URL + r'parse ("(?:[^"\\]|\\.)*")')
_LONGEST = 200  # characters of a delimiter: lakeFS takes 1,024 bytes


@dataclass(frozen=True)
class Shown:
    """The objects that a ref shows. `listing`: the call, without what is asked for. `begins`: the prefix of
    all their paths, if it ends in a byte that is not UTF-8."""

    http: Http
    listing: Request
    begins: str = ""

    def pages(self) -> Iterator[list[ObjectStats]]:
        """Every object, page by page in the order of paths. An object may come twice where paths are not text."""
        after, more, amount = "", True, PAGE
        while more:
            page, more = self.page(after, amount)
            amount = min(PAGE, 2 * len(page))  # entries that lakeFS cannot show may lie side by side
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
        if self.begins.endswith(_BEGINS_REPLACEMENT) and not after.startswith(self.begins + _BEHIND_ALL):
            return self._by_next_byte(self.begins, _EVERY), self.begins + _BEHIND_ALL
        if not start.startswith(self.begins) or after.startswith(start + _BEHIND_ALL):
            raise ServerError(
                f"{self.listing}: lakeFS shows {len(paths):,} paths in a row after {after!r} that are not UTF-8. What "
                "lies behind them cannot be asked for, so nothing can be called garbage. Rename some of them."
            )
        return self._by_next_byte(start, _NOT_ASCII), start + _BEHIND_ALL

    def _by_next_byte(self, start: str, values: Iterable[int]) -> Iterator[list[ObjectStats]]:
        for byte in values:
            begins = start + bytes([byte]).decode("utf-8", "surrogateescape")
            listing = replace(self.listing, params={**self.listing.params, "prefix": begins})
            yield from replace(self, listing=listing, begins=begins).pages()

    def _known(self, told: str) -> str:
        """A path as far as it is known: `begins` in its place."""
        shown = re.sub("[\udc80-\udcff]", NOT_TEXT, self.begins.replace(_REPLACEMENT, NOT_TEXT))
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
        """The path of the first entry after `after`, which this error is about. LakeFSError if it is not found.

        `address`: the entry's address, as far as the error tells it.
        """
        # lakeFS does not resolve an entry with the delimiter in its path, and tells its path up to there. So each
        # delimiter makes the known beginning of the path longer, and its last character makes it whole. An import keeps
        # the ends of names.
        behind = f"{after}\0"  # what comes after it, and never the group in which it lies itself
        told = "" if self.begins else self.listing.params.get("prefix", "")
        ends = (address.rpartition("/")[2][-_LONGEST:], address[-1:])
        alike = (each for each in after[-1:] if each in string.printable)  # paths of one folder may end alike
        for delimiter in dict.fromkeys(("", *ends, *alike, *string.printable)):
            longer = self._longer(told, behind, delimiter)
            if longer and (longer != told or not delimiter) and self._is_whole(longer, after, error):
                return longer
            told = longer
        raise LakeFSError(
            f"{self.listing}: from {after!r} on there is a path whose address lakeFS cannot resolve "
            f'("{error.message[:500]}"), so it lists nothing there. Such an address comes from a link that gave any '
            "text as the address, or none. lakegc cannot find out the path: it is the next one there. "
            "Delete this path on its branch.",
            error.status,
            error.message,
        )

    def _longer(self, told: str, behind: str, delimiter: str) -> str:
        """A beginning of a path, made longer up to the last delimiter in it. `behind`: the path is the first one from
        there on, and lakeFS cannot resolve its address."""
        while delimiter:
            asked = {"delimiter": delimiter} | ({"prefix": told} if told else {})
            longer = self._first(behind, asked)
            if longer == told or not longer.startswith(told):
                break
            told = longer
        return told

    def _is_whole(self, path: str, after: str, error: LakeFSError) -> bool:
        """True if a beginning of the path of which an error tells (the first one after `after`) is all of it."""
        if raw(path) <= raw(after) or not self._fails(f"{after}\0", path, error):
            return False
        if not self._fails(path, path, error):
            return True
        # The path goes on, or another one that begins so has such an address, too. Where that one has a character that
        # the path does not have, they are two.
        for delimiter in string.printable:
            other = self._longer(path, f"{path}\0", delimiter)
            if other != path:
                return self._longer(path, f"{after}\0", delimiter) == path
        return False

    def _first(self, after: str, params: Mapping[str, str]) -> str:
        """The first path after `after`, or its beginning; empty if there is none, or lakeFS does not tell."""
        found = self._ask(after, params)
        return "" if isinstance(found, LakeFSError) or not found else found[0].path

    def _fails(self, after: str, prefix: str, error: LakeFSError) -> bool:
        """True if lakeFS says the same as an error did of the first path after `after` that begins with `prefix`."""
        found = self._ask(after, {"prefix": prefix})
        return isinstance(found, LakeFSError) and found.message == error.message

    def _ask(self, after: str, params: Mapping[str, str]) -> list[ListedPath] | LakeFSError:
        """The first path after `after`, if there is one; the error if lakeFS cannot resolve its address."""
        asked = replace(self.listing, params={**self.listing.params, **params})
        try:
            return self.http.page(asked, Page[ListedPath], after=after, amount=1).results
        except LakeFSError as error:
            if not _is_unresolved(error):
                raise
            return error


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


def _is_unresolved(error: LakeFSError) -> bool:
    """True if lakeFS could not resolve an address that it was to show."""
    return error.status == 500 and UNRESOLVED.search(error.message) is not None


def _address(error: LakeFSError) -> str | None:
    """The address that lakeFS could not resolve; empty where it is, or is not told. None for any other error.

    lakeFS tells each that is no URL. Under any other, no store has an object that lakeFS reads.
    """
    if not _is_unresolved(error):
        return None
    found = _QUOTED.search(error.message)
    try:
        if found:
            return str(ast.literal_eval(found[1]))  # Go quotes as Python does
    except (SyntaxError, ValueError):
        return None
    return None if _NO_URL in error.message else ""
