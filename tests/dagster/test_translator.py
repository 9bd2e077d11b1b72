"""A team's own keys and labels for the assets, and that everything still finds them under these."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.names import STAGES
from lakegc_dagster import LakegcAssetProps, LakegcConfig, LakegcTranslator, build_lakegc_definitions, records
from lakegc_dagster.partitions import GcCell
from tests.dagster.conftest import Lake, open_lake


class Ours(LakegcTranslator):
    """Keys that have nothing left of lakegc's, but for the words of the stages."""

    def get_asset_spec(self, props: LakegcAssetProps) -> dg.AssetSpec:
        spec = super().get_asset_spec(props)
        more = spec.merge_attributes(metadata={"was": props.name}, tags={"of": props.repository or "all"})
        key = ["garbage", props.repository or props.name.replace("_", "-")]
        return more.replace_attributes(key=key, group_name="storage", deps=["elsewhere"])


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    yield from open_lake("local_unified_gc", tmp_path, monkeypatch, instance)


def test_what_a_translator_says_shows_and_lakegcs_own_dependencies_stay() -> None:
    config = LakegcConfig(translator=Ours(), repositories=("shop",), store_kinds=("s3",), owners=("team:lake",))
    specs = {spec.key.to_user_string(): spec for spec in build_lakegc_definitions(config).resolve_all_asset_specs()}
    found, shop = specs["garbage/swept-report"], specs["garbage/shop"]
    assert {dep.asset_key.path[-1] for dep in found.deps} == {"expired-addresses", "elsewhere"}
    assert {dep.asset_key.path[-1] for dep in shop.deps} == {"expired-addresses", "swept-report", "elsewhere"}
    assert (found.group_name, found.owners, found.tags["of"], shop.tags["of"]) == (
        "storage",
        ["team:lake"],
        "all",
        "shop",
    )
    assert found.metadata["was"] == "swept_report" and "dagster/column_schema" in found.metadata
    assert found.kinds == {"pyspark", "parquet", "s3"} and shop.kinds == {"lakefs", "s3"}
    assert (found.description or "").startswith("What became of every object")


def test_a_mark_its_checks_its_sweep_and_what_is_recorded_are_found_under_the_keys_of_a_translator(lake: Lake) -> None:
    config = LakegcConfig(translator=Ours(), repositories=(lake.repository,))
    lake.defs = build_lakegc_definitions(config)
    cell = GcCell(lake.repository, "m1")
    cell.register(lake.instance)
    config_of_run = {"ops": {config.op(STAGES[0]): {"config": {"safety": "none"}}}}
    result = lake.defs.resolve_job_def("gc").execute_in_process(
        partition_key=cell.key, instance=lake.instance, run_config=config_of_run, raise_on_error=False
    )
    assert result.success
    (dry,) = result.get_asset_observation_events()
    assert dry.asset_key == dg.AssetKey(["garbage", "swept-report"])
    mark = records.newest_mark(lake.instance, config, lake.repository, ["m1"])
    assert mark is not None and mark.expired == len(lake.garbage)
    assert lake.instance.get_latest_materialization_event(dg.AssetKey(["garbage", lake.repository]))


def test_a_translator_whose_keys_change_is_refused() -> None:
    class Fickle(LakegcTranslator):
        def get_asset_spec(self, props: LakegcAssetProps) -> dg.AssetSpec:
            return props.spec.replace_attributes(key=[props.spec.group_name or "none", props.name])

    with pytest.raises(SettingsError, match="mark/namespace_listing and none/namespace_listing"):
        build_lakegc_definitions(LakegcConfig(translator=Fickle()))
