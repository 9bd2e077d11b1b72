"""lakegc as a component of a `dg` project: found, scaffolded, loaded from yaml, and one for each lakeFS."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value
from dagster.components.core.package_entry import get_package_objects_in_module

from lakegc_core.errors import LakegcError, SettingsError
from lakegc_dagster import LakegcComponent, LakegcConfig, LakegcResource, build_lakegc_definitions
from lakegc_dagster.component import LakegcScaffolder
from lakegc_sandbox import Sandbox, SandboxServer
from tests.dagster.conftest import SECRET
from tests.support.dg_project import KEYS, TYPE, Project, new_project, package_metadata, tick

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable in list(os.environ):
        if variable.startswith(("LAKECTL_", "LAKEGC_CONFIG")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody's ~/.lakectl.yaml
    return new_project(tmp_path / "project", monkeypatch)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """One that a tick can open by itself, as a code server does."""
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        yield instance


def env(prefix: str) -> str:
    """Attributes that name a server by the variables of a prefix."""
    lines = [f'{key}: "{{{{ env.{prefix.upper()}_{key.upper()} }}}}"' for key in KEYS]
    return "\n".join([f"key_prefix: [{prefix}]", *lines])


def names(defs: dg.Definitions) -> dict[str, set[str]]:
    """All that definitions define, by kind."""
    repository, graph = defs.get_repository_def(), defs.resolve_asset_graph()
    return {
        "assets": {key.to_user_string() for key in graph.get_all_asset_keys()},
        "checks": {key.to_user_string() for key in graph.asset_check_keys},
        "jobs": set(repository.job_names),
        "sensors": {each.name for each in repository.sensor_defs},
        "schedules": {each.name for each in repository.schedule_defs},
        "resources": set(repository.get_top_level_resources()),
    }


def given(defs: dg.Definitions, prefix: str) -> LakegcResource:
    found = (defs.resources or {})[f"lakegc_{prefix}"]
    assert isinstance(found, LakegcResource)
    return found


def of_the_docs(language: str, containing: str) -> list[str]:
    text = (ROOT / "docs" / "dagster.md").read_text(encoding="utf-8")
    return [block for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if containing in block]


def test_dg_finds_the_component_under_its_short_name(tmp_path: Path) -> None:
    (entry,) = Distribution.at(package_metadata(tmp_path)).entry_points.select(group="dagster_dg_cli.registry_modules")
    assert dict(get_package_objects_in_module(entry.load())) == {"LakegcComponent": LakegcComponent}
    assert f"{entry.value}.LakegcComponent" == TYPE


def test_the_yaml_of_the_docs_gives_what_the_python_of_a_team_gives(project: Project) -> None:
    text, *_ = of_the_docs("yaml", TYPE)
    project.write("analytics", text)
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    assert names(defs) == names(build_lakegc_definitions(LakegcConfig(key_prefix=("analytics",))))


def test_every_option_of_the_definitions_is_an_attribute_with_the_same_default() -> None:
    options = {each.name for each in fields(LakegcConfig)}
    attributes = {each.name for each in fields(LakegcComponent)}
    assert attributes - options == {*LakegcResource.model_fields, "launch", "translation"}
    assert options - attributes == {"translator"}, "which `translation` stands for"
    assert LakegcComponent().options == LakegcConfig()


def test_attributes_reach_the_definitions(project: Project) -> None:
    labels = "tags: {domain: lake}\nowners: ['team:lake']\nstore_kinds: [s3]"
    project.add("a", f"key_prefix: [lake]\nbackup: true\n{labels}\nround_cron: 1 2 * * *")
    defs = project.load()
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert specs["lake/backup"].owners == ["team:lake"] and specs["lake/backup"].tags["domain"] == "lake"
    assert all("s3" in spec.kinds for spec in specs.values())
    config = LakegcConfig(
        ("lake",), backup=True, tags={"domain": "lake"}, owners=("team:lake",), round_cron="1 2 * * *"
    )
    assert names(defs) == names(build_lakegc_definitions(config))


def test_the_translation_of_the_docs_gives_assets_other_names_and_labels(project: Project) -> None:
    _, _, text = of_the_docs("yaml", TYPE)
    project.write("analytics", text)
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    assert len(specs) == 6 and {spec.group_name for spec in specs.values()} == {"storage"}
    found = specs["platform/lake/swept_report"]
    assert found.owners == ["team:storage"] and found.tags["stage"] == "swept_report"
    assert found.kinds == {"pyspark", "parquet"}
    assert {dep.asset_key.to_user_string() for dep in found.deps} == {"platform/lake/expired_addresses"}


def test_a_store_comes_from_a_template_variable_as_the_docs_show_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text, _ = of_the_docs("yaml", TYPE)
    (variables,) = of_the_docs("python", "template_var")
    project.write("analytics", text)
    (project.folder / "analytics" / "variables.py").write_text(variables)
    defs = project.load()  # though nobody has set the variables
    monkeypatch.setenv("S3_KEY_ID", "AKIATEAM")
    monkeypatch.setenv("S3_SECRET", SECRET)
    with dg.build_resources({"lakegc": given(defs, "analytics")}) as resources:
        found = resources.lakegc.settings().s3
    assert (found.endpoint_url, found.secret_access_key) == ("https://s3.example.com", SECRET)
    assert SECRET not in serialize_value(RepositorySnap.from_def(defs.get_repository_def()))


def test_spark_settings_come_from_a_template_variable(project: Project) -> None:
    project.write("a", f'type: {TYPE}\ntemplate_vars_module: .variables\nattributes: {{pyspark: "{{{{ spark }}}}"}}')
    (project.folder / "a" / "variables.py").write_text(
        "import dagster as dg\nfrom dagster_pyspark import LazyPySparkResource\n"
        "@dg.template_var\ndef spark():\n    return LazyPySparkResource(spark_config={'spark.ui.port': '4711'})\n"
    )
    (resource,) = (project.load().resources or {}).values()
    assert resource.pyspark.spark_config == {"spark.ui.port": "4711"}


def test_a_text_where_an_object_belongs_is_refused_with_what_to_write(project: Project) -> None:
    project.add("a", "launch: my_project.launch")
    said = project.fails()
    assert "takes the value of a template variable" in said and "'my_project.launch'" in said


def test_a_project_keeps_its_executor_and_lakegcs_jobs_stay_in_one_process(project: Project) -> None:
    project.add("a", "key_prefix: [lake]")
    defs = dg.Definitions.merge(project.load(), dg.Definitions(executor=dg.multiprocess_executor))
    assert defs.resolve_implicit_global_asset_job_def().executor_def is dg.multiprocess_executor
    assert defs.resolve_job_def("lake_gc_mark").executor_def is dg.in_process_executor


def test_a_misspelt_attribute_is_named_with_its_line(project: Project) -> None:
    project.add("a", "key_prefix: [lake]\nround_crn: 0 2 * * *")
    said = project.fails()
    assert f"attributes.round_crn at {project.folder}/a/defs.yaml:4" in said
    assert "Extra inputs are not permitted" in said


def test_a_cron_expression_that_is_none_is_told_when_the_project_loads(project: Project) -> None:
    project.add("a", "round_cron: sometimes")
    assert "`round_cron` must be a cron expression" in project.fails()


def test_secrets_are_read_when_a_step_begins_and_are_in_no_definition(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RED_SECRET_ACCESS_KEY", SECRET)
    project.add("red", env("red"))
    defs = project.load()  # though nobody has set the other two
    snapshot = serialize_value(RepositorySnap.from_def(defs.get_repository_def()))
    assert "RED_SECRET_ACCESS_KEY" in snapshot and SECRET not in snapshot + repr(defs.resources)
    monkeypatch.setenv("RED_ENDPOINT_URL", "https://red.example.com/api/v1")
    monkeypatch.setenv("RED_ACCESS_KEY_ID", "AKIARED")
    with dg.build_resources({"lakegc": given(defs, "red")}) as resources:
        server = resources.lakegc.settings().server
        assert SECRET not in repr(resources.lakegc)
    assert (server.endpoint_url, server.access_key_id) == ("https://red.example.com", "AKIARED")
    assert server.secret_access_key == SECRET


def test_a_secret_that_stands_in_the_yaml_is_refused_and_not_repeated(project: Project) -> None:
    project.add("a", f"secret_access_key: {SECRET}")
    said = project.fails()
    assert "`secret_access_key` must be an environment variable" in said and SECRET not in said


@pytest.mark.parametrize("empty", KEYS)
def test_a_variable_that_is_empty_does_not_lead_to_the_lakefs_of_lakectl(
    project: Project, monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    for key, variable in zip(
        KEYS, ("SERVER_ENDPOINT_URL", "CREDENTIALS_ACCESS_KEY_ID", "CREDENTIALS_SECRET_ACCESS_KEY"), strict=True
    ):
        monkeypatch.setenv(f"LAKECTL_{variable}", "https://other.example.com")
        monkeypatch.setenv(f"RED_{key.upper()}", "" if key == empty else "https://red.example.com")
    project.add("red", env("red"))
    with dg.build_resources({"lakegc": given(project.load(), "red")}) as resources:
        server = resources.lakegc.settings().server
    assert getattr(server, empty) == ""
    with pytest.raises(SettingsError, match="lakeFS cannot be asked without"):
        server.require()


def test_one_key_of_two_is_refused() -> None:
    for half in ({"access_key_id": "AKIARED"}, {"secret_access_key": SECRET}):
        with pytest.raises(SettingsError, match="give both or neither"):
            LakegcResource(**half).settings()


def test_the_settings_file_lies_beside_the_yaml(project: Project) -> None:
    project.add("red", "key_prefix: [red]\nconfig_file: lakegc.yaml")
    (project.folder / "red" / "lakegc.yaml").write_text("server: {endpoint_url: 'https://red.example.com'}\n")
    assert given(project.load(), "red").settings().server.endpoint_url == "https://red.example.com"


def test_a_lakefs_that_is_down_breaks_a_tick_and_no_loading(
    project: Project, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    project.add("red", env("red"))
    for key in KEYS:
        monkeypatch.setenv(f"RED_{key.upper()}", f"http://127.0.0.1:{port}")
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    with pytest.raises(LakegcError, match=str(port)):
        tick(defs, "red_open_round", instance)


@pytest.fixture
def two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, SandboxServer]]:
    """Two lakeFS servers, each with keys that the other does not know."""
    servers = {}
    for team in ("red", "blue"):
        sandbox = Sandbox(tmp_path / team, seed=1)
        servers[team] = SandboxServer(sandbox, access_key=f"AKIA{team}", secret_key=f"{team}-{SECRET}")
    with servers["red"], servers["blue"]:
        for team, server in servers.items():
            for key, value in zip(KEYS, (server.url, server.access_key, server.secret_key), strict=True):
                monkeypatch.setenv(f"{team.upper()}_{key.upper()}", value)
        yield servers


def test_two_servers_in_one_location_share_no_name_and_each_is_asked_with_its_own_keys(
    project: Project, two_servers: dict[str, SandboxServer], instance: dg.DagsterInstance
) -> None:
    repositories = {"red": ["analytics", "web"], "blue": ["analytics", "legal"]}
    for team, server in two_servers.items():
        project.add(team, env(team))
        for name in repositories[team]:
            server.sandbox.create_repository(name)
    defs = project.load()
    dg.Definitions.validate_loadable(defs)
    apart = [names(build_lakegc_definitions(LakegcConfig(key_prefix=(team,)))) for team in repositories]
    for kind, found in names(defs).items():
        assert found == apart[0][kind] | apart[1][kind], kind
    for team, expected in repositories.items():
        result = tick(defs, f"{team}_open_round", instance)
        found = [request.tags["lakegc/repository"] for request in result.run_requests or []]
        assert found == expected
        adds = [each.partitions_def_name for each in result.dynamic_partitions_requests or []]
        assert adds == [f"{team}_lakegc_repository", f"{team}_lakegc_mark"]


def test_a_job_of_the_one_asks_the_lakefs_of_the_one_alone(
    project: Project, two_servers: dict[str, SandboxServer], instance: dg.DagsterInstance
) -> None:
    for team, server in two_servers.items():
        project.add(team, env(team))
        server.sandbox.create_repository(f"of-{team}")
    run = project.load().resolve_job_def("blue_gc_watch").execute_in_process(instance=instance)
    assert run.success
    assert two_servers["blue"].requests and not two_servers["red"].requests


@pytest.mark.parametrize("folder", ["analytics", "red-team", "2nd"])
def test_what_is_scaffolded_loads_and_is_called_after_its_folder(project: Project, folder: str) -> None:
    target = project.folder / folder
    target.mkdir()
    scaffold(target, append=False)
    written = (target / "defs.yaml").read_text()
    assert len(written.split("\n")) <= 9
    name = folder.replace("-", "_")
    assert f"LAKEFS_{name.upper()}_SECRET_ACCESS_KEY" in written
    assert f"{name}_gc_mark" in names(project.load())["jobs"]


def test_a_component_is_scaffolded_below_another_in_one_file(project: Project) -> None:
    project.add("red", "key_prefix: [first]")
    scaffold(project.folder / "red" / "defs.yaml", append=True)
    assert {"first_gc_mark", "red_gc_mark"} <= names(project.load())["jobs"]


def scaffold(target: Path, *, append: bool) -> None:
    request: Any = dg.ScaffoldRequest(
        type_name=TYPE, target_path=target, scaffold_format="yaml", project_root=None, params=None, append=append
    )
    LakegcScaffolder().scaffold(request)
