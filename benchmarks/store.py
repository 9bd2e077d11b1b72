"""How long marks over a real S3 server take, and what they ask it and lakeFS for, where sizes tell objects apart and
where they do not.

Here: cases of `mark`, each marked for the first time and once more as it was; and five nights, in each of which some
objects are committed, others expire, and a mark follows. Where all objects have one size, a mark must learn by HEADs or
by pages of lakeFS which contents differ. Not here: how the same marks do without a store (`mark`).

By environment:
- LAKEGC_BENCH_STORED: cases, `standalone-one-size,docs-one-size`; also `standalone`, `docs` and the others of `mark`
- LAKEGC_BENCH_NIGHTS: objects at the beginning of the nights, `20000`; 103000 is the case's own size; empty: no nights

Columns: as in `mark`; then HEADs of objects, the other requests to the store by kind, and jobs of Spark. The server has
the same cores. It reads an object's bytes for each ETag that it lists, so that large objects take it longer to list.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.generate import Shape
from benchmarks.lake import served
from benchmarks.mark import CASES, Row, cases, counted_mark, numbers
from benchmarks.stored import stored

NIGHTS = 5
NIGHT = 300
"""Objects that a night commits, and as many that it drops."""

_EMPTY = ("of_floor", "of_clean")


def run() -> list[Row]:
    """One row a mark."""
    rows = [
        row
        for name in cases("LAKEGC_BENCH_STORED", "standalone-one-size,docs-one-size")
        for row in _twice(name, CASES[name])
    ]
    for objects in numbers("LAKEGC_BENCH_NIGHTS", "20000"):
        rows += _nights(night_shape(objects))
    return [{name: value for name, value in row.items() if name not in _EMPTY} for row in rows]


def _twice(name: str, shape: Shape) -> list[Row]:
    with served(shape) as lake, stored(lake) as store:
        return [counted_mark(what, lake, store, shape) for what in (f"{name}: first mark", "  once more")]


def night_shape(objects: int) -> Shape:
    """The documentation's case with so many objects of one size, and branches that are there for the nights.

    Everything shrinks alike but the branches: by their number pages cost more than HEADs, as in the whole case.
    """
    whole = CASES["docs-one-size"]
    share = objects / whole.objects
    return replace(
        whole,
        objects=objects,
        commits=whole.branches + whole.dropped + NIGHTS + max(100, round(990 * share)),
        staged=round(whole.staged * share),
        garbage=round(whole.garbage * share),
        retained=max(20, round(whole.retained * share)),
        range_entries=max(400, round(whole.range_entries * share)),
        slice_objects=max(100, round(whole.slice_objects * share)),
        spare=(NIGHT,) * NIGHTS,
    )


def _nights(shape: Shape) -> list[Row]:
    rows = []
    with served(shape) as lake, stored(lake) as store:
        rows.append(counted_mark("nights: first mark", lake, store, shape))
        for night in range(1, NIGHTS + 1):
            lake.change(NIGHT)
            shape = replace(shape, objects=shape.objects + NIGHT)
            rows.append(counted_mark(f"  night {night}", lake, store, shape))
    return rows
