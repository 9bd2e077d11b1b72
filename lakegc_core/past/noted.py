"""What the marks that stand noted of the past of unreferenced objects."""

from __future__ import annotations

from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.shelf import Shelf
from lakegc_core.names import Stage
from lakegc_core.past.ranges import ORIGINS, ORIGINS_SCHEMA
from lakegc_core.tables.dataset import Dataset


def origins_of_all(context: RepositoryContext) -> Dataset:
    """The origins that all complete marks noted (ORIGINS_SCHEMA), of an object often more than once."""
    found = Dataset(ORIGINS_SCHEMA)
    for each in Shelf.of(context):
        if each.is_complete:
            found += each.mark.dataset(Stage.EXPIRED_ADDRESSES, ORIGINS_SCHEMA, ORIGINS, may_lack=True)
    return found
