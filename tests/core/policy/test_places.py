"""Where lakeFS resolves a spelling: what a real server answered to each, and what Go's parser refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SPELLINGS = Path(__file__).parent / "spellings"
STORES = ["s3", "gs", "azure", "local"]
FULL, RELATIVE = 2, 1


def asked(store: str, kind: str) -> list[dict[str, Any]]:
    """What lakeFS answered to spellings of one kind."""
    rows: list[dict[str, Any]] = json.loads((SPELLINGS / f"{store}.json").read_text())
    return [row for row in rows if row["kind"] == kind]
