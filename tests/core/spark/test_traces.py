"""One sentence out of the traces that Java and Python leave."""

from __future__ import annotations

import errno
import os

import pytest

from lakegc_core.spark.traces import advice, cause

_JAVA = """An error occurred while calling o317.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:1)
{}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            _JAVA.format(""),
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times",
        ),
        (
            _JAVA.format(
                "Caused by: java.io.IOException: first\n\tat a.B.c(D.java:1)\n"
                "Caused by: java.io.IOException: No space left on device\n\t... 13 more\n"
            ),
            "java.io.IOException: No space left on device",
        ),
        (
            _JAVA.format(
                "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "worker.py", line 1, in main\n    process()\nOSError: [Errno 28] No space left on device\n\n'
                "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"
            ),
            "OSError: [Errno 28] No space left on device",
        ),
        ("'a key'", ""),
        ("", ""),
    ],
)
def test_the_last_cause_is_said(text: str, expected: str) -> None:
    assert cause(Exception(text)) == expected


def test_what_a_machine_lacks_comes_with_what_to_do() -> None:
    assert "Make room" in advice(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert "Name a free one" in advice(OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)))
    no_python = 'Cannot run program "/no/python": Exec failed, error: 2 (No such file or directory)'
    assert "`spark.pyspark.python`" in advice(Exception(_JAVA.format(f"Caused by: java.io.IOException: {no_python}\n")))
    assert advice(KeyError("mark")) == ""
