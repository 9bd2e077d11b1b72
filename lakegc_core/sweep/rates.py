"""How long a sweep will take, by what earlier sweeps of the same repository took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import report_of, without_drills

_ENOUGH = 1_000  # objects; what a sweep of fewer takes tells nothing of how fast it deletes


def earlier(context: RepositoryContext) -> Iterator[tuple[int, float]]:
    """The objects that each sweep of a standing mark sent, and the seconds that this took, where its report says it.
    Drills do not count, nor reports that cannot be read. Where the next sweep copies into quarantine, only sweeps count
    that did so; elsewhere only those that did not."""
    copies = context.policy.quarantine is not None
    for each in Shelf.of(context):
        for number in without_drills(each.mark.store, each.mark.folder):
            with suppress(MarkError):
                report = report_of(each.mark.store, each.mark.folder, number) or {}
                sent, as_now = report.get("sent", {}), bool(report.get("quarantine")) == copies
                if as_now and sent.get("objects") and sent.get("seconds"):
                    yield sent["objects"], sent["seconds"]


def estimate(
    context: MarkContext, objects: int, dry_run_seconds: float, until: float | None = None
) -> dict[str, float]:
    """How long a sweep of so many objects will take. `dry_run_seconds`: what a dry run took, which looks as often as a
    sweep does before its first delete. `until`: unix seconds, when its budget ends it.

    Returns `seconds` in all, `looks` (of these, what does not depend on the number of objects) and the number of
    `sweeps` that they follow from; where these tell a rate, `objects_a_second`; with `until` also `objects_until`, if
    there are any objects. Empty without a sweep on record that tells: one of _ENOUGH objects, or any one if this sweep
    has fewer than that.
    """
    told, ceiling = list(earlier(context)), context.settings.scale.delete_rate
    large = [each for each in told if each[0] >= _ENOUGH]
    telling = large or (told if objects < _ENOUGH else [])
    if not telling:
        return {}
    found = {"looks": 2 * dry_run_seconds, "sweeps": float(len(telling))}  # one before, and one after
    if large:
        rate = sum(sent for sent, _ in telling) / sum(took for _, took in telling)
        found["objects_a_second"] = min(rate, ceiling) if ceiling else rate
        deletes = objects / found["objects_a_second"]
    else:
        deletes = max(max(took for _, took in telling), objects / ceiling if ceiling else 0.0)
    found["seconds"] = found["looks"] + deletes
    if until is None or not objects:
        return found
    share = max(0.0, until - clock.now().timestamp() - dry_run_seconds) / deletes
    return found | {"objects_until": int(min(1.0, share) * objects)}
