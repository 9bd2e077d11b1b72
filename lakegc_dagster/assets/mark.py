"""The five marking assets, in the only order that is safe. They read lakeFS and its store, and write only artifacts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import dagster as dg
from pydantic import Field

from lakegc_core import pipeline
from lakegc_core.config.durations import parse_duration
from lakegc_core.config.settings import Rules
from lakegc_core.errors import SettingsError
from lakegc_core.marks.artifacts import AUTO
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_mark
from lakegc_core.names import STAGES
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.failures import READING_RETRIES, told_as_failures
from lakegc_dagster.metadata.stages import columns, stage_metadata
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource


class MarkConfig(dg.Config):
    """With what a mark is begun. Left out: as lakegc.yaml says for the repository. A mark that stands is resumed, and
    refuses other choices than those it was begun with."""

    min_age: str | None = Field(default=None, description="Youngest age of what may be collected, such as 25h.")
    safety: str | None = Field(default=None, description="Safety level: full, standard or none.")
    rules: str | None = Field(
        default=None,
        description="What a repository without garbage collection rules means: required or keep-all-commits.",
    )
    protect_tags: bool | None = Field(default=None, description="Keep what tagged commits refer to.")
    mode: str = Field(
        default=AUTO,
        description="clean: read everything anew; incremental: what changed since the mark before; auto: in turn.",
    )

    def begin(self, repository: RepositoryContext, mark_id: str) -> MarkContext:
        """Begin the mark, or resume it."""
        if self.rules is not None and self.rules not in get_args(Rules):
            raise SettingsError(f"`rules` must be one of {', '.join(get_args(Rules))}, not {self.rules!r}.")
        return begin_mark(
            repository,
            mark_id,
            min_age=None if self.min_age is None else parse_duration(self.min_age),
            safety_level=self.safety,
            rules=self.rules,
            protect_tags=self.protect_tags,
            mode=self.mode,
        )


@dataclass(frozen=True)
class _Stage:
    """A marking asset: what it stands upon, and what people read about it."""

    name: str
    deps: tuple[str, ...]
    description: str


_FIRST = _Stage(
    "namespace_listing",
    (),
    "What lies in the repository's storage namespace, listed before anything else is read. Begins the mark.\n\n"
    "Files that are not lakeFS's are listed and marked; they are never candidates.",
)
_LATER = (
    _Stage(
        "uncommitted_addresses",
        ("namespace_listing",),
        "What is staged on any branch, as lakeFS dumps it: complete before commits are read.",
    ),
    _Stage(
        "retention_commits",
        ("uncommitted_addresses",),
        "Which commits count: heads, tags, and what the retention rules keep, united with the server's own answer.",
    ),
    _Stage(
        "committed_addresses",
        ("retention_commits",),
        "What the retained commits refer to, read from lakeFS's own metadata files.",
    ),
    _Stage(
        "expired_addresses",
        ("namespace_listing", "uncommitted_addresses", "retention_commits", "committed_addresses"),
        "The garbage: listed, lakeFS's, old enough, and referred to by nothing. The checks judge it; nothing is\n"
        "deleted here.",
    ),
)


def marking_assets(options: LakegcConfig) -> list[dg.AssetsDefinition]:
    """The five assets, under the names and labels of `options`."""
    return [_first_asset(options), *(_later_asset(options, stage) for stage in _LATER)]


def _first_asset(options: LakegcConfig) -> dg.AssetsDefinition:
    @_asset(options, _FIRST)
    def begin(
        context: dg.AssetExecutionContext, config: MarkConfig, lakegc: LakegcResource
    ) -> dg.MaterializeResult[None]:
        return _run(context, lakegc, _FIRST.name, config.begin)

    return begin


def _later_asset(options: LakegcConfig, stage: _Stage) -> dg.AssetsDefinition:
    @_asset(options, stage)
    def go_on(context: dg.AssetExecutionContext, lakegc: LakegcResource) -> dg.MaterializeResult[None]:
        return _run(context, lakegc, stage.name)

    return go_on


def _asset(
    options: LakegcConfig, stage: _Stage
) -> Callable[[Callable[..., dg.MaterializeResult[None]]], dg.AssetsDefinition]:
    return options.asset(
        stage.name,
        group=options.mark_group,
        deps=stage.deps,
        description=stage.description,
        kinds={"pyspark", "parquet"},
        retry_policy=READING_RETRIES,
        metadata={"dagster/column_schema": columns(stage.name)},
    )


def _run(
    context: dg.AssetExecutionContext,
    lakegc: LakegcResource,
    stage: str,
    opening: Callable[[RepositoryContext, str], MarkContext] = open_mark,
) -> dg.MaterializeResult[None]:
    with told_as_failures():
        cell = GcCell.of(context)
        mark = opening(lakegc.open(cell, context.log.info), cell.mark_id)
        result = pipeline.MARKING[stage](lakegc.spark, mark)
        review = pipeline.review(mark) if stage == STAGES[-1] else None
        if review:
            pipeline.publish(mark, review.report)
        return dg.MaterializeResult(metadata=stage_metadata(mark, result, review))
