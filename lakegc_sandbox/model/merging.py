"""What a three-way merge writes, as in lakeFS. Merges, reverts and cherry-picks are all such merges."""

from __future__ import annotations

from lakegc_sandbox.files.graveler_writer import Entry
from lakegc_sandbox.model.objects import same
from lakegc_sandbox.model.refs import SandboxError
from lakegc_sandbox.model.tree import Changes, Tree, diff


def merged(base: Tree, source: Tree, head: Tree, strategy: str = "") -> Changes:
    """The changes to `head` that make it the merge with `source`; both come from `base`.

    Of two entries of one identity the source's is written: a path can get another address though its content stays.
    SandboxError: 400 if the source changed nothing, 409 on a conflict that no strategy settles.
    """
    if source.meta_range_id == base.meta_range_id:
        raise SandboxError(400, "no changes")
    ours = diff(base, head)
    changes: dict[str, Entry | None] = {}
    for path, entry in diff(base, source).items():
        if path not in ours or strategy == "source-wins":
            changes[path] = entry
        elif not strategy and not same(ours[path], entry):
            raise SandboxError(409, f"conflict found in path {path}")
    return changes | _of_equal_content(base, source, head)


def _of_equal_content(base: Tree, source: Tree, head: Tree) -> dict[str, Entry]:
    """The entries of the source that replace those of the same identity in the head.

    lakeFS keeps a range of the head unread where source and base share a range of its bounds.
    """
    ours = {(info.min_key, info.max_key): info.id for info, _ in head.ranges()}
    known = {info.id for info, _ in base.ranges()}
    found = {}
    for info, entries in source.ranges():
        kept = ours.get((info.min_key, info.max_key))
        if kept != info.id and (kept is None or info.id not in known):
            for path, entry in entries:
                here = head.get(path)
                if here is not None and here != entry and same(here, entry):
                    found[path] = entry
    return found
