"""Holds by path: which ranges can hold such a path, and what is kept of commits that nothing else retains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.policy.holds import PathGlobs, fixed_prefix
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.commits.commit_walk import COMMITS_SCHEMA, OTHERS
from lakegc_core.references.ranges.held_paths import HeldByPath, _PathReader, held_by_path, may_contain
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import read_part
from tests.support.marks import Rows, parts
from tests.support.path_world import PATHS, World, path_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ranges(*bounds: tuple[bytes, bytes]) -> pa.Table:
    return pa.table({"min_key": [first for first, _ in bounds], "max_key": [last for _, last in bounds]})


@given(st.text("ab/*?é", max_size=6), st.lists(st.text("ab/é", min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_range_that_holds_a_held_path_is_always_read(glob: str, paths: list[str]) -> None:
    keys = sorted(path.encode() for path in paths)
    if any(PathGlobs((glob,)).any(pa.array(paths)).to_pylist()):
        assert may_contain(ranges((keys[0], keys[-1])), fixed_prefix(glob)).to_pylist() == [True]


def test_a_range_beside_the_held_folder_is_not_read() -> None:
    bounds = (
        (b"a", b"k"),
        (b"m", b"z"),
        (b"a", b"z"),
        (b"legal/2", b"legal/3"),
        (b"l", b"l\xff"),
        (b"legal", b"legal"),
    )
    assert may_contain(ranges(*bounds), b"legal/").to_pylist() == [False, False, True, True, True, False]
    assert may_contain(ranges(*bounds), b"").to_pylist() == [True] * len(bounds)


def test_a_lost_range_into_which_a_hold_reaches_is_named_with_what_to_do(tmp_path: Path) -> None:
    files = MetadataFiles(LocalConfig(str(tmp_path)), "_lakefs")
    reader = _PathReader(files, Namespace("s3://bucket/lake"), PathGlobs(("legal/**",)))
    lost = pa.RecordBatch.from_pydict({"range_id": ["a" * 64]})
    with pytest.raises(ObjectNotFoundError, match=r"^Range a{64}: .*there is no object.* path.*unreadable-commit"):
        list(reader.found(iter([lost])))


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with path_world(spark, tmp_path_factory.mktemp("paths")) as found:
        yield found


def searched(spark: SparkSession, world: World, *holds: str) -> tuple[MarkContext, HeldByPath]:
    """What these holds keep if the commit is not retained."""
    context = replace(world.context, header=replace(world.context.header, holds=holds))
    others = parts(context, f"commits/{OTHERS}", COMMITS_SCHEMA, world.commits)
    folder = DatasetFolder(context.workspace, "commits")
    return context, held_by_path(spark, context, folder.dataset(OTHERS, others, COMMITS_SCHEMA), folder)


def held(spark: SparkSession, world: World, *holds: str) -> Rows:
    """The rows that these holds keep if the commit is not retained."""
    context, found = searched(spark, world, *holds)
    folder = "commits/held"
    return [
        row
        for part in found.addresses.parts
        for batch in read_part(context.workspace, folder, part)
        for row in batch.to_pylist()
    ]


def test_what_an_old_commit_shows_under_a_held_path_is_kept_and_nothing_beside_it(
    spark: SparkSession, world: World
) -> None:
    rows = held(spark, world, "path:legal/**", "tag:v*")
    assert {row["address"] for row in rows} == {world.addresses[path] for path in PATHS if path.startswith("legal/")}
    assert not any(row["exact"] for row in rows), "its data may be gone already, and is not missing then"
    one = held(spark, world, "path:*/2")
    assert [row["address"] for row in one] == [world.addresses["tables/2"]]
    of_letters = held(spark, world, "path:legal/2024/??b.pdf")
    assert [row["address"] for row in of_letters] == [world.addresses["legal/2024/é b.pdf"]], "é is one letter"


def test_without_holds_by_path_no_old_commit_is_read(spark: SparkSession, world: World) -> None:
    assert held(spark, world, "branch:main", "tag:legal/**") == []
    assert held(spark, world) == []
    assert held(spark, world, "path:nothing/**") == []


def test_a_hold_that_no_commit_shows_a_path_of_is_told(spark: SparkSession, world: World) -> None:
    assert searched(spark, world, "path:lgeal/**", "path:tables/4", "path:tables/?", "tag:x")[1].idle == (
        "lgeal/**",
        "tables/4",
    )
