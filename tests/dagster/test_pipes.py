"""Marks and sweeps in an external process, which Dagster's own Pipes client launches on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from lakegc_core.errors import LakegcError, MarkError, RefusedError, ServerError, SettingsError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks.context import open_mark
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS
from lakegc_core.sweep.result import SweepResult
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GC_PARTITIONS, GcCell
from lakegc_dagster.pipes.external import carry_out
from lakegc_dagster.pipes.launching import Elsewhere, Launch, sent_settings
from lakegc_dagster.pipes.messages import Order, failed, value_of
from lakegc_dagster.resources import LakegcResource
from tests.dagster.conftest import SECRET, Lake, failure_of, open_lake
from tests.support.dg_project import TYPE, new_project
from tests.support.lake import QUICK

ROOT = Path(__file__).parents[2]
EXTERNAL = [sys.executable, "-m", "lakegc_dagster.pipes"]
ORDER = Order("sweep", "demo", "m1", "{}", digest="ab", dry_run=False, accepted={"blast-radius": "meant"})
_ANEW = {
    "artifact_bytes",
    "artifacts",
    "digest",
    "datasets",
    "finished_at",
    "mark_started_at",
    "rows_per_second",
    "seconds",
}
"""What two marks of the same state never have in common."""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    """Ten files on three branches, six of them garbage. This process never starts Spark for it."""
    yield from open_lake("local_unified_gc", tmp_path, monkeypatch, instance)


def running(command: list[str], **env: str) -> Launch:
    """A launch of this command by Dagster's client for processes of this machine."""

    def launch(context: dg.AssetExecutionContext, extras: dict[str, Any]) -> dg.PipesClientCompletedInvocation:
        client = dg.PipesSubprocessClient(cwd=str(ROOT), env=env)
        return client.run(context=context, extras=extras, command=command)

    return launch


def launched_by(lake: Lake, launch: Launch, **options: Any) -> Lake:
    """The lake, its work in the external process of `launch`."""
    lake.defs = build_lakegc_definitions(LakegcConfig(**options), launch=launch)
    return lake


def program(text: str, **env: str) -> Launch:
    """A launch of a Python program that stands in for the external process."""
    return running([sys.executable, "-c", text], **env)


def shown(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, dg.MetadataValue[Any]]:
    (event,) = [each for each in result.get_asset_materialization_events() if each.asset_key == dg.AssetKey(asset)]
    return dict(event.materialization.metadata)


def test_a_process_that_is_killed_fails_the_step_at_once_with_a_sentence(lake: Lake) -> None:
    result = launched_by(lake, running(["sh", "-c", "kill -9 $$"])).run("gc_mark", "m1", mark={"safety": "none"})
    assert not result.success
    said = failure_of(result, "namespace_listing").splitlines()
    assert said[0].startswith("The external process for namespace_listing of mark m1 of ") and "broke off: " in said[0]
    assert "code -9" in said[0]
    assert not [event for event in result.all_events if event.is_step_up_for_retry]
    assert not result.get_asset_materialization_events()


def test_a_process_that_ends_well_and_says_nothing_fails_the_step(lake: Lake) -> None:
    result = launched_by(lake, running(["true"])).run("gc_mark", "m1", mark={"safety": "none"})
    assert not result.success
    assert "ended without a word" in failure_of(result, "namespace_listing").splitlines()[0]
    assert not result.get_asset_materialization_events()


_COMPONENT = f"""
type: {TYPE}
template_vars_module: .variables
attributes:
  launch: "{{{{ elsewhere }}}}"
"""
_VARIABLES = """
import dagster as dg

@dg.template_var
def elsewhere():
    def launch(context, extras):
        return dg.PipesSubprocessClient().run(context=context, extras=extras, command=["sh", "-c", "exit 7"])
    return launch
"""


