"""The verbs that answer questions: from which mark, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli import entry
from lakegc_core.marks.context import begin_mark
from tests.core.cli.conftest import Desk, seated
from tests.support.lake import MIN_AGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def marked(spark: SparkSession, desk: Desk, mark_id: str) -> None:
    pipeline.mark(spark, begin_mark(desk.repository(), mark_id, min_age=MIN_AGE))


@pytest.fixture(scope="module")
def m1(sparing: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A desk with an object and the mark m1, for questions alone."""
    with seated(tmp_path_factory.mktemp("desk")) as desk:
        desk.with_an_object()
        marked(sparing, desk, "m1")
        yield


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert entry.main([*arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_questions_are_answered_from_the_newest_mark_or_the_one_that_is_named(
    sparing: SparkSession, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = desk.with_an_object()
    assert entry.main(["du", "lake", "--quiet"]) == 1
    assert "`lakegc mark lake` makes one; it deletes nothing" in capsys.readouterr().err
    marked(sparing, desk, "m1")
    repository.upload("main", "b", b"123")
    repository.commit("main", "b")
    marked(sparing, desk, "m2")
    assert answered(capsys, "du", "lake")["objects"] == {"objects": 2, "bytes": 8}
    assert answered(capsys, "du", "lake", "--mark-id", "m1")["objects"] == {"objects": 1, "bytes": 5}
    found = answered(capsys, "whatif", "lake", "--rule", "default=3", "--rule", "main=none", "--without", "branch:x")
    assert found["rules"] == {"default": 3, "branches": {}} and found["nothing_called_so"] == ["branch:x"]
    (told,) = answered(capsys, "explain", "lake", "lakefs://lake/main/a")["objects"]
    assert [each["name"] for each in told["holders"]] == ["branch:main"] and not told["staged"]
    assert answered(capsys, "explain", "lakefs://lake/", "lakefs://lake/main/a")["objects"] == [told]
    assert answered(capsys, "explain", "lake", told["address"])["objects"] == [told]
    physical = repository.entry("main", "a").address
    assert answered(capsys, "explain", "lake", physical)["objects"] == [told]
    assert answered(capsys, "explain", "lake", "nothing/there")["objects"] == []
    for tag in ("release/1.0", "v~1", "main@", "release"):
        repository.tag(tag, "main")
        assert answered(capsys, "explain", "lake", f"lakefs://lake/{tag}/a")["objects"] == [told]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["whatif", "lake", "--rule", "14"], "--rule 14 is no rule"),
        (["whatif", "lake", "--rule", "a=1", "--rule", "a=2"], "write each rule once"),
        (["whatif", "lake", "--rule", "default=-1"], "in whole days, 0 or more"),
        (["whatif", "lake", "--rule", "main=1.5"], "in whole days, 0 or more"),
        (["whatif", "lake", "--rule", f"default={'9' * 5000}"], "of 9 digits at most"),
        (["whatif", "lake", "--rule", "default=١٤"], "in whole days, 0 or more"),
        (["whatif", "lake", "--rule", "default=none"], "no rules without a default"),
        (["whatif", "lake", "--rule", "mian=3"], "saw no branch called mian. A rule is of a branch, or of `default`"),
        (["whatif", "lake", "--rule", "a=none", "--rule", "b=1"], "saw no branch called a, b."),
        (["explain", "lake", ""], "Nothing is asked for: write lakefs://lake/REF/PATH"),
        (["explain", "lake", "lakefs://other/main/a"], "names no object of repository lake"),
        (["explain", "lake", "lakefs://lake/main/none"], "lakeFS shows nothing at"),
        (["explain", "lake", "s3://elsewhere/data/a"], "does not lie in local://lake"),
    ],
)
def test_what_nobody_can_mean_ends_with_2(
    m1: None, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert entry.main([*arguments, "--quiet"]) == 2
    assert says in capsys.readouterr().err
