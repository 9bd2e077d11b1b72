"""What a stage is given, learnt from the server and the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.errors import ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import open_repository
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import lake


@pytest.mark.parametrize("name", ["lake", "data"])
@pytest.mark.parametrize("with_rules", [True, False])
def test_a_local_namespace_is_found_below_folders_of_its_own_name(tmp_path: Path, name: str, with_rules: bool) -> None:
    """Without rules the server names no place of its own, only objects."""
    sandbox = Sandbox(tmp_path / "lake" / "data" / name)
    repository = sandbox.create_repository(name)
    repository.upload("main", "a/lake/data/b", b"1")
    if with_rules:
        repository.set_rules(7)
    with SandboxServer(sandbox) as server:
        settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY))
        found = open_repository(settings, name, client=LakeFSClient(settings.server))
    assert found.data == LocalConfig(str(tmp_path / "lake" / "data" / name / name))


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
