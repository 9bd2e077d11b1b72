"""The expired addresses as plain text, one a line: what the documented rclone recipes read."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator

from lakegc_core.marks.address_lists import as_lines
from lakegc_core.spark.session import Json
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.parts import Part, read_part

TEXT_FOLDER = "deleted.text"
"""Where the documented rclone recipes find one address a line."""


class TextLists:
    """Writes the expired addresses, one a line, beside the parts; a picklable value that tasks carry."""

    def __init__(self, config: StoreConfig, source: str, target: str) -> None:
        self._config, self._source, self.target = config, source, target

    def write(self, part: Part) -> Iterator[Json]:
        lines: list[str] = []
        for batch in read_part(self._config, self._source, part, ["address"]):
            lines += batch.column(0).to_pylist()
        name = f"part-{uuid.uuid4().hex}.txt"
        data = as_lines(lines)
        connect(self._config).write(f"{self.target}/{name}", data)
        yield {"list": name, "sha256": hashlib.sha256(data).hexdigest()}
