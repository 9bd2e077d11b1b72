"""The repository that somebody names, and those that may be meant where lakeFS knows none of that name; and the names
of tags, as far as lakeFS takes them for refs."""

from __future__ import annotations

import re

from lakegc_core.errors import LakegcError, SettingsError, did_you_mean
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Ref, Repository

_NO_NAME = 400
_MARK_ID = r"[0-9]{8}T[0-9]{4,6}Z.*"


def repository_named(client: LakeFSClient, name: str) -> Repository:
    """One repository, as `LakeFSClient.repository` has it. The error names those that may be meant, where lakeFS
    knows no such one, and where it takes no such name: it takes none with upper-case letters.

    SettingsError for a storage namespace.
    """
    if "://" in name:
        said = f"{name!r} is a place in a store, and not the name of a repository."
        raise SettingsError(" ".join(filter(None, (said, suggestion(client, name)))))
    try:
        return client.repository(name)
    except LakeFSError as error:
        near = suggestion(client, name) if error.is_absent or error.status == _NO_NAME else ""
        if re.fullmatch(_MARK_ID, name):
            near = "It looks like the id of a mark: the name of the repository comes before it."
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


def ref_of_tag(tag: Ref) -> str:
    """A ref that shows what a tag does: its name, or its commit where lakeFS would read the name as something else."""
    return tag.name if is_plain_ref(tag.name) else tag.commit_id


def is_plain_ref(name: str) -> bool:
    """True if lakeFS reads a name in the place of a ref as it is. It unescapes `%`, takes what follows `@`, `~` or `^`
    for modifiers, and `main$` for what is staged on main."""
    return re.fullmatch(r"[\w.-]+", name) is not None
