"""Small pictures as SVG, for reports and for Dagster: text in, text out. What they show is decided elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_ROW, _LABEL, _BAR, _VALUE = 22, 110, 260, 190


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> str:
    """Horizontal bars: a label, a value from 0 up, and what stands beside the bar, each. An SVG document."""
    most = max((value for _, value, _ in rows), default=0) or 1
    height, width = _ROW * (len(rows) + 1), _LABEL + _BAR + _VALUE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="14" font-weight="600" fill="#4b5b76">{escape(title)}</text>',
    ]
    for number, (label, value, beside) in enumerate(rows, 1):
        top, length = number * _ROW, round(_BAR * value / most, 1)
        if value:
            length = max(length, 1.5)  # what is there is seen
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 14}" text-anchor="end" fill="#4b5b76">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{top + 3}" width="{length}" height="{_ROW - 7}" rx="2" fill="#4f7cff"/>',
            f'<text x="{_LABEL + length + 6}" y="{top + 14}" fill="#4b5b76">{escape(beside)}</text>',
        ]
    return "\n".join([*lines, "</svg>"])
