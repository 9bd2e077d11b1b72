"""Entries of lakegc.yaml that never count: the first match wins, and some patterns match nothing. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from lakegc_core.policy.globs import Token, means_only, name_glob

_IN_NO_NAME = frozenset(map(ord, "ABCDEFGHIJKLMNOPQRSTUVWXYZ/: \t\n"))
"""Characters that lakeFS allows in no name of a repository; there are more."""


def unreachable(matches: Sequence[str]) -> str | None:
    """The reason why the last of the patterns never counts, and what to do; None if it is some name's first match."""
    *before, last = matches
    glob, globs = name_glob(last), [name_glob(match) for match in before]
    if any(_fits_no_name(token) for token in glob):
        return (
            f"`match: {last!r}` matches no repository, so this policy never counts; lakeFS gives repositories names of "
            "lower-case letters, digits and hyphens; correct the pattern"
        )
    if not means_only(glob, globs):
        return None
    alone = next((match for match, each in zip(before, globs, strict=True) if means_only(glob, [each])), None)
    by = f"`match: {alone!r}`" if alone is not None else "the entries before it together"
    return (
        f"every repository that `match: {last!r}` means is matched before, by {by}; the first match wins, so this "
        "policy never counts; move it up, or remove it"
    )


def _fits_no_name(token: Token) -> bool:
    """True if no character that a name can have fits there; not of all such tokens."""
    if token.many or any(last - first > len(_IN_NO_NAME) for first, last in token.ranges):
        return False
    return all(point in _IN_NO_NAME for first, last in token.ranges for point in range(first, last + 1))


def unreachable_store(matches: Sequence[str]) -> str | None:
    """The same for entries of `stores`, whose `match` is the beginning of addresses."""
    *before, last = matches
    by = next((match for match in before if is_below(last, match)), None)
    if by is None:
        return None
    return (
        f"every address that `match: {last!r}` means is matched before, by `match: {by!r}`; the first match wins, so "
        "this entry never counts; move it up, or write all that holds for it into one entry"
    )


def is_below(location: str, match: str) -> bool:
    """True if an address is `match` or lies below it, segment by segment."""
    return f"{location.rstrip('/')}/".startswith(f"{match.rstrip('/')}/")
