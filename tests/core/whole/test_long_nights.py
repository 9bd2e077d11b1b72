"""A year of nights: a mark, a sweep and a retirement each, users who go on, and something that goes wrong every week.

What belongs here: what must be true in all of these nights. A night is told in `long_nights`, what goes wrong in
`night_faults`, the accounts are in `night_books`.

LAKEGC_NIGHTS (365 for a whole year) is how many nights there are at least: each kind of fault happens once in any case.
LAKEGC_SEED (0) chooses what users do. LAKEGC_NIGHTS_REPORT names a file for the figures, which `-s` shows.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import towns
from tests.support.counted import SEED
from tests.support.long_nights import Year
from tests.support.long_town import LongTown
from tests.support.night_faults import FAULTS
from tests.support.night_stores import telling_time
from tests.support.replays import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NIGHTS = int(os.environ.get("LAKEGC_NIGHTS", "60"))
REPORT = os.environ.get("LAKEGC_NIGHTS_REPORT")
ROOM = {"files a mark": 1.25 if NIGHTS >= 180 else 1.5, "bytes a mark and commit": 1.25}
"""How much more there usually is of each in the second half than in the first. Files of a mark follow branches, pages,
of which a young town has few; bytes the history of commits, which grows for ever and of which each mark notes all. How
many marks may stand is judged every night."""


@pytest.mark.safety
@pytest.mark.slow
def test_nothing_live_goes_in_a_few_nights_that_go_wrong(
    quick: SparkSession, tmp_path: Path, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    lived(quick, tmp_path, tally, FAULTS[::3], nights=0)


@pytest.mark.search
@pytest.mark.slow
def test_nothing_live_goes_and_nothing_grows_for_ever_however_many_nights_go_wrong(
    quick: SparkSession, tmp_path: Path, tally: Callable[[str, Mapping[str, int]], None]
) -> None:
    year = lived(quick, tmp_path, tally, FAULTS, nights=NIGHTS)
    half = len(year.books.artifacts) // 2
    halves = {name: [year.books.usual(name, each) for each in (slice(half), slice(half, None))] for name in ROOM}
    grown = {name: usual for name, usual in halves.items() if usual[1] > ROOM[name] * usual[0]}
    assert not grown, f"the second half of the nights left more lying than the first: {grown}"


def lived(
    quick: SparkSession,
    folder: Path,
    tally: Callable[[str, Mapping[str, int]], None],
    faults: Sequence[Callable[[Year], None]],
    nights: int,
) -> Year:
    """So many nights at least, and each of these faults; what went is judged every night."""
    with environment({"LAKEGC_UNSAFE": "yes", "LAKEGC_NOW": "0"}):
        clock = towns.Clock()
        with towns.server(folder, ("s3", "local")[SEED % 2], clock) as server, telling_time(clock):
            year = Year.begin(LongTown(quick, server, clock, "year", "full"), SEED, nights)
            began = time.monotonic()
            try:
                year.live(faults)
            finally:
                figures = {"minutes": round((time.monotonic() - began) / 60, 1), **year.figures()}
                show(figures, year.books.artifacts)
    tally("long nights", {name: count for name, count in figures.items() if isinstance(count, int)})
    assert set(year.faults) == {fault.__name__ for fault in faults}
    assert year.books.objects > year.nights, "every night leaves some garbage"
    return year


def show(figures: Mapping[str, Any], nights: list[dict[str, int]]) -> None:
    print(f"\n{json.dumps(figures, indent=1)}")
    if REPORT:
        Path(REPORT).write_text(json.dumps({**figures, "after each night": nights}, indent=1) + "\n", encoding="utf-8")
