"""Policies of lakegc.yaml that no repository ever gets, because the first match wins. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from lakegc_core.policy.globs import means_only, name_glob


def unreachable(matches: Sequence[str]) -> str | None:
    """The reason why the last of the patterns never counts, and what to do; None if it is some name's first match."""
    *before, last = matches
    glob, globs = name_glob(last), [name_glob(match) for match in before]
    if not means_only(glob, globs):
        return None
    if means_only(glob, []):
        return f"`match: {last!r}` matches no name at all, so this policy never counts; correct the pattern"
    alone = next((match for match, each in zip(before, globs, strict=True) if means_only(glob, [each])), None)
    by = f"`match: {alone!r}`" if alone is not None else "the entries before it together"
    return (
        f"every repository that `match: {last!r}` means is matched before, by {by}; the first match wins, so this "
        "policy never counts; move it up, or remove it"
    )
