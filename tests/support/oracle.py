"""What is garbage, said as plainly as it can be: an independent oracle for tests, by brute force over a whole world.

A `World` is all there is to know of a repository at one moment, objects by name. Nothing of lakegc's own reading,
walking, decoding or name rules is used here. How a world comes about belongs in `histories`.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakegc_sandbox import Repository
from lakegc_sandbox.files.graveler_writer import Entry

DAY = 86_400 * 10**6  # microseconds, like every time here
DELETED_BRANCHES = "commits of deleted branches"
EVERY_COMMIT = "no rules, so that every commit counts"


@dataclass(frozen=True)
class Version:
    """One commit: its parents, when it was made, the names of the objects it shows."""

    parents: tuple[str, ...]
    created: int
    objects: frozenset[str] = frozenset()
    main: int = 0  # which parent is the main one; the last for commits of the oldest servers


@dataclass(frozen=True)
class World:
    """A repository at one moment. `shown` are the objects that branches show, staged ones included."""

    now: int
    commits: Mapping[str, Version]
    heads: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[int, Mapping[str, int]] | None = None  # days by default, days by branch
    shown: frozenset[str] = frozenset()
    store: Mapping[str, int] = field(default_factory=dict)  # name -> when it was written
    min_age: int = DAY
    local: bool = False  # blockstore `local`


def path(world: World, commit: str) -> list[str]:
    """A commit and what its branch showed before it, newest first."""
    found = [commit]
    while world.commits[found[-1]].parents:
        version = world.commits[found[-1]]
        found.append(version.parents[version.main])
    return found


def moment(world: World, commit: str) -> int:
    """When a commit was made, but always after the one that it was built upon: clocks are not to be trusted."""
    found = -(10**18)
    for each in reversed(path(world, commit)):
        found = max(world.commits[each].created, found + 1)
    return found


def shown_after(world: World, head: str, moment: int) -> set[str]:
    """What a branch showed before its head, but after the moment: a version is shown until the next one is made."""
    versions = path(world, head)
    return {old for new, old in itertools.pairwise(versions) if world.commits[new].created > moment}


def dangling(world: World) -> set[str]:
    """What deleted branches and resets left: commits that no branch shows and none was built upon."""
    built_upon = {version.parents[version.main] for version in world.commits.values() if version.parents}
    return set(world.commits) - built_upon - set(world.heads.values())


def counting(world: World, *, tags: bool) -> set[str]:
    """The commits whose objects must stay. `tags`: those of tags too."""
    return counting_in_the_end(world, world, tags=tags)


def counting_in_the_end(before: World, later: World, *, tags: bool) -> set[str]:
    """What counts in `later` but for what deleted branches have left since `before`: that dangled for a while."""
    if later.rules is None:
        return set(later.commits)
    default, by_branch = later.rules
    found = set(later.heads.values()) | (set(later.tags.values()) if tags else set())
    for branch, head in later.heads.items():
        found |= shown_after(later, head, later.now - by_branch.get(branch, default) * DAY)
    for commit in dangling(before):
        found |= shown_after(later, commit, later.now - default * DAY)
        if later.commits[commit].created > later.now - default * DAY:
            found.add(commit)
    return found


def holders(world: World, showing: Collection[str]) -> set[str]:
    """What keeps by itself an object that these commits show: `branch:NAME`, `tag:NAME`, or what else in words."""
    found = {f"tag:{tag}" for tag, commit in world.tags.items() if commit in showing}
    found |= {f"branch:{branch}" for branch, head in world.heads.items() if head in showing}
    if world.rules is None:
        return found | ({EVERY_COMMIT} if showing else set())
    default, by_branch = world.rules
    for branch, head in world.heads.items():
        if not shown_after(world, head, world.now - by_branch.get(branch, default) * DAY).isdisjoint(showing):
            found.add(f"branch:{branch}")
    for commit in dangling(world):
        young = {commit} if world.commits[commit].created > world.now - default * DAY else set()
        if not (young | shown_after(world, commit, world.now - default * DAY)).isdisjoint(showing):
            found.add(DELETED_BRANCHES)
    return found


def pasts(world: World, showing: Collection[str], *, within: int = 0) -> set[tuple[str, str, str | None]]:
    """What may be said of what only these commits showed: the last of them, `replaced` or `deleted`, and the commit of
    a branch that replaced it. `within`: commits that were made so close to one another may each be the last."""
    moments = {commit: moment(world, commit) for commit in showing}
    later = set[str]().union(*(path(world, head) for head in world.heads.values())) - set(showing)
    found: set[tuple[str, str, str | None]] = set()
    for last in (commit for commit in moments if moments[commit] >= max(moments.values()) - within):
        built = [each for each in later if path(world, each)[1:2] == [last]]
        found |= {(last, "replaced", each) for each in built} or {(last, "deleted", None)}
    return found


def without(world: World, gone: Collection[str]) -> World:
    """The world without some branches (`branch:NAME`) and tags (`tag:NAME`)."""
    heads = {name: commit for name, commit in world.heads.items() if f"branch:{name}" not in gone}
    tags = {name: commit for name, commit in world.tags.items() if f"tag:{name}" not in gone}
    return replace(world, heads=heads, tags=tags)


def live(world: World, *, tags: bool) -> set[str]:
    """Every name that something still shows, stored or not."""
    return set(world.shown).union(*(world.commits[commit].objects for commit in counting(world, tags=tags)))


def is_foreign(world: World, name: str) -> bool:
    """Not written by lakeFS as data, whatever it is."""
    if re.fullmatch("[0-9a-f]{32}", name) or (world.local and re.fullmatch("[0-9a-f]{32}-[0-9]{5}", name)):
        return False
    if not name.startswith("data/") or name != name.rstrip() or "/_lakefs/" in name:
        return True
    *folders, last = name.removeprefix("data/").split("/")
    last = re.sub("(,[0-9A-Za-z_-]{43})?([.]multipart|[.]part_[0-9]{5}[_0-9]*|_id|_size)?$", "", last)
    old = re.fullmatch("[0-9A-Za-z_-]{21}", last) and (
        not folders or re.search("-.*[:-][0-9a-f-]{36}$", "/".join(folders))
    )
    return not (old or (folders and all(re.fullmatch("[0-9a-v]{20}", each) for each in (folders[-1], last))))


def is_young(world: World, name: str) -> bool:
    """Written, or given its name, no longer ago than the minimum age."""
    return max(world.store[name], named_at(name)) >= world.now - world.min_age


def named_at(name: str) -> int:
    """The moment in a name that lakeFS made up, which is 20 digits to the base of 32; 0 if it is not one."""
    last = name.rpartition("/")[2]
    if not re.fullmatch("[0-9a-v]{19}[0g]([,._].*)?", last):
        return 0
    return int.from_bytes(base64.b32hexdecode(last[:20].upper() + "====")[:4], "big") * 10**6


def garbage(world: World, *, tags: bool) -> set[str]:
    """What a collector must find, no more and no less."""
    dead = set(world.store) - live(world, tags=tags)
    return {name for name in dead if not is_foreign(world, name) and not is_young(world, name)}


def world_of(repository: Repository, min_age: int, known: Mapping[str, Version] | None = None) -> World:
    """The repository as its own model of commits and branches tells it, and the names in its folder. `known`: commits
    that were read before, which never change."""
    refs, known = repository.refs, known or {}
    return World(
        now=int(repository.place.clock() * 10**6),
        commits={
            commit.id: known.get(commit.id)
            or Version(commit.parents, commit.creation_date // 1000, frozenset(_names(repository, commit.id)))
            for commit in refs.commits.values()
        },
        heads={branch.name: branch.commit_id for branch in refs.branches.values()},
        tags=dict(refs.tags),
        rules=repository.rules,
        shown=frozenset(name for branch in refs.branches for name in _names(repository, branch)),
        store=stored(repository),
        min_age=min_age,
        local=repository.place.local_base is not None,
    )


def named_by_server(world: World, repository: Repository) -> World:
    """The same without what branches show and the server does not name: identical re-uploads, see `suspects`."""
    staged = [
        entry
        for branch in repository.refs.branches
        for _, change, entry in repository.uncommitted(branch)
        if change != "removed"
    ]
    return replace(world, shown=frozenset(name for entry in staged for name in names_of(repository, entry)))


def _names(repository: Repository, ref: str) -> Iterator[str]:
    """The objects that a reference shows, but for those that lie outside the repository."""
    for _, entry in repository.objects(ref):
        yield from names_of(repository, entry)


def names_of(repository: Repository, entry: Entry) -> Iterator[str]:
    """The names in the repository's folder that an entry may stand for."""
    place = repository.place
    if "://" not in entry.address:
        yield entry.address
    for start in (place.qualify(""), place.namespace_slash):
        if entry.address.startswith(start):
            yield entry.address.removeprefix(start)


def stored(repository: Repository) -> dict[str, int]:
    """Everything in the repository's folder but lakeFS's metadata, and when it was written."""
    top = str(repository.files.folder)  # type: ignore[attr-defined]
    found = {}
    for folder, _, files in os.walk(top):
        for file in files:
            name = os.path.relpath(os.path.join(folder, file), top)  # noqa: PTH118
            if not name.startswith("_lakefs/"):
                found[name] = os.stat(f"{folder}/{file}").st_mtime_ns // 1000  # noqa: PTH116
    return found
