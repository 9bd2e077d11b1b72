"""The five marking assets, in the only order that is safe. They read lakeFS and its store, and write only artifacts."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Literal

import dagster as dg
from pydantic import Field

from lakegc_core import pipeline
from lakegc_core.config.durations import parse_duration
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_mark
from lakegc_core.names import STAGES
from lakegc_dagster.checks import guard_keys
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.stages import columns, stage_metadata
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.repository import failures_shown, show_mark
from lakegc_dagster.resources import resource_of
from lakegc_dagster.unasked import with_checks_told
from lakegc_dagster.workplace import Step, Workplace

_Events = Iterator[dg.MaterializeResult[None] | dg.AssetCheckEvaluation]


class MarkSafety(StrEnum):
    """The safety levels. Dagster's launchpad knows an enum by its names, so that these are the values as well."""

    full = "full"
    standard = "standard"
    none = "none"


MarkRules = StrEnum("MarkRules", {"required": "required", "keep-all-commits": "keep-all-commits"})
"""The meaning of a repository without rules. The second name is none that a class could have."""
MarkMode = Literal["auto", "clean", "incremental"]
"""The ways in which a mark reads. Dagster has no `Literal` that may be left empty; the two above may be."""


class MarkConfig(dg.Config):
    """With what a mark is begun. Left out: as lakegc.yaml says for the repository. A mark that stands is resumed, and
    refuses other choices than those it was begun with."""

    min_age: str | None = Field(default=None, description="Youngest age of what may be collected, such as 25h.")
    safety: MarkSafety | None = Field(default=None, description="Safety level: full, standard or none.")
    rules: MarkRules | None = Field(
        default=None,
        description="What a repository without garbage collection rules means: required or keep-all-commits.",
    )
    protect_tags: bool | None = Field(default=None, description="Keep what tagged commits refer to.")
    mode: MarkMode = Field(
        default="auto",
        description="clean: read everything anew; incremental: what changed since the mark before; auto: in turn.",
    )

    def begin(self, repository: RepositoryContext, mark_id: str) -> MarkContext:
        """Begin the mark, or resume it. RefusedError, before anything is listed, for a repository without rules."""
        mark = begin_mark(
            repository,
            mark_id,
            min_age=None if self.min_age is None else parse_duration(self.min_age),
            safety_level=None if self.safety is None else self.safety.value,
            rules=None if self.rules is None else self.rules.value,
            protect_tags=self.protect_tags,
            mode=self.mode,
        )
        pipeline.check_beforehand(mark)
        return mark


_TEXTS = {
    "namespace_listing": (
        "What lies in the repository's storage namespace, listed before anything else is read. Begins the mark.\n\n"
        "Files that are not lakeFS's are listed too, and known as such. They are never candidates."
    ),
    "uncommitted_addresses": (
        "What is staged on any branch, as lakeFS dumps it. It is read whole before any commit is read."
    ),
    "retention_commits": (
        "Which commits count: heads, tags, and what the retention rules keep, united with the server's own answer."
    ),
    "committed_addresses": "What the retained commits refer to, read from lakeFS's own metadata files.",
    "expired_addresses": (
        "The garbage: objects of lakeFS that were listed, are old enough, and that nothing refers to. The checks\n"
        "judge it. Nothing is deleted here."
    ),
}
"""The descriptions of the stages, for people."""
_MISSING = (
    "A partition is missing if its repository has no mark of this id. That is no fault: a mark by hand fills the "
    "partition of its own repository alone. The job gc_watch names repositories that missed a round."
)


def marking_assets(options: LakegcConfig, workplace: Workplace) -> list[dg.AssetsDefinition]:
    """The five assets, under the names and labels of `options`, which do their work at `workplace`."""

    @_asset(options, STAGES[0])
    def begin(context: dg.AssetExecutionContext, config: MarkConfig) -> _Events:
        work = _run(context, options, workplace, STAGES[0], config.begin)
        yield from with_checks_told(context, guard_keys(options), work)

    return [begin, *(_later_asset(options, workplace, stage) for stage in STAGES[1:])]


def _later_asset(options: LakegcConfig, workplace: Workplace, stage: str) -> dg.AssetsDefinition:
    @_asset(options, stage)
    def go_on(context: dg.AssetExecutionContext) -> _Events:
        yield from with_checks_told(context, guard_keys(options), _run(context, options, workplace, stage))

    return go_on


def _asset(options: LakegcConfig, stage: str) -> Callable[[Callable[..., _Events]], dg.AssetsDefinition]:
    """Each stage stands upon the one before it, the last one upon all."""
    before = STAGES[: STAGES.index(stage)]
    return options.asset(
        stage,
        group=options.mark_group,
        deps=before if stage == STAGES[-1] else before[-1:],
        description=f"{_TEXTS[stage]}\n\n{_MISSING}",
        kinds={"pyspark", "parquet"},
        retry_policy=READING_RETRIES,
        metadata=columns(stage),
    )


def _run(
    context: dg.AssetExecutionContext,
    options: LakegcConfig,
    workplace: Workplace,
    stage: str,
    opening: Callable[[RepositoryContext, str], MarkContext] = open_mark,
) -> Iterator[dg.MaterializeResult[None]]:
    with told_as_failures():
        cell = GcCell.of(context)
    with failures_shown(context, options, cell), told_as_failures(context.retry_number):
        lakegc = resource_of(options, context)
        mark = opening(lakegc.open(cell, context.log.info), cell.mark_id)
        result = workplace.stage(Step(context, lakegc, mark), stage)
        review = pipeline.review(mark) if stage == STAGES[-1] else None
        if review:
            pipeline.publish(mark, review.report)
            show_mark(context, options, mark, review)
        yield dg.MaterializeResult(metadata=stage_metadata(options, mark, result, review))
