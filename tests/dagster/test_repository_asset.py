"""The asset of one repository: what stands on it, and that nothing of another repository does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core.errors import SettingsError
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.repository import LAST_MARK, fresh_for
from tests.dagster.conftest import Lake, failure_of, open_lake

OTHER = "another-one"


@pytest.fixture
def lake(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    """Ten files on three branches, six of them garbage. It and another repository have assets of their own."""
    for found in open_lake("local_unified_gc", tmp_path, monkeypatch, instance):
        found.defs = build_lakegc_definitions(LakegcConfig(repositories=(found.repository, OTHER)))
        yield found


@pytest.fixture(scope="module")
def marked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Such a lake with a complete mark `m1`, swept dry. The last test that takes it sweeps it."""
    with pytest.MonkeyPatch.context() as env, dg.DagsterInstance.ephemeral() as instance:
        for found in open_lake("local_unified_gc", tmp_path_factory.mktemp("marked"), env, instance):
            found.defs = build_lakegc_definitions(LakegcConfig(repositories=(found.repository, OTHER)))
            assert found.run("gc", "m1", mark={"safety": "none"}).success
            yield found


def key(repository: str) -> dg.AssetKey:
    return dg.AssetKey(["lakefs", repository])


def check(lake: Lake, repository: str) -> Any:
    """The last evaluation of a repository's check; None if there was none."""
    found = lake.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(key(repository), LAST_MARK), limit=1
    )
    event = found[0].event.dagster_event if found and found[0].event else None
    return event.asset_check_evaluation_data if event else None


def test_a_complete_mark_materialises_the_asset_of_its_repository_alone(marked: Lake) -> None:
    event = marked.instance.get_latest_materialization_event(key(marked.repository))
    assert event and event.asset_materialization
    found = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert next(iter(found)) == "in_short" and "6 objects are garbage" in str(found["in_short"])
    assert found["garbage_objects"] == len(marked.garbage)
    assert found["sweepable_bytes"] == found["garbage_bytes"]
    assert str(found["lakefs"]).endswith(f"/repositories/{marked.repository})")
    assert list(found)[-1] == "dagster/uri" and found["dagster/uri"] == marked.recording.namespace
    assert found["mark"] == "m1" and marked.instance.get_run_by_id(str(found["run"]))
    assert marked.instance.get_latest_materialization_event(key(OTHER)) is None and check(marked, OTHER) is None
    evaluated = check(marked, marked.repository)
    numbers = {name: value.value for name, value in evaluated.metadata.items() if name != "mark"}
    assert evaluated.passed and numbers.pop("guards_that_stop") == 0
    assert numbers and numbers.items() <= found.items(), "its plots are the curves of the repository, too"


def test_launched_by_hand_the_check_judges_the_newest_complete_mark_again(marked: Lake) -> None:
    (found,) = by_hand(marked).get_asset_check_evaluations()
    assert found.passed and found.metadata["mark"].value == "m1"


def test_a_sweep_is_observed_and_a_dry_run_leaves_nothing_there(marked: Lake) -> None:
    observations = marked.instance.fetch_observations(key(marked.repository), limit=10).records
    assert observations == []
    assert marked.run("gc_sweep", "m1", sweep={"dry_run": False}).success
    (observed,) = marked.instance.fetch_observations(key(marked.repository), limit=10).records
    assert observed.asset_observation
    assert observed.asset_observation.metadata["deleted_objects"].value == len(marked.garbage)
    assert len(marked.instance.fetch_materializations(key(marked.repository), limit=10).records) == 1
    evaluated = check(marked, marked.repository)
    assert evaluated.passed and evaluated.description.startswith("swept ")
    assert f"(sweep 1): {len(marked.garbage)} objects deleted" in evaluated.description


def test_a_sweep_of_an_older_mark_does_not_change_the_check(lake: Lake) -> None:
    for mark_id in ("m1", "m2"):
        assert lake.run("gc_mark", mark_id, mark={"safety": "none"}).success
        lake.forward(60)
    before = check(lake, lake.repository)
    assert lake.run("gc_sweep", "m1", sweep={"dry_run": False}).success
    assert check(lake, lake.repository) == before and before.metadata["mark"].value == "m2"


