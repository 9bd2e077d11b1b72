"""Credentials that a host program hands over, as frozen values; without them each SDK looks where it always looks.

They travel to executors within store configs, and no repr shows a secret. How a store uses them is the store's
business; lakegc's own settings never hold any.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class S3Access:
    """Access to S3. A field that is None comes from the SDK's own chain."""

    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AzureAccess:
    """Access to one storage account: by `account_url`, with a key or a SAS, else by the default chain."""

    account: str
    account_url: str
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
