"""Dagster's side: launches an external process for each stage, backup and sweep, and reads its answer.

What a stage found is read from the mark in the store, by the code that reads a mark of this process. So metadata,
reports and checks are the same wherever Spark runs, and an answer without a mark is worth nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import takewhile

import dagster as dg
import yaml

from lakegc_core.config.which_file import file_of
from lakegc_core.copies.copied import CopyResult
from lakegc_core.errors import LakegcError, MarkError
from lakegc_core.marks.stage_run import StageResult, standing
from lakegc_core.names import STAGES, Json
from lakegc_core.sweep.budget import Budget
from lakegc_core.sweep.result import SweepResult
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.pipes.messages import BACKUP, SWEEP, Order, value_of
from lakegc_dagster.resources import LakegcResource
from lakegc_dagster.workplace import Step

Launch = Callable[[dg.AssetExecutionContext, Json], dg.PipesClientCompletedInvocation]
"""Runs a Pipes client with a step's context and these extras, until the process has ended, and returns what the client
returns. It may raise what the client raises."""


@dataclass(frozen=True)
class Elsewhere:
    """A workplace that launches an external process for each piece of work."""

    launch: Launch
    options: LakegcConfig = field(default_factory=LakegcConfig)

    def stage(self, step: Step, stage: str) -> StageResult:
        """Run a marking stage, unless it is finished. MarkError if the store does not hold what was reported.

        The process goes on with the stages that follow in the run: some platforms start a cluster for each process.
        """
        mark = step.mark
        found = standing(stage, mark)
        if found is not None:
            return found
        told = self._carry_out(step.context, _order(step, stage, then=self._following(step.context, stage)))
        manifest = mark.mark.manifest(stage)
        if manifest is None or manifest.digest != told.get("digest"):
            raise MarkError(
                f"The external process reported {stage} of mark {mark.header.mark_id}, but {mark.mark.location} does "
                "not hold what it reported. Both sides must reach the same store: look at `stores` and `workspace` of "
                "lakegc.yaml, and at the variables of the process."
            )
        return StageResult(manifest, resumed=bool(told.get("resumed")))

    def backup(self, step: Step, place: str) -> CopyResult:
        """Copy what the mark would delete to `place`."""
        return value_of(CopyResult, self._carry_out(step.context, _order(step, BACKUP, place=place)))

    def sweep(self, step: Step, *, dry_run: bool, accepted: Mapping[str, str], budget: Budget) -> SweepResult:
        """Sweep the mark, which must have been authorised. The process judges it again, and sweeps no other one."""
        digest = step.mark.mark.require(STAGES[-1]).digest
        order = _order(step, SWEEP, digest=digest, dry_run=dry_run, accepted=dict(accepted), budget=asdict(budget))
        return value_of(SweepResult, self._carry_out(step.context, order))

    def _following(self, context: dg.AssetExecutionContext, stage: str) -> list[str]:
        """The stages that the same run materialises right after this one."""
        steps = {node.name for node in context.job_def.nodes}
        return list(takewhile(lambda each: self.options.op(each) in steps, STAGES[STAGES.index(stage) + 1 :]))

    def _carry_out(self, context: dg.AssetExecutionContext, order: Order) -> Json:
        """The result of an order. What the process could not do is raised as its own error, else a `dg.Failure`."""
        what = f"{order.verb} of mark {order.mark_id} of {order.repository}"
        try:
            invocation = self.launch(context, order.as_extras())
        except (LakegcError, dg.Failure):
            raise
        except Exception as error:
            # Not retried at once: where this process cannot see the dead one, its lease stands for some minutes.
            raise dg.Failure(
                f"The external process for {what} broke off: {str(error).strip() or type(error).__name__}\n"
                f"Its own log says why. What it finished is kept. Launch the same again; if a lease is still held, it "
                "runs out within ten minutes.",
                allow_retries=False,
            ) from error
        found = order.answer_in(invocation.get_custom_messages())
        if found is None:
            raise dg.Failure(
                f"The external process for {what} ended without a word.\n"
                "It must run lakegc_dagster.pipes, and its messages must reach Dagster: compare the message reader of "
                "the Pipes client with the message writer of the process (docs/pipes.md).",
                allow_retries=False,
            )
        if invocation.metadata:
            context.add_asset_metadata(dict(invocation.metadata), partition_key=context.partition_key)
        return found


def _order(step: Step, verb: str, **more: object) -> Order:
    header = step.mark.header
    return Order(verb, header.repository, header.mark_id, sent_settings(step.lakegc), **more)  # type: ignore[arg-type]


def sent_settings(lakegc: LakegcResource) -> str:
    """lakegc.yaml as it goes to the external process: with the step's endpoint of lakeFS, and without `spark`, whose
    settings may hold keys. It is read as it stands now, and was found valid when the mark was opened."""
    file = file_of(lakegc.config_file, os.environ)
    text = "" if file is None else file.read_text(encoding="utf-8")
    found: Json = yaml.safe_load(text) or {}
    found.pop("spark", None)
    server = found.get("server") or {}
    found["server"] = server | {"endpoint_url": lakegc.settings().server.endpoint_url}
    return yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
