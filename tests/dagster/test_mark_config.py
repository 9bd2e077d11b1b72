"""The choices of a mark: which values Dagster takes for them, shows in the launchpad, and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import pytest
from dagster._config import validate_config
from dagster._config.snap import ConfigTypeSnap

from lakegc_core.config.settings import SafetyLevel
from lakegc_core.marks.artifacts import MODES
from lakegc_core.marks.context import open_repository
from lakegc_core.names import Rules
from lakegc_dagster.assets.mark import MarkConfig
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from tests.dagster.conftest import Site, open_site

CHOICES = {"safety": get_args(SafetyLevel), "rules": get_args(Rules), "mode": MODES}


@pytest.fixture
def site(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    with open_site(tmp_path, monkeypatch, instance) as found:
        found.create("alpha")
        yield found


def begin(site: Site, mark_id: str, config: Any) -> dg.ExecuteInProcessResult:
    """A run of the first stage alone, with a config as a person writes it."""
    cell = GcCell("alpha", mark_id)
    cell.register(site.instance)
    return site.defs.resolve_job_def("gc_mark").execute_in_process(
        instance=site.instance,
        partition_key=cell.key,
        asset_selection=[dg.AssetKey("namespace_listing")],
        run_config={"ops": {"namespace_listing": {"config": config}}},
        raise_on_error=False,
    )


def test_the_schema_of_the_job_has_the_values_that_lakegc_knows() -> None:
    job = build_lakegc_definitions().resolve_job_def("gc_mark")
    types = job.get_job_snapshot().config_schema_snapshot

    def inner(found: ConfigTypeSnap) -> ConfigTypeSnap:
        (*_, key) = found.type_param_keys or (found.key,)
        return types.get_config_snap(key)

    fields = {field.name: field for field in types.get_config_snap(of_begin(job)).fields or []}
    offered = {name: inner(types.get_config_snap(fields[name].type_key)).enum_values or [] for name in CHOICES}
    assert {name: {each.value for each in values} for name, values in offered.items()} == {
        name: set(values) for name, values in CHOICES.items()
    }


def of_begin(job: dg.JobDefinition) -> str:
    """The key of the type of the first stage's config."""
    config = job.get_node_named("namespace_listing").definition.config_schema
    assert config is not None
    return str(config.config_type.key)


@pytest.mark.parametrize(
    ("safety", "rules", "mode"),
    [
        ("full", "required", "auto"),
        ("standard", "keep-all-commits", "clean"),
        ("none", "keep-all-commits", "incremental"),
    ],
)
def test_each_right_value_begins_a_mark_so(site: Site, safety: str, rules: str, mode: str) -> None:
    config = {"safety": safety, "rules": rules, "mode": mode}
    assert begin(site, "m1", config).success
    header = open_repository(site.lakegc.settings(), "alpha").artifacts("m1").header()
    assert header is not None and (header.safety, header.rules, header.mode) == (safety, rules, mode)
    assert MarkConfig(**config).mode == mode  # type: ignore[arg-type]  # as a test of a team's own writes it


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("wrong", ["FULL", "keep_all_commits", ""])
def test_a_wrong_value_is_refused_before_anything_runs(instance: dg.DagsterInstance, name: str, wrong: str) -> None:
    job = build_lakegc_definitions().resolve_job_def("gc_mark")
    cell = GcCell("alpha", "m1")
    cell.register(instance)
    config = {"ops": {"namespace_listing": {"config": {name: wrong}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match=f"config:{name} not in enum type"):
        job.execute_in_process(instance=instance, partition_key=cell.key, run_config=config)
    assert instance.get_runs() == []


def test_a_choice_under_a_step_that_takes_none_is_refused_and_does_not_count_for_nothing() -> None:
    """A longer `min_age` under another stage than the first would protect nothing, and nobody would hear of it."""
    defs = build_lakegc_definitions(LakegcConfig(backup=True, repositories=("alpha",)))
    defs_of_jobs = [*map(defs.resolve_job_def, ("gc", "gc_watch")), defs.resolve_implicit_global_asset_job_def()]
    taking = {
        node.name
        for job in defs_of_jobs
        for node in job.nodes
        if validate_config(node.definition.config_schema.config_type, {"min_age": "48h"}).success
    }
    assert taking == {"namespace_listing"}


def test_choices_that_are_left_empty_are_those_of_the_settings_file(site: Site) -> None:
    assert begin(site, "m1", {"safety": None, "rules": None}).success
    header = open_repository(site.lakegc.settings(), "alpha").artifacts("m1").header()
    assert header is not None and (header.safety, header.rules, header.mode) == ("none", "required", "auto")