def test_the_time_between_two_marks_is_a_number_and_a_mark_that_is_shown_again_is_no_other(lake: Lake) -> None:
    def hours() -> list[Any]:
        records = lake.instance.fetch_materializations(key(lake.repository), limit=10).records
        shown = [each.asset_materialization for each in records if each.asset_materialization]
        found = [each.metadata.get("hours_since_last_mark") for each in shown]
        return [each.value if each else None for each in found]

    assert lake.run("gc_mark", "m1", mark={"safety": "none"}).success
    lake.forward(36 * 3_600)
    for _ in range(2):
        assert lake.run("gc_mark", "m2", mark={"safety": "none"}).success
    assert hours() == [36, 36, None]
    assert lake.run("gc_mark", "m1", mark={"safety": "none"}).success
    assert hours()[0] is None, "nothing is before the first"


def test_launched_by_hand_before_there_is_a_complete_mark_the_check_says_what_to_launch(lake: Lake) -> None:
    failed = by_hand(lake)
    (step,) = [event.step_key for event in failed.all_events if event.is_step_failure]
    assert "has no complete mark. Launch gc_mark for it" in failure_of(failed, str(step))


def by_hand(lake: Lake) -> dg.ExecuteInProcessResult:
    """A run of the repository's check alone. What fails, fails in the result."""
    again = dg.define_asset_job("again", dg.AssetSelection.checks(dg.AssetCheckKey(key(lake.repository), LAST_MARK)))
    job = dg.Definitions.merge(lake.defs, dg.Definitions(jobs=[again])).resolve_job_def("again")
    return job.execute_in_process(instance=lake.instance, raise_on_error=False)


def test_a_mark_that_fails_shows_its_reason_on_its_repositorys_check_and_nowhere_else(lake: Lake) -> None:
    assert not lake.run("gc_mark", "m1", repository=OTHER).success
    found = check(lake, OTHER)
    assert not found.passed and found.severity == dg.AssetCheckSeverity.ERROR
    assert OTHER in found.description and set(found.metadata) == {"mark"}
    assert lake.instance.get_latest_materialization_event(key(OTHER)) is None, "a mark that fails makes nothing fresh"
    assert check(lake, lake.repository) is None


def test_a_guard_that_only_needs_a_persons_word_warns(lake: Lake) -> None:
    assert lake.run("gc_mark", "m1", mark={"safety": "full"}).success
    found = check(lake, lake.repository)
    assert not found.passed and found.severity == dg.AssetCheckSeverity.WARN
    assert "blast-radius: " in found.description and found.metadata["guards_that_stop"].value >= 1


def test_a_name_that_no_repository_can_have_is_refused() -> None:
    with pytest.raises(SettingsError, match="is no name of a lakeFS repository"):
        LakegcConfig(repositories=("No_Such",))


def test_without_names_there_is_no_such_asset() -> None:
    keys = build_lakegc_definitions().resolve_asset_graph().get_all_asset_keys()
    assert not [each for each in keys if each.path[0] == "lakefs"]


@pytest.mark.parametrize(
    ("round_cron", "hours"), [("0 2 * * *", 24 + 6), ("0 2 * * 1", 7 * 24 + 6), ("0 2,14 * * *", 12 + 6)]
)
def test_a_repository_is_fresh_from_one_round_until_the_watch_after_the_next(round_cron: str, hours: int) -> None:
    assert fresh_for(LakegcConfig(round_cron=round_cron)) == (timedelta(hours=hours - 3), timedelta(hours=hours))


@pytest.mark.parametrize("round_cron", ["*/15 * * * *", "0 * * * *", "0 */4 * * *", "0 8 * * *"])
def test_rounds_that_fall_on_the_minute_of_the_watch_load(round_cron: str) -> None:
    warns, fails = fresh_for(LakegcConfig(round_cron=round_cron))
    assert timedelta() < warns < fails
    assert build_lakegc_definitions(LakegcConfig(round_cron=round_cron, repositories=(OTHER,)))


def test_assets_of_two_teams_have_keys_of_their_own() -> None:
    both = [
        build_lakegc_definitions(LakegcConfig(key_prefix=(team,), repositories=("shop",))) for team in ("red", "blue")
    ]
    graph = dg.Definitions.merge(*both).resolve_asset_graph()
    assert {
        dg.AssetKey(["red", "lakefs", "shop"]),
        dg.AssetKey(["blue", "lakefs", "shop"]),
    } <= graph.get_all_asset_keys()
