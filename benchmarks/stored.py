"""A generated repository behind a real S3 server, and what each mark of it asks of the store and of Spark.

Here: the server before the repository's folder, its settings for `lakegc`, and counts by its own log and by Spark's
event log: nothing stands in between that would take its time of the same cores. Not here: what is run (`mark`,
`store`).
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.forgetting import control, forget
from benchmarks.generate import BUCKET, REPOSITORY
from benchmarks.lake import ServedLake
from tests.support.servers import rclone_s3

_LOGGED = re.compile(rb"serve s3: (HEAD OBJECT|GET OBJECT|CREATE OBJECT|LIST BUCKET|DELETE|delete multi)\b:?(.*)")
_KINDS = {
    b"HEAD OBJECT": "store_head",
    b"GET OBJECT": "store_get",
    b"CREATE OBJECT": "store_put",
    b"LIST BUCKET": "store_list",
    b"DELETE": "store_delete",
    b"delete multi": "store_delete",
}
_OF_DATA = f" {REPOSITORY}/data/".encode()
_JOB = b'"Event":"SparkListenerJobStart"'


@dataclass
class StoredLake:
    """One that runs. `environment`: how `lakegc` finds the store."""

    environment: dict[str, str]
    _root: Path
    _log: Path
    _events: Path
    _told: int = 0  # bytes of the log
    _ran: int = 0  # jobs

    def begin(self) -> None:
        """Count from here, with a server that remembers nothing."""
        forget(self._root)
        self._told, self._ran = self._log.stat().st_size, self._jobs()

    def counts(self) -> dict[str, int]:
        """Since `begin`: HEADs of objects, requests of other kinds, and Spark's jobs. Requests about the bucket itself,
        one or two a mark, are not logged."""
        found = Counter(dict.fromkeys(("heads", *_KINDS.values()), 0))
        with self._log.open("rb") as log:
            log.seek(self._told)
            for line in log:
                if logged := _LOGGED.search(line):
                    is_proof = logged[1] == b"HEAD OBJECT" and _OF_DATA in logged[2]
                    found["heads" if is_proof else _KINDS[logged[1]]] += 1
        return dict(found) | {"jobs": self._jobs() - self._ran}

    def _jobs(self) -> int:
        """All that Spark's event logs know."""
        return sum(path.read_bytes().count(_JOB) for path in self._events.rglob("*") if path.is_file())


@contextmanager
def stored(lake: ServedLake) -> Iterator[StoredLake]:
    """Put a server before the lake's folder until the block ends, and write lakegc.yaml for it."""
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as name:
        folder = Path(name)
        events = folder / "events"
        events.mkdir()
        # The server has no conditional writes, which a lease of lakegc's own needs.
        conf = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        }
        lake.config.write_text(json.dumps({"lease": "external", "spark": {"conf": conf}}), encoding="utf-8")
        arguments = ("--log-level=DEBUG", "--rc", "--rc-no-auth", f"--rc-addr=unix://{control(lake.root)}")
        with rclone_s3(lake.root, BUCKET, folder, remembers="1h", arguments=arguments) as server:
            yield StoredLake(server.environment(), lake.root, server.log, events)
