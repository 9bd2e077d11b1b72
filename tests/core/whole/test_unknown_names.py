"""What lies below data/ under a name that lakeFS never gives: kept and told of, collected only where that is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.names import STAGES
from lakegc_core.stages import swept_report
from lakegc_core.views.screen import mark_screen
from tests.support.lake import NOW, Lake, lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTED = (RepositoryPolicy("*", collect_unknown_names=True),)
STRANGE = {"data/raw/customers.csv": 3000, "data/raw/2024/orders.csv": 2000, "data/_SUCCESS": 0, "exports/x.csv": 500}
BELOW_DATA = {name for name in STRANGE if name.startswith("data/")}


@pytest.fixture
def served(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found, quick(spark):
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "live", b"live", age=timedelta(days=40))
        repository.upload("main", "forgotten", b"forgotten", age=timedelta(days=40))
        repository.delete("main", "forgotten")
        repository.commit("main", "old", date=NOW - timedelta(days=40))
        for name, size in STRANGE.items():
            leave(repository, name, 40, bytes(size))
        yield found


def there(served: Lake) -> set[str]:
    return {name for name in STRANGE if (served.files("lake") / name).exists()}


def marked(spark: SparkSession, served: Lake, mark_id: str, mode: str = "auto") -> tuple[MarkContext, set[str]]:
    """A mark, and which strange names it calls garbage."""
    context = served.begin("lake", mark_id, mode=mode)
    pipeline.mark(spark, context)
    return context, set(pipeline.expired_of(context)) & set(STRANGE)


def test_they_are_kept_and_the_operator_is_told_how_much_it_is_and_what_to_do(
    spark: SparkSession, served: Lake
) -> None:
    context, expired = marked(spark, served, "m0")
    assert expired == set()
    report = pipeline.review(context).report
    assert (report["objects"]["foreign"], report["bytes"]["foreign"]) == (4, 5500)
    assert (report["objects"]["unknown"], report["bytes"]["unknown"]) == (3, 5000)
    assert report["foreign_prefixes"] == [
        {"prefix": "data/raw/", "objects": 2, "bytes": 5000},
        {"prefix": "exports/", "objects": 1, "bytes": 500},
        {"prefix": "data/", "objects": 1, "bytes": 0},
    ]
    lines = mark_screen(report).splitlines()
    (told,) = [number for number, line in enumerate(lines) if "collect_unknown_names: true" in line]
    assert "below data/" in lines[told] and "5.0 kB" in lines[told]
    assert lines[told + 1].split() == ["data/raw/", "2", "objects", "5.0", "kB"]
    assert sum(report["objects"][group] for group in ("committed", "uncommitted", "foreign", "young", "expired")) == 6
    assert swept_report(spark, context).outcomes["deleted"] == 1
    assert there(served) == set(STRANGE)


def test_they_are_collected_where_lakegc_yaml_says_so(spark: SparkSession, served: Lake) -> None:
    wanting = replace(served, policies=WANTED)
    context, expired = marked(spark, wanting, "m0")
    assert expired == BELOW_DATA and context.header.collect_unknown_names
    assert swept_report(spark, context).outcomes["deleted"] == 4
    assert there(served) == {"exports/x.csv"}


def test_a_sweep_refuses_them_where_lakegc_yaml_does_not_say_so_any_more(spark: SparkSession, served: Lake) -> None:
    wanting = replace(served, policies=WANTED)
    marked(spark, wanting, "m0")
    outcomes = swept_report(spark, open_mark(served.open("lake"), "m0")).outcomes
    assert (outcomes["deleted"], outcomes["refused:foreign"]) == (1, 3)
    assert there(served) == set(STRANGE)
    outcomes = swept_report(spark, open_mark(wanting.open("lake"), "m0")).outcomes
    assert outcomes["deleted"] == 3 and there(served) == {"exports/x.csv"}


def test_a_sweep_does_not_delete_what_its_mark_was_not_made_for(spark: SparkSession, served: Lake) -> None:
    marked(spark, served, "m0")
    context = open_mark(replace(served, policies=WANTED).open("lake"), "m0")
    assert swept_report(spark, context).outcomes["deleted"] == 1
    assert there(served) == set(STRANGE)


def test_a_change_of_the_setting_needs_no_clean_mark(
    spark: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanting = replace(served, policies=WANTED)
    found = []
    for day, at in enumerate((served, wanting, served, wanting)):
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=day)).timestamp()))
        context, expired = marked(spark, at, f"m{day}", INCREMENTAL)
        found.append(expired)
        assert bool(context.mark.require(STAGES[0]).facts["rests_on"]) is bool(day)
    assert found == [set(), BELOW_DATA, set(), BELOW_DATA]


def test_a_mark_is_not_resumed_under_another_setting(served: Lake) -> None:
    served.begin("lake", "m0")
    with pytest.raises(MarkError, match="collect_unknown_names"):
        replace(served, policies=WANTED).begin("lake", "m0")


def test_with_the_gap_of_level_full_they_wait_from_the_first_mark_that_may_collect_them(
    spark: SparkSession, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanting = replace(served, policies=WANTED)
    for day, at, confirmed in ((0, served, 0), (2, wanting, 1), (4, wanting, 4)):
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=day)).timestamp()))
        context = at.begin("lake", f"m{day}", safety_level="full", min_age=timedelta(hours=25))
        pipeline.mark(spark, context)
        assert context.mark.require(STAGES[-1]).facts["confirmed"]["objects"] == confirmed
