"""Screens of `gone` and `verify`, made of their JSON."""

from __future__ import annotations

from lakegc_core.clock import instant
from lakegc_core.names import Json, counted
from lakegc_core.policy.holds import fixed_prefix
from lakegc_core.views.answers import BESIDES
from lakegc_core.views.words import argument, from_the_minute, human_bytes, shown, to_the_minute

_KEEPERS = 8
"""Keepers of an object that the screen names; the JSON has more."""
_WHY = {
    "shows": " shows it",
    "history": ", by its rule",
    "dangling": ", by the default rule",
    "staged": ": it is staged there",
    "neighbour": " refers to it",
    "unknown_to_mark": " does not know it",
    "brought_back": " found it to be garbage, and it was brought back since",
}


def gone_screen(found: Json) -> str:
    """The screen of `gone`: what is there, with what keeps it, and what is gone, with the sweeps that took it."""
    lines = [
        f"{found['repository']} · {shown(found['paths'])} · asked {to_the_minute(found['asked_at'])}, by mark "
        f"{found['mark_id']} of {to_the_minute(found['at'])}",
        "",
        f"{counted(found['objects'], 'object')} ever stood there · still there: {found['there']:,} "
        f"({human_bytes(found['bytes'])}) · gone: {found['gone']:,}",
    ]
    for each in found["standing"]:
        lines += ["", *_standing_lines(each)]
    if found["there"] > len(found["standing"]):
        lines += ["", f"and {found['there'] - len(found['standing']):,} more that are there; --most names more"]
    lines += ["", *map(_sweep_line, found["sweeps"])] if found["sweeps"] else []
    if found["otherwise"]:
        lines.append(f"  {found['otherwise']:,} gone, and no sweep on record took them")
    lines += [
        f"  {shown(each)} cannot be read: nobody knows which sweep took what it tells of" for each in found["unread"]
    ]
    lines += _vanished_lines(found)
    if found["statement"]:
        known = f"as mark {found['mark_id']} of {to_the_minute(found['at'])} knew them"
        lines += ["", f"All of them are gone, {known}.", f"statement {found['statement']['digest']}"]
    else:
        are = "Not all of them are gone:" if found["there"] else "Nobody can say that all of them are gone:"
        lines += ["", are, *(f"  {shown(each)}" for each in found["open"])]
    lines += [] if found["objects"] else [f"  {each}" for each in _meant(found["repository"], found["paths"])]
    return "\n".join(lines)


def _meant(repository: str, paths: str) -> list[str]:
    """Commands that ask for what paths may have meant at which nothing stands, by their form alone."""
    bare = paths.strip("/")
    again = f"lakegc gone {repository}"
    lines = []
    if paths.startswith("/") and bare and not paths.endswith("/"):
        lines.append(f"without the slash before it, it is another path: {again} {argument(bare)}")
    if paths.endswith("/") or fixed_prefix(paths) == paths.encode("utf-8", "surrogateescape"):
        lines.append(f"if it is a folder, ask for what lies in it: {again} {argument(f'{bare}/**' if bare else '**')}")
    return lines


def _standing_lines(each: Json) -> list[str]:
    lines = [shown(", ".join(each["paths"])) or "(path not known)"]
    size = "" if each["size"] is None else f" · {human_bytes(each['size'])}, written {to_the_minute(each['written'])}"
    lines.append(f"  {shown(each['address'])}{size}")
    for keeper in each["keepers"][:_KEEPERS]:
        lines += [f"  {_keeper(keeper)}", f"    sooner: {shown(keeper['sooner'])}"]
    if len(each["keepers"]) > _KEEPERS:
        lines.append(f"  and {len(each['keepers']) - _KEEPERS:,} more; --json names them")
    if each["earliest"]:
        lines.append(f"  gone at the earliest with a sweep after {from_the_minute(each['earliest'])}")
    return lines


def _keeper(keeper: Json) -> str:
    """A keeper in words, and until when it keeps the object."""
    name, until = keeper["name"], "for as long as that stands"
    if keeper["until"]:
        until = f"until {to_the_minute(keeper['until'])}"
    if name == "the mark":  # another mark may know better
        return f"{name}{_WHY[keeper['why']]}"
    if name == "garbage":
        return f"garbage, which a sweep may delete after {from_the_minute(keeper['until'])}"
    return f"{BESIDES[name]}, {until}" if name in BESIDES else f"{shown(name)}{_WHY.get(keeper['why'], '')}, {until}"


def _sweep_line(sweep: Json) -> str:
    when = to_the_minute(sweep["finished_at"]) if sweep["finished_at"] else "not over, or it cannot be read"
    stated = f"statement {sweep['statement']}" if sweep["statement"] else "without a statement"
    line = f"  {sweep['objects']:,} gone by sweep {sweep['sweep']} of mark {sweep['mark_id']}, {when}: {stated}"
    if sweep.get("quarantine"):
        until = sweep["quarantine"]["until"]
        line += f"; in quarantine {f'until {to_the_minute(until)}' if until else '(nobody knows until when)'}"
    elif sweep["recoverable_until"]:
        line += f"; the store can bring them back until {to_the_minute(sweep['recoverable_until'])}"
    elif sweep["versioned"]:
        line += "; the store keeps them as old versions until its own rules let these expire"
    return line


def _vanished_lines(found: Json) -> list[str]:
    lines = [
        f"      {shown(each['path'] or '')}  {shown(each['address'])}"
        + ("  (a copy lies in quarantine)" if each.get("copied") else "")
        + ("  (a copy lies in a backup)" if each.get("saved") else "")
        for each in found["vanished"]
    ]
    left = found["gone"] - len(found["vanished"])
    return [*lines, f"      and {left:,} more that are gone"] if left > 0 else lines


def verify_screen(found: Json) -> str:
    """The screen of `verify`: for the mark and each sweep what was checked, and what differs or cannot be read."""
    lines = [f"{found['repository']} · mark {found['mark_id']}{' · retired' if found['retired'] else ''}", ""]
    lines += _findings("the mark", found["mark"])
    for each in found["sweeps"]:
        lines += _findings(f"sweep {each['sweep']}{'' if each['is_begun'] else ' · deleted nothing'}", each)
        if each["stated"] and not each["differs"]:  # else it says what somebody else wrote
            lines += _stated(each["stated"])
        if each["statement"]:
            lines.append(f"      statement {shown(each['statement'])}")
    if found["differs"]:
        lines += ["", "Something is not as lakegc wrote it. Do not rely on this account: find out who changed it."]
    elif not found["whole"]:
        lines += ["", "Nothing differs, and not everything can be checked."]
    else:
        lines += ["", "Everything is as lakegc wrote it."]
    return "\n".join(lines)


def _findings(title: str, checked: Json) -> list[str]:
    sign = "✗" if checked["differs"] else "!" if checked["unread"] else "✓"
    said = [f"      {shown(each)}" for each in (*checked["differs"], *checked["unread"])]
    return [f"  {sign} {title}", *said]


def _stated(stated: Json) -> list[str]:
    totals = ", ".join(f"{count:,} {shown(outcome)}" for outcome, count in stated["totals"].items() if count)
    lines = [
        f"      {to_the_minute(instant(stated['finished_at']))}: {counted(stated['planned'], 'object')} planned; "
        f"{totals or 'no outcomes'}"
    ]
    for each in stated["accepted"]:
        by = shown(str(each["by"]))
        lines.append(f"      guard {each['guard']} accepted by {by}: {shown(each['because'])}")
    return [*lines, f"      outcomes {stated['outcomes']['root']}"]
