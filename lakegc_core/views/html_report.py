"""A mark as one page of HTML: what the screen says, with pictures, and what its sweeps did. Needs no network to read.

The figures come from `report`; nothing is computed here that decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from lakegc_core.views.words import UNKNOWN_REMARK, held_by, human_bytes, kept_by, monthly

Json = dict[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2436; --soft: #5b6980; --line: #d9dfe9; --paper: #ffffff; --bad: #b3261e;
  --good: #1b7f4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf2; --soft: #9aa7bd; --line: #333d50; --paper: #141a26;
  --bad: #ff8a80; --good: #66d19e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.sub { color: var(--soft); margin-top: .2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .6rem; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--soft); font-weight: 600; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } tr.total td { font-weight: 600; }
code { font-size: .9em; overflow-wrap: anywhere; } td:first-child { min-width: 8.5rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; }
"""
_GROUPS = (
    ("In the namespace", "listed"),
    ("Kept: committed", "committed"),
    ("Kept: staged", "uncommitted"),
    ("Kept: held", "held"),
    ("Kept: other repositories refer to it", "neighbour"),
    ("Kept: too young", "young"),
    ("Not lakeFS's: never touched", "foreign"),
    ("Of it below data/", "unknown"),
    ("Not asked about yet", "unasked"),
    ("Garbage", "expired"),
    ("Of it unreferenced for long enough", "confirmed"),
)
_ROW, _LABEL, _BAR, _VALUE = 22, 110, 260, 190  # pixels of a picture


def page(report: Json, sweeps: Sequence[Json] = ()) -> str:
    """The page of a mark. `report`: as `lakegc review --json` has it; `sweeps`: the reports of its sweeps so far."""
    title = f"{report['repository']} · mark {report['mark_id']}"
    if sweeps:
        verdict = '<span class="good">swept</span>'
    elif report["authorized"]:
        verdict = '<span class="good">no guard stops a sweep</span>'
    else:
        verdict = '<span class="bad">a guard stops the sweep</span>'
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">began {escape(report["started_at"])} · cutoff {escape(report["cutoff"])} · safety level '
        f"{escape(report['safety'])} · {sum(report['seconds'].values()):,.0f} s · {verdict}</p>",
        _figures(report),
        _guards(report["guards"]),
        *_pictures(report),
        _prefixes(report["prefixes"], "Where most of it lies"),
        _prefixes(report.get("foreign_prefixes", []), "What is not lakeFS's"),
        *_missing(report["missing"]),
        *(_sweep(sweep) for sweep in sweeps),
        f"<h2>Where it is</h2><p><code>{escape(report['artifacts'])}</code></p>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (), last: str = "") -> str:
    """A table of cells that are HTML already; `numbers`: columns that are aligned to the right."""

    def line(cells: Sequence[str], tag: str, kind: str = "") -> str:
        shown = (f"<{tag}{' class=n' if at in numbers else ''}>{cell}</{tag}>" for at, cell in enumerate(cells))
        return f"<tr{kind}>{''.join(shown)}</tr>"

    lines = [line(cells, "td", f' class="{last}"' if cells[0] == "Garbage" else "") for cells in rows]
    return f"<table>{line(titles, 'th')}{''.join(lines)}</table>"


def _figures(report: Json) -> str:
    objects, size, price = report["objects"], report["bytes"], report.get("price")
    listed, commits = max(1, objects["listed"]), report["commits"]
    remarks = {
        "committed": f"{commits['retained']:,} of {commits['known']:,} commits retained ({kept_by(commits)})",
        "held": held_by(report),
        "expired": monthly(size["expired"], price) if price else "",
        "unknown": UNKNOWN_REMARK,
        "confirmed": f"the rest may be swept after {report['confirmed_at']}",
    }
    rows = [
        (
            escape(title),
            f"{objects.get(group, 0):,}",
            human_bytes(size.get(group, 0)),
            f"{objects.get(group, 0) / listed:.1%}",
            escape(remarks.get(group, "")),
        )
        for title, group in _GROUPS
        if group != "unknown" or objects.get(group)
    ]
    return "<h2>What there is</h2>" + _table(("", "objects", "bytes", "share", ""), rows, (1, 2, 3), "total")


def _guards(verdicts: Sequence[Json]) -> str:
    rows = []
    for each in verdicts:
        accepted = each.get("accepted_because")
        held = '<span class="good">holds</span>' if each["passed"] else f'<span class="bad">{each["severity"]}</span>'
        text = escape(each["description"]) + (f"<br>Accepted: {escape(accepted)}" if accepted else "")
        rows.append((f"<code>{escape(each['name'])}</code>", held, text))
    return "<h2>The guards</h2>" + _table(("guard", "", "what was found"), rows)


def _pictures(report: Json) -> list[str]:
    if not report["objects"]["expired"]:
        return []
    return [
        "<h2>The garbage, by bytes</h2>",
        '<div class="pictures">',
        picture(report["ages"], "Expired bytes by age"),
        picture(report["sizes"], "Expired bytes by size of object"),
        "</div>",
    ]


def picture(classes: Sequence[Json], title: str) -> str:
    """Bytes of expired objects by class ({name, objects, bytes} each), as horizontal bars: an SVG document."""
    most = max((each["bytes"] for each in classes), default=0) or 1
    height, width = _ROW * (len(classes) + 1), _LABEL + _BAR + _VALUE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<text x="0" y="14" font-weight="600" fill="#4b5b76">{escape(title)}</text>',
    ]
    for number, each in enumerate(classes, 1):
        top, length = number * _ROW, round(_BAR * each["bytes"] / most, 1)
        beside = f"{human_bytes(each['bytes'])} · {each['objects']:,}"
        if each["bytes"]:
            length = max(length, 1.5)  # what is there is seen
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 14}" text-anchor="end" fill="#4b5b76">{escape(each["name"])}</text>',
            f'<rect x="{_LABEL}" y="{top + 3}" width="{length}" height="{_ROW - 7}" rx="2" fill="#4f7cff"/>',
            f'<text x="{_LABEL + length + 6}" y="{top + 14}" fill="#4b5b76">{escape(beside)}</text>',
        ]
    return "\n".join([*lines, "</svg>"])


def _prefixes(prefixes: Sequence[Json], title: str) -> str:
    if not prefixes:
        return ""
    rows = [
        (f"<code>{escape(each['prefix'] or '(root)')}</code>", f"{each['objects']:,}", human_bytes(each["bytes"]))
        for each in prefixes
    ]
    return f"<h2>{escape(title)}</h2>" + _table(("folder", "objects", "bytes"), rows, (1, 2))


def _missing(missing: Sequence[Json]) -> list[str]:
    if not missing:
        return []
    rows = [(escape(each["path"] or "(staged)"), f"<code>{escape(each['address'])}</code>") for each in missing]
    return ["<h2>Live, but not in the store</h2>", _table(("path", "address"), rows)]


def _sweep(sweep: Json) -> str:
    rows = [(escape(outcome), f"{count:,}") for outcome, count in sweep["outcomes"].items() if count]
    size = sweep["bytes_deleted"]
    said = [f"Sweep {sweep['sweep']}: {human_bytes(size)} deleted", monthly(size, sweep.get("price"))]
    title = escape(", ".join(filter(None, said)))
    return f"<h2>{title}</h2>" + _table(("outcome", "objects"), rows, (1,))
