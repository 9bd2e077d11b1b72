"""Many addresses are explained as each is alone, by this process and by Spark's tasks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakegc_core.answers.explain import AT_ONCE, Explained, explain, explain_each
from lakegc_core.answers.workers import Little
from lakegc_core.clock import instant
from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.copies.backup import restore
from lakegc_core.errors import SettingsError
from lakegc_core.marks.artifacts import INCREMENTAL
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import layers_of
from lakegc_core.marks.ledger import keep_records
from lakegc_core.marks.quarantine import record_of
from lakegc_core.stages import swept_report
from lakegc_sandbox import Repository
from tests.core.answers.conftest import mark, not_needed
from tests.support.lake import NOW, Lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER_COMMITTED = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menag"
UNKNOWN = "data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3menb0"
FOREIGN = "elsewhere/notes.txt"


def fill(served: Lake) -> Repository:
    """Eight nights that each write a file anew beside files that stay, a branch that is gone, a tag."""
    found = served.create("lake")
    found.set_rules(7, {"main": 30})
    for number in range(5):
        found.upload("main", f"t/{number}", bytes(10 + number), age=timedelta(days=90))
    found.commit("main", "stays", date=NOW - timedelta(days=90))
    for night in range(8):
        found.upload("main", "t/0", bytes(100 + night), age=timedelta(days=80 - 10 * night))
        found.commit("main", f"night {night}", date=NOW - timedelta(days=80 - 10 * night))
        if night == 1:
            found.tag("v1", "main")
    found.create_branch("exp", "main")
    found.upload("exp", "own", bytes(5000), age=timedelta(days=9))
    found.commit("exp", "own", date=NOW - timedelta(days=9))
    found.delete_branch("exp")
    found.upload("main", "staged", bytes(7000), age=timedelta(days=8))
    leave(found, NEVER_COMMITTED, 20)
    leave(found, FOREIGN, 20)
    return found


def listed(served: Lake) -> list[str]:
    files = served.files("lake")
    found = (path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith("_lakefs/"))


def answers(spark: SparkSession, context: MarkContext, addresses: list[str]) -> list[Explained]:
    """What this process and Spark's tasks tell alike."""
    found = list(explain_each(not_needed, context, addresses))
    assert list(explain_each(lambda: spark, context, addresses, little=Little(rows=-1))) == found
    return found


def test_a_batch_answers_as_each_address_alone(small: SparkSession, served: Lake, repository: Repository) -> None:
    addresses = [*listed(served), UNKNOWN]
    context = mark(small, served, "m1")
    swept_report(small, context)
    found = answers(small, context, addresses)
    assert [each.address for each in found] == addresses
    for each in found:
        assert explain(not_needed, context, each.address).objects == (each,)
    by_path = {path: [each for each in found if each.paths == (path,)] for path in ("t/0", "t/1", "own")}
    assert [len(versions) for versions in by_path.values()] == [9, 1, 1]
    (stays,), (own,) = by_path["t/1"], by_path["own"]
    kept = [(holder["name"], holder["why"]) for holder in stays.holders]
    assert kept == [("branch:main", "shows"), ("tag:v1", "shows")]
    assert own.past is not None and own.past["cause"] == "deleted" and not own.holders
    assert {each.swept[0]["outcome"] for each in found if each.size is None and each.address != UNKNOWN} == {"deleted"}
    assert sum(each.staged for each in found) == 1


def test_nobody_knows_an_unknown_address_and_what_was_never_committed_has_no_past(
    small: SparkSession, m1: MarkContext
) -> None:
    unknown, left, foreign, again = answers(small, m1, [UNKNOWN, NEVER_COMMITTED, FOREIGN, UNKNOWN])
    assert again == unknown and unknown.address == UNKNOWN
    assert (unknown.size, unknown.paths, unknown.holders, unknown.past, unknown.reason) == (None, (), (), None, None)
    assert left.size == len(b"left behind") and left.past is None and left.reason == "unreferenced"
    assert foreign.size == left.size and foreign.past is None


def test_no_addresses_have_no_answers_and_too_many_are_refused(m1: MarkContext) -> None:
    assert list(explain_each(not_needed, m1, [])) == []
    with pytest.raises(SettingsError, match="2,001 addresses are too many for one answer; ask about at most 2,000"):
        explain_each(not_needed, m1, [UNKNOWN] * (AT_ONCE + 1))


def test_what_an_optimized_mark_has_lost_has_its_path_and_its_last_commit(
    small: SparkSession, served: Lake, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = listed(served)
    before = {each.address: each for each in answers(small, mark(small, served, "m1"), addresses)}
    repository.delete_tag("v1")
    monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=1)).timestamp()))
    context = mark(small, served, "m2", mode=INCREMENTAL)
    assert [layer.mark_id for layer in layers_of(context.mark)] == ["m2", "m1"]
    after = {each.address: each for each in answers(small, context, addresses)}
    (lost,) = (each for each in after.values() if not each.holders and before[each.address].holders)
    assert (lost.reason, lost.paths) == ("unreferenced", ("t/0",))
    assert lost.past is not None and lost.past["cause"] == "replaced"


