"""Commands on strange machines: as a user without a name, or with folders that are full, read-only, or run nothing.

Linux lets everybody have a user namespace, or only root, or nobody. Where it lets nobody, root still can become another
uid; where neither is possible, the test is skipped, with the reason.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import STARTS

ROOT = Path(__file__).parents[2]
UID = 4711  # nobody's


@functools.cache
def refusal(*options: str, does: str = "true") -> str:
    """Why there is no namespace of these options here; empty if there is."""
    try:
        done = subprocess.run(["unshare", *options, "sh", "-c", does], capture_output=True, text=True)
    except FileNotFoundError:
        return "there is no unshare"
    return done.stderr.strip() or "unshare failed" if done.returncode else ""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


def as_nobody(command: Sequence[str], variables: Mapping[str, str]) -> Done:
    """Run a command as a uid that has no entry in passwd."""
    options = ("--user", f"--map-user={UID}", f"--map-group={UID}")
    if not refusal(*options):
        return _run(["unshare", *options, *command], variables)
    readable = Path(sys.base_prefix).stat().st_mode & 0o005 and not str(sys.base_prefix).startswith("/root")
    if os.geteuid() or not readable:
        pytest.skip(f"no user without a name here: {refusal(*options)}; and this is not root, or Python is root's own")
    return _run(command, variables, user=UID, group=UID, extra_groups=[])


def with_mounts(mounts: Sequence[str], command: Sequence[str], variables: Mapping[str, str]) -> Done:
    """Run a command where these shell commands have mounted something, which nobody else sees."""
    options = ("--user", "--mount", "--map-root-user")
    if why := refusal(*options, does="mount -t tmpfs none /mnt"):
        pytest.skip(f"nothing can be mounted for a command alone: {why}")
    return _run(["unshare", *options, "sh", "-ec", "\n".join([*mounts, shlex.join(["exec", *command])])], variables)


def tmpfs(folder: Path, options: str) -> str:
    """The command that mounts an empty file system in memory over a folder."""
    return shlex.join(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)])


def read_only(folder: Path) -> list[str]:
    """The commands after which a folder cannot be written to."""
    place = str(folder)
    return [
        shlex.join(["mount", "--bind", place, place]),
        shlex.join(["mount", "-o", "remount,ro,bind", place]),
    ]


def _run(command: Sequence[str], variables: Mapping[str, str], **more: Any) -> Done:
    """With these variables and no others, but for what finds programs and this tree."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=STARTS, cwd="/", **more)
    return Done(done.returncode, done.stdout, done.stderr)
