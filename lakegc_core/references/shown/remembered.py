"""Proofs of contents by HEAD: made in tasks, and remembered from mark to mark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakegc_core.errors import LakegcError
from lakegc_core.marks.artifacts import Header
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.findings import FINDINGS_SCHEMA
from lakegc_core.marks.shelf import Shelf, Standing
from lakegc_core.names import Stage
from lakegc_core.policy.prices import Prices
from lakegc_core.store.base import ObjectInfo, StoreConfig, connect
from lakegc_core.tables.dataset import Dataset

PROOFS = "proofs"
PROOFS_SCHEMA = pa.schema(
    [
        FINDINGS_SCHEMA.field("address"),
        pa.field("size", pa.int64(), nullable=False),  # bytes, as HEAD showed it
        pa.field("etag", pa.string(), nullable=True),  # as HEAD showed it
        pa.field("digest", pa.string(), nullable=False),  # `ObjectInfo.digest`; "": HEAD proved nothing
    ]
)

_FAILURES = 20  # HEADs that fail in one task before it makes no more


@dataclass(frozen=True)
class Known:
    """Proofs of earlier marks (`proofs`, PROOFS_SCHEMA). `heads`: how many more HEADs may be made, `prices`: what they
    cost. `is_mark`: a mark asks, no look. A mark keeps only proofs of objects that its listing shows unchanged,
    and puts them down anew; a look puts down none."""

    proofs: Dataset
    heads: int
    prices: Prices
    is_mark: bool


def known(context: MarkContext, prices: Prices, seconds: float | None = None) -> Known:
    """Find the proofs of the newest mark that proved anything: later marks may have proved nothing.

    `seconds`: what a mark took so far; None for a look. A look has no limit of time: its proofs are not kept, so it
    gains nothing by stopping early. The first mark that has to prove anything has none either.
    """
    mark = Shelf.of(context, context.level).newest_complete(partial(_has_proofs, context))
    most, is_mark = context.settings.scale.store_heads or context.level.heads, seconds is not None
    if mark is not None and seconds is not None:
        most = min(most, prices.heads_in(context.settings.scale.asking_share * seconds))
    if mark is None:
        return Known(Dataset(PROOFS_SCHEMA), most, prices, is_mark)
    return Known(mark.dataset(Stage.EXPIRED_ADDRESSES, PROOFS_SCHEMA, PROOFS), most, prices, is_mark)


def _has_proofs(context: MarkContext, header: Header, each: Standing) -> bool:
    place = (header.repository, header.repository_created, header.storage_namespace)
    own = context.header
    is_here = place == (own.repository, own.repository_created, own.storage_namespace)
    has_some = is_here and each.mark.dataset(Stage.EXPIRED_ADDRESSES, PROOFS_SCHEMA, PROOFS, may_lack=True).rows > 0
    # Not one with a fault: if a wrong clock dated it ahead, it would stay the newest.
    return has_some and each.fault is None


def proofs_of(data: StoreConfig, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PROOFS_SCHEMA of addresses. An object that is gone, or whose HEAD the store refuses, has no row: that proves
    nothing, and is not remembered."""
    store, failures = connect(data), _FAILURES
    for batch in batches:
        answers = store.try_heads(batch["address"].to_pylist(), failures=failures)
        failures = max(0, failures - sum(isinstance(each, LakegcError) for each in answers))
        found = [each for each in answers if isinstance(each, ObjectInfo)]
        rows = [(each.address, each.size, each.etag, each.digest or "") for each in found]
        yield pa.RecordBatch.from_pylist(
            [dict(zip(PROOFS_SCHEMA.names, row, strict=True)) for row in rows], schema=PROOFS_SCHEMA
        )
