"""What `explain` is asked for: a path, a path at a ref, or the address of an object, as people write them."""

from __future__ import annotations

import re

import pyarrow as pa

from lakegc_core.answers.places import Wish
from lakegc_core.answers.records import stored
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.models import ObjectStats
from lakegc_core.lakefs.named import is_plain_ref
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.places import ODD_SEGMENTS, place_of


def wish_of(context: MarkContext, what: str) -> Wish:
    """Read what is asked for. SettingsError for nothing, for another repository, and for a ref or a path that lakeFS
    does not know."""
    name, namespace = context.repository.id, context.namespace
    if not what:
        raise SettingsError(f"Nothing is asked for: write lakefs://{name}/REF/PATH, a path, or an address.")
    if what.startswith("lakefs://"):
        repository, _, rest = what.removeprefix("lakefs://").partition("/")
        ref, _, path = rest.partition("/")
        if repository != name or not ref or not path:
            raise SettingsError(f"{what} names no object of repository {name}; write lakefs://{name}/REF/PATH.")
        found = _shown_at(context, ref, path)
        if found is None:
            raise SettingsError(
                f"lakeFS shows nothing at {what}: the branch, tag or commit, or the path, may be another. If it is a "
                f"folder, name a path in it. A path alone asks for all versions of it: {path}"
            )
        return Wish(addresses=(_relative(context, found.physical_address),))
    if not _is_text(what):  # lakeFS takes any bytes for a path; no address has such
        return Wish(path=what)
    if "://" in what:
        return Wish(addresses=(_relative(context, what),))
    if namespace.deletable(pa.array([what]), unknown_names=False)[0].as_py():
        return Wish(addresses=(what,))
    return Wish(path=what)


def _shown_at(context: MarkContext, ref: str, path: str) -> ObjectStats | None:
    """What lakeFS shows at REF/PATH; None if nothing. A tag may have slashes in its name, or be called what lakeFS
    reads as something else (`ref_of_tag`): it is found by lakeFS's list, and asked for by its commit."""
    name, asked, is_plain = context.repository.id, f"{ref}/{path}", is_plain_ref(ref)
    if is_plain and (found := context.client.stat(name, ref, path)):
        return found
    tags = [each for each in context.client.tags(name) if asked.startswith(f"{each.name}/")]
    for tag in sorted(tags, key=lambda each: len(each.name), reverse=True):
        if found := context.client.stat(name, tag.commit_id, asked.removeprefix(f"{tag.name}/")):
            return found
    return None if is_plain else context.client.stat(name, ref, path)


def _is_text(what: str) -> bool:
    """False for bytes of the command line that are no UTF-8."""
    return what == what.encode("utf-8", "replace").decode()


def key_of(context: MarkContext, what: str) -> str | None:
    """The key of an object, if what no commit shows as a path is one; perhaps behind a slash, or behind the namespace
    or the end of it, as tools of a store write it."""
    bare, segments = what.lstrip("/"), context.namespace.uri.partition("://")[2].split("/")
    before = ("/".join(segments[first:]) + "/" for first in range(len(segments)))
    spellings = [what, bare, *(bare.removeprefix(each) for each in before if bare.startswith(each))]
    return next((each for each in spellings if _is_key(context, each)), None)


def _is_key(context: MarkContext, key: str) -> bool:
    """True if an object of this key is there, or may have been deleted. To some of them lakeFS gives no such name, so
    that the name alone does not tell."""
    if not key or not _is_text(key) or re.search(ODD_SEGMENTS, key):
        return False
    names, collected = pa.array([key]), context.header.collect_unknown_names
    return context.namespace.deletable(names, unknown_names=collected)[0].as_py() or bool(stored(context, [key]))


def _relative(context: MarkContext, physical: str) -> str:
    """An address as lakeFS gives it, relative to the namespace."""
    keys = context.namespace.protected_keys(pa.array([physical]), pa.array([2], pa.int8()))
    inside = keys.filter(keys["exact"])["address"].to_pylist()
    place = place_of(physical)
    if not inside or place is None or place.kind != context.namespace.place.kind:
        raise SettingsError(f"{physical} does not lie in {context.namespace.uri}: lakegc never deletes it.")
    return str(inside[0])
