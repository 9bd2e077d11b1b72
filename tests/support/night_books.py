"""What a keeper of accounts writes down beside lakegc: what went, how old garbage is, what is left lying.

Nothing here believes lakegc but where it is compared with it: objects that went are those that were there before and
are not any more; garbage is what the oracle calls so.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakegc_core.errors import MarkError
from lakegc_core.marks.artifacts import HOME, STAGES
from lakegc_core.marks.retire import list_retired
from lakegc_core.marks.shelf import marks
from lakegc_core.marks.sweeps import files_of, report_of, sweeps_of
from lakegc_core.names import FAILED, Outcome
from lakegc_core.policy.safety import CLEAN_EVERY, RETIREMENT
from lakegc_core.tables.parts import read_part
from tests.support import oracle
from tests.support.towns import DAY, MARGIN, MEMORY

if TYPE_CHECKING:
    from tests.support.long_town import LongTown

OLDEST = 9.0
"""Days after which nothing that was garbage may be there: a week until a clean mark lists what appeared late in an old
folder, a night until the next mark confirms it, and one that a fault may cost."""

NAMING = ("held", "unasked")
"""Reasons of a mark by which it names garbage that it keeps: a hold, a budget."""

ASIDE = ("rules/", "rescues/", "retired/", "journals/")
"""Below the home, what may grow: journals and records of which none is needed twice."""

MOST_MARKS = math.ceil(RETIREMENT / timedelta(days=1)) + CLEAN_EVERY
"""Marks that may stand at the end of a night: those too young to be retired, those that the oldest of them rests on,
and one that was damaged since, which is as young as the damage. A sweep that waits for a person, or was finished late,
keeps its mark longer, and what that rests on."""

LATE = ("broke off", "cannot be read", "it was swept or restored since")
"""In the reasons of `retire`: a sweep that waits for a person, or that a person finished a week later."""


@dataclass
class Books:
    """The accounts of one town. Times are unix seconds, ages days."""

    town: LongTown
    objects: int = 0  # that went while lakegc swept
    bytes: int = 0
    since: dict[str, float] = field(default_factory=dict)  # garbage, but for nights that something else names
    first: dict[str, float] = field(default_factory=dict)  # garbage, and since when in truth
    oldest: float = 0.0
    oldest_named: float = 0.0
    named: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)  # by hand, with the reports of these sweeps
    artifacts: list[dict[str, int]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    # --- what went ---

    def swept(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Sizes of all objects before and after a sweep."""
        went = before.keys() - after.keys()
        self.objects += len(went)
        self.bytes += sum(before[name] for name in went)

    def check_totals(self) -> None:
        """The reports that stand and the records of retired marks say what went. A sweep that is open has none."""
        told = self.told()
        assert told is None or told == (self.objects, self.bytes), (
            f"reports and records say {told} objects and bytes, and of the store went {(self.objects, self.bytes)}: "
            f"{self.by_sweep()}"
        )

    def told(self) -> tuple[int, int] | None:
        """Objects and bytes that lakegc says it deleted; None while a sweep is open or to be followed by another, or a
        report cannot be read."""
        found = self.by_sweep()
        if None in found.values():
            return None
        counts = [each for each in found.values() if each is not None]
        objects, size = (sum(each[place] for each in counts) for place in (0, 1))
        return objects + self.removed["objects"], size + self.removed["bytes"]

    def by_sweep(self) -> dict[str, tuple[int, int] | None]:
        """The same sweep by sweep, and by retired marks."""
        opened = self.town.opened()
        found: dict[str, tuple[int, int] | None] = {
            f"retired {each['mark_id']}": (each["deleted"], each["bytes_deleted"]) for each in list_retired(opened)
        }
        for mark_id in marks(opened.workspace, opened.home):
            mark = opened.artifacts(mark_id)
            numbers = sweeps_of(mark.store, mark.folder)
            for number in numbers:
                try:
                    report = report_of(mark.store, mark.folder, number)
                except MarkError:
                    report = None
                if report and number == numbers[-1] and any(each.startswith(FAILED) for each in report["outcomes"]):
                    report = None  # another sweep of this mark is to follow
                if report is not None or "plan.json" in files_of(mark.store, mark.folder, number):
                    found[f"{mark_id} {number}"] = report and (_deleted(report), report["bytes_deleted"])
        return found

    # --- how old garbage is ---

    def look_around(self) -> None:
        """Right before a mark: what is garbage now, and was it before?"""
        now, garbage = self.town.clock(), self.garbage()
        self.since = {name: self.since.get(name, now) for name in garbage}
        self.first = {name: self.first.get(name, now) for name in garbage}

    def garbage(self) -> set[str]:
        """What the oracle calls garbage under the rules in force and all that a mark or a look saw in the last week."""
        world = replace(self.town.world(), now=int((self.town.clock() - MARGIN) * 10**6))
        found = oracle.garbage(world, tags=True)
        for rules in self.remembered():
            found -= oracle.live(replace(world, rules=rules), tags=True)
        return found.difference(*(flight.objects() for flight in self.town.player.flights))

    def remembered(self) -> Iterable[Any]:
        """Rules stood from when they were seen until others were."""
        sightings, found = self.town.sightings, []
        for number, (_, rules) in enumerate(sightings):
            until = sightings[number + 1][0] if number + 1 < len(sightings) else float("inf")
            if until > self.town.clock() - MEMORY and rules not in found:
                found.append(rules)
        return found

    def judge_ages(self, excuse: str = "") -> None:
        """After the sweep of a night. `excuse`: what a person was told that kept this night's sweep from deleting."""
        now, stored = self.town.clock(), self.town.stored()
        left = self.since.keys() & stored.keys()
        if excuse:
            self.named[excuse] += 1
            self.since |= {name: self.since[name] + DAY for name in left}
        elif self.town.holds or self.town.requests:
            kept = self.kept()
            excused = {name for name in left if kept.get(name) in NAMING}
            self.named.update({kept[name] for name in excused})
            self.since |= dict.fromkeys(excused, now)
        ages = {name: (now - self.since[name]) / DAY for name in left}
        self.oldest = max(self.oldest, *ages.values(), 0.0)
        self.oldest_named = max([self.oldest_named, *((now - self.first[name]) / DAY for name in left)])
        old = {name: age for name, age in ages.items() if age > OLDEST}
        if old:
            kept = self.kept()
            told = {name: (round(age, 1), kept.get(name, "not in the newest mark")) for name, age in old.items()}
            raise AssertionError(f"garbage is older than {OLDEST:g} days, and nothing names it: {told}")

    def kept(self) -> dict[str, str]:
        """What the newest mark that reads says of unreferenced objects: the reason that keeps each, or that it is
        garbage."""
        opened = self.town.opened()
        for mark_id in marks(opened.workspace, opened.home):
            mark = opened.artifacts(mark_id)
            try:
                datasets = mark.require(STAGES[-1]).datasets
            except MarkError:
                continue
            return {
                row["address"]: row["reason"]
                for name in (STAGES[-1], "kept")
                for part in datasets[name]
                for batch in read_part(mark.config, mark.stage_folder(STAGES[-1], name), part, ["address", "reason"])
                for row in batch.to_pylist()
            }
        return {}

    # --- what lakegc leaves lying ---

    def count_artifacts(self, kept: Mapping[str, str]) -> None:
        """At the end of a night. `kept`: what `retire` says of the marks that stand."""
        home = self.town.folder / HOME
        files = [file for file in home.rglob("*") if file.is_file()]
        own = [file for file in files if not file.relative_to(home).as_posix().startswith(ASIDE)]
        standing = {file.parent for file in home.glob("marks/*/mark.json")}
        astray = [file for file in own if file.parent != home and standing.isdisjoint(file.parents)]
        assert not astray, f"nothing is left of a retired mark but its record: {astray[:5]}"
        late = _swept_late(kept)
        assert len(standing) - len(late) <= MOST_MARKS, f"more marks stand than anything needs: {kept}"
        size = sum(file.stat().st_size for file in own)
        self.artifacts.append(
            {
                "files": len(own),
                "bytes": size,
                "marks": len(standing),
                "marks whose sweep is late": len(late),
                "aside": len(files) - len(own),
                "files a mark": round(len(own) / len(standing)),
                "bytes a mark and commit": round(size / len(standing) / len(self.town.repository.refs.commits)),
            }
        )

    def most(self, half: slice = slice(None)) -> dict[str, int]:
        """The most of each that lay there in these nights."""
        return {name: max(each[name] for each in self.artifacts[half]) for name in self.artifacts[0]}

    def usual(self, name: str, half: slice) -> float:
        """The median of a figure over these nights."""
        return statistics.median(each[name] for each in self.artifacts[half])

    def took(self, what: str, seconds: float) -> None:
        self.seconds.setdefault(what, []).append(seconds)

    def figures(self) -> dict[str, Any]:
        """What is worth telling at the end."""
        return {
            "objects deleted": self.objects,
            "bytes deleted": self.bytes,
            "oldest garbage, days": round(self.oldest, 1),
            "oldest garbage, days, those nights among them": round(self.oldest_named, 1),
            "nights in which something named it": dict(self.named),
            "artifacts at most": self.most(),
            "seconds, median and most": {
                what: (round(statistics.median(each), 1), round(max(each), 1)) for what, each in self.seconds.items()
            },
        }


def _swept_late(kept: Mapping[str, str]) -> set[str]:
    """Marks that stay for a sweep that is finished late, or not yet: its own, and those that only this one rests on."""
    found = {mark_id for mark_id, why in kept.items() if any(each in why for each in LATE)}
    return found | {mark_id for mark_id, why in kept.items() if why in {f"mark {each} rests on it" for each in found}}


def _deleted(report: Mapping[str, Any]) -> int:
    return int(report["outcomes"].get(Outcome.DELETED, 0))
