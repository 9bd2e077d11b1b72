"""What counts at a sweep: the stricter of mark and lakegc.yaml, setting by setting, whichever of the two it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.clock import unsafe_allowed
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.marks.context import MarkContext
from lakegc_core.stages import swept_report
from lakegc_core.store.local import LocalStore
from lakegc_core.sweep import what_counts
from lakegc_core.sweep.what_counts import as_swept, check_min_age, effective_level, stricter_than_mark
from tests.support.lake import NO_SPARK, Lake, leave, quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = timedelta(hours=1)
Begin = Callable[..., MarkContext]

COUNTS = {"safety", "min_age", "protect_tags", "holds", "rules", "ignore_commits"}
COUNTS |= {"collect_unknown_names"}  # not by `as_swept`: see `swept_report.unknown_names`
NOT_THE_MARKS = {
    "blast_radius": "guards judge by lakegc.yaml as it is now",
    "match": "says whom the others are for",
    "mark": "a mark is there already",
    "sweep": "says who may ask for a sweep",
    "backup": "no mark says anything of it: lakegc.yaml alone counts, at the sweep",
    "backup_to": "where copies go",
    "drill_within": "as `backup`",
    "quarantine": "about copies: lakegc.yaml alone counts, at the sweep",
    "budget": "how much goes at once, not what",
    "rings": "how much goes before paths are read, not what",
    "keep_marks": "about marks, not data",
    "workspace": "where marks lie: another one has other marks",
    "clean_every": "about the next marks",
    "origins": "about what is told of garbage, not what is garbage",
}


@pytest.fixture
def begin(served: Lake) -> Begin:
    """Begins a mark with some options, and opens it with what lakegc.yaml says at the sweep."""

    def begun(options: dict[str, Any], **said: Any) -> MarkContext:
        context = served.begin("lake", "m1", **options)
        return replace(context, policy=RepositoryPolicy(match="*", **said))

    return begun


def test_every_setting_of_a_repository_either_counts_by_the_stricter_or_is_none_of_the_marks() -> None:
    assert {each.name for each in fields(RepositoryPolicy)} == COUNTS | NOT_THE_MARKS.keys()


LOOSE = {"safety_level": "standard", "min_age": 25 * HOUR, "protect_tags": False, "rules": "keep-all-commits"}
STRICT = {"safety_level": "full", "min_age": 48 * HOUR, "protect_tags": True, "rules": "required"}


@pytest.mark.parametrize("strict_is_the_mark", [True, False])
def test_the_stricter_counts_whichever_of_the_two_it_is(begin: Begin, strict_is_the_mark: bool) -> None:
    mark, said = (STRICT, LOOSE) if strict_is_the_mark else (LOOSE, STRICT)
    context = begin(mark, safety=said["safety_level"], **{name: said[name] for name in said if name != "safety_level"})
    strict = as_swept(context)
    assert strict.level.name == strict.header.safety == effective_level(context).name == "full"
    assert strict.header.min_age == 48 * 3600
    assert strict.header.cutoff == context.header.started_at - 48 * 3600
    assert strict.header.protect_tags
    assert strict.header.rules == "required"
    expected = [] if strict_is_the_mark else ["safety full", "min_age 48h", "protect_tags true", "rules required"]
    assert stricter_than_mark(context) == expected


def test_the_holds_of_both_count(begin: Begin) -> None:
    context = begin({}, holds=("tag:v*",))
    context = replace(context, header=replace(context.header, holds=("branch:main",)))
    assert as_swept(context).header.holds == ("branch:main", "tag:v*")
    assert stricter_than_mark(context) == ["holds tag:v*"]


def test_a_commit_is_ignored_only_if_both_say_so(begin: Begin) -> None:
    context = begin({}, ignore_commits=("b", "c"))
    context = replace(context, header=replace(context.header, ignore_commits=("a", "b")))
    assert as_swept(context).header.ignore_commits == ("b",)
    assert stricter_than_mark(context) == ["ignore_commits ['b']"]


def test_a_lakegc_yaml_that_says_nothing_leaves_the_marks_options_as_they_are(begin: Begin) -> None:
    context = begin(LOOSE)
    assert as_swept(context) == context
    assert stricter_than_mark(context) == []


def test_what_is_left_out_everywhere_is_strict(begin: Begin, served: Lake) -> None:
    header = served.begin("lake", "m2").header
    assert (header.protect_tags, header.rules) == (True, "required")


@pytest.mark.parametrize(
    ("options", "said", "sentence"),
    [
        ({"min_age": HOUR}, {}, "minimum age of 1h, .* for 24h, .*'none' demands 24h.* lakegc mark lake --min-age 24h"),
        ({"min_age": 24 * HOUR}, {"safety": "full"}, "level 'full' demands 25h.* lakegc mark lake --min-age 25h"),
        ({"min_age": HOUR}, {"min_age": 48 * HOUR}, "made with a minimum age of 1h"),
        ({"min_age": 24 * HOUR}, {}, ""),
        ({"min_age": 25 * HOUR}, {"safety": "full"}, ""),
    ],
)
def test_a_mark_below_the_grace_period_is_refused_but_for_the_unsafe(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: dict[str, Any], sentence: str
) -> None:
    context = begin(options, **said)
    check_min_age(context)
    assert unsafe_allowed()
    monkeypatch.setattr(what_counts, "unsafe_allowed", lambda: False)
    if not sentence:
        check_min_age(context)
        return
    with pytest.raises(RefusedError, match=sentence):
        check_min_age(context)


def test_a_stricter_level_demands_a_lease_that_the_marks_own_level_does_not(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = begin({}, safety="standard")
    probe = LocalStore.probe
    monkeypatch.setattr(LocalStore, "probe", lambda store: replace(probe(store), conditional_writes=False))
    with context.lease("sweep") as lease:
        assert lease is None
    with pytest.raises(SettingsError, match="has no conditional writes"), as_swept(context).lease("sweep"):
        pass


def test_a_sweep_is_refused_where_lakegc_yaml_demands_rules_that_the_mark_did_not(
    begin: Begin, served: Lake, spark: SparkSession
) -> None:
    leave(served.sandbox.repository("lake"), "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900", 30)
    context = begin({"rules": "keep-all-commits"})
    with quick(spark):
        pipeline.mark(spark, context)
        demanding = replace(context, policy=RepositoryPolicy(match="*", rules="required"))
        with pytest.raises(RefusedError, match="has no garbage collection rules"):
            swept_report(spark, demanding)


def test_a_grace_period_that_was_made_longer_since_the_mark_counts(
    begin: Begin, served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = begin({"min_age": 25 * HOUR, "safety_level": "full"})
    monkeypatch.setattr(what_counts, "unsafe_allowed", lambda: False)
    check_min_age(context)
    served.sandbox.grace_period = 48 * 3600
    with pytest.raises(RefusedError, match=r"for 48h.* --min-age 49h"):
        check_min_age(context)


def test_a_mark_of_level_none_is_read_by_anybody_and_swept_with_the_operators_word_only(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = begin({"safety_level": "none"}, safety="none")
    monkeypatch.delenv("LAKEGC_UNSAFE")
    monkeypatch.delenv("LAKEGC_NOW")
    assert effective_level(context).name == "none"
    with pytest.raises(SettingsError, match="LAKEGC_UNSAFE=yes"):
        swept_report(NO_SPARK, context, dry_run=True)
