"""Stages of a mark written by hand: their parts and manifests, without the Spark jobs that would make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.marks.artifacts import Manifest
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, PartWriter
from tests.support.facts import whole_facts
from tests.support.lake import NOW, Lake

Rows = list[dict[str, Any]]
Marked = Callable[..., MarkContext]


def parts(context: MarkContext, folder: str, schema: pa.Schema, rows: Rows) -> list[Part]:
    """These rows as parts below a folder."""
    writer = PartWriter(context.workspace, folder, schema)
    writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    return writer.close()


def dataset(context: MarkContext, folder: str, schema: pa.Schema, rows: Rows, layer: str = "") -> Dataset:
    """The same as a dataset."""
    return DatasetFolder(context.workspace, folder, layer).dataset("", parts(context, folder, schema, rows), schema)


def finish(
    context: MarkContext, stage: str, datasets: Mapping[str, tuple[pa.Schema, Rows]] | None = None, **facts: Any
) -> None:
    """Write the datasets of a stage, and the manifest that makes it count. `facts`: those that are not of nothing."""
    written = {
        name: parts(context, context.mark.stage_folder(stage, name), schema, rows)
        for name, (schema, rows) in (datasets or {}).items()
    }
    at = context.header.started_at
    context.mark.finish(
        Manifest(
            stage=stage,
            repository=context.header.repository,
            mark_id=context.header.mark_id,
            upstream=context.mark.upstream_digest(stage),
            started_at=at,
            finished_at=at,
            seconds=0.0,
            datasets=written,
            facts=whole_facts(stage, facts),
            rows=0,
            bytes=0,
        )
    )


def marker(served: Lake, patch: pytest.MonkeyPatch) -> Marked:
    """Begins a mark of repository `lake` on a day from NOW, and finishes so many of its stages."""

    def mark(day: int, stages: int = len(STAGES)) -> MarkContext:
        patch.setenv("LAKEGC_NOW", str((NOW + timedelta(days=day)).timestamp()))
        context = served.begin("lake", f"m{day}")
        for stage in STAGES[:stages]:
            finish(context, stage)
        return context

    return mark
