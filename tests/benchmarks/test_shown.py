"""What branches of a generated repository show is asked page by page, as lakeFS would answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.generate import BUCKET, MAIN, REPOSITORY, GeneratedLake, Shape
from benchmarks.shown import Shown
from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import PAGE
from lakegc_core.lakefs.models import ObjectStats
from lakegc_sandbox.api.server import SandboxServer

SHAPE = Shape(objects=4_000, commits=20, branches=3, staged=90, garbage=300, range_entries=700, retained=5)


class Asked:
    """A generated repository behind a server, and a client of it."""

    def __init__(self, lake: GeneratedLake, shown: Shown, client: LakeFSClient) -> None:
        self.lake, self.shown, self._client = lake, shown, client

    def page(self, branch: str, after: str, amount: int = PAGE) -> tuple[list[ObjectStats], bool]:
        return self._client.objects_after(REPOSITORY, branch, after, amount)

    def whole(self, branch: str, amount: int = PAGE) -> list[ObjectStats]:
        found, more = self.page(branch, "", amount)
        while more:
            page, more = self.page(branch, found[-1].path, amount)
            found += page
        return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    lake = GeneratedLake(tmp_path_factory.mktemp("lake"), SHAPE)
    with SandboxServer(lake.sandbox) as server:
        server.fault = shown = Shown(lake.repository, lake.folder)
        settings = ServerSettings(server.url, server.access_key, server.secret_key)
        yield Asked(lake, shown, LakeFSClient(settings))


@pytest.mark.parametrize("amount", [PAGE, 333, 7])
def test_a_branch_shows_all_that_its_head_holds_and_what_is_staged(asked: Asked, amount: int) -> None:
    found = asked.whole(MAIN, amount)
    paths = [stats.path for stats in found]
    live = SHAPE.rewritten + SHAPE.grown
    assert paths == sorted(set(paths))
    assert len([path for path in paths if path.startswith("tables/")]) == live
    assert len([path for path in paths if path.startswith("staged/")]) == SHAPE.staged // SHAPE.branches
    assert len(paths) == live + SHAPE.staged // SHAPE.branches


def test_each_object_lies_where_its_page_says_and_has_that_size(asked: Asked) -> None:
    base = f"s3://{BUCKET}/{REPOSITORY}/"
    for stats in asked.whole("branch-00001"):
        assert stats.physical_address.startswith(base)
        assert (asked.lake.folder / stats.physical_address.removeprefix(base)).stat().st_size == stats.size_bytes


def test_a_page_begins_after_the_path_asked_for_and_says_whether_it_is_the_last(asked: Asked) -> None:
    paths = [stats.path for stats in asked.whole(MAIN)]
    page, more = asked.page(MAIN, paths[702], 10)
    assert ([stats.path for stats in page], more) == (paths[703:713], True)
    page, more = asked.page(MAIN, paths[-3], 2)
    assert ([stats.path for stats in page], more) == (paths[-2:], False)
    assert asked.page(MAIN, paths[-1]) == ([], False)


def test_pages_are_counted(asked: Asked) -> None:
    asked.shown.forget()
    asked.page(MAIN, "", 5)
    asked.page("branch-00000", "", 5)
    assert asked.shown.pages == 2
    assert asked.shown.seconds > 0
