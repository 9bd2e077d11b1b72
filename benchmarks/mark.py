"""How long a whole `lakegc mark` takes, beside the least that Spark itself takes in the same run.

Here: `lakegc mark` as a process of its own, on generated repositories behind a sandbox server in another process: by
size, after the same small change to repositories of several sizes (an optimized mark, beside a clean one of the same
state), on known cases, by what grows, and how often lakeFS and the store are asked. Every mark must find exactly the
garbage that was made. Not here: sweeps (`sweep`), and how long marks over a store take (`store`).

By environment:
- LAKEGC_BENCH_MARKS: what to measure, of `sizes,changes,cases,growth,requests`
- LAKEGC_BENCH_SIZES: `10000,100000`; also 1000000, and with patience and disk 10000000
- LAKEGC_BENCH_CHANGED: sizes for changes, `100000`; the same others
- LAKEGC_BENCH_CASES: `docs,standalone`; also `million`, `design` and `answers`; the last two take half an hour and 10
  GB of disk each
- LAKEGC_BENCH_COMMITS: where requests are counted, `100,1000`; also 10000
- LAKEGC_BENCH_ROUNDS: 1; each figure is the least of so many marks
TMPDIR=/dev/shm makes repositories quicker.

Columns: seconds of the process, as multiples of the floor and of the clean mark; then seconds by stage; peak memory of
the driver's Python, of the JVM, which in local mode is the executors' too, and of all Python workers together; calls to
lakeFS; of them pages of what branches show; requests to the store.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import process
from benchmarks.generate import REPOSITORY, Shape
from benchmarks.lake import ServedLake, Told, served
from benchmarks.stored import StoredLake, stored
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL

Row = dict[str, Any]

CHANGE = 5_000
"""Objects that a change commits, and as many that it drops."""

CASES = {
    "docs": Shape(
        objects=103_000,
        commits=2_000,
        branches=1_000,
        staged=25_000,
        garbage=15_000,
        retained=250,
        range_entries=2_000,
        slice_objects=500,
    ),
    "standalone": Shape(
        objects=100_000,
        commits=250,
        branches=60,
        garbage=16_000,
        retained=8,
        dropped=40,
        range_entries=5_000,
        slice_objects=1_000,
    ),
    "million": Shape(
        objects=1_000_000,
        commits=5_000,
        staged=10_000,
        garbage=100_000,
        retained=500,
        lean=True,
        range_entries=20_000,
    ),
    "design": Shape(
        objects=20_000_000,
        commits=30_000,
        branches=1_000,
        staged=5_000_000,
        garbage=1_000_000,
        retained=3_000,
        spare=(CHANGE,),
        touched=(40, 150),
        lean=True,
        range_entries=10_000,
        by_lot=True,  # a file for each of so many objects would take as many inodes
    ),
}
CASES["docs-one-size"] = replace(CASES["docs"], length=48)
CASES["standalone-one-size"] = replace(CASES["standalone"], length=64)
CASES["million-one-size"] = replace(CASES["million"], length=48)
CASES["million-one-size-of-1000"] = replace(CASES["million-one-size"], branches=1_000)
CASES["answers"] = replace(CASES["design"], staged=100_000, lean=False, added_every=100)
"""Of lakeFS's documentation, a repository of which 40 of 100 branches are deleted, a million objects of many commits,
and the case for which lakeFS's collector was designed; `answers` is as large, with the files of its old commits. In
`…-one-size`, as in the cases in truth, sizes do not tell objects apart, and contents do; `…-of-1000` are branches."""

_STAGES = {
    "namespace_listing": "listing",
    "uncommitted_addresses": "staging",
    "retention_commits": "graph",
    "committed_addresses": "ranges",
    "expired_addresses": "joins",
}
_REQUESTED = 20_000  # objects, where requests are counted


def run() -> list[Row]:
    """One row a process: what it was run on, what it took, and what it asked for."""
    parts: dict[str, Callable[[float], list[Row]]] = {
        "sizes": _sizes,
        "changes": _changes,
        "cases": lambda floor: [
            row_of(f"case {name}", floor, *clean_mark(CASES[name]))
            for name in cases("LAKEGC_BENCH_CASES", "docs,standalone")
        ],
        "growth": _growth,
        "requests": lambda floor: [_requests(commits) for commits in numbers("LAKEGC_BENCH_COMMITS", "100,1000")],
    }
    wanted = os.environ.get("LAKEGC_BENCH_MARKS", ",".join(parts)).split(",")
    if unknown := set(wanted) - parts.keys():
        raise ValueError(f"LAKEGC_BENCH_MARKS knows {', '.join(parts)}, not {', '.join(sorted(unknown))}")
    times = max(2, rounds())  # the first one reads Spark's files from the disk
    floors = [_floor() for _ in range(times)]
    least = min(floors, key=lambda ran: ran.seconds)
    columns = dict.fromkeys(("what", "objects", "commits", "entries", "made_in", "seconds", "of_floor", "of_clean"))
    stages = dict.fromkeys(_STAGES.values())
    floor = {"what": "floor: Spark alone", "seconds": least.seconds, "of_floor": 1.0, **_memory(least)}
    rows = [columns | stages | floor]
    for name, measure in parts.items():
        if name in wanted:
            _say(name)
            rows += measure(least.seconds)
    return rows


def rounds() -> int:
    """How often each thing is measured."""
    return int(os.environ.get("LAKEGC_BENCH_ROUNDS", "1"))


def numbers(variable: str, default: str) -> list[int]:
    """Of a variable that lists some."""
    return [int(number) for number in os.environ.get(variable, default).split(",") if number]


def cases(variable: str, default: str) -> list[str]:
    """The names of the cases that are wanted; an empty variable wants none."""
    wanted = [name for name in os.environ.get(variable, default).split(",") if name]
    if unknown := set(wanted) - CASES.keys():
        raise ValueError(f"{variable} knows {', '.join(CASES)}, not {', '.join(sorted(unknown))}")
    return wanted


def _say(text: str) -> None:
    """The table comes at the end; this says meanwhile how far it is."""
    sys.stderr.write(f"mark: {text}\n")


def _floor() -> process.Ran:
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
        return process.run([sys.executable, "-m", "benchmarks.floor", folder], os.environ)


# --- marks ---


@dataclass(frozen=True)
class Marked:
    """A mark: its process, its report, and what the server says after it."""

    ran: process.Ran
    report: Row
    told: Told


def _mark(lake: ServedLake, shape: Shape, *options: str, **environment: str) -> Marked:
    """Run `lakegc mark`, on the folder, or on the store that variables name. RuntimeError if it misses anything."""
    lake.ask()
    program = ["lakegc_core.cli"] if environment else ["benchmarks.on_folder", str(lake.root)]
    command = [sys.executable, "-m", *program, "mark", REPOSITORY, "--json", "--quiet", *options]
    ran = process.run(command, lake.environment | environment)
    report, told = json.loads(ran.output), lake.ask()
    found = (report["objects"]["listed"], report["objects"]["expired"])
    if found != (shape.objects, told.garbage):
        raise RuntimeError(f"a mark found {found}; there are {shape.objects} objects, {told.garbage} of them garbage")
    return Marked(ran, report, told)


def clean(lake: ServedLake, shape: Shape) -> Marked:
    """The quickest of the clean marks."""
    return _best([_mark(lake, shape, "--clean") for _ in range(rounds())], CLEAN)


def _best(marked: list[Marked], mode: str) -> Marked:
    if other := {mark.report["run"]["mode"] for mark in marked} - {mode}:
        raise RuntimeError(f"a mark was to be {mode} and is {', '.join(other)}")
    return min(marked, key=lambda mark: mark.ran.seconds)


def clean_mark(shape: Shape) -> tuple[Shape, Marked]:
    """Make a repository of this shape, and mark it."""
    with served(shape) as lake:
        return shape, clean(lake, shape)


def shape_of(objects: int) -> Shape:
    """A repository of a size: a hundred commits, ten branches, a tenth garbage, a hundredth staged."""
    return Shape(
        objects,
        staged=objects // 100,
        garbage=objects // 10,
        range_entries=min(20_000, max(1_000, objects // 20)),
        slice_objects=min(50_000, max(500, objects // 20)),
    )


def _sizes(floor: float) -> list[Row]:
    """A clean mark of each size."""
    return [
        row_of("clean mark", floor, *clean_mark(shape_of(size)))
        for size in numbers("LAKEGC_BENCH_SIZES", "10000,100000")
    ]


def steady_of(objects: int, changes: int) -> Shape:
    """A repository that lakegc looks after: of any size, with the same staged and the same garbage, nearly all of it
    older than a week, and with branches that are there for so many changes."""
    return replace(
        shape_of(objects),
        commits=100 + changes,
        staged=CHANGE,
        garbage=CHANGE,
        retained=1,
        spare=(CHANGE,) * changes,
    )


def _changes(floor: float) -> list[Row]:
    """Of each size, after the same change: an optimized mark, and a clean one of the same state."""
    rows = []
    for size in numbers("LAKEGC_BENCH_CHANGED", "100000"):
        shape = steady_of(size, rounds())
        optimized, clean = [], []
        with served(shape) as lake:
            _mark(lake, shape, "--clean")
            for _ in shape.spare:
                lake.change(CHANGE)
                shape = replace(shape, objects=shape.objects + CHANGE)
                optimized.append(_mark(lake, shape))
                clean.append(_mark(lake, shape, "--clean"))
        after = _best(clean, CLEAN)
        rows.append(row_of("after a change: clean", floor, shape, after))
        quick = row_of("  optimized", floor, shape, _best(optimized, INCREMENTAL))
        rows.append(quick | {"of_clean": round(quick["seconds"] / after.ran.seconds, 3)})
    return rows


def _growth(floor: float) -> list[Row]:
    """What one factor of ten costs, one thing at a time, beside the mark of 100,000 objects by size."""
    base = shape_of(100_000)
    shapes = {
        "ten times the commits": replace(base, commits=1_000, retained=100),
        "ten times the branches": replace(base, commits=190, branches=100),
        "ten times the staged": replace(base, staged=10_000),
    }
    return [row_of(what, floor, *clean_mark(shape)) for what, shape in shapes.items()]


# --- requests ---


def _requests(commits: int) -> Row:
    """Calls to lakeFS, and requests to the store."""
    shape = replace(shape_of(_REQUESTED), commits=commits, retained=commits // 10)
    with served(shape) as lake, stored(lake) as store:
        row = counted_mark("requests", lake, store, shape, "--clean")
    kept = ("what", "objects", "commits", "entries", "lakefs_calls", "pages_asked")
    return {name: value for name, value in row.items() if name in kept or name.startswith("store_")}


def counted_mark(what: str, lake: ServedLake, store: StoredLake, shape: Shape, *options: str) -> Row:
    """A mark over the store: what is printed of it, and what it asked for."""
    store.begin()
    marked = _mark(lake, shape, *options, **store.environment)
    return row_of(what, None, shape, marked) | {"mode": marked.report["run"]["mode"]} | store.counts()


# --- rows ---


def row_of(what: str, floor: float | None, shape: Shape, marked: Marked) -> Row:
    """What is printed of a mark. `floor`: seconds that Spark alone takes."""
    seconds = marked.report["seconds"]
    _say(f"{what.strip()}: {shape.objects:,} objects in {marked.ran.seconds} s")
    return {
        "what": what,
        "objects": shape.objects,
        "commits": shape.commits,
        "entries": marked.told.entries,
        "made_in": round(marked.told.seconds, 1),
        "seconds": marked.ran.seconds,
        "of_floor": round(marked.ran.seconds / floor, 2) if floor else None,
        "of_clean": None,
        **{short: round(seconds[stage], 2) for stage, short in _STAGES.items()},
        **_memory(marked.ran),
        "lakefs_calls": marked.told.requests,
        "pages_asked": marked.report["asked"]["pages"],
    }


def _memory(ran: process.Ran) -> Row:
    return {"python_mb": ran.python_mb, "jvm_mb": ran.jvm_mb, "workers_mb": ran.workers_mb}
