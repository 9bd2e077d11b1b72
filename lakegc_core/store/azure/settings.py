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
    return StoreSettings(
        versioning=_versioning(container),
        soft_delete=_soft_delete(service),
        lock=_lock(container.client),
        encryption="",  # with keys of the account: no request needs a right on them
        lifecycle=Untold("Azure tells it to management requests alone, and lakegc makes none"),
        uploads=None,  # Azure drops blocks that were not committed, after a week
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


def _lock(client: Any) -> str | Untold:
    try:
        found = client.get_container_properties(retry_total=0)
    except AzureError as error:
        return _untold(error, _CONTAINER)
    kept = {"an immutability policy": found.has_immutability_policy, "a legal hold": found.has_legal_hold}
    if None in kept.values():
        return Untold("the store's answer does not say")
    return " and ".join(name for name, stands in kept.items() if stands)
