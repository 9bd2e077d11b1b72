"""What a stage is given, learnt from the server and the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakegc_core.errors import IncompleteError, ServerError
from lakegc_core.marks.context import output_key
from lakegc_core.policy.namespace import Namespace
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


def test_what_lakefs_wrote_is_found_whatever_scheme_the_namespace_on_azure_has(tmp_path: Path) -> None:
    """lakeFS takes namespaces with http, and names all places on Azure with https."""
    place, key = "account.blob.core.windows.net/container/ns", "_lakefs/retention/gc/commits/run_id=1/commits.csv"
    with lake(tmp_path) as served:
        served.create("lake")
        for scheme in ("http", "https"):
            context = replace(served.open("lake"), namespace=Namespace(f"{scheme}://{place}"))
            assert output_key(context, f"https://{place}/{key}") == key
            with pytest.raises(IncompleteError, match="not below"):
                output_key(context, f"https://{place}2/{key}")
