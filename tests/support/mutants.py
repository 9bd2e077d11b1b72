"""Do the tests notice faults? One fault after the other is put into a copy of the checkout, and its tests are run.

    python -m tests.support.mutants [--only NAME ...] [--root DIR] [--jobs 1] [--no-baseline] [--output FILE]

`mutants_of_policy`, `_marks`, `_stages` and `_sweeps` list the faults: each spoils code that guards against loss of
data. A fault that no test notices lives, and shows a hole in the tests. The checkout itself is never changed.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.mutant_list import Mutant, MutantError
from tests.support.mutants_of_marks import LISTING, MARKS, STORES
from tests.support.mutants_of_policy import POLICY
from tests.support.mutants_of_stages import COMMITS, EXPIRED
from tests.support.mutants_of_sweeps import DELETES, PLANS

MUTANTS = (*POLICY, *MARKS, *STORES, *LISTING, *COMMITS, *EXPIRED, *PLANS, *DELETES)
LONGEST = 600.0
"""Seconds after which a run counts as hung."""

FOUND, LIVES, ERROR = "found", "lives", "error"
_WHERE = """
import subprocess, sys, lakegc_core, tests.support.units as other
print(lakegc_core.__file__, other.__file__, sep="\\n", flush=True)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""


@dataclass(frozen=True)
class Result:
    """What became of a mutant. `told` names the test that noticed it, or says what went wrong."""

    name: str
    path: str
    outcome: str
    seconds: float
    told: str


@dataclass(frozen=True)
class Run:
    """One run of pytest. `code` None: it hung."""

    code: int | None
    output: str
    seconds: float

    @property
    def outcome(self) -> str:
        return {None: FOUND, 0: LIVES, 1: FOUND}.get(self.code, ERROR)

    @property
    def told(self) -> str:
        """The first test that failed; of any other failure the end of the output."""
        if self.code is None:
            return "hung"
        lines = self.output.splitlines()
        failed = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), "")
        if self.code in (0, 1):
            return failed
        return f"exit {self.code}: {failed or ' | '.join(lines[-5:])}"


@dataclass(frozen=True)
class Copy:
    """A copy of a checkout, in which faults are made."""

    folder: Path

    def pytest(self, arguments: Sequence[str]) -> Run:
        """Run tests until one fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "not soak and not ui", *arguments]
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what hangs can be ended with all that it started
            )
            code: int | None
            try:
                code = process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            told = output.read().decode(errors="replace")
        return Run(code, told, time.monotonic() - began)

    def run(self, mutant: Mutant) -> Result:
        """Make the fault, run its tests, and take the fault back."""
        file = self.folder / mutant.path
        source = file.read_bytes()
        file.write_text(mutant.of(source.decode()), encoding="utf-8")
        try:
            run = self.pytest(mutant.tests)
        finally:
            file.write_bytes(source)
        return Result(mutant.name, mutant.path, run.outcome, round(run.seconds, 1), run.told)

    @property
    def environment(self) -> dict[str, str]:
        """For Python that imports the copy. Bytecode that is not written cannot hide a mutant later."""
        return os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def check(self) -> None:
        """MutantError unless Python, and Python that it starts, imports the copy and nothing else."""
        command = [sys.executable, "-c", _WHERE, _WHERE]
        done = subprocess.run(command, cwd="/", env=self.environment, capture_output=True, text=True, check=False)
        files = [Path(line) for line in done.stdout.splitlines()]
        names = ["lakegc_core/__init__.py", "tests/support/units.py"]
        wanted = [self.folder / name for name in 2 * names]
        if done.returncode or files != wanted:
            raise MutantError(f"Python does not import the copy in {self.folder}: {done.stdout}{done.stderr}")


@contextmanager
def copied(root: Path) -> Iterator[Copy]:
    """A copy of a checkout with what is not committed, as long as the block runs."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    with tempfile.TemporaryDirectory(prefix="lakegc-mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        for name in listed.decode().split("\0"):
            if name and (root / name).is_file():
                target = copy.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, target, follow_symlinks=False)
        copy.check()
        yield copy


def chosen(names: Sequence[str]) -> list[Mutant]:
    """The mutants with these words in their names or paths; all without any. MutantError for words that none has."""
    every = [mutant.name for mutant in MUTANTS]
    if twice := sorted({name for name in every if every.count(name) > 1}):
        raise MutantError(f"two mutants are called {twice[0]!r}")
    for name in names:
        if not any(name in mutant.name or name in mutant.path for mutant in MUTANTS):
            raise MutantError(f"no mutant is called {name!r}")
    return [
        mutant for mutant in MUTANTS if not names or any(name in mutant.name or name in mutant.path for name in names)
    ]


def baseline(copy: Copy, mutants: Sequence[Mutant]) -> None:
    """MutantError unless the tests are green before there is a fault. Those with options of their own run apart."""
    plain = dict.fromkeys(test for each in mutants if "-k" not in each.tests for test in each.tests)
    apart = dict.fromkeys(each.tests for each in mutants if "-k" in each.tests)
    for tests in [tuple(plain)] * bool(plain) + list(apart):
        run = copy.pytest(tests)
        print(f"{'green' if run.code == 0 else 'NOT GREEN':9} {run.seconds:6.1f} s  {' '.join(tests)}", flush=True)
        if run.code != 0:
            raise MutantError(f"the tests are not green without any mutant: {run.told}\n{run.output[-3000:]}")


def search(root: Path, names: Sequence[str], jobs: int, output: Path | None, *, with_baseline: bool) -> list[Result]:
    """Run the mutants, say of each what became of it, and return that."""
    mutants = chosen(names)
    for mutant in mutants:
        mutant.check(root)
    results: list[Result] = []
    with ExitStack() as stack:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for _ in range(jobs):
            copies.put(stack.enter_context(copied(root)))

        def run(mutant: Mutant) -> Result:
            copy = copies.get()
            try:
                return copy.run(mutant)
            finally:
                copies.put(copy)

        if with_baseline:
            copy = copies.get()
            baseline(copy, mutants)
            copies.put(copy)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for result in pool.map(run, mutants):
            results.append(result)
            print(f"{result.outcome:6} {result.seconds:6.1f} s  {result.name}  [{result.told[:150]}]", flush=True)
            if output is not None:
                with output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
    return results


def main() -> int:
    """The command: 0 if each mutant is found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.mutants", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="words of names or paths of mutants")
    parser.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the checkout (default: this folder)")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each in a copy of its own")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a mutant first")
    parser.add_argument("--output", type=Path, metavar="FILE", help="add a line of JSON for each result")
    given = parser.parse_args()
    try:
        results = search(
            given.root.resolve(), given.only, given.jobs, given.output, with_baseline=not given.no_baseline
        )
    except MutantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{sum(each.outcome == FOUND for each in results)} of {len(results)} found")
    for outcome in (LIVES, ERROR):
        for each in results:
            if each.outcome == outcome:
                print(f"{outcome}: {each.name} ({each.path}) {each.told}")
    return 0 if all(each.outcome == FOUND for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
