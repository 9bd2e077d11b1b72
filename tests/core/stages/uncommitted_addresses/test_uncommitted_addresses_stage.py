"""Every branch is listed where the server's dump is blind; branches come and go meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.stages.uncommitted_addresses.stage import objects_of
from tests.support.lake import lake


def test_a_branch_that_is_deleted_meanwhile_shows_nothing_more(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        repository.upload("main", "a", b"1")
        repository.commit("main", "one")
        assert [stats.path for page in objects_of(served.client, "lake", "main") for stats in page] == ["a"]
        assert list(objects_of(served.client, "lake", "deleted-meanwhile")) == []


@pytest.mark.parametrize(
    "answer", [{"message": "not found"}, {"message": "invalid API endpoint"}, b"<html>proxy</html>"]
)
@pytest.mark.parametrize("branch", ["main", "deleted-meanwhile"])
def test_any_other_404_about_a_branch_is_an_error(tmp_path: Path, answer: object, branch: str) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        served.server.fault = lambda method, path, query: (404, answer) if path.endswith("/objects/ls") else None
        gone = branch != "main" and answer == {"message": "not found"}
        if gone:
            assert list(objects_of(served.client, "lake", branch)) == []
        else:
            with pytest.raises(LakeFSError):
                list(objects_of(served.client, "lake", branch))
