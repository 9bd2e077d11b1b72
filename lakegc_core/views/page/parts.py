"""The parts of all pages: the document with its style, tables and the cards of a headline.

Cells and bodies are HTML already: who makes them escapes what comes from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Pictures take their text's colour from the page. Their shapes have colours of their own where no page gives any.
_STYLE = """
:root { color-scheme: light dark; --ink: #1b2436; --soft: #5b6980; --line: #d9dfe9; --paper: #ffffff; --bad: #b3261e;
  --good: #1b7f4b; --shape: #3b66e0; --found: #b3610a; --card: #f4f6fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf2; --soft: #9aa7bd; --line: #333d50; --paper: #141a26;
  --bad: #ff8a80; --good: #66d19e; --shape: #7b9bff; --found: #ffb454; --card: #1d2534; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
h1, h2 { overflow-wrap: anywhere; }
p.sub, .small { color: var(--soft); } p.sub { margin-top: .2rem; } .small { font-size: .87em; }
p.lead { font-size: 1.1rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .6rem; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--soft); font-weight: 600; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } tr.total td { font-weight: 600; }
code { font-size: .9em; overflow-wrap: anywhere; } td:first-child { min-width: 8.5rem; overflow-wrap: anywhere; }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.card { background: var(--card); border-radius: .5rem; padding: .8rem 1rem; flex: 1 1 13rem; }
.card b { display: block; font-size: 1.6rem; line-height: 1.3; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
svg { color: var(--soft); max-width: 100%; height: auto; } svg .bar { fill: var(--shape); }
svg .line { stroke: var(--found); } svg .dot { fill: var(--found); }
.shares { min-width: 7rem; } .shares div { height: .7rem; margin-top: .4rem; border-radius: 2px;
  background: var(--shape); }
.table { overflow-x: auto; }
@media (max-width: 40rem) { table, tbody, tr, td { display: block; } tr { padding: .4rem 0;
  border-bottom: 1px solid var(--line); } td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; }
  tr.titles, td:empty { display: none; } td.n { text-align: left; white-space: normal; }
  td[data-title]::before { content: attr(data-title) ": "; color: var(--soft); } }
details { margin-top: .5rem; } summary { color: var(--soft); cursor: pointer; }
"""


def document(title: str, body: Iterable[str]) -> str:
    """A whole page. `title`: plain text."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        + "\n".join(filter(None, body))
        + "\n</body></html>\n"
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (), strong: str = "") -> str:
    """A table. `numbers`: columns that are aligned to the right; `strong`: the first cell of rows that stand out.

    On a narrow screen, the cells of a row stand below each other, each behind the title of its column.
    """
    right = [" class=n" if at in numbers else "" for at in range(len(titles))]
    named = [f' data-title="{escape(title)}"' if title and at else "" for at, title in enumerate(titles)]
    head = "".join(f"<th{kind}>{title}</th>" for kind, title in zip(right, titles, strict=True))
    lines = []
    for cells in rows:
        shown = (f"<td{a}{b}>{cell}</td>" for a, b, cell in zip(right, named, cells, strict=True))
        total = ' class="total"' if strong and cells[0] == strong else ""
        lines.append(f"<tr{total}>{''.join(shown)}</tr>")
    return f'<div class="table"><table><tr class="titles">{head}</tr>{"".join(lines)}</table></div>'


def card(title: str, value: str, *notes: str) -> str:
    """One figure of a headline, with what is to be known of it. All are plain text."""
    said = "".join(f'<span class="small">{escape(note)}</span><br>' for note in notes if note)
    return f'<div class="card"><span class="small">{escape(title)}</span><b>{escape(value)}</b>{said}</div>'


def folded(title: str, inside: str) -> str:
    """A part of a page that is shown on demand. `title`: plain text."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"
