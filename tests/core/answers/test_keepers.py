"""One pass from commits to objects: after clean and optimized marks, sweeps and holds, and when it must not answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lakegc_core.answers import keepers
from lakegc_core.answers.du import Usage, du
from lakegc_core.answers.explain import explain
from lakegc_core.answers.whatif import SEVERAL, Wish, question_of, whatif
from lakegc_core.answers.workers import Little
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.errors import IncompleteError, RefusedError, SettingsError
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL, RESTORES, STAMP
from lakegc_core.marks.context import MarkContext, open_mark
from lakegc_core.marks.layers import Restore, layers_of, restored_since
from lakegc_core.policy.facts import NOTHING, Amount
from lakegc_core.policy.retention import Rules
from lakegc_core.policy.scenarios import Change
from lakegc_core.stages import swept_report
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter
from lakegc_core.views.answers import whatif_screen
from lakegc_sandbox import Repository
from tests.core.answers.conftest import mark, not_needed
from tests.support.lake import NOW, Lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = timedelta(days=1)
GARBAGE = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"


def table(repository: Repository, days: float, size: int, branch: str = "main", files: int = 10) -> None:
    """A commit that writes a table anew: files of size, size + 1, …"""
    for number in range(files):
        repository.upload(branch, f"t/{number:02}", bytes(size + number), age=timedelta(days=days))
    repository.commit(branch, f"of {size}", date=NOW - timedelta(days=days))


def fill(served: Lake) -> Repository:
    """Two generations of a table on main, a branch with files of its own, a tag on the first generation."""
    found = served.create("lake")
    found.set_rules(7, {"main": 90})
    table(found, 60, 100)
    found.tag("v1", "main")
    table(found, 40, 1000)
    found.create_branch("exp", "main")
    for number in range(5):
        found.upload("exp", f"own/{number}", bytes(5000 + number), age=timedelta(days=30))
    found.commit("exp", "own", date=NOW - timedelta(days=30))
    leave(found, GARBAGE, 20)
    return found


def sizes(first: int, count: int) -> int:
    return sum(range(first, first + count))


def only(found: Usage) -> dict[str, tuple[int, int]]:
    return {each.name: (each.only.objects, each.only.bytes) for each in found.keepers if each.only.objects}


def test_each_branch_and_tag_has_what_it_alone_keeps(small: SparkSession, m1: MarkContext) -> None:
    found = du(small, m1, [["branch:exp", "tag:v*"]])
    assert only(found) == {"branch:exp": (5, sizes(5000, 5))}, "main's rule and the tag keep the first generation"
    shows = {each.name: each.shows for each in found.keepers}
    assert shows["branch:main"] == Amount(10, sizes(1000, 10)) and shows["tag:v1"] == Amount(10, sizes(100, 10))
    assert shows["branch:exp"] == Amount(15, sizes(1000, 10) + sizes(5000, 5))
    assert found.together[0].only == Amount(5, sizes(5000, 5))
    assert found.besides == {"unreferenced": Amount(1, len(b"left behind"))}
    assert found.shared == Amount(20, sizes(100, 10) + sizes(1000, 10))


def test_a_mark_finds_after_the_change_what_the_answer_says_before_it(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    told = whatif(small, mark(small, served, "m1"), Wish({"main": 30}, ("tag:v1", "branch:exp")))
    repository.set_rules(7, {"main": 30})
    repository.delete_tag("v1")
    repository.delete_branch("exp")
    found = mark(small, served, "m2").mark.require("expired_addresses").facts["expired"]
    assert told.at_once.garbage == Amount(found["objects"], found["bytes"])
    assert told.at_once.more == Amount(15, sizes(100, 10) + sizes(5000, 5))
    assert told.today == Amount(1, len(b"left behind"))
    tables = Amount(10, sizes(100, 10))
    own = Amount(5, sizes(5000, 5))
    # The tag and main's rule keep the first generation together.
    assert told.at_once.kept_by == {"branch:exp": own, SEVERAL: tables}
    assert told.at_once.folders == {"own/": own, "t/": tables}


def test_an_optimized_mark_answers_as_a_clean_one(
    small: SparkSession, served: Lake, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(hours: int, mode: str) -> MarkContext:
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=hours)).timestamp()))
        return mark(small, served, f"m{1 + hours}", mode=mode)

    mark(small, served, "m1")
    table(repository, 2, 3000)
    repository.delete_tag("v1")
    later(1, INCREMENTAL)
    table(repository, 1.5, 7000, "exp", files=3)
    wish = Wish({"main": 1, "default": 0}, ("branch:exp",))
    optimized, clean = later(2, INCREMENTAL), later(3, CLEAN)
    assert [len(layers_of(context.mark)) for context in (optimized, clean)] == [3, 1]
    found = [
        (replace(whatif(small, context, wish), mark_id="", at=""), only(du(small, context)))
        for context in (optimized, clean)
    ]
    assert found[0] == found[1]
    assert found[0][0].in_the_end.more.objects > 20


def test_what_a_sweep_has_deleted_is_in_no_answer(small: SparkSession, served: Lake, repository: Repository) -> None:
    context = mark(small, served, "m1")
    assert whatif(small, context, Wish({})).today.objects == 1
    assert swept_report(small, context).outcomes["deleted"] == 1
    found = whatif(small, context, Wish({"default": 400}))
    assert found.today == NOTHING and found.at_once.less == NOTHING
    assert du(small, context).objects.objects == 25
    explained = explain(not_needed, context, GARBAGE)
    for little in (Little(files=0), Little(commits=0)):
        assert explain(lambda: small, context, GARBAGE, little=little) == explained, "Spark reads what is more"
    (gone,) = explained.objects
    assert gone.size is None and [each["outcome"] for each in gone.swept] == ["deleted"]


def test_what_a_hold_by_path_keeps_does_not_go_with_the_commits_that_show_it(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    from lakegc_core.config.settings import RepositoryPolicy

    held = replace(served, policies=(RepositoryPolicy("lake", holds=("path:own/0",)),))
    found = du(small, mark(small, held, "m1"))
    assert only(found) == {"branch:exp": (4, sizes(5001, 4))}


def test_a_hold_by_path_that_came_after_the_mark_or_went_since_changes_no_answer_of_it(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    from lakegc_core.config.settings import RepositoryPolicy

    repository.delete_branch("exp")
    repository.set_rules(7, {"main": 1})
    repository.delete_tag("v1")
    held = replace(served, policies=(RepositoryPolicy("lake", holds=("path:own/0",)),))
    found = {name: du(small, mark(small, lake, name)) for name, lake in (("m1", served), ("m2", held))}
    assert found["m1"].besides["unreferenced"].objects > found["m2"].besides["unreferenced"].objects
    for name, other in (("m1", held), ("m2", served)):
        again = open_mark(other.open("lake"), name)
        assert du(small, again) == found[name]
        assert whatif(small, again, Wish({})).today == found[name].besides["unreferenced"]


def test_ranges_that_are_too_many_for_a_worker_are_looked_up_in_shares(
    small: SparkSession, m1: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = du(small, m1)
    ranges = keepers._ranges
    shares: list[int] = []

    def a_part_each(spark: SparkSession, context: MarkContext, *more: Any) -> Dataset:
        found, parts = ranges(spark, context, *more), []
        aside: DatasetFolder = more[-1]
        for batch in found.batches():
            for row in range(batch.num_rows):
                writer = PartWriter(aside.config, aside.at("ranges"), batch.schema)
                writer.write(batch.slice(row, 1))
                parts += writer.close()
        shares.append(len(parts))
        return aside.dataset("ranges", parts, found.schema)

    monkeypatch.setattr(keepers, "MOST", 0)
    monkeypatch.setattr(keepers, "_ranges", a_part_each)
    assert du(small, m1) == whole
    assert shares[0] > 1


def test_an_answer_that_contradicts_its_mark_is_not_given(small: SparkSession, m1: MarkContext) -> None:
    question = question_of(Change(Rules(7), Rules(7), True))

    def all_kept(names: Any, numbers: Any) -> Any:
        return {name: np.zeros_like(values) for name, values in question.finish(names, numbers).items()}

    with pytest.raises(IncompleteError, match="So the answer is wrong, and is not given"):
        keepers.answer(small, m1, replace(question, finish=all_kept))


def test_a_mark_from_before_a_restore_does_not_answer(
    small: SparkSession, m1: MarkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = Restore("m0", NOW.timestamp() + 30)
    monkeypatch.setattr(keepers, "restored_since", lambda *_: restored)
    then = NOW + timedelta(hours=1, minutes=1)
    says = rf"Objects of mark m0 were restored, .* begins after {then:%Y-%m-%d %H:%M} UTC .* Make a mark then"
    with pytest.raises(RefusedError, match=says):
        du(small, m1)


def test_a_mark_that_begins_when_the_refusal_says_answers_and_one_before_does_not(
    small: SparkSession, served: Lake, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(moment: datetime, mark_id: str) -> MarkContext:
        monkeypatch.setenv("LAKEGC_NOW", str(moment.timestamp()))
        return mark(small, served, mark_id, mode=CLEAN)

    first = at(NOW, "m1")
    for moment in (NOW - timedelta(hours=1), NOW):
        folder = served.files("lake") / first.mark.folder / RESTORES / moment.strftime(STAMP)
        folder.mkdir(parents=True)
        (folder / "begun.json").write_text("{}")
    restored = restored_since(first, NOW.timestamp())
    assert restored is not None and restored.mark_id == "m1"
    with pytest.raises(RefusedError, match="Make a mark then"):
        du(small, at(restored.known_from - timedelta(minutes=1), "m2"))
    assert du(small, at(restored.known_from + timedelta(seconds=1), "m3")).objects.objects == 26


def test_a_rule_of_a_branch_that_is_gone_may_be_dropped_and_not_be_given(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    repository.set_rules(7, {"gone": 30, "main": 5})
    context = mark(small, served, "m1")
    wish = {"gone": None, "default": 3, "main": None, "exp": None}
    assert whatif(small, context, Wish(wish)).rules == {"default": 3, "branches": {}}
    with pytest.raises(SettingsError, match="saw no branch called gone"):
        whatif(small, context, Wish({"gone": 3, "main": 3}))


def test_the_rule_of_a_branch_called_default_is_told_apart_from_the_default_rule(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    repository.create_branch("default", "main")
    repository.set_rules(7, {"default": 30, "main": 5})
    found = whatif(small, mark(small, served, "m1"), Wish({"default": 3}))
    assert found.rules == {"default": 3, "branches": {"default": 30, "main": 5}}
    (line,) = [
        line for line in whatif_screen({**found.as_json(), "price": None}).splitlines() if line.startswith("rules: ")
    ]
    assert line == "rules: default 3 days, branch:default 30 days, branch:main 5 days"


@pytest.mark.parametrize("pattern", ["exp", "hold:x", "branch:", "path:a"])
def test_a_pattern_that_is_of_neither_branches_nor_tags_is_refused(
    small: SparkSession, m1: MarkContext, pattern: str
) -> None:
    with pytest.raises(SettingsError, match="names no branch and no tag"):
        whatif(small, m1, Wish({}, (pattern,)))


def test_what_is_young_and_has_a_name_that_lakefs_does_not_give_is_no_garbage_in_the_end(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    leave(repository, "data/raw/customers.csv", 0)
    leave(repository, "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menb0", 0)
    context, one = mark(small, served, "m1"), Amount(1, len(b"left behind"))
    found = whatif(small, context, Wish({}))
    assert found.in_the_end.garbage - found.today == one
    assert {name: du(small, context).besides[name] for name in ("young", "unknown")} == {"young": one, "unknown": one}
    wanting = replace(served, policies=(RepositoryPolicy("*", collect_unknown_names=True),))
    collecting = whatif(small, mark(small, wanting, "m2"), Wish({}))
    assert collecting.in_the_end.garbage - collecting.today == one + one


def test_patterns_that_mean_no_branch_and_no_tag_are_named(small: SparkSession, m1: MarkContext) -> None:
    assert du(small, m1, [["branch:exp", "branch:exp-*"], ["tag:v9"]]).nothing_called_so == ("branch:exp-*", "tag:v9")
