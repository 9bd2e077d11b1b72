"""Do two versions of Spark write the same datasets? `python -m tests.support.spark_digests` prints digests to compare.

Each recording is marked, with tags protected and without, and swept. Of each folder of parquet that came of it, one
line: its columns and its rows, in whatever order and in however many parts. `make test-spark` compares the lines that
two versions print. Arguments: names of recordings; without any, all but those of Azure, whose emulator gives other
dates and ETags each time. Left out are what also differs each time: ETags of local files, and when a delete was
answered.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lakegc_core import pipeline
from lakegc_core.stages import swept_report
from tests.support.golden_replay import Recording, recordings
from tests.support.lake import quick_session
from tests.support.replays import AWS, AZURE, Replay, environment, replayed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WRITTEN = "_lakefs/retention/gc/"
_PLACE = Path(gettempdir()) / "lakegc-spark-digests"  # the same each time: datasets hold paths of local namespaces


def written(spark: SparkSession, replay: Replay) -> dict[str, bytes]:
    """All parquet that two marks and a sweep of a recording write, by its key."""
    pipeline.mark(spark, replay.begin("plain", protect_tags=False))
    protected = replay.begin("protected", protect_tags=True)
    pipeline.mark(spark, protected)
    swept_report(spark, protected)
    return {key: data for key, data in replay.read_below(_WRITTEN).items() if key.endswith(".parquet")}


def digests(files: dict[str, bytes], *, local: bool) -> Iterator[tuple[str, int, str]]:
    """Of each folder of parquet files: its name, how many rows are in it, and a digest of them and of their columns.
    `local`: they tell of a local namespace."""
    folders: dict[str, list[str]] = defaultdict(list)
    columns: dict[str, str] = {}
    for key, data in files.items():
        table, folder = pq.read_table(io.BytesIO(data)), key.rpartition("/")[0]
        without = {"etag"} if local else set()
        if folder.endswith("/outcomes"):
            without |= {"at"}
        table = table.select([name for name in table.schema.names if name not in without])
        folders[folder] += [json.dumps(row, default=str) for row in table.to_pylist()]
        columns[folder] = str(table.schema.remove_metadata())
    for folder, rows in sorted(folders.items()):
        text = "\n".join([columns[folder], *sorted(rows)])
        yield folder, len(rows), hashlib.sha256(text.encode()).hexdigest()


def main(names: list[str]) -> None:
    """Print a line for each folder: recording, folder, rows, digest."""
    with environment(AWS | AZURE), quick_session() as spark:
        for recording in map(Recording.load, recordings()):
            name, scheme = recording.folder.name, recording.scheme
            if (names and name not in names) or scheme in ("http", "https"):
                continue
            shutil.rmtree(_PLACE, ignore_errors=True)
            with replayed(recording, _PLACE) as replay:
                for found in digests(written(spark, replay), local=scheme == "local"):
                    print(name, *found, flush=True)
    shutil.rmtree(_PLACE)


if __name__ == "__main__":
    main(sys.argv[1:])
