"""The headline of a page: the garbage, the bytes freed, and their cost; as figures and in one or two sentences."""

from __future__ import annotations

from html import escape

from lakegc_core.names import Json, counted
from lakegc_core.views.history import freed_bytes
from lakegc_core.views.page.parts import card
from lakegc_core.views.words import (
    day,
    garbage_bytes,
    human_bytes,
    money,
    monthly,
    monthly_cost,
    still_taken,
    yearly,
)


def headline(sums: Json, of: str, since: str | None = None, found_by: str = "") -> str:
    """The head of a page. `sums`: garbage ({objects, bytes}) and totals (as `history_of` has them), each None if it is
    not known, and price (or None). `of`: whose garbage it is; `since`: an ISO 8601 instant from which sweeps count;
    `found_by`: which mark found the garbage."""
    return "\n".join(
        [
            f'<p class="lead">{escape(sentences(sums, of, since))}</p>',
            '<div class="cards">',
            *_cards(sums, since, found_by),
            "</div>",
        ]
    )


def sentences(sums: Json, of: str, since: str | None = None) -> str:
    """The headline in words. Plain text."""
    price = sums["price"]
    return f"{_found(sums['garbage'], price, of)} {_swept(sums['totals'], price, since)}".rstrip()


def _found(garbage: Json | None, price: Json | None, of: str) -> str:
    if garbage is None:
        return "No complete mark says what is garbage."
    if not garbage["objects"]:
        return f"Nothing in {of} is garbage."
    cost = monthly(garbage["bytes"], price)
    are = "is" if garbage["objects"] == 1 else "are"
    said = f"{counted(garbage['objects'], 'object')} ({garbage_bytes(garbage)}) of {of} {are} garbage"
    return f"{said}{f': {cost}' if cost else ''}."


def _swept(totals: Json | None, price: Json | None, since: str | None) -> str:
    if totals is None:
        return ""
    if not totals["deleted"]:
        return f"No sweep has deleted anything since {day(since)}." if since else "No sweep has deleted anything yet."
    freed, who = freed_bytes(totals), counted(totals["sweeps"], "sweep")
    when = f"Since {day(since)}, " if since else ""
    if not freed:
        return f"{when}{who} deleted {human_bytes(totals['bytes_deleted'])}; the store may still hold all of it."
    saved = yearly(freed, price)
    return f"{when}{who} freed {human_bytes(freed)}{f', which saves {saved}' if saved else ''}."


def _cards(sums: Json, since: str | None, found_by: str) -> list[str]:
    garbage, totals, price = sums["garbage"], sums["totals"], sums["price"]
    cards = [card("Garbage now", "not known")]
    if garbage is not None:
        objects, cost = counted(garbage["objects"], "object"), monthly(garbage["bytes"], price)
        cards = [card("Garbage now", garbage_bytes(garbage), objects, cost, found_by)]
    if totals is None:
        return cards
    freed = freed_bytes(totals)
    deleted = f"{counted(totals['deleted'], 'object')} ({human_bytes(totals['bytes_deleted'])}) deleted"
    by = f"{deleted} by {counted(totals['sweeps'], 'sweep')}"
    title = f"Freed since {day(since)}" if since else "Freed in all"
    cards.append(card(title, human_bytes(freed), by, *still_taken(totals)))
    if price:
        saved = money(12 * monthly_cost(freed, price), price) if freed else f"0.00 {price['currency']}"
        rate = f"what the freed bytes would cost, at {price['per_gb_month']} {price['currency']} per GB and month"
        cards.append(card("Saved a year", saved, rate))
    return cards
