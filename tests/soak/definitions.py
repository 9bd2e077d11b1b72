"""The code location of the soak: the product's definitions with slots of minutes, and an alert that writes to a file.

Slots come by LAKEGC_SOAK_CRON, the file by LAKEGC_SOAK_ALERTS. Watch and retirement are due every minute, and off until
the soak turns them on.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import dagster as dg

from lakegc_dagster.alerts import failure_alert
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig

CRON, ALERTS = "LAKEGC_SOAK_CRON", "LAKEGC_SOAK_ALERTS"


def _tell(text: str) -> None:
    with Path(os.environ[ALERTS]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(text) + "\n")


config = LakegcConfig(round_cron=os.environ.get(CRON, "0 2 * * *"), watch_cron="* * * * *", retire_cron="* * * * *")
defs = dg.Definitions.merge(
    build_lakegc_definitions(config, executor=dg.in_process_executor),
    dg.Definitions(sensors=[failure_alert(config, _tell)]),
)
