"""The verbs that answer questions: from which mark, and what they refuse."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.cli import answers, entry
from lakegc_core.config.settings import Settings
from lakegc_core.marks.context import begin_mark, open_repository
from lakegc_sandbox import Repository
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import MIN_AGE, Lake, lake, quick
from tests.support.replays import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def served(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    with lake(tmp_path, blockstore="local") as found, quick(spark):
        monkeypatch.setattr(answers, "spark_of", lambda *_, **__: spark)
        server = {
            "LAKECTL_SERVER_ENDPOINT_URL": found.server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with environment(server):
            yield found


@pytest.fixture
def repository(served: Lake) -> Repository:
    found = served.sandbox.create_repository("lake", "local://lake")
    found.set_rules(7)
    found.upload("main", "a", b"12345")
    found.commit("main", "a")
    return found


def marked(spark: SparkSession, mark_id: str) -> None:
    context = begin_mark(open_repository(Settings.load(None, os.environ), "lake"), mark_id, min_age=MIN_AGE)
    pipeline.mark(spark, context)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert entry.main([*arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_questions_are_answered_from_the_newest_mark_or_the_one_that_is_named(
    spark: SparkSession, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["du", "lake", "--quiet"]) == 1
    assert "`lakegc mark lake` makes one; it deletes nothing" in capsys.readouterr().err
    marked(spark, "m1")
    repository.upload("main", "b", b"123")
    repository.commit("main", "b")
    marked(spark, "m2")
    assert answered(capsys, "du", "lake")["objects"] == {"objects": 2, "bytes": 8}
    assert answered(capsys, "du", "lake", "--mark-id", "m1")["objects"] == {"objects": 1, "bytes": 5}
    found = answered(capsys, "whatif", "lake", "--rule", "default=3", "--rule", "main=none", "--without", "branch:x")
    assert found["rules"] == {"default": 3} and found["nothing_called_so"] == ["branch:x"]
    (told,) = answered(capsys, "explain", "lake", "lakefs://lake/main/a")["objects"]
    assert [each["name"] for each in told["holders"]] == ["branch:main"] and not told["staged"]
    assert answered(capsys, "explain", "lakefs://lake/", "lakefs://lake/main/a")["objects"] == [told]
    assert answered(capsys, "explain", "lake", told["address"])["objects"] == [told]
    physical = repository.entry("main", "a").address
    assert answered(capsys, "explain", "lake", physical)["objects"] == [told]
    assert answered(capsys, "explain", "lake", "nothing/there")["objects"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["whatif", "lake", "--rule", "14"], "--rule 14 is no rule"),
        (["whatif", "lake", "--rule", "a=1", "--rule", "a=2"], "write each rule once"),
        (["whatif", "lake", "--rule", "default=none"], "no rules without a default"),
        (["whatif", "lake", "--without", "main"], "names no branch and no tag"),
        (["du", "lake", "--together", "exp"], "names no branch and no tag"),
        (["whatif", "lake", "--rule", "mian=3"], "saw no branch called mian. A rule is of a branch, or of `default`"),
        (["whatif", "lake", "--rule", "a=none", "--rule", "b=1"], "saw no branch called a, b."),
        (["explain", "lake", ""], "Nothing is asked for: write lakefs://lake/REF/PATH"),
        (["explain", "lake", "lakefs://other/main/a"], "names no object of repository lake"),
        (["explain", "lake", "lakefs://lake/main/none"], "lakeFS shows nothing at"),
        (["explain", "lake", "s3://elsewhere/data/a"], "does not lie in local://lake"),
    ],
)
def test_what_nobody_can_mean_ends_with_2(
    spark: SparkSession, repository: Repository, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    marked(spark, "m1")
    assert entry.main([*arguments, "--quiet"]) == 2
    assert says in capsys.readouterr().err
