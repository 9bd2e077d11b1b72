"""The job that asks what keeps the objects of a repository: what it shows, where, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core.policy.scenarios import POINTS
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.metadata.shown import records
from lakegc_dagster.partitions import GcCell
from tests.dagster.conftest import Site, failure_of, open_site
from tests.dagster.test_upkeep import metadata


@pytest.fixture
def site(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Site]:
    """Two repositories, of which one has an asset of its own. `main` shows 1 byte, and replaced 1,000 a month ago."""
    with open_site(tmp_path, monkeypatch, instance, LakegcConfig(repositories=("alpha",))) as found:
        for name in ("alpha", "beta"):
            repository = found.server.sandbox.create_repository(name, age=timedelta(days=100))
            for data, days in ((b"1" * 1_000, 40), (b"2", 30)):
                repository.upload("main", "a", data, age=timedelta(days=days))
                repository.commit("main", "a", date=datetime.now(UTC) - timedelta(days=days))
            repository.set_rules(60, {"main": 90})
        yield found


def ask(site: Site, repository: str) -> dg.ExecuteInProcessResult:
    return site.run("gc_answers", run_config={"ops": {"answers": {"config": {"repository": repository}}}})


def rows(table: dg.TableMetadataValue) -> list[dict[str, Any]]:
    return [dict(record.data) for record in table.records]


def mark(site: Site, repository: str) -> None:
    cell = GcCell(repository, "m1")
    cell.register(site.instance)
    assert site.run("gc_mark", partition_key=cell.key).success


def test_the_curve_of_each_rule_and_the_largest_keepers_are_tables_of_the_run_and_of_the_repository(site: Site) -> None:
    mark(site, "alpha")
    before = site.files("alpha")
    result = ask(site, "alpha")
    assert result.success
    found = metadata(result, "answers")
    assert found["answers_of_mark"] == "m1" and found["rules"] == 2
    curve = {row["days"]: (row["objects"], row["bytes"]) for row in rows(found["kept_by_days_of_branch:main"])}
    assert list(curve) == [*map(str, POINTS), "for ever"]
    assert curve["1"] == (1, 1) and curve["90"] == curve["for ever"] == (2, 1_001)
    assert len(rows(found["kept_by_days_of_default"])) == len(curve)
    (keeper,) = rows(found["largest_keepers"])
    assert (keeper["kept by"], keeper["bytes"], keeper["shows"]) == ("branch:main", 1_001, "1 B")
    (observed,) = site.instance.fetch_observations(site.options.repository_key("alpha"), limit=10).records
    assert observed.asset_observation
    shown = {name: value.value for name, value in observed.asset_observation.metadata.items()}
    assert shown.pop("answered_in") == result.run_id
    assert shown.items() == found.items(), "no entry hides what the mark itself said"
    assert site.files("alpha") == before


def test_a_repository_without_an_asset_of_its_own_is_answered_in_the_run_alone(site: Site) -> None:
    mark(site, "beta")
    result = ask(site, "beta")
    assert metadata(result, "answers")["largest_keepers"].records
    assert result.get_asset_observation_events() == []


def test_without_a_complete_mark_or_a_repository_nothing_is_asked(site: Site) -> None:
    assert "has no complete mark. Launch gc_mark for it" in failure_of(ask(site, "alpha"), "answers")
    with pytest.raises(dg.DagsterInvalidConfigError, match="repository"):
        site.run("gc_answers")


def test_a_long_table_says_in_its_last_row_how_many_rows_are_left_out() -> None:
    every = [(f"branch:b{number}", number) for number in range(33)]
    found = rows(records(("kept by", "objects"), iter(every), ("string", "int")))
    assert [(row["kept by"], row["objects"]) for row in found[:-1]] == every[: len(found) - 1]
    assert found[-1] == {"kept by": f"… and {33 - len(found[:-1])} more", "objects": None}
    assert [*rows(records(("kept by", "objects"), every[:20]))[-1].values()] == ["branch:b19", 19]
