"""Gives Java and Spark what they ask of a machine, if a container or a hardened host does not give it.

A user without a name; a home that cannot be written to, or none; temporary files from which no program may be run.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakegc_core.errors import SettingsError

_NATIVES = ("org.xerial.snappy.tempdir", "ZstdTempFolder", "io.netty.native.workdir")
"""Java's options for the folders in which Spark's libraries that are no Java are unpacked before they are loaded."""


def user_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """A name for a user that has none, as in a container that runs as any uid: Spark and Hadoop do not start without.

    Empty if the machine knows the user. What the environment says stays.
    """
    names = ("SPARK_USER", "HADOOP_USER_NAME")
    return {} if _is_known() else {name: environment.get(name) or f"uid-{os.geteuid()}" for name in names}


def _is_known() -> bool:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def java_options() -> list[str]:
    """Options for Java's temporary files: in Python's folder, as Java does not look at TMPDIR itself; elsewhere for the
    libraries that it unpacks there, if nothing may be run from that folder. Also a home for a user that has none."""
    place = Path(tempfile.gettempdir())
    options = [] if place == Path("/tmp") else [_option("java.io.tmpdir", place)]
    with contextlib.suppress(SettingsError):  # little needs them, and what does will say so
        if not _runs_programs(place):
            options += [_option(name, _made("natives")) for name in _NATIVES]
        if not _is_known():
            options.append(_option("user.home", Path(os.environ.get("HOME") or _made("home"))))
    return options


def _made(name: str) -> Path:
    place = place_for(name)
    place.mkdir(exist_ok=True)
    return place


def _option(name: str, place: Path) -> str:
    return f'-D{name}="{place}"' if " " in str(place) else f"-D{name}={place}"


def place_for(name: str) -> Path:
    """The path of this name in a folder of this user's for what can be made again, and that programs may be run from.

    The folder is the first that has the name, or that can be written to. SettingsError if there is none.
    """
    for folder in _folders():
        if (folder / name).exists() or os.access(folder, os.W_OK):
            return folder / name
    raise SettingsError(
        "There is no folder that lakegc may write to and run programs from. Set XDG_CACHE_HOME to one, "
        "or JAVA_HOME to a Java 17 or newer and TMPDIR to a folder that is not mounted noexec."
    )


def _folders() -> Iterator[Path]:
    home = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # neither HOME nor a user with a name
        home = home or str(Path.home() / ".cache")
    if home:
        folder = Path(home) / "lakegc"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and _runs_programs(folder):
            yield folder
    for shared in (tempfile.gettempdir(), "/var/tmp", "/dev/shm"):
        folder = Path(shared) / f"lakegc-{os.geteuid()}"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if _is_ours(folder) and _runs_programs(folder):
                yield folder


def _is_ours(folder: Path) -> bool:
    """True if nobody else can have put something into a folder that lies where everybody may make one."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _runs_programs(folder: Path) -> bool:
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC
