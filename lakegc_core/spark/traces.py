"""The cause of an error of Spark or of the machine: one sentence out of a long trace of Java and Python."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = re.compile(r"^Caused by: (.*)$|^An error occurred while calling .*\n: (.*)$", re.MULTILINE)
_FULL = ("No space left on device", "Disk quota exceeded")
_ADVICE = {
    **dict.fromkeys(
        _FULL,
        "A disk is full: of the store, of temporary files (TMPDIR), or of the output. Make room and run it again.",
    ),
    "Read-only file system": "lakegc cannot write there.",
    "Address already in use": "Another process has this port. Name a free one.",
    "Too many open files": "The limit of open files is too low: `ulimit -n` shows it.",
    "Cannot run program": "Spark's tasks have no such Python: `spark.pyspark.python` or PYSPARK_PYTHON names it.",
    "JAVA_GATEWAY_EXITED": "Java or Spark did not start on this machine. What it said stands above.",
    "OutOfMemoryError": "Java had too little memory: `spark.driver.memory` and `spark.executor.memory` set it.",
}


def cause(error: BaseException) -> str:
    """The last cause that an error of Java names, in a line; empty for any other error."""
    text = str(error)
    found = list(_CAUSE.finditer(text))
    if not found:
        return ""
    last = found[-1]
    if _TRACEBACK not in last[0]:
        return (last[1] or last[2]).strip()
    # A task's Python failed: of its trace the last line before Java's own begins.
    python = re.split(r"\n\s*\n|\n\tat ", text[last.end() :])[0]
    return (python.strip().splitlines() or [last[0]])[-1].strip()


def advice(error: BaseException) -> str:
    """Advice on an error that the machine is to blame for; empty if it is not."""
    text = str(error)
    return next((advice for sign, advice in _ADVICE.items() if sign in text), "")
