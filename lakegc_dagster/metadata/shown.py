"""The look of figures in Dagster's UI: tables, bars, places, and what bytes cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import dagster as dg

from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.facts import AgeOrSize, Amount
from lakegc_core.views.words import human_bytes, monthly_cost, shown

Metadata = dict[str, Any]
Facts = Mapping[str, Any]

SHOWN = 1_000
"""Markdown of so many characters or more the UI of Dagster hides behind a link; what is to be seen is shorter."""

_MOST_ROWS = 20  # of a table whose length the repository decides
_BAR = 10  # characters of the longest bar: wider tables are cut off in the UI
_LINE = 48  # characters of the longest line of a place: a wider one makes the page of a partition scroll sideways


_SPECIAL = re.compile(r"([\\`\[\]<>|])")


def plain(text: str) -> str:
    """A text that may hold names of others, for markdown: it makes no link, picture, heading or line."""
    return _SPECIAL.sub(r"\\\1", shown(text.replace("\n", " ")))


def place(uri: str) -> dg.MarkdownMetadataValue:
    """A URI on as many lines as it needs, broken at slashes."""
    lines = [""]
    for part in re.findall(r"[^/]*/*", uri):
        if lines[-1] and len(lines[-1]) + len(part) > _LINE:
            lines.append("")
        lines[-1] += part
    return dg.MetadataValue.md("  \n".join(f"`{line}`" for line in lines))


def uri(address: str) -> Metadata:
    """A URI under Dagster's own name, for programs. Not for partitions: it stands in one piece, and a page of one would
    scroll sideways (Dagster 1.13 breaks neither texts nor paths nor links)."""
    return {"dagster/uri": dg.MetadataValue.text(address)}


def lakefs_page(mark: MarkContext) -> dg.MarkdownMetadataValue:
    """lakeFS's own page of the repository, as a link that is no longer than its name."""
    name = mark.header.repository
    return dg.MetadataValue.md(f"[{name}]({mark.settings.server.endpoint_url}/repositories/{name})")


def records(
    titles: Sequence[str], rows: Iterable[Sequence[str | int]], kinds: Sequence[str] = ()
) -> dg.TableMetadataValue:
    """A table that Dagster knows as one: it can be sorted in the UI and read by programs.

    `kinds`: the types of the columns in Dagster's words; string where nothing is said. For short cells: the UI breaks
    a long word nowhere, and the page would scroll sideways. Of a long table, the last row says how many are left out.
    """
    columns = [dg.TableColumn(title, kind) for title, kind in zip_longest(titles, kinds, fillvalue="string")]
    every = list(rows)
    found = [dg.TableRecord(dict(zip(titles, row, strict=True))) for row in every[:_MOST_ROWS]]
    if len(every) > len(found):
        found.append(dg.TableRecord(dict.fromkeys(titles) | {titles[0]: _more(every, found)}))
    return dg.MetadataValue.table(found, dg.TableSchema(columns))


def amounts(title: str, rows: Iterable[tuple[str, Amount]]) -> dg.TableMetadataValue:
    """A table of what there is of each kind."""
    every = ((name, amount.objects, amount.bytes, human_bytes(amount.bytes)) for name, amount in rows)
    return records((title, "objects", "bytes", "size"), every, ("string", "int", "int", "string"))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = "") -> dg.MarkdownMetadataValue:
    """A markdown table. `alignment`: a letter a column, l or r."""
    rules = [":---" if letter == "l" else "---:" for letter in alignment.ljust(len(titles), "l")]
    every = [list(row) for row in rows]
    first = every[:_MOST_ROWS]
    lines = [_line(titles), _line(rules), *(_line([plain(cell) for cell in row]) for row in first)]
    text = "\n".join(lines)
    if len(every) > len(first):
        text += f"\n\n{_more(every, first)}"
    return dg.MetadataValue.md(text)


def _more(every: Sequence[object], shown: Sequence[object]) -> str:
    return f"… and {len(every) - len(shown):,} more"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def bars(classes: Sequence[AgeOrSize], title: str) -> dg.MarkdownMetadataValue:
    """Bytes by class, with bars of text: pictures are too long for the UI."""
    # Markdown: Dagster's own tables align no numbers to the right, and a bar is nothing for programs.
    most = max((each.bytes for each in classes), default=0) or 1
    rows = [
        (
            each.name,
            f"{each.objects:,}",
            human_bytes(each.bytes),
            "█" * max(round(_BAR * each.bytes / most), 1 if each.bytes else 0),
        )
        for each in classes
    ]
    return table((title, "objects", "bytes", ""), rows, "lrrl")


def cost(name: str, size: int, price: Facts | None) -> Metadata:
    """The cost of so many bytes a month, to be plotted; nothing without a price. `price`: as reports have it."""
    if price is None:
        return {}
    return {name: round(monthly_cost(size, dict(price)), 6), "currency": price["currency"]}
