"""The ready code location. Teams with a project of their own call `build_lakegc_definitions` instead.

LAKEGC_DAGSTER_REPOSITORIES: the repositories that get an asset of their own, with commas between them.
LAKEGC_DAGSTER_BACKUP: `yes` for the asset `backup` before each sweep; else `no`.
"""

import os

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig

_NAMED = os.environ.get("LAKEGC_DAGSTER_REPOSITORIES", "").split(",")
_BACKUP = os.environ.get("LAKEGC_DAGSTER_BACKUP") or "no"
if _BACKUP not in ("yes", "no"):
    raise SettingsError(f"LAKEGC_DAGSTER_BACKUP must be yes or no, not {_BACKUP!r}.")

defs = build_lakegc_definitions(
    LakegcConfig(repositories=tuple(name.strip() for name in _NAMED if name.strip()), backup=_BACKUP == "yes"),
    executor=dg.in_process_executor,
)
