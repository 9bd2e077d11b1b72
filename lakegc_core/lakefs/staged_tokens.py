"""The tokens between the pages of a staged dump, which cannot carry a path that is not UTF-8.

lakeFS ends a page at a path, and writes the path as JSON into the token of the next page. Each byte that is not UTF-8
turns into a U+FFFD. lakeFS would go on at that other path: after the one at which the page ended, so that what lies
between is in no page, or before it, for ever.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Container

from lakegc_core.errors import IncompleteError
from lakegc_core.lakefs.listed_objects import BEHIND_TEXT

_LOST = "\ufffd"
_LOST_AS_WRITTEN = rb"\ufffd"
"""Go writes a byte that is not UTF-8 with these six characters, and a real U+FFFD as it is."""


def next_token(token: str, used: Container[str]) -> str:
    """The token to ask the next page of a staged dump with: lakeFS's own, or one of a place a little before it.

    A path with U+FFFD is cut before the first one, and goes on with what sorts right before it, so that lakeFS reads
    nearly nothing twice. A real U+FFFD is cut, too: that a later lakeFS writes lost bytes otherwise than Go does now
    must hide nothing. Only where that leads no further, and all of them look real, lakeFS's own token goes on.
    `used`: the tokens that this dump was asked with. IncompleteError if lakeFS goes no further than the cut path, or if
    the token cannot be read: in another form, it can still hold such a path.
    """
    try:
        written = base64.b64decode(token, validate=True)
        mark = json.loads(written)
        branch, path = mark["branch"], mark["path"]
        start, lost, _ = path.partition(_LOST)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise IncompleteError(
            f"lakeFS goes on with its staged dump at {token[:200]!r}, which lakegc cannot read. So lakegc cannot tell "
            "if a path that is not UTF-8 is lost in it, and with it staged data. This lakeFS is newer than lakegc "
            "knows: look for a newer lakegc. Until then, see that the dump is one page: raise "
            "`ugc.prepare_max_file_size` and `ugc.prepare_interval` in lakeFS's configuration."
        ) from None
    if not lost:
        return token
    cut = base64.b64encode(json.dumps(mark | {"path": start + BEHIND_TEXT}).encode()).decode()
    if cut not in used:
        return cut
    if _LOST_AS_WRITTEN not in written:
        return token
    raise IncompleteError(
        f"lakeFS's staged dump does not get past paths that are not UTF-8 on branch {branch}, from {start!r} on: its "
        "pages cannot begin at such a path, and more is staged there than a page holds. Staged data would look like "
        "garbage. Commit or reset what is staged there, or raise `ugc.prepare_max_file_size` and "
        "`ugc.prepare_interval` in lakeFS's configuration."
    )
