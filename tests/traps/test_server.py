"""Traps in what lakeFS answers. The answers are the sandbox's own, or spoilt on their way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.errors import IncompleteError, ObjectNotFoundError, RefusedError, ServerError, SettingsError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import GcRules
from lakegc_core.marks.context import block_prefix
from lakegc_core.references.commits.retained import find_retained
from lakegc_core.references.staged import dump_staged
from lakegc_core.sweep.read_sample import Sample, read_again
from lakegc_sandbox import PageLimits
from tests.support.lake import NO_SPARK, Lake, lake
from tests.support.replays import KEEP_ALL

Fault = Callable[[str, str, Any], Any]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        found.create("lake")
        yield found


def spoilt(call: str, status: int, body: Any) -> Fault:
    """Answers a call, by a part of its path, with this."""
    return lambda method, path, query: (status, body) if call in path else None


def test_t09_the_rules_file_is_no_json_and_an_empty_one_is_no_rules(served: Lake) -> None:
    repository = served.sandbox.repository("lake")
    file = served.files("lake") / "_lakefs/retention/gc/rules/config.json"
    repository.set_rules(14, {"dev": 7, "main": 21})
    assert file.read_bytes().hex() == "080e12070a036465761007" + "12080a046d61696e1015"
    assert served.client.gc_rules("lake") == GcRules(14, {"dev": 7, "main": 21})
    for unset in (repository.delete_rules, lambda: repository.set_rules(0)):
        repository.set_rules(14)
        unset()
        assert file.read_bytes() == b""
        assert served.client.gc_rules("lake") is None
        with pytest.raises(RefusedError, match="has no garbage collection rules"):
            find_retained(NO_SPARK, served.begin("lake", "m1"), "here", former=None)


def test_t10_a_404_of_prepare_commits_while_there_are_rules_ends_the_mark(served: Lake) -> None:
    served.sandbox.repository("lake").set_rules(7)
    context = served.begin("lake", "m1")
    served.server.fault = spoilt("/gc/prepare_commits", 404, {"message": "not found"})
    with pytest.raises(LakeFSError, match="was answered with 404"):
        find_retained(NO_SPARK, context, "here", former=None)
    served.server.fault = spoilt("/settings/gc_rules", 404, b"<html>no such page</html>")
    with pytest.raises(LakeFSError, match="was answered with 404"):
        find_retained(NO_SPARK, replace(context, header=replace(context.header, rules=KEEP_ALL)), "here", former=None)


def test_t14_nothing_staged_no_folder_and_too_few_files_are_three_things(served: Lake) -> None:
    repository = served.sandbox.repository("lake")
    served.sandbox.uncommitted_page = PageLimits(branches=1)
    for branch in ("b1", "b2", "b3"):
        repository.create_branch(branch, "main")
    context = served.begin("lake", "m1")
    # Every page empty: nothing is staged.
    nothing = dump_staged(NO_SPARK, context, "nothing")
    assert nothing.facts.pages == 4
    assert (nothing.facts.files, nothing.facts.rows) == (0, 0)
    # A location without a folder, and a folder with a file fewer than pages that named it.
    for branch in ("b1", "b3"):
        repository.upload(branch, "x", b"staged", age=timedelta(days=3))
    for lost in (1, 2):
        served.server.fault = losing(served, lost, on_page=4)
        with pytest.raises(IncompleteError, match=f"for 2 pages .* only {2 - lost} files are"):
            dump_staged(NO_SPARK, context, "short")


def losing(served: Lake, files: int, *, on_page: int) -> Fault:
    """On this page of a staged dump, so many of the files that its earlier pages wrote vanish."""
    home = served.files("lake") / "_lakefs/retention/gc/uncommitted"
    pages, before = iter(range(1, on_page + 1)), set(home.glob("*"))

    def lose(method: str, path: str, query: Any) -> None:
        if path.endswith("/gc/prepare_uncommited") and next(pages) == on_page:
            (run,) = set(home.iterdir()) - before  # this one
            for file in sorted(run.rglob("*/*"))[:files]:
                file.unlink()
            if files == 2:
                shutil.rmtree(run)

    return lose


def test_t30_a_minimum_age_below_the_servers_grace_period_is_refused(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKEGC_UNSAFE")
    monkeypatch.delenv("LAKEGC_NOW")
    assert served.client.grace_period() == 86_400
    for level in ("full", "standard"):
        with pytest.raises(SettingsError, match="--min-age 25h"):
            served.begin("lake", "m1", min_age=timedelta(hours=6), safety_level=level)
    served.sandbox.grace_period = 21_600
    assert served.begin("lake", "m1", min_age=timedelta(hours=7), safety_level="full").header.grace_period == 21_600


def test_t41_a_location_proves_nothing_and_is_never_joined_to_anything(served: Lake) -> None:
    unknown = "7" * 64
    assert served.client.metarange_location("lake", unknown) == f"_lakefs/{unknown}"
    context = served.begin("lake", "m1")
    assert context.metadata.key(unknown) == f"_lakefs/{unknown}"
    with pytest.raises(ObjectNotFoundError):
        context.metadata.read(unknown)
    for location in ("s3://bucket/lake/_lakefs/", "/_lakefs/", ""):
        served.server.fault = spoilt("/metadata/meta_range/", 200, {"location": location + "0" * 64})
        with pytest.raises(ServerError, match="expected <prefix>/<id>"):
            block_prefix(served.client, "lake")


def test_t42_a_collected_object_shows_when_it_is_read_and_not_when_it_is_looked_at(served: Lake) -> None:
    repository = served.sandbox.repository("lake")
    kept, gone = (repository.upload("main", path, b"data") for path in ("kept", "gone"))
    repository.files.delete(gone)
    assert served.client.stat("lake", "main", "gone") is not None
    assert served.client.read_byte("lake", "main", "gone") == 410
    sample = Sample((("main", "kept"), ("main", "gone")))
    assert read_again(served.begin("lake", "m1"), sample) == {"main/gone": 410}
    assert kept != gone


def test_t44_a_read_only_repository_is_refused_before_anything_is_made(served: Lake) -> None:
    repository = served.sandbox.repository("lake")
    repository.set_rules(7)
    context = served.begin("lake", "before")
    repository.read_only = True
    with pytest.raises(RefusedError, match="is read-only"):
        served.begin("lake", "m1")
    for stage in (dump_staged, lambda *given: find_retained(*given, former=None)):
        with pytest.raises(LakeFSError, match="the repository is read-only"):
            stage(NO_SPARK, context, "here")


def test_t46_a_server_that_cannot_presign_is_asked_for_commits_by_a_task(tmp_path: Path) -> None:
    with lake(tmp_path, blockstore="local") as served:
        served.sandbox.create_repository("lake").set_rules(7)
        assert served.client.prepare_commits("lake").commits_location.endswith("/commits.csv")
        assert not [path for _, path in served.server.requests if path.endswith("/gc/prepare_commits")]
        # An old server that knows no tasks: the error counts, not the answer behind it.
        served.server.fault = spoilt("/gc/prepare_commits/async", 500, {"message": "invalid API endpoint"})
        with pytest.raises(LakeFSError, match="followed by a second JSON document"):
            served.client.prepare_commits("lake")
