"""The code location loads anywhere, and says of itself what it must."""

from __future__ import annotations

import ast
import itertools
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakegc_core
from lakegc_core.errors import SettingsError
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS
from lakegc_core.sweep.deletion import OUTCOMES_SCHEMA
from lakegc_dagster import definitions
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.checks import check_name
from lakegc_dagster.config import JOBS, LakegcConfig
from lakegc_dagster.partitions import GC_PARTITIONS
from lakegc_dagster.resources import LakegcResource

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_lakefs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("ENDPOINT_URL", "CREDENTIALS_ACCESS_KEY_ID", "CREDENTIALS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"LAKECTL_{variable}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LAKEGC_CONFIG", str(tmp_path / "there-is-none.yaml"))


def test_the_definitions_load_and_validate_without_a_server_or_settings(no_lakefs: None) -> None:
    dg.Definitions.validate_loadable(build_lakegc_definitions())


def test_the_six_assets_are_partitioned_by_repository_and_mark_and_follow_one_another() -> None:
    graph = build_lakegc_definitions().resolve_asset_graph()
    names = [*STAGES, "swept_report"]
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == set(names)
    for before, name in itertools.pairwise(names):
        node = graph.get(dg.AssetKey(name))
        assert node.partitions_def == GC_PARTITIONS
        assert dg.AssetKey(before) in node.parent_keys


def test_every_asset_refers_to_the_lines_that_define_it() -> None:
    graph = build_lakegc_definitions(LakegcConfig(backup=True, repositories=("shop",))).resolve_asset_graph()
    files = {"backup": "assets/backup", "swept_report": "assets/sweep", "shop": "repository"}
    for key in graph.get_all_asset_keys():
        (reference,) = graph.get(key).metadata["dagster/code_references"].code_references
        file = files.get(key.path[-1], "assets/mark")
        assert Path(reference.file_path) == ROOT / f"lakegc_dagster/{file}.py"
        line = Path(reference.file_path).read_text().splitlines()[reference.line_number - 1]
        assert line.strip().startswith(("def ", "@")), line


def test_every_asset_that_writes_a_dataset_says_its_columns() -> None:
    specs = {spec.key.to_user_string(): spec for spec in build_lakegc_definitions().resolve_all_asset_specs()}
    columns = {
        name: [each.name for each in spec.metadata["dagster/column_schema"].columns] for name, spec in specs.items()
    }
    assert set(columns) == {*STAGES, "swept_report"}
    assert columns["namespace_listing"][:2] == ["address", "size"]
    assert columns["swept_report"] == OUTCOMES_SCHEMA.names


def test_the_page_of_every_asset_of_marks_and_sweeps_says_what_a_missing_partition_means() -> None:
    said = {spec.key.path[-1]: spec.description or "" for spec in build_lakegc_definitions().resolve_all_asset_specs()}
    assert [name for name, each in said.items() if "missing" not in each or "no mark of this id" not in each] == []
    assert not any("**" in each for each in said.values())


def test_every_step_says_what_it_does() -> None:
    defs = build_lakegc_definitions(LakegcConfig(backup=True))
    steps = [node for job in defs.resolve_all_job_defs() for node in job.nodes]
    assert [node.name for node in steps if not node.definition.description] == []


def test_every_guard_is_a_blocking_partitioned_check() -> None:
    (checks,) = build_lakegc_definitions().asset_checks or ()
    specs = {spec.name: spec for spec in checks.check_specs}
    assert set(specs) == {check_name(guard.name) for guard in GUARDS}
    assert all(spec.blocking and spec.partitions_def == GC_PARTITIONS for spec in specs.values())


def test_only_the_jobs_that_say_so_can_sweep_and_marking_includes_the_checks() -> None:
    defs = build_lakegc_definitions()
    steps = {name: {node.name for node in defs.resolve_job_def(name).nodes} for name in ("gc_mark", "gc_sweep", "gc")}
    assert steps["gc_mark"] == {*STAGES, "guards"}
    assert steps["gc_sweep"] == {"swept_report"}
    assert steps["gc"] == {*STAGES, "guards", "swept_report"}


def test_a_team_mounts_them_under_its_own_names() -> None:
    config = LakegcConfig(key_prefix=("lake", "gc"), mark_group="marks", tags={"domain": "lake"}, owners=("team:lake",))
    defs = build_lakegc_definitions(config)
    dg.Definitions.validate_loadable(defs)
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert "lake/gc/expired_addresses" in specs
    assert specs["lake/gc/namespace_listing"].group_name == "lake_gc_marks"
    assert specs["lake/gc/swept_report"].group_name == "lake_gc_sweep"
    assert all(spec.tags["domain"] == "lake" and spec.owners == ["team:lake"] for spec in specs.values())
    repository = defs.get_repository_def()
    every = [*repository.sensor_defs, *repository.schedule_defs, defs.resolve_job_def("lake_gc_gc_mark")]
    assert len(every) == 5 and all(each.tags["domain"] == "lake" for each in every)


def test_every_asset_bears_the_kind_of_the_store_that_a_team_names() -> None:
    def kinds(config: LakegcConfig) -> dict[str, set[str]]:
        specs = build_lakegc_definitions(config).resolve_all_asset_specs()
        return {spec.key.path[-1]: spec.kinds for spec in specs}

    plain = kinds(LakegcConfig(repositories=("shop",), backup=True))
    assert len(plain) == 8 and plain["shop"] == {"lakefs"} and plain["backup"] == {"pyspark"}
    named = kinds(LakegcConfig(repositories=("shop",), backup=True, store_kinds=("s3", "minio")))
    assert named == {name: {*found, "s3", "minio"} for name, found in plain.items()}


@pytest.mark.parametrize("pool", [None, "spark"])
def test_every_step_that_needs_spark_is_in_the_pool_that_a_team_names(pool: str | None) -> None:
    defs = build_lakegc_definitions(LakegcConfig(backup=True, pool=pool))
    assets = [each for each in defs.assets or () if isinstance(each, dg.AssetsDefinition) and each.is_executable]
    assert {each.key.path[-1]: each.op.pool for each in assets} == dict.fromkeys(
        [*STAGES, "backup", "swept_report"], pool
    )


def test_without_a_prefix_the_groups_have_their_plain_names() -> None:
    specs = {spec.key.to_user_string(): spec for spec in build_lakegc_definitions().resolve_all_asset_specs()}
    assert (specs["namespace_listing"].group_name, specs["swept_report"].group_name) == ("mark", "sweep")


def test_a_project_that_mounts_them_keeps_its_executor_and_their_jobs_stay_in_one_process() -> None:
    host = dg.Definitions(jobs=[dg.GraphDefinition("host").to_job()], executor=dg.multiprocess_executor)
    both = dg.Definitions.merge(host, build_lakegc_definitions(LakegcConfig(key_prefix=("lake",), backup=True)))
    dg.Definitions.validate_loadable(both)
    assert both.executor is dg.multiprocess_executor
    assert both.resolve_implicit_global_asset_job_def().executor_def is dg.multiprocess_executor
    assert {job.name for job in both.resolve_all_job_defs()} >= {f"lake_{job}" for job in JOBS}
    for job in JOBS:
        assert both.resolve_job_def(f"lake_{job}").executor_def is dg.in_process_executor, job


def test_the_ready_code_location_runs_everything_in_one_process() -> None:
    assert definitions.defs.executor is dg.in_process_executor
    assert definitions.defs.resolve_implicit_global_asset_job_def().executor_def is dg.in_process_executor


@pytest.mark.parametrize(("said", "jobs"), [(None, 0), ("", 0), ("no", 0), ("yes", 1)])
def test_the_ready_code_location_has_backups_as_an_asset_where_its_variable_says_so(
    said: str | None, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEGC_DAGSTER_BACKUP", raising=False)
    if said is not None:
        monkeypatch.setenv("LAKEGC_DAGSTER_BACKUP", said)
    found = runpy.run_module("lakegc_dagster.definitions")["defs"]
    assert [job.name for job in found.resolve_all_job_defs()].count("gc_backup") == jobs


def test_the_ready_code_location_does_not_load_where_the_variable_says_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_DAGSTER_BACKUP", "true")
    with pytest.raises(SettingsError, match="LAKEGC_DAGSTER_BACKUP must be yes or no, not 'true'"):
        runpy.run_module("lakegc_dagster.definitions")


def test_what_a_project_imports_stands_in_the_package_and_loads_nothing_before_it_is_asked_for() -> None:
    program = (
        "import sys, lakegc_dagster\n"
        "assert not {'pyspark', 'dagster'} & {name.partition('.')[0] for name in sys.modules}\n"
        "from lakegc_dagster import LakegcComponent, LakegcConfig, LakegcResource\n"
        "from lakegc_dagster import build_lakegc_definitions, failure_alert\n"
        "from lakegc_dagster import *\n"
        "from lakegc_dagster import build, config\n"
        "assert build_lakegc_definitions is build.build_lakegc_definitions and LakegcConfig is config.LakegcConfig\n"
        "assert len(lakegc_dagster.__all__) == 7\n"
        "assert not hasattr(lakegc_dagster, 'no_such_name')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_resources_can_be_replaced() -> None:
    defs = build_lakegc_definitions(resource_overrides={"lakegc": "another", "more": 1})
    assert set(defs.resources or {}) == {"lakegc", "more"}


def test_two_sets_of_them_share_a_code_location_and_a_resource() -> None:
    shared = {"lakegc": LakegcResource()}
    both = dg.Definitions.merge(
        *(build_lakegc_definitions(LakegcConfig(key_prefix=(team,)), resource_overrides=shared) for team in "ab")
    )
    dg.Definitions.validate_loadable(both)
    assert len(list(both.resolve_all_asset_specs())) == 12


def test_the_core_never_imports_dagster() -> None:
    """The collector must run where no Dagster is: on the command line, in a job of somebody else's."""
    sources = sorted(Path(lakegc_core.__path__[0]).rglob("*.py"))
    assert len(sources) > 30
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            foreign = [name for name in names if name.split(".")[0].startswith(("dagster", "lakegc_dagster"))]
            assert not foreign, f"{source.name}:{node.lineno} imports {foreign}"


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"key_prefix": ("lake", "my-lake")}, "`key_prefix` has 'my-lake': its parts become parts of names"),
        ({"key_prefix": ("",)}, "`key_prefix` has ''"),
        ({"repositories": ("shop", "web", "shop")}, "`repositories` names shop more than once"),
    ],
)
def test_names_that_dagster_would_refuse_are_refused_in_the_words_of_the_config(odd: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        LakegcConfig(**odd)


def test_runs_of_a_job_have_tags_of_their_own_of_any_text() -> None:
    config = LakegcConfig(tags={"team": "lake"}, job_tags={"gc_sweep": {"dagster-k8s/config": '{"a": {"b": 1}}'}})
    defs = build_lakegc_definitions(config)
    sweep, mark = defs.resolve_job_def("gc_sweep"), defs.resolve_job_def("gc_mark")
    assert sweep.run_tags["dagster-k8s/config"] == '{"a": {"b": 1}}' and sweep.run_tags["team"] == "lake"
    assert "dagster-k8s/config" not in mark.run_tags and mark.run_tags["team"] == "lake"
    with pytest.raises(SettingsError, match="names no job gc_swep; the jobs are gc_mark, gc_sweep"):
        LakegcConfig(job_tags={"gc_swep": {}})
