"""Of the garbage that resembles live data nearly all goes by the second sweep, and nothing live ever."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.efficacy.nights import Writer, four_nights, one_content
from tests.efficacy.site import Bucket, Site, azure_bucket, s3_bucket, site
from tests.support.npm import NoNetworkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

GONE = 0.99
"""The share of the garbage, in objects and in bytes, that must be gone after the second sweep."""

OF_ONE_CONTENT = int(os.environ.get("LAKEGC_EFFICACY_OBJECTS", "2000"))
"""How much garbage of one content there is, in objects."""

Tell = Callable[[str, object], None]


@pytest.fixture(scope="module", params=[pytest.param("s3", marks=pytest.mark.safety), "azure"])
def bucket(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    folder = tmp_path_factory.mktemp("efficacy")
    with ExitStack() as stack:
        try:
            yield stack.enter_context((s3_bucket if request.param == "s3" else azure_bucket)(folder))
        except NoNetworkError as error:
            pytest.skip(str(error))


@dataclass(frozen=True)
class Line:
    """A line of the table: objects and bytes of one case."""

    garbage: tuple[int, int]
    left: tuple[tuple[int, int], ...]  # after each sweep


def count(keys: set[str], sizes: Mapping[str, int]) -> tuple[int, int]:
    return len(keys), sum(sizes[key] for key in keys)


HEADER = "| store | case | garbage | bytes | gone after sweep 1 | gone after sweep 2 | bytes gone |"
"""Of the rows among the tallies, which README's table is made of."""


def _cells(figures: tuple[int, ...]) -> str:
    return "".join(f" {figure:,} |" for figure in figures)


def two_rounds(lake: Site, writer: Writer, record_property: Tell) -> None:
    """Mark and sweep twice, add the table to the tallies, and demand what is promised."""
    before, live, hidden = lake.stored(), lake.live(), lake.hidden()
    assert {writer.cases[key] for key in hidden} == {"hidden"}
    assert live <= before.keys() and len(hidden) == Counter(writer.cases.values())["hidden"]
    garbage = before.keys() - live
    after = []
    for _ in range(2):
        lake.round()
        after.append(lake.stored().keys())
    record_property("tally", HEADER)
    lines = {}
    for case in sorted({writer.cases[key] for key in garbage}):
        of_case = {key for key in garbage if writer.cases[key] == case}
        lines[case] = Line(count(of_case, before), tuple(count(of_case & left, before) for left in after))
    lost = live - after[-1]
    for case, line in lines.items():
        (objects, size), ((first, _), (second, second_size)) = line.garbage, line.left
        figures = (objects, size, objects - first, objects - second, size - second_size)
        record_property("tally", f"| {lake.bucket.blockstore} | {case} |{_cells(figures)}")
    told = f"{lake.bucket.blockstore}, {lake.name}: {len(lost):,} of {len(live):,} live objects lost"
    record_property("tally", f"{told}, {len(lost & hidden):,} of {len(hidden):,} hidden ones")

    assert lake.live() == live
    assert not lost, f"{len(lost)} live objects are gone, {len(lost & hidden)} of them hidden re-uploads"
    short = {
        case: line
        for case, line in lines.items()
        if any(left > (1 - GONE) * whole for left, whole in zip(line.left[-1], line.garbage, strict=True))
    }
    assert not short, f"garbage stays: {short}"


def test_of_nightly_identical_rewrites_the_garbage_goes_and_hidden_ones_stay(
    bucket: Bucket, quick: SparkSession, tmp_path: Path, record_property: Tell
) -> None:
    with site(quick, bucket, tmp_path, "nights") as lake:
        two_rounds(lake, four_nights(lake), record_property)


def test_of_objects_that_all_have_one_content_the_garbage_goes_and_hidden_ones_stay(
    bucket: Bucket, quick: SparkSession, tmp_path: Path, record_property: Tell
) -> None:
    with site(quick, bucket, tmp_path, "one-content") as lake:
        two_rounds(lake, one_content(lake, OF_ONE_CONTENT), record_property)
