"""The objects of a mark that a drill has chosen: its sweep deletes these and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakegc_core.policy.facts import Amount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Chosen:
    """A few addresses that a mark found expired. `name`: of the drill, which begins with `marks.sweeps.DRILL`; `bytes`:
    of all their objects."""

    name: str
    addresses: tuple[str, ...]
    bytes: int

    @property
    def amount(self) -> Amount:
        """The most that the drill deletes."""
        return Amount(len(self.addresses), self.bytes)

    def among(self, objects: DataFrame) -> DataFrame:
        """Those of the objects (column address) that were chosen."""
        return objects.where(objects["address"].isin(*self.addresses))
