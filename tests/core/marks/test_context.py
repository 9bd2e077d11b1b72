"""What a stage is given, learnt from the server and the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.errors import ServerError
from tests.support.lake import lake


def test_of_several_storages_a_mark_records_the_one_that_its_repository_lies_in(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.sandbox.storages = {"there": "gs", "here": "s3"}
        served.create("lake").storage_id = "here"
        assert served.begin("lake", "m1").header.blockstore_type == "s3"


@pytest.mark.parametrize(
    ("storage_id", "said"),
    [
        ("nowhere", "lies in storage 'nowhere', which lakeFS does not list .*'here', 'there'"),
        ("", "lies in storage '', which lakeFS does not list"),
        ("there", "in a storage of type gs, but its namespace is s3://bucket/lake"),
    ],
)
def test_no_mark_is_begun_of_a_repository_whose_storage_lakefs_does_not_tell(
    tmp_path: Path, storage_id: str, said: str
) -> None:
    with lake(tmp_path) as served:
        served.sandbox.storages = {"there": "gs", "here": "s3"}
        served.create("lake").storage_id = storage_id
        with pytest.raises(ServerError, match=said):
            served.begin("lake", "m1")
        assert served.open("lake").artifacts("m1").header() is None
