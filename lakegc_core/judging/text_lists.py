"""The expired addresses as plain text, one a line, for the documented rclone recipes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core.marks.address_lists import as_lines
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json
from lakegc_core.spark.session import run_tasks
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.parts import remove_leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT_FOLDER = "deleted.text"
"""The folder of a mark in which the documented rclone recipes find one address a line."""


def write_text(spark: SparkSession, context: MarkContext, expired: Dataset) -> tuple[str, ...]:
    """Write the addresses of garbage into files of the mark's folder `deleted.text`. Returns their names."""
    work = _TextLists(context.workspace, f"{context.mark.folder}/{TEXT_FOLDER}")
    # Files of an attempt that broke off must go: people take the folder as a whole, and an object that such a file
    # lists may have been staged since.
    remove_leftovers(context.workspace, work.target)
    parts = [Dataset(expired.schema, (source,)) for source in expired.sources]
    return tuple(sorted(each["list"] for each in run_tasks(spark, parts, work.write)))


@dataclass(frozen=True)
class _TextLists:
    config: StoreConfig
    target: str

    def write(self, part: Dataset) -> Iterator[Json]:
        lines: list[str] = []
        for batch in part.batches("address"):
            lines += batch.column(0).to_pylist()
        name = f"part-{uuid.uuid4().hex}.txt"
        data = as_lines(lines)
        connect(self.config).write(f"{self.target}/{name}", data)
        yield {"list": name, "sha256": hashlib.sha256(data).hexdigest()}
