"""What it costs to ask lakeFS what branches show, where much of it looks like garbage.

Here: `lakegc mark` on generated repositories in which every entry of every head has the size of a candidate: many
identical files that were rewritten, on one branch and on many that hold the same ranges; and files whose sizes
coincide. Each mark must find all of the garbage that was made, in about the fewest pages. Not here: marks that have
nothing to ask (`mark`).

LAKEGC_BENCH_BIG names cases; all of them otherwise. TMPDIR=/dev/shm makes repositories quicker.

Columns: entries in the ranges of heads, each range once; entries in question, on all branches; pages of 1,000 that hold
them at least; pages that were asked for; seconds of the process, of its stage expired_addresses, and between the first
page and the last one; pages a second in between; peak memory of the driver's Python and of the JVM.
"""

from __future__ import annotations

import os
import sys

from benchmarks.generate import BRANCH_OBJECTS, Shape
from benchmarks.mark import Marked, Row, clean_mark
from lakegc_core.lakefs.http import PAGE

FILES = 100_000
"""Entries of main's head."""


def shape_of(garbage: int, branches: int, sizes: int) -> Shape:
    """Two commits of main: the first one's table is rewritten by the second, and only the second is retained."""
    return Shape(
        objects=FILES + garbage + BRANCH_OBJECTS * (branches - 1),
        commits=3 + (branches - 1) + 1,
        branches=branches,
        garbage=garbage,
        retained=1,
        dropped=1,
        range_entries=10_000,
        sizes=sizes,
    )


CASES = {
    "identical, 1 branch": shape_of(garbage=FILES, branches=1, sizes=1),
    "identical, 100 branches": shape_of(garbage=FILES, branches=100, sizes=1),
    "sizes coincide, 100 branches": shape_of(garbage=FILES // 10, branches=100, sizes=100),
}


def run() -> list[Row]:
    """One row a case. RuntimeError if garbage was missed, or many more pages asked for than needed."""
    wanted = os.environ.get("LAKEGC_BENCH_BIG", ",".join(_short(name) for name in CASES)).split(",")
    if unknown := set(wanted) - {_short(name) for name in CASES}:
        raise ValueError(f"LAKEGC_BENCH_BIG knows {', '.join(map(_short, CASES))}, not {', '.join(sorted(unknown))}")
    rows = []
    for name, shape in CASES.items():
        if _short(name) in wanted:
            rows.append(_row(name, *clean_mark(shape)))
            sys.stderr.write(f"big: {name}: {rows[-1]['pages_asked']:,} pages in {rows[-1]['asking']} s\n")
    return rows


def _short(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


def entries_shown(shape: Shape) -> int:
    """What all branches show: all of it is in question."""
    return FILES * shape.branches + BRANCH_OBJECTS * (shape.branches - 1)


def _row(what: str, shape: Shape, marked: Marked) -> Row:
    shown = entries_shown(shape)
    needed = -(-shown // PAGE)
    asked = marked.report["asked"]["pages"]
    if asked != marked.told.pages:
        raise RuntimeError(f"{what}: a mark says that it asked for {asked} pages; it asked for {marked.told.pages}")
    if not needed <= asked <= needed * 1.1 + shape.branches:
        raise RuntimeError(f"{what}: {asked} pages were asked for where {needed} are needed")
    if left := marked.report["asked"]["waiting"]["objects"]:
        raise RuntimeError(f"{what}: {left} objects were not asked about")
    return {
        "what": what,
        "garbage": shape.garbage,
        "branches": shape.branches,
        "entries": marked.told.entries,
        "in_question": shown,
        "pages_needed": needed,
        "pages_asked": asked,
        "seconds": marked.ran.seconds,
        "stage": round(marked.report["seconds"]["expired_addresses"], 1),
        "asking": round(marked.told.asking, 1),
        "pages_a_second": round(asked / marked.told.asking),
        "python_mb": marked.ran.python_mb,
        "jvm_mb": marked.ran.jvm_mb,
    }
