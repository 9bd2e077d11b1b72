"""What people see of the answers of `du` and `whatif`, made of their JSON."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from lakegc_core.views.words import human_bytes, monthly, to_the_minute

Json = dict[str, Any]

_ROWS = 20
"""How many branches, tags and holds a screen shows; the JSON has all."""
_BESIDES = {
    "unreferenced": "garbage",
    "staged": "staged",
    "held": "held by path",
    "neighbour": "other repositories refer to it",
    "young": "too young, and no commit refers to it",
    "unasked": "a branch shows it, or it waits to be asked about",
    "foreign": "not lakeFS's",
    "unknown": "below data/, with a name that lakeFS does not give",
}


def du_screen(found: Json) -> str:
    """What keeps the objects of a namespace, the most first."""
    keepers = [each for each in found["keepers"] if each["only"]["objects"] or each["shows"]]
    width = min(40, max([len(each["name"]) for each in keepers[:_ROWS]], default=10))
    lines = [
        _head(found),
        "",
        f"{'':{width}}  {'shows':>10}  {'frees in the end':>16}  {'of it history':>13}  {'frees at once':>13}",
    ]
    most = max([each["only"]["bytes"] for each in keepers], default=0)
    for each in keepers[:_ROWS]:
        shows = "" if each["shows"] is None else human_bytes(each["shows"]["bytes"])
        sizes = [human_bytes(each[name]["bytes"]) for name in ("only", "history", "at_once")]
        bar = _bar(each["only"]["bytes"], most)
        lines.append(
            f"{_cut(each['name'], width)}  {shows:>10}  {sizes[0]:>16}  {sizes[1]:>13}  {sizes[2]:>13}  {bar}".rstrip()
        )
    if len(keepers) > _ROWS:
        lines.append(f"and {len(keepers) - _ROWS:,} more; --json shows all")
    lines += _together_lines(found["together"])
    lines += ["", _amount_line("several of them keep", found["shared"])]
    lines += [_amount_line(_BESIDES.get(reason, reason), amount) for reason, amount in found["besides"].items()]
    lines += [
        _amount_line("in the namespace", found["objects"]),
        "",
        "`frees`: what goes if this alone is dropped. Commits of a deleted branch are kept for the days of the default",
        "rule, so that some of it goes at once and the rest later.",
    ]
    return "\n".join(lines)


def _together_lines(together: Sequence[Json]) -> list[str]:
    lines = []
    for each in together:
        only, at_once = (human_bytes(each[name]["bytes"]) for name in ("only", "at_once"))
        lines.append(f"{', '.join(each['patterns'])} together: {only} in the end, {at_once} at once")
    return ["", *lines] if lines else []


def whatif_screen(found: Json) -> str:
    """What a mark would find, and the curve of each rule."""
    price = found["price"]
    lines = [_head(found), _change_line(found), ""]
    if found["nothing_called_so"]:
        lines += [f"Nothing is called {', '.join(found['nothing_called_so'])}.", ""]
    lines.append(f"{'':12}  {'garbage':>10}  {'more':>10}  {'less':>10}")
    lines.append(f"{'today':12}  {human_bytes(found['today']['bytes']):>10}")
    for name in ("at_once", "in_the_end"):
        sizes = [human_bytes(found[name][which]["bytes"]) for which in ("garbage", "more", "less")]
        saved = monthly(found[name]["more"]["bytes"], price)
        saved = f"saves {saved}" if saved else ""
        cells = "  ".join(f"{size:>10}" for size in sizes)
        lines.append(f"{name.replace('_', ' '):12}  {cells}  {saved}".rstrip())
    lines += _curve_lines(found["curves"])
    lines += [
        "",
        "`in the end`: once the memory of longer rules has run out and commits of deleted branches are kept no more.",
        "Nothing was changed, and no sweep takes this: set the rules in lakeFS, and mark.",
    ]
    return "\n".join(lines)


def _change_line(found: Json) -> str:
    rules = found["rules"]
    said = [
        "no rules, so that every commit counts"
        if rules is None
        else "rules: " + ", ".join(f"{name} {days} days" for name, days in rules.items()),
        f"without {', '.join(found['without'])}" if found["without"] else "",
        "" if found["protect_tags"] else "tags are not protected",
    ]
    return " · ".join(filter(None, said))


def _curve_lines(curves: Json) -> list[str]:
    """What stays, by days of each rule."""
    lines: list[str] = []
    for name, points in curves.items():
        lines += ["", f"what stays in the namespace, by the days of {name}"]
        most = max(point["kept"]["bytes"] for point in points)
        for point in points:
            days = "all" if point["days"] is None else f"{point['days']} days" if point["days"] != 1 else "1 day"
            size = point["kept"]["bytes"]
            lines.append(f"  {days:>8}  {human_bytes(size):>10}  {_bar(size, most)}".rstrip())
    return lines


def _head(found: Json) -> str:
    return f"{found['repository']} · as mark {found['mark_id']} saw it, {to_the_minute(found['at'])}"


def _amount_line(title: str, amount: Json) -> str:
    return f"{title:48}  {amount['objects']:>12,}  {human_bytes(amount['bytes']):>10}"


def _bar(size: int, most: int) -> str:
    room = max(5, min(30, shutil.get_terminal_size().columns - 70))
    return "█" * max(round(room * size / most), 1 if size else 0) if most else ""


def _cut(name: str, width: int) -> str:
    return f"{name:{width}}" if len(name) <= width else f"{name[: width - 1]}…"
