"""The entries of a materialisation that lakegc itself reads again, by name.

`digest` says which mark was looked at, and the sweep compares it; the others are what the sweep sensor needs.
"""

from __future__ import annotations

DIGEST = "digest"
STARTED, READY, EXPIRED = "mark_started_at", "may_be_swept_from", "expired_objects"
"""By these names the sweep sensor finds what it may ask for: when a mark was begun, from when a sweep of it can delete
anything, and how much it found."""
STOPPED_BY = "stopped_by"
"""The guards that stop a sweep of the mark, as far as the mark itself tells; the sweep sensor asks for none then."""
STOPS = "stops"
"""Of a check: whether its guard stops a sweep. Its severity does not say so, because some only warn in Dagster."""

_GROUP = 8  # characters of a digest that stand together: the page of a partition scrolls sideways for longer words


def digest_shown(digest: str) -> str:
    """A digest in groups: the UI breaks no line but at a space. `digest_of` reads it."""
    return " ".join(digest[at : at + _GROUP] for at in range(0, len(digest), _GROUP))


def digest_of(shown: object) -> str:
    """The digest that a materialisation shows; those of earlier versions show it in one piece."""
    return str(shown).replace(" ", "")
