"""Live objects that the store lacks are named with the paths under which users know them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from lakegc_core.errors import IncompleteError, ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.files import graveler
from lakegc_core.past.missing_paths import SHOWN, missing_paths
from tests.support.path_world import PATHS, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def entries(spark: SparkSession, world: World) -> object:
    """What the mark would know of the ranges: address and range_id."""
    found = [
        (address, row["range_id"])
        for row in world.ranges
        for address in graveler.read_range((world.lake.files("lake") / "_lakefs" / row["range_id"]).read_bytes())[
            "address"
        ].to_pylist()
    ]
    return spark.createDataFrame(found, "address string, range_id string")


def test_missing_objects_are_named_with_the_paths_that_show_them(spark: SparkSession, world: World) -> None:
    lost = {world.addresses[path]: path for path in PATHS} | {"data/staged/x": ""}
    missing = spark.createDataFrame([(address,) for address in lost], "address string")
    found = missing_paths(spark, world.context, missing, entries(spark, world))
    assert found == [{"address": address, "path": lost[address], "branch": ""} for address in sorted(lost)]


def test_of_many_missing_objects_a_hundred_are_named(spark: SparkSession, world: World) -> None:
    missing = spark.range(SHOWN + 50).selectExpr("concat('data/', id) as address")
    assert len(missing_paths(spark, world.context, missing, entries(spark, world))) == SHOWN


def test_a_missing_object_that_is_only_staged_is_named_with_its_path_and_branch(
    spark: SparkSession, world: World
) -> None:
    entry = dict(world.repo.objects("main"))[PATHS[0]]
    world.repo.stage_entry("main", "odd", replace(entry, address="data/./slice/id"))
    missing = spark.createDataFrame([("data/./slice/id",)], "address string")
    assert missing_paths(spark, world.context, missing, entries(spark, world)) == [
        {"address": "data/./slice/id", "path": "odd", "branch": "main"}
    ]


def test_a_listing_that_fails_leaves_the_paths_of_staged_ones_unknown(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = spark.createDataFrame([("data/staged/x",)], "address string")
    for error in (ServerError("paths that are not UTF-8"), IncompleteError("a short page")):

        def fails(*_: object, error: Exception = error) -> NoReturn:
            raise error

        monkeypatch.setattr(LakeFSClient, "objects", fails)
        assert missing_paths(spark, world.context, missing, entries(spark, world)) == [
            {"address": "data/staged/x", "path": "", "branch": ""}
        ]
