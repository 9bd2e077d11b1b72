"""How long `lakegc du`, `whatif` and `explain` take, beside the clean mark that they answer from, as whole processes.

By environment: LAKEGC_BENCH_CASES as in `mark`; LAKEGC_BENCH_ROUNDS: each figure is the least of so many.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks import process
from benchmarks.generate import BUCKET, REPOSITORY
from benchmarks.lake import ServedLake, served
from benchmarks.mark import CASES, cases, clean, rounds

Row = dict[str, Any]


def run() -> list[Row]:
    """One row a question and case: seconds, as multiples of the mark, and peaks of memory in megabytes."""
    rows = []
    for name in cases("LAKEGC_BENCH_CASES", "docs,standalone"):
        with served(CASES[name]) as lake:
            mark = clean(lake, CASES[name]).ran
            rows.append(_row(f"{name}: clean mark", mark, mark))
            questions = {"du": ["du", "--together", "branch:*"]}
            if not CASES[name].lean:  # without the metadata of commits that are not retained
                questions |= {
                    "whatif": ["whatif", "--rule", "default=1"],
                    "whatif, a longer rule": ["whatif", "--rule", "default=400"],
                    "explain an address": ["explain", _address(lake)],
                }
            for what, (verb, *options) in questions.items():
                asked = [_ask(lake, verb, *options) for _ in range(rounds())]
                rows.append(_row(f"  {what}", min(asked, key=lambda ran: ran.seconds), mark))
    return rows


def _ask(lake: ServedLake, verb: str, *options: str) -> process.Ran:
    program = [sys.executable, "-m", "benchmarks.on_folder", str(lake.root), verb, REPOSITORY, "--json", "--quiet"]
    return process.run([*program, *options], lake.environment)


def _address(lake: ServedLake) -> str:
    """Some object's."""
    folder = lake.root / BUCKET / REPOSITORY
    lot = folder if folder.is_dir() else lake.root
    file: Path = next(path for path in sorted(lot.glob("**/data/*/*")) if path.is_file())
    return file.relative_to(file.parents[2]).as_posix()


def _row(what: str, ran: process.Ran, mark: process.Ran) -> Row:
    times = round(ran.seconds / mark.seconds, 2)
    return {"what": what, "seconds": ran.seconds, "of_mark": times, "python_mb": ran.python_mb, "jvm_mb": ran.jvm_mb}
