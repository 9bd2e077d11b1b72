"""The rights that deploy/policies/azure.md lists suffice for marks and sweeps: Azurite judges SAS tokens by them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from lakegc_core.errors import StoreError
from lakegc_core.store.azure.store import AzureConfig
from lakegc_core.store.base import PROBE_KEY, RefusedObjectError, heads
from tests.support.azurite import ACCOUNT, ACCOUNT_KEY, AzureServer

MARK, SWEEP = "rlwac", "rlwacd"
"""Letters of a SAS: read and list are the data action `blobs/read`, write and create `blobs/write`, add is `blobs/add`,
and delete `blobs/delete`."""
DENIED = "failed:AuthorizationPermissionMismatch"


def with_rights(azure: AzureServer, letters: str, prefix: str) -> AzureConfig:
    """The place of a namespace for a SAS of the container with these rights and no others."""
    sas = generate_container_sas(
        ACCOUNT,
        azure.container,
        account_key=ACCOUNT_KEY,
        permission=ContainerSasPermissions.from_string(letters),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    return azure.config(prefix, account_key=None, sas_token=sas, max_attempts=2)


def test_the_rights_of_a_mark_suffice_for_all_but_deletes_and_those_of_a_sweep_for_deletes_too(
    azure: AzureServer,
) -> None:
    prefix = uuid.uuid4().hex
    mark, sweep = (with_rights(azure, letters, prefix).connect() for letters in (MARK, SWEEP))
    data = ["data/a", "data/b"]
    for key in data:
        mark.write(key, b"1")
    assert mark.probe().conditional_writes and mark.read(PROBE_KEY) and mark.clock()
    assert [row["address"] for batch in mark.list("data/") for row in batch.to_pylist()] == data
    assert mark.delete_many(data) == [DENIED] * 2 and all(heads(mark, data))
    assert sweep.delete_fault() is None
    assert sweep.delete_many(data) == ["deleted"] * 2 and heads(mark, data) == [None, None]


@pytest.mark.parametrize(("missing", "left"), [("r", "lwac"), ("l", "rwac"), ("w", "rl")])
def test_a_right_that_a_mark_lacks_is_an_error_that_says_so_and_an_object_that_may_not_be_read_is_listed(
    azure: AzureServer, missing: str, left: str
) -> None:
    prefix = uuid.uuid4().hex
    azure.config(prefix).connect().write("data/a", b"four")
    store = with_rights(azure, left, prefix).connect()
    ask = {"r": lambda: store.read("data/a"), "l": lambda: list(store.list()), "w": lambda: store.write("x", b"")}
    with pytest.raises(StoreError, match=r"AuthorizationPermissionMismatch.*grant the operation"):
        ask[missing]()
    if missing == "r":
        with pytest.raises(RefusedObjectError):
            store.head("data/a")
        (found,) = heads(store, ["data/a"])
        assert found is not None and found.size == 4
