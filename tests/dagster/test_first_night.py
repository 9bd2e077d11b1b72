"""The first night of a team: ten repositories of which all need a person's word, and one that is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest

from lakegc_dagster.config import LakegcConfig
from tests.dagster.conftest import Site, Tick, open_site
from tests.dagster.test_alerts import told
from tests.dagster.test_whole_round import leave_garbage
from tests.support.lake import quick

TEN = [f"team-{number}" for number in range(10)]
BROKEN = "broken"


@dataclass
class FirstNight:
    """The runs of the round, by repository; what people are told of them, and what the sweep sensor says then."""

    runs: dict[str, dg.ExecuteInProcessResult]
    alerts: dict[str, list[str]]
    sweeps: Tick


@pytest.fixture(scope="module")
def night(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstNight]:
    folder, options = tmp_path_factory.mktemp("first"), LakegcConfig(repositories=(*TEN, BROKEN))
    with (
        pytest.MonkeyPatch.context() as env,
        dg.DagsterInstance.ephemeral() as instance,
        open_site(folder, env, instance, options) as site,
        quick(spark),
    ):
        site.configure("  - {match: '*', safety: standard, sweep: true}\n")
        site.create(*TEN, BROKEN)
        site.server.sandbox.repository(BROKEN).delete_rules()
        for name in TEN:
            leave_garbage(site, name)
        opened = site.tick("open_round")
        runs = {
            name: site.run("gc_mark", request)
            for name, request in zip(opened.repositories, opened.requests, strict=True)
        }
        alerts = {name: alerts_of(site, result) for name, result in runs.items()}
        yield FirstNight(runs, alerts, site.tick("sweep_confirmed"))


def alerts_of(site: Site, result: dg.ExecuteInProcessResult) -> list[str]:
    """What the alert says of a run. Dagster calls it for failed ones."""
    return [] if result.success else told(site.instance, result, site.options)


@pytest.mark.slow
def test_ten_runs_are_green_and_in_each_a_yellow_check_says_why_it_is_not_swept(night: FirstNight) -> None:
    for name in TEN:
        assert night.runs[name].success
        every = night.runs[name].get_asset_check_evaluations()
        failed = {each.check_name: each for each in every if not each.passed}
        # The others were never marked before: nothing is known of what they imported from here.
        assert set(failed) == {"blast_radius", "neighbours"}
        assert {each.severity for each in failed.values()} == {dg.AssetCheckSeverity.WARN}
        assert "of lakeFS's objects" in str(failed["blast_radius"].description)


@pytest.mark.slow
def test_nobody_is_woken_for_a_persons_word_and_once_for_a_broken_repository(night: FirstNight) -> None:
    assert {name: len(said) for name, said in night.alerts.items()} == {**dict.fromkeys(TEN, 0), BROKEN: 1}
    (text,) = night.alerts[BROKEN]
    assert "has no garbage collection rules" in text.splitlines()[1]


@pytest.mark.slow
def test_the_sweep_sensor_asks_for_no_sweep_and_names_in_one_sentence_whose_word_is_missing(night: FirstNight) -> None:
    assert not night.sweeps.requests
    said = night.sweeps.skipped
    assert said.count("is stopped by blast-radius") == len(TEN)
    assert all(f"{name}: mark" in said for name in TEN)
