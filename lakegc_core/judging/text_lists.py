"""The expired addresses as plain text, one a line, for the documented rclone recipes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core.marks.address_lists import as_lines, list_of
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT_FOLDER = "deleted.text"
"""The folder of a mark in which the documented rclone recipes find one address a line."""


def write_text(spark: SparkSession, context: MarkContext, expired: Dataset) -> tuple[str, ...]:
    """Write the addresses of garbage into files of the mark's folder `deleted.text`. Returns their names."""
    work = _TextLists(context.workspace, f"{context.mark.folder}/{TEXT_FOLDER}")
    work.empty_others({list_of(part.name) for part in expired.parts})
    parts = [Dataset(expired.schema, (source,)) for source in expired.sources]
    return tuple(sorted(each["list"] for each in run_tasks(spark, parts, work.write)))


@dataclass(frozen=True)
class _TextLists:
    config: StoreConfig
    target: str

    def empty_others(self, names: Collection[str]) -> None:
        """Empty lists that an attempt that broke off left. People use the whole folder, and what an old list names may
        be staged by now. A mark's role may lack the right to remove files."""
        store = connect(self.config)
        for level in store.list_level(f"{self.target}/"):
            for key, size in zip(level.objects["address"].to_pylist(), level.objects["size"].to_pylist(), strict=True):
                if size and key.rpartition("/")[2] not in names:
                    store.write(key, b"")

    def write(self, part: Dataset) -> Iterator[Json]:
        name, data = list_of(part.parts[0].name), as_lines(part.values("address"))
        connect(self.config).write(f"{self.target}/{name}", data)
        yield {"list": name, "sha256": hashlib.sha256(data).hexdigest()}
