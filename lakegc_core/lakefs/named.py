"""The repository that somebody names, and those that may be meant where lakeFS knows none of that name."""

from __future__ import annotations

from lakegc_core.errors import LakegcError, SettingsError, did_you_mean
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Repository


def repository_named(client: LakeFSClient, name: str) -> Repository:
    """One repository, as `LakeFSClient.repository` has it; the error of status 404 names those that may be meant.

    SettingsError for a storage namespace.
    """
    if "://" in name:
        said = f"{name!r} is a place in a store, and not the name of a repository."
        raise SettingsError(" ".join(filter(None, (said, suggestion(client, name)))))
    try:
        return client.repository(name)
    except LakeFSError as error:
        near = suggestion(client, name) if error.is_absent else ""
        if not near:
            raise
        raise LakeFSError(f"{error}. {near}", error.status, error.message) from None


def suggestion(client: LakeFSClient, name: str) -> str:
    """A question that names the repositories that may be meant: called alike, or the one in whose namespace a place
    lies. Empty if there are none, or if lakeFS does not list them."""
    try:
        namespaces = {each.id: each.storage_namespace.rstrip("/") for each in client.repositories()}
    except LakegcError:
        return ""
    if "://" in name:
        holding = [each for each, namespace in namespaces.items() if f"{name}/".startswith(f"{namespace}/")]
        return f"Did you mean {max(holding, key=lambda each: len(namespaces[each]))}?" if holding else ""
    return did_you_mean(name, namespaces)
