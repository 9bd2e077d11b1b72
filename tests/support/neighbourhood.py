"""Two repositories of one lakeFS, of which one may have imported what is garbage to the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.policy import guards
from lakegc_sandbox import Repository
from tests.support.lake import MIN_AGE, Lake, lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def neighbourhood(folder: Path) -> Iterator[Lake]:
    """Repository `lake`, which has garbage, and `far`, which may have imported it."""
    with lake(folder) as found:
        for name in ("lake", "far"):
            found.create(name).set_rules(7)
        found.sandbox.repository("lake").upload("main", "kept", b"kept", age=timedelta(days=50))
        yield found


def garbage(served: Lake, number: int = 1) -> str:
    return leave(served.sandbox.repository("lake"), f"data/gqv3epl4fd2o8m3men70/ce8co454fd2o8m3m{number:02}ag", days=50)


def imported(served: Lake, *keys: str, branch: str = "main", path: str = "a", name: str = "far") -> Repository:
    """Another repository that has imported these objects of `lake`."""
    repository = served.sandbox.repository(name)
    repository.import_objects(branch, {f"{path}/{key}": (f"s3://bucket/lake/{key}", 11) for key in keys})
    return repository


def begin(served: Lake, name: str, mark_id: str, mode: str = "auto", **more: Any) -> MarkContext:
    options: Any = {"min_age": MIN_AGE, "safety_level": "none", "mode": mode}
    return begin_mark(served.open(name, **more), mark_id, **options)


def mark(spark: SparkSession, served: Lake, name: str, mark_id: str, **more: Any) -> pipeline.Review:
    return pipeline.mark(spark, begin(served, name, mark_id, **more))


def warning(review: pipeline.Review) -> guards.Verdict:
    return next(each for each in review.verdicts if each.name == "neighbours")


def kept(review: pipeline.Review) -> int:
    count: int = review.report["objects"]["neighbour"]
    return count
