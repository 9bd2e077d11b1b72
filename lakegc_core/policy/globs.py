"""Globs: which names or paths a pattern means, and whether some patterns mean all that another one means.

One engine for holds and for `restore --path`. Of names (tags, branches, repositories) the patterns are the shell's:
`*` is any text, `?` one character, `[…]` one of some. Of paths `*` and `?` stay within a folder, `**` crosses folders,
and everything else stands for itself. Nothing about holds is known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

Ranges = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
_ANY: Ranges = ((0, _LAST),)
_IN_FOLDER: Ranges = ((0, ord("/") - 1), (ord("/") + 1, _LAST))
_MOST_STATES = 5_000  # of two patterns side by side; beyond it they are not compared to the end

# A byte that is no UTF-8 is one character, as everywhere in Python. Arrow knows no lone surrogates: each has a stand-in
# at the end of Unicode. Two texts that differ only in that are taken for alike, which keeps more.
_STAND_INS = {0xDC00 + byte: _LAST - 0xFF + byte for byte in range(0x80, 0x100)}


@dataclass(frozen=True)
class Token:
    """One character out of `ranges` (code points, both ends included); `many`: any number of them, none as well."""

    ranges: Ranges
    many: bool = False


Glob = tuple[Token, ...]


def name_glob(pattern: str) -> Glob:
    """The glob of a shell pattern, with exactly the meaning that `fnmatch.fnmatchcase` gives it."""
    found: list[Token] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        end = _end_of_set(pattern, at) if letter == "[" else -1
        if end > 0:
            found.append(Token(_set(pattern[at + 1 : end])))
            at = end
        elif letter in "*?":
            found.append(Token(_ANY, letter == "*"))
        else:
            found.append(_literal(letter))
        at += 1
    return tuple(found)


def path_glob(pattern: str) -> Glob:
    """The glob of a pattern of paths: `*` and `?` stay within a folder, `**` crosses folders."""
    found: list[Token] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**", at):
            found.append(Token(_ANY, many=True))
            at += 1
        elif pattern[at] in "*?":
            found.append(Token(_IN_FOLDER, pattern[at] == "*"))
        else:
            found.append(_literal(pattern[at]))
        at += 1
    return tuple(found)


def matches(glob: Glob, texts: pa.Array) -> pa.Array:
    """True for each text that the glob means as a whole. `texts`: as `as_texts` gives them."""
    return pc.match_substring_regex(texts, rf"\A(?:{''.join(map(_expression, glob))})\z")


def as_texts(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Names or paths (strings, or bytes that need not be UTF-8) in the form in which `matches` takes them."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not pa.types.is_binary(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (value.decode("utf-8", "surrogateescape").translate(_STAND_INS) for value in values.to_pylist())
        return pa.array(texts, pa.string())


def means_only(glob: Glob, others: Sequence[Glob]) -> bool:
    """True if each text that the glob means is also meant by one of the others. The answer is exact.

    Also False if it would take too long to tell, which only patterns of many `?` after a `*` do.
    """
    points = _points([glob, *others])
    start = _closed((glob,), {(0, 0)}), _closed(others, {(number, 0) for number in range(len(others))})
    seen, left = {start}, [start]
    while left:
        mine, theirs = left.pop()
        if _at_end((glob,), mine) and not _at_end(others, theirs):
            return False
        for point in points:
            after = _after((glob,), mine, point), _after(others, theirs, point)
            if after[0] and after not in seen:
                if len(seen) == _MOST_STATES:
                    return False
                seen.add(after)
                left.append(after)
    return True


_State = frozenset[tuple[int, int]]  # numbers of globs, each with the number of a token that it waits for


def _closed(globs: Sequence[Glob], places: Iterable[tuple[int, int]]) -> _State:
    found = set()
    for number, at in places:
        found.add((number, at))
        while at < len(globs[number]) and globs[number][at].many:
            at += 1
            found.add((number, at))
    return frozenset(found)


def _after(globs: Sequence[Glob], state: _State, point: int) -> _State:
    moved = set()
    for number, at in state:
        if at < len(globs[number]):
            token = globs[number][at]
            if any(first <= point <= last for first, last in token.ranges):
                moved.add((number, at if token.many else at + 1))
    return _closed(globs, moved)


def _at_end(globs: Sequence[Glob], state: _State) -> bool:
    return any(at == len(globs[number]) for number, at in state)


def _points(globs: Sequence[Glob]) -> list[int]:
    """One character for each set of characters that no token of the globs tells apart."""
    ranges = [each for glob in globs for token in glob for each in token.ranges]
    edges = {0} | {first for first, _ in ranges} | {last + 1 for _, last in ranges}
    return sorted(edge for edge in edges if edge <= _LAST)


def _literal(letter: str) -> Token:
    point = _STAND_INS.get(ord(letter), ord(letter))
    return Token(((point, point),))


def _expression(token: Token) -> str:
    """The token as RE2 reads it: nothing in it means anything but itself."""
    ranges = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in token.ranges)
    return (f"[{ranges}]" if ranges else rf"[^\x{{0}}-\x{{{_LAST:x}}}]") + ("*" if token.many else "")


def _end_of_set(pattern: str, at: int) -> int:
    """The place of the `]` that ends the set that may begin at this `[`; -1 if there is no set."""
    first = at + 2 if pattern.startswith("!", at + 1) else at + 1
    return pattern.find("]", first + 1 if pattern.startswith("]", first) else first)


def _set(inside: str) -> Ranges:
    """The characters that `[…]` stands for. `inside`: without the brackets."""
    negated = inside.startswith("!")
    letters = inside[1:] if negated else inside
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(letters):
        is_range = at + 2 < len(letters) and letters[at + 1] == "-"
        first, last = ord(letters[at]), ord(letters[at + 2] if is_range else letters[at])
        if first <= last:  # as in a shell, `z-a` is empty
            found.append((first, last))
        at += 3 if is_range else 1
    return _others(found) if negated else tuple(found)


def _others(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All characters but these."""
    found: list[tuple[int, int]] = []
    free = 0
    for first, last in sorted(ranges):
        if first > free:
            found.append((free, first - 1))
        free = max(free, last + 1)
    return (*found, (free, _LAST)) if free <= _LAST else tuple(found)
