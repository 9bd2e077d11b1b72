"""In which folders lies what would go: how much is read for it, and of whom."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.answers import folders
from lakegc_core.answers.whatif import ELSEWHERE, Expected, WhatIf, Wish, whatif
from lakegc_core.config.settings import RepositoryPolicy, ScaleSettings
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.policy.facts import Amount
from lakegc_sandbox import Repository
from tests.support.lake import MIN_AGE, NOW, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = timedelta(days=40)
GONE = Wish({}, ("branch:large", "branch:small"))


def fill(served: Lake) -> Repository:
    """A branch with six objects in two folders, and one with three in one folder and one in none."""
    found = served.create("lake")
    found.set_rules(7)
    for branch, paths in {
        "large": [f"a/b/c/{number}" for number in range(4)] + ["a/x", "a/y"],
        "small": ["b/1", "b/2", "b/3", "alone"],
    }.items():
        found.create_branch(branch, "main")
        for path in paths:
            found.upload(branch, path, f"{branch} {path}".encode(), age=OLD)
        found.commit(branch, branch, date=NOW - OLD)
    return found


def marked(spark: SparkSession, served: Lake, *, entries: int = 0, origins: bool = True) -> MarkContext:
    policies = (RepositoryPolicy("lake", origins=origins),)
    opened = Lake(**{**vars(served), "policies": policies}).open("lake", scale=ScaleSettings(origin_entries=entries))
    mark = begin_mark(opened, "m1", min_age=MIN_AGE, safety_level="none")
    pipeline.mark(spark, mark)
    return mark


def counted(found: Expected) -> dict[str, int]:
    return {name: amount.objects for name, amount in found.folders.items()}


def asked(spark: SparkSession, mark: MarkContext) -> WhatIf:
    found = whatif(spark, mark, GONE)
    assert found.at_once.more.objects == 10, "the figures do not depend on folders"
    return found


def test_each_object_is_counted_in_the_folder_of_its_path_two_deep(
    quick: SparkSession, served: Lake, repository: Repository
) -> None:
    found = asked(quick, marked(quick, served))
    assert counted(found.at_once) == {"a/b/": 4, "a/": 2, "b/": 3, "": 1}
    assert sum((each for each in found.at_once.folders.values()), Amount(0, 0)) == found.at_once.more
    assert found.entries_unread == 0


def test_the_largest_ranges_are_read_first_and_the_entries_of_the_others_are_counted(
    quick: SparkSession, served: Lake, repository: Repository
) -> None:
    found = asked(quick, marked(quick, served, entries=1))
    assert counted(found.at_once) == {"b/": 3, "": 1}, "the other branch lies in ranges of 3, 2 and 1"
    assert found.entries_unread == 6


def test_folders_beyond_those_with_the_most_entries_count_together(
    quick: SparkSession, served: Lake, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_FOLDERS", 2)
    assert counted(asked(quick, marked(quick, served)).at_once) == {"a/b/": 4, "b/": 3, ELSEWHERE: 3}


def test_no_path_is_read_where_paths_are_private(quick: SparkSession, served: Lake, repository: Repository) -> None:
    found = asked(quick, marked(quick, served, origins=False))
    assert found.at_once.folders == {} and found.entries_unread == 0
