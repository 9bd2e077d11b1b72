"""Progress where no terminal is: each line says what the tasks are of."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.progress import Progress

from lakegc_core.names import Stage
from lakegc_core.views import progress
from lakegc_core.views.progress import LeftColumn, Reporter
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Said:
    """What was said on stderr, line by line as it comes."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured, self._text = captured, ""

    def lines(self) -> list[str]:
        self._text += self._captured.readouterr().err
        return self._text.splitlines()

    def next(self, count: int = 2) -> list[str]:
        """The next lines: one that may have begun before the call is left out."""
        begun = len(self.lines()) + 1
        until(lambda: len(self.lines()) >= begun + count, "more lines of progress are there")
        return self.lines()[begun : begun + count]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """A line comes at every look."""
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr(progress, "_POLL", 0.01)
    return Said(capsys)


def test_every_line_says_the_verb_until_a_stage_is_at_work_and_then_the_stage(said: Said, spark: SparkSession) -> None:
    reporter = Reporter()
    reporter.say("latest is mark a")
    with reporter.watch(spark, "du"):
        assert set(said.next()) == {"… du"}
        reporter.say(f"{Stage.NAMESPACE_LISTING}: begins (1 of 5)")
        assert set(said.next()) == {"… namespace_listing"}
        for other in ("Mark x cannot be resumed: odd", "neighbours: 2 are not known", "the metrics were not pushed"):
            reporter.say(other)
            assert set(said.next()) == {"… namespace_listing"}
        reporter.say(f"{Stage.UNCOMMITTED_ADDRESSES}: begins (2 of 5)")
        assert set(said.next()) == {"… uncommitted_addresses"}
    with reporter.watch(spark, Stage.SWEPT_REPORT):
        assert set(said.next()) == {"… swept_report"}
        reporter.say(f"{Stage.UNCOMMITTED_ADDRESSES}: 1 page, 1 file")
        assert set(said.next()) == {"… swept_report"}, "a sweep reads what is staged, too"


def test_of_running_jobs_a_line_says_how_many_tasks_are_done(said: Said, spark: SparkSession, tmp_path: Path) -> None:
    go = str(tmp_path / "go")

    def waits(_: int) -> int:
        while not Path(go).exists():
            time.sleep(0.01)
        return 1

    job = threading.Thread(target=spark.sparkContext.range(1, numSlices=1).map(waits).collect)
    with Reporter().watch(spark, Stage.EXPIRED_ADDRESSES):
        job.start()
        try:
            until(lambda: "… expired_addresses, 0 of 1 tasks" in said.lines(), "the job's task is shown")
        finally:
            Path(go).touch()
            job.join()


def test_a_quiet_reporter_says_nothing(said: Said, spark: SparkSession) -> None:
    reporter = Reporter(quiet=True)
    with reporter.watch(spark, "du"):
        reporter.say(f"{Stage.NAMESPACE_LISTING}: begins (1 of 5)")
    assert said.lines() == []


def test_the_bar_names_no_time_as_left_where_none_is_known() -> None:
    bar = Progress()
    bar.add_task("", total=None)
    bar.update(bar.add_task("", total=10), completed=10)
    assert [str(LeftColumn().render(task)) for task in bar.tasks] == ["", "0:00:00 left"]
