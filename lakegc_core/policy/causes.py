"""The causes of garbage in words, the same in guards, on screens and on pages. Decides nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lakegc_core.policy.facts import Amount, Cause, ExpiredFacts, OriginFacts
from lakegc_core.policy.holders import REPLACED

FOLDERS = "^(?P<folder>(?:[^/]*/){0,2})"
"""The folder of a path by which it is counted: two deep."""
_NAMED = 3


@dataclass(frozen=True)
class Share:
    """A cause in words, and the expired objects of which it is true."""

    words: str
    amount: Amount


def shares(facts: ExpiredFacts) -> list[Share]:
    """The causes with the most bytes first, and what no commit has shown; none where nobody looked."""
    origins = facts.origins
    if origins is None or not facts.expired.objects:
        return []
    found = [Share(_words(cause), Amount(cause.objects, cause.bytes)) for cause in origins.causes]
    rest = facts.expired - origins.found
    if rest.objects:
        found.append(Share(_never(origins), rest))
    return sorted(found, key=lambda share: (-share.amount.bytes, share.words))


def largest(facts: ExpiredFacts) -> str:
    """The largest causes as a sentence with a blank before it; "" where nobody looked."""
    said = ", ".join(_each(facts))
    return f" Of the bytes, {said}." if said else ""


def missing(facts: ExpiredFacts) -> str:
    """The folders in which most of the missing objects with known paths were, as a sentence with a blank before it; ""
    if no path is known."""
    paths = [each["path"] for each in facts.missing_paths if each["path"]]
    folders = Counter(re.findall(FOLDERS, path)[0] or "(root)" for path in paths)
    said = ", ".join(f"{count:,} in {folder}" for folder, count in sorted(folders.items(), key=_most)[:_NAMED])
    return f" Of {len(paths):,} whose paths were looked up: {said}." if said else ""


def swept_before(facts: ExpiredFacts) -> str:
    """A passage on live objects that a sweep had deleted, with a blank before it; "" if there are none."""
    if not facts.swept_before:
        return ""
    return (
        f" {facts.swept_before:,} live objects are gone because a sweep deleted them when nothing referred to them. "
        "Old commits that hold them count again: a rule was made longer, a branch with a shorter rule was deleted, or "
        "a branch or tag was made of an old commit. Reads of them fail. `lakegc restore` brings them back from a "
        "backup, or from what the store itself keeps."
    )


def copies(repository: str, in_quarantine: Sequence[str]) -> str:
    """A passage on marks whose quarantine has copies of missing objects, with a blank before it; "" for none."""
    if not in_quarantine:
        return ""
    how = ", ".join(f"`lakegc restore {repository} {mark_id}`" for mark_id in in_quarantine[:_NAMED])
    more = f" and {len(in_quarantine) - _NAMED:,} more" if len(in_quarantine) > _NAMED else ""
    return (
        f" Copies of them lie in quarantine. This brings them back: {how}{more}. `lakegc retire` keeps those copies "
        "until then."
    )


def _most(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _each(facts: ExpiredFacts) -> Iterator[str]:
    for share in shares(facts)[:_NAMED]:
        yield f"{share.amount.bytes / max(1, facts.expired.bytes):.0%} {share.words}"


def _words(cause: Cause) -> str:
    if cause.cause == REPLACED:
        return f"were replaced or deleted on branch {cause.branch}"
    if cause.gone is None:
        return "were left by a deleted branch or a reset"
    return f"were left by branch {cause.branch}, which was gone on {_day(cause.gone)}"


def _never(origins: OriginFacts) -> str:
    if origins.unread:
        return "were never committed, or in commits that later marks read"
    return "were never committed"


def _day(moment: int) -> str:
    at = datetime.fromtimestamp(moment, UTC)
    return f"{at.day} {at:%B %Y}"
