"""The repositories that refer to an object are named, as their newest marks tell."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lakegc_core.answers.explain import explain
from lakegc_core.answers.workers import Little
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import open_mark
from tests.core.answers.conftest import not_needed
from tests.support.lake import NOW, Lake
from tests.support.neighbourhood import garbage, imported, mark, neighbourhood

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names(served: Lake, key: str, mark_id: str = "m1") -> tuple[str, ...]:
    (found,) = explain(not_needed, open_mark(served.open("lake"), mark_id), key).objects
    assert found.neighbour
    return found.neighbours


def test_those_repositories_are_named_whose_newest_marks_refer_to_an_object(
    small: SparkSession, tmp_path: Path
) -> None:
    with neighbourhood(tmp_path) as served:
        one, both, other = (garbage(served, number) for number in (1, 2, 3))
        near = served.create("near")
        near.set_rules(1)
        near.create_branch("old", "main")
        imported(served, one, both)
        imported(served, both, name="near")
        imported(served, other, branch="old", path="b", name="near")
        for name, mark_id in (("far", "f1"), ("near", "n1"), ("lake", "m1")):
            mark(small, served, name, mark_id)
        found = {each: names(served, each) for each in (one, both, other)}
        assert found == {one: ("far",), both: ("far", "near"), other: ("near",)}
        by_spark = explain(lambda: small, open_mark(served.open("lake"), "m1"), both, little=Little(rows=-1)).objects
        assert by_spark[0].neighbours == ("far", "near")

        near.delete("main", f"a/{both}")
        near.commit("main", "gone", date=NOW - timedelta(days=3))
        mark(small, served, "near", "n2")
        assert names(served, both) == ("far",), "the newest mark of near counts the range no more"

        (served.files("far") / HOME / "marks/f1/mark.json").write_bytes(b"{}")
        assert names(served, one) == (), "nobody can tell"
