"""Two collectors on one repository: one is refused in a clear sentence, whatever either does, and nothing breaks."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import RefusedError
from tests.support import crash_lake
from tests.support.crash_lake import ARTIFACTS, LATER, Lake
from tests.support.crashing import Script
from tests.support.waiting import STARTS, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUMP = "POST /gc/prepare_uncommited"

pytestmark = [pytest.mark.slow, pytest.mark.safety]


@pytest.fixture(scope="module")
def marked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with a mark."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAKEGC_UNSAFE", "yes")
        with crash_lake.lake(spark, tmp_path_factory.mktemp("two")) as found:
            found.mark()
            found.keep("marked")
            yield found


@pytest.fixture
def lake(marked: Lake) -> Lake:
    """The lake with a mark and nothing more."""
    marked.bring_back("marked")
    return marked


@contextmanager
def held(lake: Lake, victim: subprocess.Popen[str], number: int = 1) -> Iterator[threading.Event]:
    """The process waits for lakeFS's n-th dump, until the event is set; it is ended with the block."""
    reached, release = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        release.wait(3 * STARTS)

    try:
        with lake.at_request(DUMP, wait, number):
            until(lambda: reached.is_set() or victim.poll() is not None, f"lakeFS is asked: {DUMP}", STARTS)
            assert reached.is_set(), victim.communicate()
            yield release
    finally:
        release.set()
        victim.kill()
        victim.communicate()


def ended(victim: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what was said on stderr."""
    said = victim.communicate(timeout=2 * STARTS)[1]
    return victim.returncode, said


def test_while_one_process_marks_no_other_marks_or_sweeps(lake: Lake) -> None:
    before, right = lake.stored(), lake.garbage()
    one = lake.marking(lake.script("never"), "m2")
    with held(lake, one) as release:
        sentence = f"Another collector works on this repository: `mark lake m2` on .*, process {one.pid}, whose lease"
        with pytest.raises(RefusedError, match=sentence):
            pipeline.mark(lake.spark, lake.begin("m3"))
        code, said = ended(lake.sweeping(lake.script("never")))
        assert code == 3 and f"`mark lake m2` on {_host(lake)}, process {one.pid}" in said and "Traceback" not in said
        assert lake.stored() == before
        release.set()
        assert ended(one)[0] == 0
    assert set(pipeline.expired_of(lake.begin("m2"))) == right
    lake.check_swept(before, right, lake.sweep())


def test_a_lease_left_by_a_dead_process_of_another_machine_is_taken_over_after_its_time(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, right = lake.stored(), lake.garbage()
    one = lake.sweeping(lake.script("never"))
    with held(lake, one, number=2):  # all is deleted, and the last look is due
        with pytest.raises(RefusedError, match=f"`sweep lake m1` on .*, process {one.pid}, whose lease"):
            lake.mark()
        one.send_signal(signal.SIGKILL)
        assert one.wait(STARTS) == -signal.SIGKILL
    assert before.keys() - lake.stored().keys() == right
    file = lake.root / ARTIFACTS / "lease.json"
    lease = json.loads(file.read_bytes()) | {"host": "another"}
    file.write_text(json.dumps(lease))  # here it would be known to be dead
    with pytest.raises(RefusedError, match=r"`sweep lake m1` on another, .* its lease runs out by itself"):
        lake.sweep()
    monkeypatch.setenv("LAKEGC_NOW", str(lease["expires_at"] + 1))
    lake.check_swept(before, right, lake.sweep())


def test_a_collector_that_slept_while_its_lease_was_taken_over_stops_when_it_wakes(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is suspended does not know for how long; nothing of what it had in mind may be done."""
    before, right, script = lake.stored(), lake.garbage(), lake.script("never")
    one = lake.sweeping(script)
    with held(lake, one) as release:
        _stop(lake, one, script)
        monkeypatch.setenv("LAKEGC_NOW", str(time.time() + LATER))
        lake.check_swept(before, right, lake.sweep())
        kept = {path: path.read_bytes() for path in lake.artifact("sweeps").rglob("*") if path.is_file()}
        one.send_signal(signal.SIGCONT)
        until(script.lost_lease.exists, "it has learnt that its lease is lost", STARTS)
        release.set()
        code, said = ended(one)
    assert code == 3 and "The lease of this repository was lost (somebody else took it)" in said
    assert {path: path.read_bytes() for path in kept} == kept
    assert not set(lake.artifact("sweeps/1/outcomes").iterdir()) - kept.keys()
    lake.check_swept(before, right)


def _stop(lake: Lake, process: subprocess.Popen[str], script: Script) -> None:
    """Stop a process where it holds no lock of a file, which nobody could take from it."""
    locks = (lake.root / ARTIFACTS / ".lakegc-lock", Path(script.folder, "steps.lock"))

    def stopped() -> bool:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        if all(_is_free(lock) for lock in locks):
            return True
        process.send_signal(signal.SIGCONT)
        return False

    until(stopped, "it is stopped where it holds no lock")


def _is_free(file: Path) -> bool:
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _host(lake: Lake) -> str:
    return str(json.loads((lake.root / ARTIFACTS / "lease.json").read_bytes())["host"])
