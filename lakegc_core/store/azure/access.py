"""Access to an Azure storage account: the choice of the credential, the building of the client, the SDK's errors.

A credential is looked for where Azure's own tools have it: given, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,
AZURE_STORAGE_SAS_TOKEN, then azure-identity's default chain (service principal, workload and managed identity, az
login), which renews its tokens by itself. Settings for another account (AZURE_STORAGE_ACCOUNT, the connection string's
own) are left alone. Each process finds its own credential, and never writes or logs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobSasPermissions, BlobServiceClient, ExponentialRetry, generate_blob_sas

from lakegc_core.errors import SettingsError
from lakegc_core.store.base import BACKOFF
from lakegc_core.store.remote import ASLEEP, ENDPOINT, HEADS, LOCKED, REPEATED, THROTTLED, with_endpoint
from lakegc_core.store.repeated_deletes import DeleteAnswer

CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
NO_CONTAINER = "ContainerNotFound"
ABSENT = {"BlobNotFound", "ResourceNotFound"}
UNMET = "ConditionNotMet"

_SCOPE = "https://storage.azure.com/.default"
_COPY_TIME = timedelta(hours=2)  # for how long a link that names the source of a copy is good


@dataclass(frozen=True)
class Access:
    """The credential for one account: exactly one of the three."""

    account: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    identity: Any = field(default=None, repr=False)

    @property
    def credential(self) -> Any:
        """The credential in the form that the SDK wants."""
        if self.key:
            return AzureNamedKeyCredential(self.account, self.key)
        return AzureSasCredential(self.sas) if self.sas else self.identity

    def source(self, url: str, container: str, name: str, version: str | None = None) -> tuple[str, dict[str, str]]:
        """The URL and the SDK's arguments by which the service can read a blob, or a version of it, as the source of a
        copy."""
        chosen = f"versionid={quote(version, safe='')}" if version else ""
        if self.identity:
            token = self.identity.get_token(_SCOPE).token
            return f"{url}?{chosen}" if chosen else url, {"source_authorization": f"Bearer {token}"}
        sas = self.sas or generate_blob_sas(
            self.account,
            container,
            name,
            account_key=self.key,
            permission=BlobSasPermissions(read=True),
            expiry=datetime.now(UTC) + _COPY_TIME,
            version_id=version,
        )
        return f"{url}?{'&'.join(filter(None, [chosen, sas]))}", {}


def find(account: str, key: str | None = None, sas: str | None = None) -> Access:
    """The credential for an account: what is given, else what the environment holds, else the default chain."""
    if not key and not sas:
        told = connection_string(account)
        key, sas = told.get("accountkey"), told.get("sharedaccesssignature")
    if not key and not sas and os.environ.get("AZURE_STORAGE_ACCOUNT", account) == account:
        key, sas = os.environ.get("AZURE_STORAGE_KEY"), os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    if key:
        return Access(account, key=key)
    if sas:
        return Access(account, sas=sas.lstrip("?"))
    from azure.identity import DefaultAzureCredential  # slow to import, and seldom needed

    return Access(account, identity=DefaultAzureCredential())


def connection_string(account: str) -> Mapping[str, str]:
    """The parts of AZURE_STORAGE_CONNECTION_STRING by lower-case name; none if it is for another account."""
    text = os.environ.get(CONNECTION_STRING, "")
    pairs = (part.partition("=") for part in text.split(";"))
    parts = {name.strip().lower(): value.strip() for name, _, value in pairs}
    named = parts.get("accountname")
    if named is None and "blobendpoint" in parts:  # one that holds a SAS names no account
        url = urlsplit(parts["blobendpoint"])
        named = url.path.strip("/") or (url.hostname or "").partition(".")[0]
    return parts if named == account else {}


def endpoint(account: str) -> str | None:
    """The Blob endpoint that the environment names for this account."""
    return connection_string(account).get("blobendpoint") or None


def service_client(
    url: str,
    access: Access,
    response_hook: Callable[..., requests.Response],
    *,
    attempts: int,
    timeout: tuple[float, float],
) -> BlobServiceClient:
    """A client for the whole account, safe to share between threads. `url`: the endpoint; `attempts`: of each request,
    the first one included; `timeout`: seconds to connect and to read."""
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=HEADS, max_retries=0))
    session.hooks["response"].append(response_hook)
    transport = RequestsTransport(
        session=session,
        session_owner=True,
        connection_timeout=timeout[0],
        read_timeout=timeout[1],
    )
    tries: dict[str, Any] = {f"retry_{each}": attempts - 1 for each in ("total", "connect", "read", "status")}
    try:
        return BlobServiceClient(
            url,
            access.credential,
            transport=transport,
            retry_policy=_Retry(**tries),
            user_agent="lakegc",
        )
    except ValueError as error:  # a token over plain HTTP, an odd URL
        raise SettingsError(f"{url}: no Azure client: {type(error).__name__}: {error}") from error


class _Retry(ExponentialRetry):
    """The SDK's retries with lakegc's pauses; its own begin at 15 seconds."""

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        return BACKOFF.wait(settings["count"])


def code_of(error: BaseException | None) -> str:
    """The service's own code, the HTTP status without one, or the name of the SDK's error without an answer."""
    if isinstance(error, HttpResponseError):
        code = getattr(error, "error_code", None)
        if code:
            return str(getattr(code, "value", code))
        if error.response is not None:
            headers = getattr(error.response, "headers", {})
            return str(headers.get("x-ms-error-code") or error.status_code)
    return type(error).__name__


def status_of(error: BaseException | None) -> int:
    """The HTTP status of an answer; 0 where there was none."""
    return int(error.status_code or 0) if isinstance(error, HttpResponseError) else 0


def is_lost(error: AzureError | ValueError) -> bool:
    """True if there is no answer, or none that can be read: the request may have been carried out."""
    if isinstance(error, ServiceResponseError | DecodeError):
        return True
    return isinstance(error, HttpResponseError) and error.response is None and not is_refused(error)


def is_refused(error: BaseException) -> bool:
    """True if the credential chain gave no token."""
    return isinstance(error, ClientAuthenticationError) and error.response is None


def should_repeat(error: AzureError | ValueError) -> bool:
    """True where the same request may succeed when it is made again."""
    if isinstance(error, HttpResponseError) and error.response is not None and not isinstance(error, DecodeError):
        return error.status_code in REPEATED
    return isinstance(error, ServiceRequestError | ServiceResponseError) or is_lost(error)


def told_by(error: AzureError) -> DeleteAnswer:
    """The answer for each blob of a request that failed as a whole. It never says that a blob is gone."""
    if is_lost(error):
        return DeleteAnswer.lost()
    if isinstance(error, HttpResponseError) and error.response is not None:
        return told_by_status(int(error.status_code or 0), code_of(error))
    return DeleteAnswer.failed(code_of(error), again=should_repeat(error))


def told_by_status(status: int, code: str) -> DeleteAnswer:
    """The answer for a blob by a status other than success."""
    if code == UNMET:
        return DeleteAnswer.not_met(code)
    return DeleteAnswer.failed(code or str(status), again=status in REPEATED, throttled=status in THROTTLED)


_HINTS = {
    "AuthenticationFailed": "the account key or SAS is not the right one, or the clock of this machine is wrong",
    "AuthorizationFailure": "check the key or SAS, what it may do, and whether this machine may reach the account",
    "AuthorizationPermissionMismatch": "grant the operation to these credentials (Storage Blob Data Contributor)",
    "InvalidAuthenticationInfo": "the token or SAS cannot be used here",
    "BlobArchived": ASLEEP,
    **dict.fromkeys(("BlobImmutableDueToPolicy", "BlobImmutableDueToLegalHold"), LOCKED),
    NO_CONTAINER: f"check the name of the container, and {ENDPOINT}",
    **dict.fromkeys(("ServiceRequestError", "ServiceRequestTimeoutError"), f"check the network, and {ENDPOINT}"),
    "ClientAuthenticationError": (
        "no credential of Azure's default chain could be had: set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, "
        "AZURE_CLIENT_ID with its secret, a managed or workload identity, or use `az login`"
    ),
    "CredentialUnavailableError": "set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or a credential of Azure's chain",
}


def hint(code: str, account: str, url: str) -> str:
    """Advice for a code, after a colon; empty for a code without advice. `url`: the endpoint of the account that was
    asked, which is named where it may be the wrong one."""
    return f": {with_endpoint(_HINTS[code], url, {CONNECTION_STRING: endpoint(account)})}" if code in _HINTS else ""
