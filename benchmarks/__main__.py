"""`make bench`: every measurement as one table. Ratios within one run mean more than seconds between machines.

What takes longer runs only when it is named: `make bench-big`; `python -m benchmarks answers` for `du` and `whatif`.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import answers, big, decode, listing, mark, store, sweep

SUITES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "decode": decode.run,
    "listing": listing.run,
    "sweep": sweep.run,
    "mark": mark.run,
    "store": store.run,
    "answers": answers.run,
    "big": big.run,
}
_NAMED_ONLY = {"answers", "big"}


def main(names: list[str]) -> int:
    """Run the suites named, or all but those that only run when they are named; print a table each."""
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    for name in names or [each for each in SUITES if each not in _NAMED_ONLY]:
        if name not in SUITES:
            sys.stderr.write(f"There is no benchmark {name!r}; there are {', '.join(SUITES)}.\n")
            return 2
        rows = SUITES[name]()
        columns = list(dict.fromkeys(column for row in rows for column in row))
        cells = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
        widths = [max(len(row[number]) for row in cells) for number in range(len(columns))]
        print(name)
        for row in cells:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print(flush=True)
    return 0


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
