"""A night of rounds on real processes: no lost run, no double sweep, no partition leak, pages that answer.

`make test-soak` runs it at full size, by LAKEGC_SOAK_REPOSITORIES, LAKEGC_SOAK_ROUNDS and LAKEGC_SOAK_MINUTES (between
rounds); LAKEGC_SOAK_JSON names a file for the figures. The small one is among the slow tests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lakegc_dagster.partitions import GcCell
from lakegc_dagster.rounds import round_id
from lakegc_sandbox import Sandbox
from tests.soak.figures import figures, table
from tests.soak.herd import Herd
from tests.soak.night import OPTIONS, Night, Plan, days_ago
from tests.soak.postgres import NoPostgres
from tests.soak.proof import Proof
from tests.soak.site import open_site

BY_HAND = "by-hand"  # a mark id that somebody made known and has not used yet
POLICY = """\
repositories:
  - {{match: {first}, safety: none, min_age: 0s, sweep: true, keep_marks: 2, clean_every: 1}}  # needs no mark before
  - {{match: "*", safety: none, min_age: 0s, sweep: true, keep_marks: 2, clean_every: 4}}
"""
LONG_AGO = 30.0  # days: a round that came to nothing
OLD = 10.0  # days: older than a mark has to stay


def soak(plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Let a night pass, print its figures, and prove that all is as it has to be."""
    sandbox = Sandbox(folder / "lake", seed=1)
    herd = Herd(sandbox, plan.names)
    herd.create()
    first, leaked = plan.names[0], {round_id(days_ago(LONG_AGO))}
    try:
        with open_site(folder, sandbox, cron=plan.cron, policy=POLICY.format(first=first)) as site:
            old = round_id(days_ago(OLD))
            if plan.is_long:
                site.command("mark", first, "--mark-id", old, LAKEGC_NOW=str(days_ago(OLD).timestamp()))
                leaked.add(old)
            for mark_id in (*leaked, BY_HAND):
                GcCell(first, mark_id).register(site.instance, OPTIONS.grid)
            night = Night(site, herd, plan)
            night.run()
            proof = Proof(night)
            found = figures(proof)
            with capsys.disabled():
                print(f"\n{table(found)}\n")
            if os.environ.get("LAKEGC_SOAK_JSON"):
                Path(os.environ["LAKEGC_SOAK_JSON"]).write_text(json.dumps(found, indent=1) + "\n")
            wrong = {
                "lost runs": proof.lost_runs(),
                "not provoked": proof.unprovoked(),
                "double sweeps": proof.double_sweeps(),
                "lost objects": proof.lost_objects(),
                "left garbage": proof.left_garbage(),
                "leaked partitions": proof.leaked_partitions(leaked, {BY_HAND}),
                "upkeep": proof.wrong_upkeep(),
                "alerts": proof.untold_failures(),
                "pages": [*proof.failed_pages(), *(proof.slow_pages() if plan.is_long else [])],
                "retired": proof.retired(first, old) if plan.is_long else [],
            }
            shown = {name: each[:20] for name, each in wrong.items() if each}
            assert not shown, json.dumps(shown, indent=1)
    except NoPostgres as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_two_rounds_over_two_repositories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soak(Plan(repositories=2, rounds=2, minutes=1, is_hasty=True), tmp_path, capsys)


@pytest.mark.soak
def test_a_night_of_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {
        name: int(os.environ.get(f"LAKEGC_SOAK_{name.upper()}", default))
        for name, default in (("repositories", 20), ("rounds", 10), ("minutes", 15))
    }
    soak(Plan(**sizes), tmp_path, capsys)
