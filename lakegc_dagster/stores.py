"""Dagster's own resources for stores, turned into values that travel to executors; the resources themselves cannot.

Read by the names of their fields, so that neither library is imported where it is not used: dagster-azure is slow to.
What a resource asks for and lakegc's stores cannot do is refused, never dropped.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from lakegc_core.config.credentials import AzureAccess, S3Access
from lakegc_core.errors import SettingsError


def s3_access(resource: Any) -> S3Access:
    """The settings of an `S3Resource`. SettingsError if it is something else, or wants more than lakegc can do."""
    try:
        access = S3Access(
            endpoint_url=resource.endpoint_url,
            region=resource.region_name,
            access_key_id=resource.aws_access_key_id,
            secret_access_key=resource.aws_secret_access_key,
            session_token=resource.aws_session_token,
        )
        if resource.use_unsigned_session or resource.verify is False or not resource.use_ssl:
            raise SettingsError(
                "lakegc signs what it asks of S3 and checks certificates: it takes no S3Resource with "
                "`use_unsigned_session`, `verify: false` or `use_ssl: false`. For plain HTTP give an `endpoint_url`."
            )
        if resource.profile_name:
            raise SettingsError(
                "lakegc's executors have no profile files: leave `profile_name` out of the S3Resource and set "
                "AWS_PROFILE where the steps run, or give the keys."
            )
    except AttributeError:
        raise SettingsError(f"`s3` takes dagster-aws's S3Resource, not a {type(resource).__name__}.") from None
    if bool(access.access_key_id) != bool(access.secret_access_key):
        raise SettingsError("The S3Resource has only one of `aws_access_key_id` and `aws_secret_access_key`.")
    return access


def azure_access(resource: Any) -> AzureAccess:
    """The settings of an `AzureBlobStorageResource`. SettingsError for another thing, and for anonymous access."""
    try:
        url, credential = resource.account_url, resource.credential
        kind = credential.credential_type
    except AttributeError:
        found = type(resource).__name__
        raise SettingsError(f"`azure` takes dagster-azure's AzureBlobStorageResource, not a {found}.") from None
    parts = urlsplit(url)
    account = parts.path.strip("/") or (parts.hostname or "").partition(".")[0]
    if not account or parts.query or "@" in parts.netloc:
        raise SettingsError(
            "The AzureBlobStorageResource's `account_url` must read https://ACCOUNT.blob.core.windows.net."
        )
    if kind == "anonymous" or (kind == "default_azure_credential" and credential.kwargs):
        raise SettingsError(
            "lakegc takes an AzureBlobStorageResource with a key, a SAS, or the default credential without arguments: "
            "each executor finds that for itself, by AZURE_… variables."
        )
    return AzureAccess(
        account=account,
        account_url=url.rstrip("/"),
        account_key=credential.key if kind == "key" else None,
        sas_token=credential.token if kind == "sas" else None,
    )
