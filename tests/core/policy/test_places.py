"""Where lakeFS resolves a spelling: what a real server answered to each, and what Go's parser refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.policy.namespace import Namespace

SPELLINGS = Path(__file__).parent / "spellings"
STORES = ["s3", "gs", "azure", "local"]
RELATIVE = 1
TYPES = {"by_prefix": 0, "relative": RELATIVE, "full": 2}
NAMESPACES = {"s3": {"own": "s3://lake/ns", "own_root": "lake/ns/", "far": "s3://lake/far", "far_root": "lake/far/"}}


def asked(store: str, kind: str) -> list[dict[str, Any]]:
    """What lakeFS answered to spellings of one kind."""
    rows: list[dict[str, Any]] = json.loads((SPELLINGS / f"{store}.json").read_text())
    return [row for row in rows if row["kind"] == kind]


def entry_of(row: dict[str, Any]) -> tuple[str, int]:
    """Address and type of an entry as lakeFS writes it down: below data/ it makes what the API is given relative."""
    address, namespace = row["spelling"], row["namespace"]
    inside = f"{namespace.removesuffix('/')}/"
    if row.get("how", "api") == "api" and address.startswith(f"{inside}data/"):
        return address[len(inside) :], RELATIVE
    return address, TYPES[row.get("type", "full")]


def protected(uri: str, address: str, address_type: int) -> dict[str, bool]:
    """The keys that one entry keeps alive in a namespace, and whether lakeFS reads just these."""
    found = Namespace(uri).protected_keys(pa.array([address]), pa.array([address_type], pa.int8()))
    return dict(zip(found["address"].to_pylist(), found["exact"].to_pylist(), strict=True))


@pytest.mark.parametrize("store", STORES)
def test_every_object_that_lakefs_read_under_some_spelling_is_kept_by_it(store: str) -> None:
    rows = asked(store, "address")
    wrong = []
    for row in rows:
        address, address_type = entry_of(row)
        read = row["reads"]
        if read is None:
            continue
        place = NAMESPACES[store]
        for uri, root in ((place["own"], place["own_root"]), (place["far"], place["far_root"])):
            if not read.startswith(root):
                continue
            key = read.removeprefix(root)
            if key and not protected(uri, address, address_type).get(key):
                wrong.append((row["spelling"], row.get("type"), read, protected(uri, address, address_type)))
    assert wrong == []
    assert len([row for row in rows if row["reads"] is not None]) >= 80
