"""A mark below, of which only the units of its listing are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakegc_core.inventory.carried import COUNTS, LEARNT, UNITS, UNITS_SCHEMA
from lakegc_core.marks.artifacts import HOME, MarkArtifacts
from lakegc_core.marks.layers import Layer
from lakegc_core.names import Stage
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.parts import PartWriter
from tests.support.old_marks import manifest


def layer(folder: Path, listed_at: dict[str, float], listed_in: str = "m1") -> Layer:
    """A mark that says so of its units."""
    mark = MarkArtifacts(LocalConfig(str(folder)), "m1", HOME)
    writer = PartWriter(mark.config, mark.stage_folder(Stage.NAMESPACE_LISTING, UNITS), UNITS_SCHEMA)
    rows: list[dict[str, Any]] = [
        {"unit": unit, "listed_in": listed_in, "listed_at": at, **dict.fromkeys(COUNTS, 1)}
        for unit, at in listed_at.items()
    ]
    writer.write(pa.RecordBatch.from_pylist(rows, schema=UNITS_SCHEMA))
    listing = replace(manifest(Stage.NAMESPACE_LISTING, "x"), datasets={UNITS: writer.close()})
    last = replace(manifest("expired_addresses", "x"), datasets={LEARNT: ()})
    return Layer(mark, {Stage.NAMESPACE_LISTING: listing, "expired_addresses": last})
