"""Settings by which Azure keeps blobs, as far as data requests tell. Only managers can read lifecycle rules."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from azure.core.exceptions import AzureError, HttpResponseError

from lakegc_core.errors import ObjectNotFoundError, StoreError
from lakegc_core.store.azure.access import code_of
from lakegc_core.store.azure.container import Container
from lakegc_core.store.base import PROBE_KEY
from lakegc_core.store.settings import StoreSettings, Untold

_ACCOUNT = "Microsoft.Storage/storageAccounts"
_SERVICE = f"{_ACCOUNT}/blobServices/read"
_CONTAINER = f"{_ACCOUNT}/blobServices/containers/read"
_REFUSED = {401, 403}


def settings_of(container: Container, service: Any) -> StoreSettings:
    """Ask the account and the container. `service`: the SDK's client of the account."""
    soft_delete, (lock, stops_writes) = _soft_delete(service), _lock(container.client)
    return StoreSettings(
        versioning=_versioning(container),
        soft_delete=soft_delete,
        lock=lock,
        encryption="",  # with keys of the account: no request needs a right on them
        lifecycle=Untold("Azure tells it to management requests alone, and lakegc makes none"),
        uploads=None,  # Azure drops blocks that were not committed, after a week
        undeletes=_undeletes(container.client) if soft_delete else True,
        lock_stops_writes=stops_writes,
    )


def _untold(error: AzureError, right: str) -> Untold:
    if isinstance(error, HttpResponseError) and error.status_code in _REFUSED:
        return Untold("the key may not ask", right)
    return Untold(f"the store answered {code_of(error)}")


def _versioning(container: Container) -> bool | Untold:
    """Versioning, by the blob that each mark writes: Azure gives it a version if versioning is on at the time."""
    with suppress(ObjectNotFoundError):
        try:
            with container.errors("Get Blob Properties", PROBE_KEY):
                found = container.blob(PROBE_KEY).get_blob_properties()
        except ObjectNotFoundError:
            raise
        except StoreError as error:
            return Untold(str(error))
        return bool(found.version_id)
    return Untold("Azure tells by a blob that each mark writes, and there is none yet")


def _soft_delete(service: Any) -> timedelta | Untold:
    try:
        policy = service.get_service_properties(retry_total=0)["delete_retention_policy"]
        return timedelta(days=policy.days or 0) if policy.enabled else timedelta(0)
    except AzureError as error:
        return _untold(error, _SERVICE)
    except (AttributeError, KeyError, TypeError):
        return Untold("the store's answer is odd")


def _undeletes(client: Any) -> bool | None:
    """False of an account with a hierarchical namespace, which lists deleted blobs in another way; None if the account
    does not tell whether it has one."""
    with suppress(AzureError):
        is_hierarchical = client.get_account_information(retry_total=0).get("is_hns_enabled")
        return None if is_hierarchical is None else not is_hierarchical
    return None


def _lock(client: Any) -> tuple[str | Untold, bool]:
    """The lock of a container, and whether it keeps blobs from being written over: one of versions does not."""
    try:
        found = client.get_container_properties(retry_total=0)
    except AzureError as error:
        return _untold(error, _CONTAINER), False
    kept = {"an immutability policy": found.has_immutability_policy, "a legal hold": found.has_legal_hold}
    if None in kept.values():
        return Untold("the store's answer does not say"), False
    lock = " and ".join(name for name, stands in kept.items() if stands)
    return lock, bool(lock) and not found.immutable_storage_with_versioning_enabled
