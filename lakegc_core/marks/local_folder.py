"""In which folder a namespace on blockstore local lies: no setting of lakeFS says it, only where it wrote something."""

from __future__ import annotations

from lakegc_core.config.settings import Settings
from lakegc_core.errors import LakegcError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.factory import mapping_for


def local_folder(client: LakeFSClient, settings: Settings, name: str, namespace: Namespace) -> str | None:
    """The folder of a `local://` namespace, by what the server says of itself: nobody else knows."""
    mapping = mapping_for(namespace, settings)
    if mapping and mapping.root:
        return None
    below = namespace.path
    for location in _known_locations(client, name):
        path = location.partition("://")[2]
        # By what lakeFS puts below every namespace: a folder above may well be called like the namespace itself.
        for inside in ("_lakefs/", "data/", ""):
            folder, found, _ = path.rpartition(f"/{below}/{inside}")
            if found and folder:
                return f"{_undouble(folder)}/{below}"
    return None


def _known_locations(client: LakeFSClient, name: str) -> list[str]:
    def of_commits() -> list[str]:
        return [client.prepare_commits(name).commits_location]

    def of_staged() -> list[str]:
        return list(client.prepare_uncommitted(name).locations)

    def of_objects() -> list[str]:
        branch = client.repository(name).default_branch
        return [stats.physical_address for page in client.objects(name, branch) for stats in page]

    for ask in (of_commits, of_staged, of_objects):
        try:
            found = [location for location in ask() if location]
        except LakegcError:
            continue  # without rules the first cannot answer; the next one may
        if found:
            return found
    return []


def _undouble(folder: str) -> str:
    """Addresses of uploads on `local` carry the server's folder twice."""
    half, odd = divmod(len(folder), 2)
    return folder[:half] if not odd and folder[:half] == folder[half:] else folder
