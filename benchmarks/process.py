"""Runs a command as a whole process and says how long it took, and how much memory it, its JVM and its Python workers
held at their peaks.

What is run belongs to the suites.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.1  # seconds between two looks at the memory; a peak lasts, so that only that of the last moment is missed
_WORKERS_EVERY = 5  # looks between two at the workers, which may be many
_MORE = 1.03  # by so much their resident memory must grow before their shared pages are divided: that takes its time


@dataclass(frozen=True)
class Ran:
    """A process that ended well. Peaks of resident memory in megabytes: of itself, of the JVM that it started, and of
    all other processes that it or the JVM started, together, where pages that several of them share count once."""

    seconds: float
    python_mb: int
    jvm_mb: int
    workers_mb: int
    output: str


def run(command: Sequence[str], environment: Mapping[str, str]) -> Ran:
    """Run a command to its end. RuntimeError with the end of its stderr if it fails."""
    python = jvm = looks = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        os.sync()  # what the run before left to be written is none of this one's work
        began = time.perf_counter()
        process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        java, workers = 0, _Workers()
        while (code := _code(process)) is None:
            python = max(python, _status(process.pid).get("VmHWM", 0) >> 10)
            jvm = max(jvm, _status(java).get("VmHWM", 0) >> 10)
            if looks % _WORKERS_EVERY == 0:
                others = _offspring(process.pid)
                java = java or next((pid for pid in others if _is_jvm(_status(pid), process.pid)), 0)
                workers.look([pid for pid in others if pid != java] if java else [])
            looks += 1
        seconds = time.perf_counter() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {code}:\n{texts[1][-3000:]}{texts[0][-1000:]}")
    return Ran(round(seconds, 2), python, jvm, workers.peak >> 10, texts[0])


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code; None if it runs on for another while."""
    try:
        return process.wait(_EVERY)
    except subprocess.TimeoutExpired:
        return None


class _Workers:
    """Some processes. `peak`: the most memory that they were seen to hold together, in KiB."""

    def __init__(self) -> None:
        self.peak = self._resident = 0

    def look(self, pids: Sequence[int]) -> None:
        resident = sum(_status(pid).get("VmRSS", 0) for pid in pids)
        if resident > self._resident * _MORE:
            self._resident = resident
            self.peak = max(self.peak, sum(_numbers(f"/proc/{pid}/smaps_rollup").get("Pss", 0) for pid in pids))


def _is_jvm(status: Mapping[str, int], parent: int) -> bool:
    """Spark's start script becomes its JVM, so that this is a child of the driver's Python."""
    return status.get("PPid") == parent and "java" in status


def _offspring(ancestor: int) -> list[int]:
    """All that a process has started, and that these have."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    found: list[int] = []
    new = {ancestor}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found += new
    return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return 0


def _status(pid: int) -> dict[str, int]:
    """The numbers in /proc/PID/status (memory in KiB), and the process's name as a key; nothing once it has ended."""
    return _numbers(f"/proc/{pid}/status")


def _numbers(file: str) -> dict[str, int]:
    """The numbers in a file of lines `Name: number`, and the value of `Name` as a key."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    for name, _, value in (line.partition(":") for line in lines):
        first = (value.split() or [""])[0]
        if name == "Name":
            found[first] = 1
        elif first.isdecimal():
            found[name] = int(first)
    return found