def test_the_last_commit_is_one_that_only_an_optimized_mark_has_seen(
    small: SparkSession, served: Lake, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean,) = (each for each in answers(small, mark(small, served, "m1"), listed(served)) if each.size == 104)
    assert clean.past is not None and not clean.holders

    def later(hours: int) -> MarkContext:
        monkeypatch.setenv("LAKEGC_NOW", str((NOW + timedelta(hours=hours)).timestamp()))
        return mark(small, served, f"m{1 + hours}", mode=INCREMENTAL)

    repository.create_branch("again", clean.past["commit"])
    repository.upload("again", "zzz", bytes(9), age=timedelta(days=9))
    last = repository.commit("again", "once more", date=NOW - timedelta(days=9))
    (again,) = answers(small, later(1), [clean.address])
    assert [holder["name"] for holder in again.holders] == ["branch:again"]
    repository.delete_branch("again")
    (gone,) = answers(small, later(2), [clean.address])
    assert gone.past is not None and (gone.past["commit"], gone.past["cause"]) == (last.id, "deleted")
    assert not gone.holders and gone.paths == ("t/0",)


def test_of_what_a_sweep_of_a_retired_mark_deleted_that_sweep_is_told(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    first = mark(small, served, "m1")
    swept_report(small, first)
    keep_records(first.mark)
    context = mark(small, served, "m2")
    shutil.rmtree(served.files("lake") / first.mark.folder)
    gone, never = answers(small, context, [NEVER_COMMITTED, UNKNOWN])
    assert [(each["mark_id"], each["outcome"]) for each in gone.swept] == [("m1", "deleted")] and not never.swept


@pytest.mark.parametrize("retired", [False, True])
def test_of_what_was_deleted_and_brought_back_both_are_told_in_order_and_that_it_lies_there(
    small: SparkSession, served: Lake, repository: Repository, retired: bool
) -> None:
    kept = replace(served, policies=(RepositoryPolicy(match="*", quarantine=timedelta(days=7)),))
    first = mark(small, kept, "m1")
    swept_report(small, first)
    (gone,) = answers(small, first, [NEVER_COMMITTED])
    record = record_of(first, "m1")
    assert record and gone.quarantine == {"mark_id": "m1", "until": instant(record.until)}
    restore(small, first)
    second = mark(small, kept, "m2")
    if retired:
        (served.files("lake") / NEVER_COMMITTED).unlink()  # only of what is gone are retired marks asked
        keep_records(first.mark)
        shutil.rmtree(served.files("lake") / first.mark.folder)
    (found,) = answers(small, second, [NEVER_COMMITTED])
    assert [(each["mark_id"], each["outcome"]) for each in found.swept] == [("m1", "deleted")]
    assert [(each["mark_id"], each["outcome"]) for each in found.restored] == [("m1", "copied")]
    assert (found.size is None) is (found.quarantine is not None) is retired


def test_a_key_that_lakefs_does_not_give_is_explained_if_an_object_lies_there(
    small: SparkSession, served: Lake, repository: Repository
) -> None:
    raw, new = leave(repository, "data/raw/customers.csv", 20), leave(repository, "data/raw/new.csv", 0)
    context = mark(small, served, "m1")
    for key, reason in ((raw, "unknown"), (new, "young"), (FOREIGN, "foreign")):
        (found,) = explain(not_needed, context, key).objects
        assert (found.address, found.size, found.reason) == (key, len(b"left behind"), reason)
        assert found.kept_by_name == (key in (raw, new))
    for key in (raw, new):
        (served.files("lake") / key).unlink()
    for key in (raw, "elsewhere/", "elsewhere", "../lake/README", "/t/1", "t//1", "."):
        assert explain(not_needed, context, key).objects == (), key


def test_an_address_is_found_behind_a_slash_and_behind_the_namespace_as_tools_of_a_store_write_it(
    m1: MarkContext,
) -> None:
    uri = f"{m1.namespace.uri}/{NEVER_COMMITTED}"
    bucket_and_key = uri.partition("://")[2]
    for what in (f"/{NEVER_COMMITTED}", uri, bucket_and_key, f"/{bucket_and_key}", f"lake/{NEVER_COMMITTED}"):
        (found,) = explain(not_needed, m1, what).objects
        assert (found.address, found.reason) == (NEVER_COMMITTED, "unreferenced"), what
    (gone,) = explain(not_needed, m1, f"/{UNKNOWN}").objects
    assert (gone.address, gone.size) == (UNKNOWN, None)
    (foreign,) = explain(not_needed, m1, f"lake/{FOREIGN}").objects
    assert foreign.reason == "foreign"
    assert explain(not_needed, m1, f"other/{NEVER_COMMITTED}").objects == ()


def test_bytes_that_are_no_utf_8_are_a_path_like_any_other(m1: MarkContext) -> None:
    for what in ("t/\udcff", "s3://bucket/lake/data/\udcff"):
        assert explain(not_needed, m1, what).objects == ()
