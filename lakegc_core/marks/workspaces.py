"""Places of lakegc's own beside those of repositories: refuses workspaces in the data of a repository, whose collector
would list lakegc's own artifacts, and workspaces that do not have what lies in the namespace from before; tells where
two places overlap.

Objects below `data/` to which nothing refers are garbage to a collector, lakegc's or another; others would turn up in
listings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow.compute as pc

from lakegc_core.config.settings import Settings
from lakegc_core.errors import RefusedError, SettingsError, StoreError
from lakegc_core.marks.artifacts import HOME
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.places import clean, place_of
from lakegc_core.store.base import StoreConfig, connect, holds_any
from lakegc_core.store.factory import check_place, config_for
from lakegc_core.store.local import LocalConfig

_METADATA = "_lakefs"
_LEFT = ("marks", "quarantine")  # folders of a home that no other home makes up for
_HEADER = "/mark.json"


def workspace_at(uri: str, settings: Settings) -> StoreConfig:
    """The store in which marks lie by lakegc.yaml, each repository's in a folder of its name."""
    check_place(uri)
    if place_of(uri) is None:
        raise SettingsError(
            f"`workspace: {uri}` in lakegc.yaml names no place of a store. Write it with its scheme, for instance "
            "s3://bucket/folder."
        )
    place = Namespace(uri)
    return config_for(place, settings, local_folder=f"/{place.path}")


def left_of_deleted(name: str, settings: Settings) -> str:
    """The home in a workspace of a repository that lakeFS does not know any more, if anything lies there; "" if not.
    What lies below its namespace goes with that."""
    uri = settings.policy_for(name).workspace
    if not uri:
        return ""
    workspace = workspace_at(uri, settings)
    return f"{workspace.root}/{name}/" if holds_any(connect(workspace), f"{name}/") else ""


def check_workspace(
    written: str, workspace: StoreConfig, repository: str, own: StoreConfig, others: Iterable[tuple[str, StoreConfig]]
) -> None:
    """SettingsError if the workspace lies in the data of a repository, or around another one's.

    `written`: as lakegc.yaml has it; `own`: the root of the namespace of `repository`, below whose `_lakefs/` it may
    lie; `others`: names and roots of all others.
    """
    place = _place(workspace)
    inside = f"{place}{repository}/"  # where the artifacts of this repository lie
    for name, root in ((repository, own), *others):
        namespace = _place(root)
        is_inside = any(_in_data(each, namespace) for each in (place, inside))
        if is_inside or (name != repository and namespace.startswith(place)):
            raise SettingsError(
                f"The workspace {written} of repository {repository} lies {'in' if is_inside else 'around'} the "
                f"namespace of repository {name}, {root.root}. lakegc's artifacts would lie among its data, where a "
                "collector takes them for garbage. Set `workspace` in lakegc.yaml to a place of its own, or leave it "
                f"out: artifacts then lie below {own.root.rstrip('/')}/{_METADATA}/."
            )


def left_behind(data: StoreConfig) -> list[str]:
    """The places in a namespace where marks, or copies in quarantine, lie from before there was a workspace. A mark
    that was begun and did nothing, as one that was refused for want of rules, is nothing to lose."""
    return [f"{data.root}/{HOME}/{each}/" for each in _LEFT if _holds_more(data, f"{HOME}/{each}/")]


def holds_marks(workspace: StoreConfig, home: str) -> bool:
    """True if marks of a repository lie in a workspace."""
    with suppress(StoreError):  # of a folder that the first mark will make
        return holds_any(connect(workspace), f"{home}/marks/")
    return False


def check_moved(data: StoreConfig, workspace: StoreConfig, home: str, say: Callable[[str], None]) -> None:
    """RefusedError if a workspace has no mark of a repository yet, and marks or copies lie in the namespace: nothing
    would find them. Where the namespace does not let itself be listed there, that is said, and stops nothing."""
    if holds_marks(workspace, home):
        return
    old, new = f"{data.root}/{HOME}/", f"{workspace.root}/{home}/"
    try:
        left = left_behind(data)
    except StoreError as error:
        say(f"workspace: nobody knows if marks or copies from before lie in {old}: {error}")
        return
    if left:
        raise RefusedError(
            f"`workspace` in lakegc.yaml leads to {new}, where no mark lies, but {' and '.join(left)} hold what lakegc "
            "left there before. Nothing would find it: no restore its copies, no sweep one that broke off, no mark the "
            f"rules of before. Let all collectors end, move all that lies in {old} to {new}, and try again. Or take "
            f"`workspace` out of lakegc.yaml. If nothing of it is needed, delete {old}."
        )


def _holds_more(config: StoreConfig, folder: str) -> bool:
    """True if more lies in a folder than headers of marks."""
    return any(not pc.all(pc.ends_with(rows["address"], _HEADER)).as_py() for rows in connect(config).list(folder))


def overlap(one: StoreConfig, other: StoreConfig) -> bool:
    """True if one place lies in the other, or both are one."""
    places = _place(one), _place(other)
    return places[0].startswith(places[1]) or places[1].startswith(places[0])


def _in_data(place: str, namespace: str) -> bool:
    """True if a place lies in a namespace, and not below its metadata."""
    return place.startswith(namespace) and not place.startswith(f"{namespace}{_METADATA}/")


def _place(config: StoreConfig) -> str:
    """The root of a store as text that can be compared, with one slash at its end."""
    root = f"local://{os.path.realpath(config.path)}" if isinstance(config, LocalConfig) else config.root
    scheme, _, path = root.partition("://")
    return f"{scheme}://{clean(path)}/"
