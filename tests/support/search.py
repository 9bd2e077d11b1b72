"""Looks for trouble that nobody has thought of: `make search`.

Round after round runs the tests marked `search` with a random seed, until the time is up: random histories,
and Hypothesis with random examples. A failure is kept in build/search with the command that shows it again, and
Hypothesis keeps its smallest example in `.hypothesis`. What is found becomes a fixed example in the suite.

LAKEGC_SEARCH_MINUTES (default 30): no round begins after that.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shlex
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("build/search")
SLOW_EVERY = 3
"""Of so many rounds one runs the slow tests."""


def command(seed: int, chosen: str) -> list[str]:
    """The tests of one round."""
    return [
        *(sys.executable, "-m", "pytest", "-m", chosen, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"),
        *("--hypothesis-profile=search", f"--hypothesis-seed={seed}"),
    ]


def search(minutes: float) -> int:
    """Search for so long, and return how many rounds failed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    end, rounds, failed = time.monotonic() + minutes * 60, 0, 0
    while time.monotonic() < end:
        rounds += 1
        seed = secrets.randbelow(10**9)
        chosen = "search and slow" if rounds % SLOW_EVERY == 0 else "search and not slow"
        print(f"round {rounds}, seed {seed}, {chosen}", flush=True)
        failed += not one_round(seed, chosen)
    print(f"{rounds} rounds, {failed} of them failed")
    return failed


def one_round(seed: int, chosen: str) -> bool:
    """Run one round, show its tallies, and say whether all went well."""
    run = command(seed, chosen)
    log = FOLDER / f"{seed}.log"
    with log.open("wb") as file:
        code = subprocess.run(run, env=os.environ | {"LAKEGC_SEED": str(seed)}, stdout=file, check=False).returncode
    lines = log.read_text(encoding="utf-8").splitlines()
    told = itertools.dropwhile(lambda line: " tallies " not in line, lines)
    print("\n".join(f"    {line}" for line in itertools.islice(told, 1, None)), flush=True)
    if code:
        again = f"LAKEGC_SEED={seed} {shlex.join(run)}"
        with (FOLDER / "found.txt").open("a", encoding="utf-8") as found:
            found.write(f"{again}\n")
        print(f"    failed, see {log}; again: {again}", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(1 if search(float(os.environ.get("LAKEGC_SEARCH_MINUTES", "30"))) else 0)
