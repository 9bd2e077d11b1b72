"""Screens of the answers of `du` and `whatif`, made of their JSON."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from lakegc_core.names import Json, counted
from lakegc_core.views.words import human_bytes, monthly, shown, to_the_minute

_ROWS = 20
"""A screen shows at most so many branches, tags and holds; the JSON has all."""
_PARTS = 5
BESIDES = {
    "unreferenced": "garbage",
    "staged": "staged",
    "held": "held by path",
    "neighbour": "other repositories refer to it",
    "young": "too young, and no commit refers to it",
    "unasked": "a branch shows it, or it waits to be asked about",
    "foreign": "not lakeFS's",
    "unknown": "below data/, with a name that lakeFS does not give",
}
"""What keeps an object besides commits, in words."""


def du_screen(found: Json) -> str:
    """The screen of `du`: what keeps the objects of a namespace, the most first."""
    keepers = [each for each in found["keepers"] if each["only"]["objects"] or each["shows"]]
    width = min(40, max([len(shown(each["name"])) for each in keepers[:_ROWS]], default=10))
    lines = [
        heading(found),
        "",
        f"{'':{width}}  {'shows':>10}  {'frees in the end':>16}  {'of it history':>13}  {'frees at once':>13}",
    ]
    most = max([each["only"]["bytes"] for each in keepers], default=0)
    for each in keepers[:_ROWS]:
        shows = "" if each["shows"] is None else human_bytes(each["shows"]["bytes"])
        sizes = [human_bytes(each[name]["bytes"]) for name in ("only", "history", "at_once")]
        size = each["only"]["bytes"]
        saved = "  ".join(filter(None, [_bar(size, most), monthly(size, found["price"])]))
        cells = f"{_cut(each['name'], width)}  {shows:>10}  {sizes[0]:>16}  {sizes[1]:>13}  {sizes[2]:>13}"
        lines.append(f"{cells}  {saved}".rstrip())
    if len(keepers) > _ROWS:
        lines.append(f"and {len(keepers) - _ROWS:,} more; --json shows all")
    lines += _together_lines(found["together"])
    if found["nothing_called_so"]:
        lines.append(f"Nothing is called {shown(', '.join(found['nothing_called_so']))}.")
    lines += ["", amount_line("several of them keep", found["shared"])]
    lines += [amount_line(BESIDES.get(reason, reason), amount) for reason, amount in found["besides"].items()]
    lines += [
        amount_line("in the namespace", found["objects"]),
        "",
        "`frees`: what goes if this alone is dropped. Commits of a deleted branch are kept for the days of the default",
        "rule, so that some of it goes at once and the rest later.",
    ]
    return "\n".join(lines)


def _together_lines(together: Sequence[Json]) -> list[str]:
    lines = []
    for each in together:
        only, at_once = (human_bytes(each[name]["bytes"]) for name in ("only", "at_once"))
        lines.append(f"{shown(', '.join(each['patterns']))} together: {only} in the end, {at_once} at once")
    return ["", *lines] if lines else []


def whatif_screen(found: Json) -> str:
    """The screen of `whatif`: what a mark would find, and the curve of each rule."""
    lines = [*whatif_lines(found), *_parts_lines(found), *_curve_lines(found["curves"])]
    lines += [
        "",
        "`in the end`: once the memory of longer rules has run out, commits of deleted branches are kept no more, and "
        "what is too young today is old enough.",
        "Nothing was changed, and no sweep takes this: set the rules in lakeFS, and mark.",
    ]
    return "\n".join(lines)


def whatif_lines(found: Json) -> list[str]:
    """Lines that say what a mark would find, at once and in the end."""
    price = found["price"]
    lines = [heading(found), _change_line(found), ""]
    if found["nothing_called_so"]:
        lines += [f"Nothing is called {shown(', '.join(found['nothing_called_so']))}.", ""]
    lines.append(f"{'':12}  {'garbage':>10}  {'more':>10}  {'less':>10}")
    lines.append(f"{'today':12}  {human_bytes(found['today']['bytes']):>10}")
    for name in ("at_once", "in_the_end"):
        sizes = [human_bytes(found[name][which]["bytes"]) for which in ("garbage", "more", "less")]
        saved = monthly(found[name]["more"]["bytes"], price)
        saved = f"saves {saved}" if saved else ""
        cells = "  ".join(f"{size:>10}" for size in sizes)
        lines.append(f"{name.replace('_', ' '):12}  {cells}  {saved}".rstrip())
    return lines


def _parts_lines(found: Json) -> list[str]:
    """Of what goes in the end: what keeps it today, and where it lies."""
    lines: list[str] = []
    for name, title in (("kept_by", "by what keeps it today"), ("folders", "by the folder of its path")):
        parts = found["in_the_end"][name]
        if parts:
            lines += ["", f"more in the end, {title}"]
            most = list(parts.items())[:_PARTS]
            lines += [
                f"  {shown(each) or '(no folder)':40}  {human_bytes(amount['bytes']):>10}" for each, amount in most
            ]
    if found["entries_unread"]:
        lines.append(f"  (the folders of {found['entries_unread']:,} more entries were not read)")
    return lines


def _change_line(found: Json) -> str:
    said = [
        _rules_in_words(found["rules"]),
        f"without {', '.join(found['without'])}" if found["without"] else "",
        "" if found["protect_tags"] else "tags are not protected",
    ]
    return shown(" · ".join(filter(None, said)))


def _rules_in_words(rules: Json | None) -> str:
    if rules is None:
        return "no rules, so that every commit counts"
    named = {"default": rules["default"], **{f"branch:{name}": days for name, days in rules["branches"].items()}}
    return "rules: " + ", ".join(f"{name} {counted(days, 'day')}" for name, days in named.items())


def _curve_lines(curves: Json) -> list[str]:
    """The objects that stay, by days of each rule."""
    lines: list[str] = []
    for name, points in curves.items():
        lines += ["", f"what stays in the namespace, by the days of {shown(name)}"]
        most = max(point["kept"]["bytes"] for point in points)
        for point in points:
            days = "all" if point["days"] is None else counted(point["days"], "day")
            size = point["kept"]["bytes"]
            lines.append(f"  {days:>8}  {human_bytes(size):>10}  {_bar(size, most)}".rstrip())
    return lines


def heading(found: Json) -> str:
    """The first line of an answer: of which repository, and by which mark."""
    return f"{found['repository']} · as mark {found['mark_id']} saw it, {to_the_minute(found['at'])}"


def amount_line(title: str, amount: Json) -> str:
    """A line with objects and bytes."""
    return f"{title:48}  {amount['objects']:>12,}  {human_bytes(amount['bytes']):>10}"


def _bar(size: int, most: int) -> str:
    room = max(5, min(30, shutil.get_terminal_size().columns - 70))
    return "█" * max(round(room * size / most), 1 if size else 0) if most else ""


def _cut(name: str, width: int) -> str:
    name = shown(name)
    return f"{name:{width}}" if len(name) <= width else f"{name[: width - 1]}…"
