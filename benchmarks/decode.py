"""How fast ranges are read on one core: entries a second, best of several runs, from memory.

The file is the largest range of the recording `many_ranges`. Reading is never without its checks; "with identity"
adds the recomputation of the file's id. The same entries are read in small files too, as a mark reads such: together,
and one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lakegc_core.lakefs.files import graveler, sstable
from lakegc_core.lakefs.files.identity import identities
from lakegc_sandbox.files.graveler_writer import write_range

_SMALL = 400  # entries
_NAMESPACE = Path(__file__).parents[1] / "tests" / "golden" / "many_ranges" / "namespace" / "_lakefs"


def largest_range() -> Path:
    """The range file with the most entries: it is also the one with the most bytes."""
    return max((path for path in _NAMESPACE.iterdir() if len(path.name) == 64), key=lambda path: path.stat().st_size)


def run(runs: int = 50) -> list[dict[str, object]]:
    """One row a way of reading: what, entries, milliseconds of the best run, entries a second."""
    path = largest_range()
    data = path.read_bytes()
    records = list(sstable.read_tables([data]).records())
    entries = len(records)
    small = [write_range(records[first : first + _SMALL]) for first in range(0, entries, _SMALL)]
    files, ids = [table.data for table in small], [table.id for table in small]
    tables = sstable.read_tables([data])
    ways: dict[str, Callable[[], object]] = {
        "read_range": lambda: graveler.read_range(data),
        "read_range, paths": lambda: graveler.read_range(data, paths=True),
        "read_range with identity": lambda: graveler.read_range(data, expected_id=path.name),
        f"by {_SMALL} with identity, together": lambda: graveler.read_ranges(files, ids),
        f"by {_SMALL} with identity, one by one": lambda: [
            graveler.read_ranges([file], [each]) for file, each in zip(files, ids, strict=True)
        ],
        "table format only": lambda: sstable.read_tables([data]),
        "identity of a table already read": lambda: identities(tables),
    }
    return [_measure(name, way, entries, runs) for name, way in ways.items()]


def _measure(name: str, way: Callable[[], object], entries: int, runs: int) -> dict[str, object]:
    best = min(_seconds(way) for _ in range(runs))
    return {
        "what": name,
        "entries": entries,
        "milliseconds": round(best * 1000, 2),
        "entries_per_second": round(entries / best),
    }


def _seconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def main() -> None:
    """Print the table of `run`."""
    for row in run():
        print(f"{row['what']:<38} {row['entries']:>7} entries {row['milliseconds']:>8} ms ", end="")
        print(f"{int(str(row['entries_per_second'])):>10,} entries/s")


if __name__ == "__main__":
    main()
