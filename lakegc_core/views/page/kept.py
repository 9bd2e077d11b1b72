"""The keepers of the rest, on a page: days of the rules, branches, tags and holds. Made of the answers' JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape

from lakegc_core.names import Json
from lakegc_core.views.page.parts import table
from lakegc_core.views.page.pictures import bars
from lakegc_core.views.words import human_bytes

_CURVES, _KEEPERS = 6, 20
"""At most so many rules, and so many branches, tags and holds, are on a page."""
_LONGEST = 60  # characters of a name in a picture


def kept(repository: str, usage: Json | None, curves: Mapping[str, Sequence[Json]] | None) -> list[str]:
    """Both parts as HTML, or which commands show them. `usage`: as `du` answers; `curves`: those of `whatif`."""
    found = []
    if curves is not None:
        found += ["<h2>What stays, by the days of the rules</h2>", *_curves(repository, curves)]
    if usage is not None:
        found += ["<h2>What each branch, tag and hold keeps</h2>", *_keepers(repository, usage)]
    name = shlex.quote(repository)
    ways = [
        f"<code>lakegc whatif {escape(name)}</code> shows what each number of days keeps." if curves is None else "",
        f"<code>lakegc du {escape(name)}</code> shows what each branch and tag keeps." if usage is None else "",
    ]
    if any(ways):
        both = f"<code>lakegc report {escape(name)} --html FILE --answers</code> makes this page with both."
        found.append(f'<p class="small">{" ".join(filter(None, [*ways, both]))}</p>')
    return found


def _curves(repository: str, curves: Mapping[str, Sequence[Json]]) -> list[str]:
    if not curves:
        return ["<p>The repository has no rules, so that every commit counts.</p>"]
    pictures = [
        bars([{"name": _days(point["days"])} | point["kept"] for point in points], f"By the days of {_cut(name)}")
        for name, points in list(curves.items())[:_CURVES]
    ]
    more = _more(len(curves) - _CURVES, f"lakegc whatif {shlex.quote(repository)}")
    return ['<div class="pictures">', *pictures, "</div>", more]


def _keepers(repository: str, usage: Json) -> list[str]:
    keepers = [each for each in usage["keepers"] if each["only"]["objects"] or each["shows"]]
    most = max((each["only"]["bytes"] for each in keepers), default=0) or 1
    rows = [
        (
            f"<code>{escape(each['name'])}</code>",
            human_bytes(each["shows"]["bytes"]) if each["shows"] else "",
            *(human_bytes(each[name]["bytes"]) for name in ("only", "history", "at_once")),
            f'<div class="shares"><div style="width:{100 * each["only"]["bytes"] / most:.1f}%"></div></div>',
        )
        for each in keepers[:_KEEPERS]
    ]
    titles = ("", "shows", "frees in the end", "of it history", "frees at once", "")
    shared = human_bytes(usage["shared"]["bytes"])
    return [
        table(titles, rows, (1, 2, 3, 4)),
        _more(len(keepers) - _KEEPERS, f"lakegc du {shlex.quote(repository)} --json"),
        f'<p class="small">“Frees” is what goes if this alone is dropped. Several of them keep {shared} together.</p>',
    ]


def _days(days: int | None) -> str:
    return "for ever" if days is None else "1 day" if days == 1 else f"{days} days"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _more(count: int, command: str) -> str:
    return f'<p class="small">{count:,} more: <code>{escape(command)}</code> shows all.</p>' if count > 0 else ""
