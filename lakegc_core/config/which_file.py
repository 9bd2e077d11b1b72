"""Which file lakegc.yaml is, and the line that says so: what nobody read protects nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONFIG = "LAKEGC_CONFIG"
CONFIG_FILE = "lakegc.yaml"
_MISNAMED = "lakegc.yml"


def file_of(path: str | None, env: Mapping[str, str]) -> Path | None:
    """The file lakegc.yaml: `path`, else LAKEGC_CONFIG, else ./lakegc.yaml if there; None if nothing names one. What is
    there and no file is no reason to do without: its reader says what is wrong."""
    named = path or env.get(CONFIG)
    file = Path(named or CONFIG_FILE)
    return file if named or os.path.lexists(file) else None


def settings_line(file: Path | None) -> str:
    """The line that names the file of settings that was read, or says that none was and how to name one."""
    if file is not None:
        return f"settings: {file.absolute()}"
    found = f"settings: none (no {CONFIG_FILE} in this folder{_here()}; --config FILE or {CONFIG} names one)"
    if os.path.lexists(_MISNAMED):
        found += f". A {_MISNAMED} is there: lakegc reads {CONFIG_FILE}, not {_MISNAMED}. Rename it."
    return found


def _here() -> str:
    try:
        return f", {Path.cwd()}"
    except FileNotFoundError:  # somebody removed the folder
        return ""
