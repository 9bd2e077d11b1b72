"""Deletes of exactly what was listed: whether the deletes of a sweep name ETags, and how rows of a plan are deleted.

A store is asked, not believed: it must leave an object whose ETag was named wrongly, and delete one whose ETag was
named rightly (`store.conditions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakegc_core.config.stores import DeleteConditions
from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.names import FAILED
from lakegc_core.store.base import Store, connect
from lakegc_core.store.factory import mapping_for
from lakegc_core.store.pace import Gate

NO_ETAG = f"{FAILED}NoETag"
"""Outcome of an object that was listed without an ETag, where each delete has to name one."""

_ONE_BY_ONE = (
    "this store takes ETags only in requests for one object; with `delete_conditions: always`, "
    "each object takes its own request"
)


@dataclass(frozen=True)
class Conditions:
    """Whether deletes name the ETags of a plan. `strict`: an object without an ETag is not deleted.

    `why`: why they do not name them, in words; "" if they do, or if the store is of a kind that cannot be asked.
    """

    named: bool = False
    strict: bool = False
    why: str = ""

    def as_json(self) -> Mapping[str, bool | str]:
        """The form of reports; empty if the store is of a kind that cannot be asked, or if nobody asked."""
        return {"named": self.named, "why": self.why} if self.named or self.why else {}

    def delete(self, store: Store, rows: pa.RecordBatch, gate: Gate) -> list[str]:
        """Delete the objects of rows of a plan. Returns one outcome per row, in order."""
        addresses = rows["address"].to_pylist()
        if not self.named:
            return store.delete_many(addresses, gate)
        etags = {address: etag for address, etag in zip(addresses, rows["etag"].to_pylist(), strict=True) if etag}
        sent = [address for address in addresses if address in etags] if self.strict else addresses
        told = dict(zip(sent, store.delete_many(sent, gate, etags), strict=True))
        return [told.get(address, NO_ETAG) for address in addresses]


def conditions_of(context: RepositoryContext) -> Conditions:
    """Ask the store of the data whether deletes may name ETags, as lakegc.yaml says. RefusedError if they have to and
    cannot."""
    mapping = mapping_for(context.namespace, context.settings)
    mode: DeleteConditions = mapping.delete_conditions if mapping else "never"
    store = connect(context.data)
    if mode == "never":
        return Conditions()
    if mode == "auto" and store.deletes.etags_a_request < 2:
        return Conditions(why=_ONE_BY_ONE if store.deletes.etags_a_request else "")
    fault = store.delete_fault()
    if fault is None:
        return Conditions(named=True, strict=mode == "always")
    if mode == "auto":
        return Conditions(why=fault)
    raise RefusedError(
        f"lakegc.yaml says `delete_conditions: always`, and {store.root} does not delete by ETag: {fault}. Nothing was "
        "deleted by this call. See what docs/stores.md#deletes-of-exactly-what-was-listed asks of a store and of a "
        "key's rights, or say `auto`."
    )
