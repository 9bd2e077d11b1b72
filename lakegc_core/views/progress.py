"""Progress of long work while it runs, on stderr: a bar on a terminal, a plain line every ten seconds elsewhere.

Both say which stage the tasks are of, or which verb where it is none.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from lakegc_core.names import BEGINS, Stage
from lakegc_core.views.words import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 10.0  # seconds between plain lines
_POLL = 0.3
_STAGES = frozenset(stage.value for stage in Stage)


class LeftColumn(TimeRemainingColumn):
    """The time that is left; nothing where that is not known."""

    def render(self, task: Task) -> Text:
        return Text("") if task.time_remaining is None else super().render(task) + Text(" left")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads stderr any more: what is said from here on goes nowhere, and the work goes on. Rich itself would
        do that to stdout, which has the result, and end the thread or the command."""
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())


class Reporter:
    """Says what is going on. `say` is what the stages are given; `watch` adds Spark's own tasks to the picture."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = _Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._doing = ""
        self._done = threading.Event()

    def say(self, message: str) -> None:
        """Show one sentence of progress. `STAGE: begins` says that the stage is at work; other sentences of a stage do
        not, for a sweep does again what a stage does."""
        beginning, _, rest = message.partition(": ")
        if beginning in _STAGES and rest.startswith(BEGINS):
            self._doing = beginning
        if not self._quiet:
            self._console.print(shown(message), markup=False, soft_wrap=True)

    @contextmanager
    def watch(self, spark: SparkSession, doing: str) -> Iterator[None]:
        """Show how many tasks of the running Spark jobs are done, until the block ends. `doing`: what they are of,
        until a stage says that it is at work."""
        self._doing = doing
        if self._quiet:
            yield
            return
        self._done.clear()
        shown = self._bar if self._console.is_terminal else self._lines
        thread = threading.Thread(target=shown, args=(spark,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join(timeout=5)

    def _bar(self, spark: SparkSession) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks"),
            TimeElapsedColumn(),
            LeftColumn(),
        )
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("", total=None)
            while not self._done.wait(_POLL):
                done, total = tasks(spark)
                bar.update(task, description=self._doing, completed=done, total=total or None)

    def _lines(self, spark: SparkSession) -> None:
        last = time.monotonic()
        while not self._done.wait(_POLL):
            if time.monotonic() - last >= _EVERY:
                last = time.monotonic()
                done, total = tasks(spark)
                share = f", {done} of {total} tasks" if total else ""
                self._console.print(f"… {self._doing}{share}", markup=False, soft_wrap=True)


def tasks(spark: SparkSession) -> tuple[int, int]:
    """Tasks done and tasks in all of the running Spark stages; zeros where the session does not tell (Connect)."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # a picture for people must never stop the work
        return 0, 0
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


def ask(question: str) -> bool:
    """A yes or no from a person on a terminal. False where there is none."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
