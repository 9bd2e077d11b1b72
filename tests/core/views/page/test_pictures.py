"""Pictures: they show what the figures say, and can be read on any ground."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from lakegc_core.views.page.pictures import bars, trend

SVG = "{http://www.w3.org/2000/svg}"


def at(day: int, size: int) -> dict[str, Any]:
    return {"at": f"2026-11-{day:02}T16:30:00.000Z", "mark_id": "m", "objects": 3, "bytes": size}


def numbers(drawn: ElementTree.Element, shape: str, name: str) -> list[float]:
    """Such a number of each of the shapes with a hint: those without belong to the legend."""
    return [float(each.get(name, "")) for each in drawn.iter(f"{SVG}{shape}") if each.find(f"{SVG}title") is not None]


def test_bars_grow_with_their_values_and_the_smallest_is_still_seen() -> None:
    classes = [{"name": f"{size} & more", "objects": 1, "bytes": size} for size in (100_000, 50_000, 1, 0)]
    drawn = ElementTree.fromstring(bars(classes, "x & y"))
    widths = [float(each.get("width", "")) for each in drawn.iter(f"{SVG}rect")]
    assert widths[0] == 2 * widths[1] and widths[2] > 1 and widths[3] == 0


def test_a_trend_has_a_dot_for_each_mark_and_a_bar_for_each_sweep_where_their_times_are() -> None:
    drawn = ElementTree.fromstring(trend([at(1, 400), at(3, 200), at(21, 0)], [at(11, 400)], "x & y"))
    across, down = numbers(drawn, "circle", "cx"), numbers(drawn, "circle", "cy")
    assert round(across[1] - across[0], 3) == round((across[2] - across[0]) / 10, 3), "two days of twenty"
    assert down[0] < down[1] < down[2] and round(down[2] - down[0], 3) == round(2 * (down[2] - down[1]), 3)
    ((left,), (top,), (high,)) = (numbers(drawn, "rect", name) for name in ("x", "y", "height"))
    assert left + 3 == (across[0] + across[2]) / 2 and top == down[0] and top + high == down[2]
    texts = [each.text for each in drawn.iter(f"{SVG}text")]
    assert "1 November 2026" in texts and "21 November 2026" in texts and "400 B" in texts
    assert "3 November 2026, 16:30 UTC: 200 B in 3 objects found" in ElementTree.tostring(drawn, encoding="unicode")


def test_a_trend_of_one_moment_or_of_nothing_but_zeros_can_be_drawn() -> None:
    for found, deleted in (([at(1, 0)], []), ([], [at(1, 7)]), ([at(1, 0), at(2, 0)], [])):
        drawn = ElementTree.fromstring(trend(found, deleted, "x"))
        assert len(numbers(drawn, "circle", "cy")) == len(found)


def test_text_has_the_colour_of_what_is_around_it() -> None:
    for drawn in (bars([{"name": "x", "objects": 1, "bytes": 1}], "x"), trend([at(1, 1)], [at(2, 1)], "x")):
        assert set(re.findall(r"<text[^>]* fill=\"([^\"]*)\"", drawn)) == {"currentColor"}
        shapes = re.findall(r"<(?:rect|circle|polyline) class=\"(\w+)\"[^>]*#", drawn)
        assert set(shapes) <= {"bar", "line", "dot"} and "bar" in shapes, "a page gives them colours by these names"


def test_names_cannot_break_a_picture() -> None:
    malice = "</title><script>alert(1)</script>"
    for drawn in (bars([{"name": malice, "objects": 1, "bytes": 1}], malice), trend([at(1, 1)], [], malice)):
        assert "<script" not in drawn
        assert malice in "".join(ElementTree.fromstring(drawn).itertext())
