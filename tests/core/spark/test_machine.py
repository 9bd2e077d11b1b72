"""Spark on machines that lack what Java takes for granted."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.spark import machine
from tests.support.strangers import ROOT, UID, as_nobody, read_only, tmpfs, with_mounts

_JOB = (
    "from lakegc_core.spark.session import session\n"
    "from lakegc_core.spark.tasks import run_tasks\n"
    "spark = session('local[1]')\n"
    "print(run_tasks(spark, [7], lambda item: iter([{'item': item}])))\n"
)
JOB = [sys.executable, "-c", _JOB]
WORKED = "[{'item': 7}]"


@pytest.mark.parametrize("home", [pytest.param(True, marks=pytest.mark.slow), False])
def test_spark_starts_for_a_uid_without_a_passwd_entry(tmp_path: Path, home: bool) -> None:
    """As with `runAsUser`, on OpenShift, and with `docker run -u`."""
    tmp_path.chmod(0o777)
    done = as_nobody(JOB, {"TMPDIR": str(tmp_path), **({"HOME": str(tmp_path)} if home else {})})
    assert done.out.strip() == WORKED, done.err[-2000:]


def test_a_user_without_a_name_gets_one_unless_the_environment_has_it() -> None:
    say = "import os; from lakegc_core.spark.machine import user_variables; print(user_variables(os.environ))"
    done = as_nobody([sys.executable, "-c", say], {"HADOOP_USER_NAME": "etl"})
    assert done.out.strip() == f"{{'SPARK_USER': 'uid-{UID}', 'HADOOP_USER_NAME': 'etl'}}", done.err


def test_a_user_that_the_machine_knows_is_called_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a name given here, Hadoop would no longer be asked who that is."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: object())
    assert machine.user_variables({}) == {}


@pytest.mark.slow
def test_spark_starts_where_the_cache_of_an_image_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / ".cache" / "lakegc").mkdir(parents=True)
    done = with_mounts(read_only(tmp_path), JOB, {"HOME": str(tmp_path)})
    assert done.out.strip() == WORKED, done.err[-2000:]


@pytest.mark.slow
def test_spark_reads_and_writes_where_nothing_may_be_run_from_temporary_files() -> None:
    """Java, and libraries that are no Java, as those of two codecs, are run from elsewhere."""
    if any(str(place).startswith("/tmp/") for place in (ROOT, sys.prefix, sys.base_prefix)):
        pytest.skip("Python or lakegc lies in /tmp itself, from which nothing may be run here")
    job = (
        "from lakegc_core.spark.session import session\n"
        "spark = session('local[1]')\n"
        "for codec in ('snappy', 'zstd'):\n"
        "    place = 'file:///tmp/' + codec\n"
        "    spark.range(7).write.option('compression', codec).parquet(place)\n"
        "    print(codec, spark.read.parquet(place).count())\n"
    )
    mounts = [tmpfs(Path("/tmp"), "noexec"), tmpfs(Path("/var/tmp"), "mode=1777")]
    done = with_mounts(mounts, [sys.executable, "-c", job], {"HOME": "/tmp/home"})
    assert done.out.split() == ["snappy", "7", "zstd", "7"], done.err[-2000:]


@pytest.mark.slow
def test_java_puts_its_temporary_files_where_tmpdir_says() -> None:
    """/tmp itself may be read-only, as in a container with a read-only root."""
    mounts = [*read_only(Path("/tmp")), tmpfs(Path("/dev/shm"), "mode=1777")]
    done = with_mounts(mounts, JOB, {"HOME": "/proc/nowhere", "TMPDIR": "/dev/shm"})
    assert done.out.strip() == WORKED, done.err[-2000:]


def test_a_folder_where_everybody_may_make_one_is_not_taken_from_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs are run from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("no folder can be made below it")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"lakegc-{os.geteuid()}"
    assert machine.place_for("x") == own / "x"
    own.chmod(0o777)  # others can write to it
    assert machine.place_for("x").parent != own
    own.rmdir()
    (tmp_path / "theirs").mkdir()
    own.symlink_to(tmp_path / "theirs")
    assert machine.place_for("x").parent != own


def test_a_machine_without_any_place_for_programs_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_runs_programs", lambda folder: False)
    with pytest.raises(SettingsError, match="Set XDG_CACHE_HOME"):
        machine.place_for("x")
