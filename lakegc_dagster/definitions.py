"""The ready code location. Teams with a project of their own call `build_lakegc_definitions` instead.

LAKEGC_DAGSTER_REPOSITORIES: the repositories that get an asset of their own, with commas between them.
"""

import os

import dagster as dg

from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig

_NAMED = os.environ.get("LAKEGC_DAGSTER_REPOSITORIES", "").split(",")

defs = build_lakegc_definitions(
    LakegcConfig(repositories=tuple(name.strip() for name in _NAMED if name.strip())),
    executor=dg.in_process_executor,
)
