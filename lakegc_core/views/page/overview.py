"""All repositories of a server as one page of HTML: their sums, a line for each, and what came of each over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lakegc_core.names import Json, counted
from lakegc_core.views.history import freed_bytes, summed
from lakegc_core.views.page.headline import headline
from lakegc_core.views.page.over_time import found_and_deleted, over_time, unread
from lakegc_core.views.page.parts import document, table
from lakegc_core.views.words import ago, day, day_and_time, garbage_bytes, human_bytes

_TITLES = ("repository", "garbage", "objects", "freed", "last mark", "what to look at")


def overview(found: Sequence[Json], at: str, since: str | None = None) -> str:
    """The page. `found`: a history of each repository, as `history_of` or `unreadable` has it; `at`: when they were
    read, `since`: from when sweeps count, both ISO 8601 instants."""
    title, marked = f"Garbage in {_repositories(len(found))}", [each for each in found if each["garbage"]]
    sums = summed(found) | ({} if marked else {"garbage": None})
    of = f"{len(marked):,} marked {'repository' if len(marked) == 1 else 'repositories'}"
    from_when = f" · what happened since {day(since)}" if since else ""
    body = [
        f"<h1>{title}</h1>",
        f'<p class="sub">{day_and_time(at)}{from_when}</p>',
        headline(sums, of, since, "found by the newest mark of each, less what its sweeps finished with"),
        _left_out(found),
        "<h2>The repositories</h2>",
        table(_TITLES, [_row(each) for each in sorted(found, key=_most_garbage_first)], (1, 2, 3)),
        *(part for each in sorted(found, key=_most_garbage_first) for part in _trend(each)),
    ]
    return document(title, body)


def _repositories(count: int) -> str:
    return counted(count, "repository", "repositories")


def _left_out(found: Sequence[Json]) -> str:
    count = sum("problem" in each for each in found)
    if not count:
        return ""
    them = "it" if count == 1 else "them"
    return f'<p class="bad">{_repositories(count)} cannot be read. The sums leave {them} out.</p>'


def _most_garbage_first(history: Json) -> tuple[bool, int, str]:
    garbage = history["garbage"]
    return "problem" in history, -garbage["bytes"] if garbage else 0, history["repository"]


def _row(history: Json) -> tuple[str, ...]:
    garbage, last = history["garbage"], history["last_mark"]
    name = f"<code>{escape(history['repository'])}</code>"
    if "problem" in history:
        return (name, "", "", "", "", f'<span class="bad">cannot be read: {escape(history["problem"])}</span>')
    return (
        name,
        garbage_bytes(garbage) if garbage else "",
        f"{garbage['objects']:,}" if garbage else "",
        human_bytes(freed_bytes(history["totals"])),
        f'{ago(last)}<br><span class="small">{day_and_time(last)}</span>' if last else "no complete mark",
        _to_look_at(history),
    )


def _to_look_at(history: Json) -> str:
    """The reasons why the newest mark is refused, and the marks that cannot be read."""
    refused = [f"refused: {each['name']}: {each['description']}" for each in history["refused"]]
    said = [escape(each) for each in (*refused, unread(history)) if each]
    return f'<span class="bad">{"<br>".join(said)}</span>' if said else ""


def _trend(history: Json) -> list[str]:
    found, deleted = found_and_deleted(history)
    if len(found) + len(deleted) < 2:
        return []
    totals = history["totals"]
    said = f"{counted(len(found), 'complete mark')}, {counted(totals['sweeps'], 'sweep')}"
    return [f"<h2>{escape(history['repository'])}</h2>", f'<p class="sub">{said}</p>', over_time(history)]
