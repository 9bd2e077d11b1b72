"""From a storage namespace to the store that holds it. The only place that knows all kinds of store."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lakegc_core.config.credentials import AzureAccess, S3Access
from lakegc_core.config.fields import named_place
from lakegc_core.config.settings import Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import SettingsError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.base import StoreConfig
from lakegc_core.store.gcs import ENDPOINT_VARIABLE
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3 import ENDPOINT_VARIABLES

_DIRECTORY_BUCKET = re.compile("--xa?-s3$")
"""The end of the names of S3 directory buckets, and of access points to them."""


def config_for(namespace: Namespace, settings: Settings, *, local_folder: str | None = None) -> StoreConfig:
    """The store rooted at a namespace, reached as its SDK is configured, or as the host program says.

    `local_folder` is where a `local://` namespace lies on this machine, when the server has told; a `root` in
    lakegc.yaml's `stores` wins over it.
    """
    mapping = mapping_for(namespace, settings)
    if namespace.scheme == "s3":
        return _s3(namespace, mapping, settings.s3 or S3Access(), settings.server.endpoint_url)
    if namespace.scheme == "gs":
        return _gcs(namespace, mapping.endpoint if mapping else None)
    if namespace.is_azure:
        return _azure(namespace, mapping.endpoint if mapping else None, settings.azure)
    if namespace.scheme == "local":
        if mapping and mapping.root:
            return LocalConfig(str(Path(mapping.root) / namespace.path))
        if local_folder is None:
            raise SettingsError(
                f"Where {namespace.uri} lies on this machine is not known: the server named no location in it. "
                'Say it in lakegc.yaml: stores: [{match: "local://", root: <lakeFS\'s blockstore.local.path>}].'
            )
        return LocalConfig(local_folder)
    raise SettingsError(f"Stores of the kind {namespace.scheme}:// cannot be collected by this version of lakegc.")


def mapping_for(namespace: Namespace, settings: Settings) -> StoreMapping | None:
    """The entry of lakegc.yaml's `stores` for a namespace, as it is written or as lakeFS spells it."""
    return settings.store_for(namespace.uri) or settings.store_for(namespace.spelled)


def check_place(place: str) -> None:
    """SettingsError for a place that carries a secret, such as a SAS: places are written into records and shown."""
    parts = urlsplit(place) if "://" in place else urlsplit("")
    if "@" in parts.netloc or "=" in parts.query:
        raise SettingsError(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} was named together with a secret or a "
            "query. Name the place alone, without what follows the ?, and give the credentials as docs/stores.md says."
        )


def config_at(place: str, settings: Settings) -> StoreConfig:
    """The store rooted at a place that a person named: a URI like those of namespaces, or an absolute folder."""
    check_place(place)
    named_place(place)
    folder = unquote(urlsplit(place).path) if place.startswith("file://") else place
    if folder.startswith("/"):
        return LocalConfig(os.path.normpath(folder))
    if not urlsplit(place).netloc:
        raise SettingsError(f"{place!r} names no bucket: give a URI such as s3://bucket/prefix, or an absolute folder.")
    return config_for(Namespace(place.rstrip("/")), settings)


def below(config: StoreConfig, folder: str) -> StoreConfig:
    """The store rooted at a folder below the root of another one, reached in the same way."""
    if isinstance(config, LocalConfig):
        return LocalConfig(f"{config.path}/{folder}")
    prefix: str = getattr(config, "prefix", "")
    other: Any = config
    found: StoreConfig = replace(other, prefix=f"{prefix}/{folder}" if prefix else folder)
    return found


def _s3(namespace: Namespace, mapping: StoreMapping | None, given: S3Access, lakefs: str) -> StoreConfig:
    """`lakefs`: the URL of lakeFS, which is no endpoint of a store."""
    if _DIRECTORY_BUCKET.search(namespace.authority):
        raise SettingsError(
            f"{namespace.uri} lies in an S3 directory bucket (S3 Express One Zone), which lakegc does not support: it "
            "is listed in no order, and only below prefixes that end in a slash, so that nothing shows whether a "
            "listing in parts is whole. Keep repositories, workspaces and backups in general purpose buckets."
        )
    from lakegc_core.store.s3.store import S3Config  # the SDK is slow to import

    # Resolved here, so that executors and the process's cache of connections see the same one.
    endpoint = (
        (mapping.endpoint if mapping else None)
        or given.endpoint_url
        or next(filter(None, map(os.environ.get, ENDPOINT_VARIABLES)), None)
    )
    if endpoint and "://" in endpoint and endpoint.partition("://")[2].rstrip("/") == lakefs.partition("://")[2]:
        raise SettingsError(
            f"The S3 endpoint for {namespace.uri} is {endpoint}, which is lakeFS itself. Its gateway shows branches, "
            "not what lies in the bucket. Name the store's own endpoint, in AWS_ENDPOINT_URL_S3 or in lakegc.yaml's "
            "`stores`, and the store's own keys."
        )
    return S3Config(
        bucket=namespace.authority,
        prefix=namespace.path,
        endpoint_url=endpoint,
        region=given.region,
        access_key_id=given.access_key_id,
        secret_access_key=given.secret_access_key,
        session_token=given.session_token,
        delete_versions=bool(mapping and mapping.delete_versions),
        etags_are_md5=bool(mapping and mapping.etags),
        encryption=mapping.encryption if mapping else None,
        kms_key_id=mapping.kms_key_id if mapping else None,
    )


def _azure(namespace: Namespace, endpoint: str | None, given: AzureAccess | None) -> StoreConfig:
    from lakegc_core.store.azure import access as azure_access
    from lakegc_core.store.azure import store as azure

    container, _, prefix = namespace.path.partition("/")
    if given is not None and given.account != namespace.account:
        given = None  # meant for another account: a key of one never goes to another
    return azure.AzureConfig(
        account=namespace.account,
        container=container,
        prefix=prefix,
        account_key=given.account_key if given else None,
        sas_token=given.sas_token if given else None,
        endpoint_url=endpoint
        or (given.account_url if given else None)
        or azure_access.endpoint(namespace.account)
        or f"{namespace.scheme}://{namespace.authority}",
    )


def _gcs(namespace: Namespace, endpoint: str | None) -> StoreConfig:
    try:
        from lakegc_core.store.gcs import store as gcs
    except ImportError as error:
        raise SettingsError(
            f"{namespace.uri} lies on Google Cloud Storage, whose SDK is not installed ({error.name}): "
            "pip install 'lakegc[gcs]'."
        ) from None
    return gcs.GCSConfig(
        bucket=namespace.authority,
        prefix=namespace.path,
        endpoint_url=endpoint or os.environ.get(ENDPOINT_VARIABLE),
    )
