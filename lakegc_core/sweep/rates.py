"""How long a sweep will take, by what earlier sweeps of the same repository took."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lakegc_core import clock
from lakegc_core.errors import MarkError
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import report_of, without_drills


@dataclass(frozen=True)
class Rate:
    """What earlier sweeps sent, and the seconds that this took them."""

    sweeps: int = 0
    objects: int = 0
    seconds: float = 0.0

    @property
    def a_second(self) -> float:
        return self.objects / self.seconds if self.seconds else 0.0


def rate_so_far(context: RepositoryContext) -> Rate:
    """The rate of all sweeps of standing marks whose report says it. Drills do not count, nor reports that do not read.
    Where the next sweep copies into quarantine, only sweeps count that did so; elsewhere only those that did not."""
    sweeps, objects, seconds, copies = 0, 0, 0.0, context.policy.quarantine is not None
    for each in Shelf.of(context):
        for number in without_drills(each.mark.store, each.mark.folder):
            with suppress(MarkError):
                report = report_of(each.mark.store, each.mark.folder, number) or {}
                sent, as_now = report.get("sent", {}), bool(report.get("quarantine")) == copies
                if as_now and sent.get("objects") and sent.get("seconds"):
                    sweeps, objects, seconds = sweeps + 1, objects + sent["objects"], seconds + sent["seconds"]
    return Rate(sweeps, objects, seconds)


def estimate(context: MarkContext, objects: int, seconds: float, until: float | None = None) -> dict[str, float]:
    """How long a sweep of so many objects will take. `seconds`: what a dry run took, which looks as often as a sweep
    does before its first delete. `until`: unix seconds, when its budget ends it.

    Returns `seconds` in all, `objects_a_second` and the number of `sweeps` that they follow from; with `until` also
    `objects_until`. Empty if no sweep is on record that deleted anything.
    """
    rate, ceiling = rate_so_far(context), context.settings.scale.delete_rate
    if not rate.a_second:
        return {}
    a_second = min(rate.a_second, ceiling) if ceiling else rate.a_second
    looks = 2 * seconds  # one before, and one after
    found = {"seconds": looks + objects / a_second, "objects_a_second": a_second, "sweeps": rate.sweeps}
    if until is None:
        return found
    time_left = max(0.0, until - clock.now().timestamp() - seconds)
    return found | {"objects_until": min(objects, int(time_left * a_second))}
