"""The ready code location. Teams with a project of their own call `build_lakegc_definitions` instead."""

import dagster as dg

from lakegc_dagster.build import build_lakegc_definitions

defs = build_lakegc_definitions(executor=dg.in_process_executor)
