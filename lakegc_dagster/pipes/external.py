"""The external process: carries out one order of Dagster's step, and answers. Of Dagster it imports `dagster_pipes`.

It finds lakeFS's keys and the store's credentials in its own environment. lakegc.yaml comes with the order, so that
both sides decide by the same one. Only `spark` is this process's own: the step's Spark is another one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dagster_pipes import PipesEnvVarParamsLoader, open_dagster_pipes

from lakegc_core import pipeline
from lakegc_core.config.settings import Settings
from lakegc_core.copies.backup import backup
from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.marks.context import MarkContext, open_mark, open_repository
from lakegc_core.names import STAGES, Json
from lakegc_core.spark.session import session
from lakegc_core.stages import MARKING
from lakegc_core.sweep.budget import Budget
from lakegc_dagster.pipes.messages import BACKUP, SWEEP, Order, failed, value_of


def main(**pipes: Any) -> int:
    """Carry out the order of the Pipes session and return the exit code. `pipes`: as for `open_dagster_pipes`.

    An error of lakegc is answered and ends with 0: some platforms give no messages of a process that failed. The step
    fails with its sentence. Any other error ends the process as usual.
    """
    loader = pipes.get("params_loader") or PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call]
    if not loader.is_dagster_pipes_process():
        print(
            "No Pipes session was found. Dagster launches this module: docs/pipes.md of lakegc says how.",
            file=sys.stderr,
        )
        return SettingsError.exit_code
    with open_dagster_pipes(**pipes) as dagster:
        try:
            order = Order.of_extras(dagster.extras)
            answer = order.done(carry_out(order, dagster.log.info))
        except LakegcError as error:
            answer = failed(error)
        dagster.report_custom_message(answer)
    return 0


def carry_out(order: Order, say: Callable[[str], None]) -> Json:
    """Do what the order says; return its result as JSON. Errors of lakegc are raised."""
    settings = settings_of(order)
    settings.server.require()
    mark = open_mark(open_repository(settings, order.repository, say=say), order.mark_id)
    if order.verb == SWEEP:
        check_digest(order, mark)
    elif order.verb not in (*STAGES, BACKUP):
        raise SettingsError(f"This version of lakegc knows no order {order.verb!r}.")
    spark = session(settings.spark.master, settings.spark.conf)
    if order.verb == SWEEP:
        budget = value_of(Budget, dict(order.budget))
        return asdict(pipeline.sweep(spark, mark, dry_run=order.dry_run, accepted=order.accepted, budget=budget))
    if order.verb == BACKUP:
        return asdict(backup(spark, mark, order.place))
    result = MARKING[order.verb](spark, mark)
    for stage in order.then:
        try:
            MARKING[stage](spark, mark)
        except LakegcError as error:  # said again, and judged, by the step of that stage
            say(f"{stage}: {error}")
            break
    return {"digest": result.manifest.digest, "resumed": result.resumed}


def settings_of(order: Order) -> Settings:
    """The order's settings, with this process's keys and Spark. The endpoint of lakeFS is the order's."""
    own = Settings.load(None, os.environ)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lakegc.yaml"
        file.write_text(order.settings, encoding="utf-8")
        sent = Settings.load(str(file), os.environ)
    return replace(sent, spark=own.spark)


def check_digest(order: Order, mark: MarkContext) -> None:
    """RefusedError unless the mark here is the one whose sweep Dagster authorised."""
    if mark.mark.require(STAGES[-1]).digest != order.digest:
        raise RefusedError(
            f"Mark {order.mark_id} of {order.repository} is not the one whose sweep was authorised: its digest "
            "differs. Nothing was deleted. Materialise expired_addresses of this partition again and look at it."
        )