def test_a_component_of_a_project_launches_by_a_template_variable(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = new_project(tmp_path / "project", monkeypatch)
    project.write("a", _COMPONENT)
    (project.folder / "a" / "variables.py").write_text(_VARIABLES)
    lake.defs = project.load()
    result = lake.run("gc_mark", "m1", mark={"safety": "none"})
    assert "code 7" in failure_of(result, "namespace_listing").splitlines()[0]


def test_a_process_that_reports_by_pipes_what_the_mark_does_not_hold_fails_the_step(lake: Lake) -> None:
    liar = (
        "from dagster_pipes import open_dagster_pipes\n"
        "from lakegc_dagster.pipes.messages import Order\n"
        "with open_dagster_pipes() as dagster:\n"
        "    dagster.report_asset_materialization(metadata={'dagster/row_count': 7})\n"
        "    answer = Order.of_extras(dagster.extras).done({'digest': 'f' * 64, 'resumed': False})\n"
        "    dagster.report_custom_message(answer)\n"
    )
    result = launched_by(lake, program(liar)).run("gc_mark", "m1", mark={"safety": "none"})
    assert not result.success
    assert "does not hold what it reported" in failure_of(result, "namespace_listing")
    assert not result.get_asset_materialization_events()


def test_a_process_without_a_key_of_lakefs_says_so_in_the_steps_first_line(lake: Lake, tmp_path: Path) -> None:
    launch = running(EXTERNAL, LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY="", HOME=str(tmp_path))
    result = launched_by(lake, launch).run("gc_mark", "m1", mark={"safety": "none"})
    assert not result.success
    said = failure_of(result, "namespace_listing")
    assert said.startswith("lakeFS cannot be asked without a secret access key")
    assert not [event for event in result.all_events if event.is_step_up_for_retry], "a setting does not mend itself"


def test_no_sweep_is_launched_that_dagster_has_not_authorised(lake: Lake, tmp_path: Path) -> None:
    trace = tmp_path / "launched"
    before = lake.objects()
    result = launched_by(lake, running(["touch", str(trace)])).run("gc_sweep", "m1", sweep={"dry_run": False})
    assert "has no mark m1" in failure_of(result, "swept_report")
    assert not trace.exists() and lake.objects() == before


def test_what_the_platform_says_of_its_job_is_shown_with_the_asset(instance: dg.DagsterInstance) -> None:
    """Such as the id and the page of a job; lakegc's own entries stay beside it."""
    answering = (
        "from dagster_pipes import open_dagster_pipes\n"
        "from lakegc_dagster.pipes.messages import Order\n"
        "with open_dagster_pipes() as dagster:\n"
        "    dagster.report_custom_message(Order.of_extras(dagster.extras).done({'digest': 'ab'}))\n"
    )

    def launch(context: dg.AssetExecutionContext, extras: dict[str, Any]) -> dg.PipesClientCompletedInvocation:
        done = program(answering)(context, extras)
        return dg.PipesClientCompletedInvocation(done._session, metadata={"job": "j-1"})

    @dg.asset(partitions_def=GC_PARTITIONS)
    def stage(context) -> dg.MaterializeResult[None]:  # Dagster reads an annotation itself, and no late one
        return dg.MaterializeResult(metadata=Elsewhere(launch)._carry_out(context, ORDER))

    cell = GcCell("demo", "m1")
    cell.register(instance)
    result = dg.materialize([stage], partition_key=cell.key, instance=instance)
    assert {name: value.value for name, value in shown(result, "stage").items()} == {"job": "j-1", "digest": "ab"}


def test_the_settings_that_travel_are_those_of_the_step_without_spark_and_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("THEIR_SECRET", SECRET)
    file = tmp_path / "lakegc.yaml"
    file.write_text(
        "spark: {conf: {spark.hadoop.fs.s3a.secret.key: hidden-4711}}\n"
        "repositories: [{match: '*', safety: standard, min_age: 30h}]\n"
    )
    lakegc = LakegcResource(
        config_file=str(file), endpoint_url="https://lake.example.com", access_key_id="AK", secret_access_key=SECRET
    )
    sent = sent_settings(lakegc)
    assert yaml.safe_load(sent) == {
        "repositories": [{"match": "*", "safety": "standard", "min_age": "30h"}],
        "server": {"endpoint_url": "https://lake.example.com"},
    }
    assert SECRET not in sent and "hidden" not in sent


def test_without_a_file_of_settings_only_the_endpoint_travels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LAKEGC_CONFIG", raising=False)
    sent = sent_settings(LakegcResource(endpoint_url="https://lake.example.com"))
    assert yaml.safe_load(sent) == {"server": {"endpoint_url": "https://lake.example.com"}}


def test_an_order_and_its_answer_travel_as_json() -> None:
    assert Order.of_extras(json.loads(json.dumps(ORDER.as_extras()))) == ORDER
    answer = json.loads(json.dumps(ORDER.done({"digest": "cd"})))
    assert ORDER.answer_in(["noise", {"other": 1}, answer]) == {"digest": "cd"}
    another = Order("sweep", "demo", "m2", "{}").done({"digest": "ef"})
    assert ORDER.answer_in([another]) is None and ORDER.answer_in([]) is None
    assert ORDER.answer_in([failed(MarkError("first try")), answer]) == {"digest": "cd"}, "the last one counts"


@pytest.mark.parametrize("error", [RefusedError("no"), SettingsError("no"), MarkError("no"), ServerError("no")])
def test_an_error_comes_back_as_itself(error: LakegcError) -> None:
    with pytest.raises(type(error), match=r"^no$") as caught:
        ORDER.answer_in([json.loads(json.dumps(failed(error)))])
    assert type(caught.value) is type(error)


def test_an_error_of_lakefs_comes_back_with_its_status() -> None:
    with pytest.raises(LakeFSError) as caught:
        ORDER.answer_in([failed(LakeFSError("lakeFS answers 403", 403))])
    assert (str(caught.value), caught.value.status) == ("lakeFS answers 403", 403)


def test_what_is_no_order_and_no_result_of_this_version_is_refused() -> None:
    with pytest.raises(SettingsError, match="has no order"):
        Order.of_extras({})
    with pytest.raises(SettingsError, match="same version"):
        Order.of_extras({"lakegc": {"verb": "sweep", "colour": "red"}})
    with pytest.raises(MarkError, match="same version"):
        value_of(SweepResult, {"repository": "demo"})


def test_the_module_says_who_launches_it_when_dagster_did_not() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("DAGSTER_PIPES")}
    done = subprocess.run(EXTERNAL, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Dagster launches this module" in done.stderr


def test_the_external_process_loads_no_dagster() -> None:
    text = (
        "import sys, lakegc_dagster.pipes.external\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "assert 'dagster_pipes' in found and 'dagster' not in found\n"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Twice:
    """One lake, marked in the process of the step (m1) and in external ones (m2)."""

    lake: Lake
    before: set[str]
    here: dg.ExecuteInProcessResult
    there: dg.ExecuteInProcessResult


@pytest.fixture(scope="module")
def twice(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twice]:
    folder, mark = tmp_path_factory.mktemp("twice"), {"safety": "none", "mode": "clean"}
    own = folder / "external.yaml"
    own.write_text(yaml.safe_dump({"spark": {"master": "local[1]", "conf": QUICK}}))
    with pytest.MonkeyPatch.context() as env, dg.DagsterInstance.ephemeral() as instance:
        for lake in open_lake("local_unified_gc", folder, env, instance):
            before = lake.objects()
            here = lake.run("gc_mark", "m1", mark=mark)
            launched_by(lake, running(EXTERNAL, LAKEGC_CONFIG=str(own)))
            yield Twice(lake, before, here, lake.run("gc_mark", "m2", mark=mark))


@pytest.mark.slow
def test_a_mark_by_pipes_is_the_same_mark_with_the_same_metadata_and_checks(twice: Twice) -> None:
    assert twice.here.success and twice.there.success
    lakegc = LakegcResource()
    marks = {
        name: open_mark(lakegc.open(GcCell(twice.lake.repository, name), lambda text: None), name)
        for name in ("m1", "m2")
    }
    key = str(GcCell(twice.lake.repository, "m2").key)
    for stage in STAGES:
        one, other = (marks[name].mark.require(stage) for name in ("m1", "m2"))
        assert (one.rows, set(one.datasets)) == (other.rows, set(other.datasets))
        here, there = shown(twice.here, stage), shown(twice.there, stage)
        assert set(here) == set(there) and next(iter(there)) == "in_short"
        assert all(type(there[name]) is type(here[name]) for name in here)
        different = {name: (here[name], there[name]) for name in here if here[name] != there[name]}
        assert different.keys() - _ANEW <= {"resumed"}, different
        assert there["resumed"].value is (stage != STAGES[0]), "one process made all of them"
    done = twice.there.get_asset_materialization_events()
    assert {str(event.partition) for event in done} == {key}
    assert {check.check_name for check in twice.there.get_asset_check_evaluations()} == {
        guard.name.replace("-", "_") for guard in GUARDS
    }
    assert list(twice.lake.root.rglob("m2/report.html")), "the mark's page is published"


@pytest.mark.slow
def test_the_external_process_sweeps_no_other_mark_than_the_authorised_one(twice: Twice) -> None:
    order = Order("sweep", twice.lake.repository, "m2", sent_settings(LakegcResource()), digest="ab", dry_run=False)
    with pytest.raises(RefusedError, match=r"its digest differs\. Nothing was deleted"):
        carry_out(order, print)
    with pytest.raises(SettingsError, match="knows no order 'burn'"):
        carry_out(replace(order, verb="burn"), print)
    assert twice.lake.objects() == twice.before


@pytest.mark.slow
def test_a_sweep_by_pipes_deletes_exactly_the_garbage_and_shows_it(twice: Twice) -> None:
    some = twice.lake.run("gc_sweep", "m2", sweep={"dry_run": False, "most_objects": 2})
    assert some.success and shown(some, "swept_report")["deleted"].value == 2, "within its budget"
    swept = twice.lake.run("gc_sweep", "m2", sweep={"dry_run": False})
    assert swept.success, failure_of(swept, "swept_report")
    assert twice.before - twice.lake.objects() == twice.lake.garbage
    assert shown(swept, "swept_report")["deleted"].value == len(twice.lake.garbage) - 2
