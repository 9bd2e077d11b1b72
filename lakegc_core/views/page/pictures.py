"""Pictures as SVG documents, drawn here without any library.

Their text has the colour of what is around it, so that they can be read on a light and on a dark page, and alone.
Classes let a page choose the colours of their shapes; alone, shapes have middle tones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from lakegc_core import clock
from lakegc_core.clock import roughly
from lakegc_core.names import Json, counted
from lakegc_core.views.words import day, day_and_time, human_bytes

_BLUE, _ORANGE = "#4f7cff", "#d07a1c"  # seen on white and on black
_ROW, _LABEL, _BAR, _VALUE = 22, 100, 210, 170  # pixels of bars: two of them fit beside each other
_WIDTH, _HEIGHT = 720, 230  # pixels of a trend
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 710, 40, 200  # where its lines end
_CLOSE = 60  # more marks or sweeps than these are drawn smaller


def bars(classes: Sequence[Json], title: str) -> str:
    """Bytes by class ({name, objects, bytes} each), as horizontal bars."""
    most = max((each["bytes"] for each in classes), default=0) or 1
    height, width = _ROW * (len(classes) + 1), _LABEL + _BAR + _VALUE
    lines = [*_head(width, height, title), _text(0, 14, title, 'font-weight="600"')]
    for number, each in enumerate(classes, 1):
        top, length = number * _ROW, round(_BAR * each["bytes"] / most, 1)
        beside = f"{human_bytes(each['bytes'])} · {each['objects']:,}"
        if each["bytes"]:
            length = max(length, 1.5)  # what is there is seen
        lines += [
            _text(_LABEL - 8, top + 14, each["name"], 'text-anchor="end"'),
            f'<rect class="bar" x="{_LABEL}" y="{top + 3}" width="{length}" height="{_ROW - 7}" rx="2" '
            f'fill="{_BLUE}"/>',
            _text(_LABEL + length + 6, top + 14, beside),
        ]
    return "\n".join([*lines, "</svg>"])


@dataclass(frozen=True)
class Measure:
    """The figures that a trend shows. `name`: of the value in each point; `said`: a value in words; `unit`: the top of
    the scale is 2, 4, 6, 10, 20, 40, … of it; `line` and `bar`: what they are in the legend, and for so many objects,
    in the place of `{}`."""

    name: str
    said: Callable[[int], str]
    unit: int
    line: tuple[str, str]
    bar: tuple[str, str]


BYTES = Measure("bytes", human_bytes, 1, ("found by a mark", "in {} found"), ("deleted by a sweep", "in {} deleted"))
DELAY = Measure("seconds", roughly, 3600, ("half go within", "for half of {}"), ("99 % go within", "for 99 % of {}"))


def trend(found: Sequence[Json], deleted: Sequence[Json], title: str, measure: Measure = BYTES) -> str:
    """Figures over time: `found` by marks as a line, `deleted` by sweeps as bars ({at, objects, and the value of
    `measure`} each, `at` being an ISO 8601 instant). There is at least one of them."""
    times = [clock.unix_seconds(each["at"]) for each in (*found, *deleted)]
    begin, end = min(times), max(times)
    most = _round_up(max(each[measure.name] for each in (*found, *deleted)), measure.unit)

    def place(each: Json) -> tuple[float, float]:
        along = (clock.unix_seconds(each["at"]) - begin) / (end - begin) if end > begin else 0.5
        return round(_LEFT + 8 + along * (_RIGHT - _LEFT - 16), 1), round(_height_of(each[measure.name], most), 1)

    lines = [*_head(_WIDTH, _HEIGHT, title), *_legend(title, measure), *_scale(most, measure)]
    half, radius = (3, 3.5) if len(found) <= _CLOSE >= len(deleted) else (1, 1.5)
    for each in deleted:
        x, y = place(each)
        y = min(y, _BOTTOM - 1.5) if each[measure.name] else y
        where = f'x="{x - half:.1f}" y="{y}" width="{2 * half}" height="{_BOTTOM - y:.1f}" rx="1"'
        lines.append(f'<rect class="bar" {where} fill="{_BLUE}">{_hint(each, measure, measure.bar)}</rect>')
    points = " ".join(f"{x},{y}" for x, y in map(place, found))
    lines.append(f'<polyline class="line" points="{points}" fill="none" stroke="{_ORANGE}" stroke-width="2"/>')
    for each in found:
        x, y = place(each)
        where = f'cx="{x}" cy="{y}" r="{radius}"'
        lines.append(f'<circle class="dot" {where} fill="{_ORANGE}">{_hint(each, measure, measure.line)}</circle>')
    first, last = (day(clock.instant(moment)) for moment in (begin, end))
    lines.append(_text(_LEFT, _HEIGHT - 12, first))
    if first != last:
        lines.append(_text(_RIGHT, _HEIGHT - 12, last, 'text-anchor="end"'))
    return "\n".join([*lines, "</svg>"])


def _head(width: int, height: int, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
    ]


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" fill="currentColor" {more}>{escape(text)}</text>'


def _legend(title: str, measure: Measure) -> list[str]:
    return [
        _text(0, 14, title, 'font-weight="600"'),
        f'<circle class="dot" cx="{_RIGHT - 250}" cy="10" r="3.5" fill="{_ORANGE}"/>',
        _text(_RIGHT - 242, 14, measure.line[0]),
        f'<rect class="bar" x="{_RIGHT - 128}" y="4" width="6" height="12" rx="1" fill="{_BLUE}"/>',
        _text(_RIGHT - 117, 14, measure.bar[0]),
    ]


def _scale(most: float, measure: Measure) -> list[str]:
    lines = []
    for part in (0.0, 0.5, 1.0):
        y = _height_of(most * part, most)
        lines += [
            f'<line x1="{_LEFT}" y1="{y}" x2="{_RIGHT}" y2="{y}" stroke="currentColor" stroke-opacity="0.25"/>',
            _text(_LEFT - 8, y + 4, measure.said(round(most * part)), 'text-anchor="end"'),
        ]
    return lines


def _height_of(size: float, most: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * size / most


def _round_up(size: float, unit: int) -> float:
    """The least of 2, 4, 6, 10, 20, 40, … units that is not below a size."""
    power = unit
    while True:
        for step in (2, 4, 6, 10):
            if step * power >= size:
                return float(step * power)
        power *= 10


def _hint(each: Json, measure: Measure, words: tuple[str, str]) -> str:
    """The text that shows where the pointer rests."""
    of = words[1].format(counted(each["objects"], "object"))
    said = f"{day_and_time(each['at'])}: {measure.said(each[measure.name])} {of}"
    return f"<title>{escape(said)}</title>"
