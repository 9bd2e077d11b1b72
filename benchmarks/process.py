"""Runs a command as a whole process and says how long it took, and how much memory it and its JVM held at their peaks.

What is run belongs to the suites.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.1  # seconds between two looks at the memory; a peak lasts, so that only that of the last moment is missed


@dataclass(frozen=True)
class Ran:
    """A process that ended well. Peaks of resident memory in megabytes: of itself, and of the JVM that it started."""

    seconds: float
    python_mb: int
    jvm_mb: int
    output: str


def run(command: Sequence[str], environment: Mapping[str, str]) -> Ran:
    """Run a command to its end. RuntimeError with the end of its stderr if it fails."""
    python = jvm = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        os.sync()  # what the run before left to be written is none of this one's work
        began = time.perf_counter()
        process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        java: list[int] = []
        while (code := _code(process)) is None:
            python = max(python, _status(process.pid).get("VmHWM", 0) >> 10)
            java = java or [pid for pid in _pids() if _is_jvm(_status(pid), process.pid)]
            jvm = max(jvm, *(_status(pid).get("VmHWM", 0) >> 10 for pid in java), 0)
        seconds = time.perf_counter() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {code}:\n{texts[1][-3000:]}{texts[0][-1000:]}")
    return Ran(round(seconds, 2), python, jvm, texts[0])


def _code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code; None if it runs on for another while."""
    try:
        return process.wait(_EVERY)
    except subprocess.TimeoutExpired:
        return None


def _pids() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())


def _is_jvm(status: Mapping[str, int], parent: int) -> bool:
    """Spark's start script becomes its JVM, so that this is a child of the driver's Python."""
    return status.get("PPid") == parent and "java" in status


def _status(pid: int) -> dict[str, int]:
    """The numbers in /proc/PID/status (memory in KiB), and the process's name as a key; nothing once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    for name, _, value in (line.partition(":") for line in lines):
        first = (value.split() or [""])[0]
        if name == "Name":
            found[first] = pid
        elif first.isdecimal():
            found[name] = int(first)
    return found
