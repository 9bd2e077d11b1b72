"""What must be true after a soak, each as a list of what is wrong: empty if nothing is.

Runs are judged by what Dagster has recorded, sweeps by their journals in the store, objects by the oracle and by reads
through lakeFS. Nothing is let happen here.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import requests

from lakegc_core.names import Outcome
from lakegc_dagster import records
from lakegc_dagster.rounds import Marked, slot_of
from lakegc_sandbox.api.server import BASE_PATH
from tests.soak.figures import PAGE_LIMIT_SECONDS, percentile
from tests.soak.night import MARKING, OPTIONS, SWEEPING, UPKEEP, Night, slot_before

SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
_PARENT = "dagster/parent_run_id"


@dataclass(frozen=True)
class Chain:
    """What was asked for once: a run, and what Dagster started again because it had died."""

    runs: Sequence[dg.RunRecord]

    @property
    def first(self) -> dg.DagsterRun:
        return self.runs[0].dagster_run

    @property
    def last(self) -> dg.DagsterRun:
        return self.runs[-1].dagster_run


@dataclass
class Proof:
    """The state of everything after a night, and what is wrong with it."""

    night: Night

    @cached_property
    def records(self) -> list[dg.RunRecord]:
        """Every run that there ever was, oldest first."""
        return list(self.night.site.instance.get_run_records())[::-1]

    def chains(self, job: str) -> list[Chain]:
        """What was asked for of a job, oldest first."""
        of_job = [each for each in self.records if each.dagster_run.job_name == job]
        children = {each.dagster_run.tags[_PARENT]: each for each in of_job if _PARENT in each.dagster_run.tags}
        found = []
        for record in of_job:
            if _PARENT in record.dagster_run.tags:
                continue
            runs = [record]
            while runs[-1].dagster_run.run_id in children:
                runs.append(children[runs[-1].dagster_run.run_id])
            found.append(Chain(runs))
        return found

    # --- no lost run ---

    def lost_runs(self) -> list[str]:
        """Each slot has one marking run a repository, which ended as it had to; and there are no others."""
        slots, names = self.night.notes.slots, self.night.plan.names
        asked = Counter(
            (each.first.tags["lakegc/round"], each.first.tags[records.REPOSITORY_TAG]) for each in self.chains(MARKING)
        )
        wanted = {(slot, name) for slot in slots for name in names}
        wrong = [f"{cell} was asked for {asked[cell]} times" for cell in wanted if asked[cell] != 1]
        wrong += [f"nobody wanted {cell}" for cell in asked.keys() - wanted]
        if len(slots) != self.night.plan.rounds:
            wrong.append(f"{len(slots)} rounds were opened: {slots}")
        for chain in self.chains(MARKING):
            wrong += self._wrong_with(chain, self._why_broken(chain))
        known = {MARKING, SWEEPING, *UPKEEP.values()}
        wrong += [f"{each.dagster_run.job_name} ran" for each in self.records if each.dagster_run.job_name not in known]
        wrong += [f"{each.dagster_run} never ended" for each in self.records if not each.dagster_run.is_finished]
        marked = {(m.mark_id, name) for name in names for m in self._marked(name)}
        done = {self._cell(each) for each in self.chains(MARKING) if each.last.status == SUCCESS}
        return wrong + [f"Dagster knows no mark of {cell}, whose run succeeded" for cell in done - marked]

    def unprovoked(self) -> list[str]:
        """What the night was to provoke and did not."""
        notes, plan = self.night.notes, self.night.plan
        jobs = [MARKING, *([SWEEPING] if plan.is_long else [])]
        wrong = [f"no run of {job} was killed" for job in jobs if job not in notes.killed.values()]
        if notes.daemon_killed != 1:
            wrong.append(f"the daemon was killed {notes.daemon_killed} times")
        failed = {self._why_broken(each) for each in self.chains(MARKING) if each.last.status == FAILURE}
        planned = {what for number in range(plan.rounds) for what in plan.broken(number).values()}
        return wrong + [f"no mark failed for want of {what}" for what in planned - failed]

    def _wrong_with(self, chain: Chain, broken: str | None) -> list[str]:
        """What is wrong with how it ended. Only what was killed may have been run again, once."""
        run = chain.first
        killed = run.status == FAILURE and run.run_id in self.night.notes.killed  # else it had just done its work
        cell = f"{run.job_name} of {self._cell(chain)}"
        if len(chain.runs) != 1 + killed:
            ends = [each.dagster_run.status.value for each in chain.runs]
            return [f"{cell}, {'killed' if killed else 'not killed'}: {ends}"]
        if chain.last.status == SUCCESS or (chain.last.status == FAILURE and broken):
            return []
        return [f"{cell} ended as {chain.last.status.value}: {self._said(chain.last)}"]

    def _said(self, run: dg.DagsterRun) -> str:
        """What the alert told of a failed run."""
        return next((text for text in self._told() if run.run_id in text), "nobody was told why")[:1_000]

    def _told(self) -> list[str]:
        file = self.night.site.alerts
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def _why_broken(self, chain: Chain) -> str | None:
        """What was wrong with its repository while it ran, if anything was."""
        name, begun = chain.first.tags[records.REPOSITORY_TAG], chain.runs[0].start_time or 0.0
        ended = chain.runs[-1].end_time or 0.0
        for broken, what, since, until in self.night.notes.broken:
            if broken == name and begun <= until and ended >= since:
                return what
        return None

    def _cell(self, chain: Chain) -> tuple[str, str]:
        return chain.first.tags[records.MARK_TAG], chain.first.tags[records.REPOSITORY_TAG]

    def _marked(self, name: str) -> list[Marked]:
        return records.marked(self.night.site.instance, OPTIONS, name)

    # --- no double sweep ---

    def double_sweeps(self) -> list[str]:
        """Each mark is asked to be swept at most once, and no object is deleted by two sweeps."""
        chains = self.chains(SWEEPING)
        asked = Counter(map(self._cell, chains))
        wrong = [f"{cell} was asked to be swept {count} times" for cell, count in asked.items() if count > 1]
        for chain in chains:  # without rules a repository is not swept either
            wrong += self._wrong_with(chain, self._why_broken(chain))
        for name in self.night.plan.names:
            by_address: dict[str, set[str]] = defaultdict(set)
            for sweep, addresses in self.deleted(name).items():
                for address in addresses:
                    by_address[address].add(sweep)
            twice = {address: sweeps for address, sweeps in by_address.items() if len(sweeps) > 1}
            wrong += [f"{name}/{address} was deleted by {sorted(sweeps)}" for address, sweeps in twice.items()]
        return wrong

    def deleted(self, name: str, outcomes: tuple[str, ...] = (Outcome.DELETED,)) -> dict[str, set[str]]:
        """What the journals of a repository's sweeps say is deleted, by sweep; or what has another outcome."""
        found: dict[str, set[str]] = {}
        home = self.night.herd.marks_folder(name)
        for file in sorted(home.glob("*/sweeps/*/outcomes/**/*.parquet")):
            sweep = "/".join(file.relative_to(home).parts[:3])
            table = pq.read_table(file, columns=["address", "outcome"], partitioning=None).to_pylist()
            found.setdefault(sweep, set()).update(row["address"] for row in table if row["outcome"] in outcomes)
        return found

    # --- the objects ---

    def lost_objects(self) -> list[str]:
        """What is live by the oracle is there; what lakeFS shows can be read."""
        herd, wrong = self.night.herd, []
        for name in self.night.plan.names:
            wrong += [f"{name}: {each} is live and gone" for each in herd.lost(name)]
            wrong += self._unreadable(name)
        return wrong

    def _unreadable(self, name: str) -> Iterator[str]:
        lake = self.night.site.lake
        with requests.Session() as session:
            session.auth = (lake.access_key, lake.secret_key)
            for ref, paths in self.night.herd.shown(name).items():
                for path in paths:
                    url = f"{lake.url}{BASE_PATH}/repositories/{name}/refs/{ref}/objects"
                    status = session.get(url, params={"path": path}, timeout=30).status_code
                    if status != 200:
                        yield f"{name}: {path} at {ref} answers {status}"

    def left_garbage(self) -> list[str]:
        """All that was garbage when the last round was opened is gone: each was swept after it."""
        herd, wrong = self.night.herd, []
        for name in self.night.plan.names:
            left, stored = herd.garbage(name), herd.stored(name)
            wrong += [f"{name}: {each} is garbage still" for each in left | (herd.made[name] & stored)]
            # A sweep that was killed may find gone what it deleted itself.
            journal = set().union(*self.deleted(name, (Outcome.DELETED, Outcome.ALREADY_GONE)).values())
            wrong += [f"{name}: {each} is gone, and no journal says so" for each in herd.made[name] - stored - journal]
            wrong += [f"{name}: {each} was deleted and was no garbage" for each in journal - herd.made[name]]
        return wrong

    # --- no partition leak ---

    def leaked_partitions(self, leaked: set[str], by_hand: set[str]) -> list[str]:
        """After retirement the marks known are those of rounds, and those that somebody else made known and may need.

        `leaked`: ids that upkeep has to remove, of marks retired or rounds of long ago; `by_hand`: what it must not.
        """
        notes, grid, instance = self.night.notes, OPTIONS.grid, self.night.site.instance
        wrong = []
        if notes.known_before != {*notes.slots, *leaked, *by_hand}:
            wrong.append(f"before upkeep these marks were known: {sorted(notes.known_before)}")
        if set(grid.marks_of(instance)) != {*notes.slots, *by_hand}:
            wrong.append(f"after upkeep these marks are known: {sorted(grid.marks_of(instance))}")
        if sorted(grid.repositories_of(instance)) != sorted(self.night.plan.names):
            wrong.append(f"these repositories are known: {grid.repositories_of(instance)}")
        return wrong

    def wrong_upkeep(self) -> list[str]:
        """Retirement succeeds; the watch fails just when it finds a repository idle that a slot has passed by."""
        wrong = [
            f"{UPKEEP['retire_marks']} ended as {each.last.status.value}: {self._said(each.last)}"
            for each in self.chains(UPKEEP["retire_marks"])
            if each.last.status != SUCCESS
        ]
        last = slot_of(self.night.notes.slots[-1])
        for chain in self.chains(UPKEEP["watch_rounds"]):
            since, until = chain.runs[0].start_time or 0.0, chain.runs[-1].end_time or 0.0
            passed = {slot_of(slot_before(self.night.plan, each)) > last for each in (since, until)}  # type: ignore[operator]
            wanted = set() if passed == {True} and self._some_idle(since, until) else {SUCCESS}
            if True in passed and not self._all_busy(since, until):
                wanted.add(FAILURE)
            if chain.last.status not in wanted:
                wrong.append(f"the watch ended as {chain.last.status.value}: {self._said(chain.last)}")
        return wrong

    def _some_idle(self, since: float, until: float) -> bool:
        """Whether some repository had no run, not even a queued one, at any time of a span."""
        return any(not self._under_way(name, since, until) for name in self.night.plan.names)

    def _all_busy(self, since: float, until: float) -> bool:
        """Whether each repository had a run, queued or started, through all of a span."""
        spans = {name: self._under_way(name, since, until) for name in self.night.plan.names}
        return all(any(begun <= since and until <= ended for begun, ended in each) for each in spans.values())

    def _under_way(self, name: str, since: float, until: float) -> list[tuple[float, float]]:
        """From when to when runs for a repository were not finished, of those that were so at any time of a span."""
        own = [each for each in self.records if each.dagster_run.tags.get(records.REPOSITORY_TAG) == name]
        spans = [(each.create_timestamp.timestamp(), each.end_time or float("inf")) for each in own]
        return [(begun, ended) for begun, ended in spans if begun <= until and ended >= since]

    def untold_failures(self) -> list[str]:
        """Of each failed run somebody was told, once, and of no other."""
        told = Counter(text.splitlines()[-1] for text in self._told())
        failures = [each.dagster_run for each in self.records if each.dagster_run.status == FAILURE]
        not_awaited = UPKEEP.values() if self.night.plan.is_hasty else ()
        awaited = {run.run_id for run in failures if run.job_name not in not_awaited}
        failed = {run.run_id for run in failures}
        wrong = [f"of run {each} nobody was told" for each in awaited - told.keys()]
        wrong += [f"of run {each} somebody was told, and it did not fail" for each in told.keys() - failed]
        return wrong + [f"of run {each} {count} were told" for each, count in told.items() if count > 1]

    def failed_pages(self) -> list[str]:
        """Every page answers."""
        return self.night.prober.failures

    def slow_pages(self) -> list[str]:
        """In 95 of 100 times each page answers within the limit, where nothing else is at work on the machine."""
        slow = {page: percentile(seconds, 0.95) for page, seconds in self.night.prober.seconds.items()}
        return [f"{page} takes {p95:.2f} s" for page, p95 in slow.items() if p95 > PAGE_LIMIT_SECONDS]

    def retired(self, name: str, mark_id: str) -> list[str]:
        """Of an old mark nothing is left but its record."""
        folder: Path = self.night.herd.marks_folder(name)
        left = [str(each.relative_to(folder)) for each in (folder / mark_id).rglob("*") if each.is_file()]
        return [f"{mark_id} of {name} left {len(left)} artifacts, {left[:3]}"] if left else []
