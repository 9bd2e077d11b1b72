"""The objects of a mark that a drill has chosen: its sweep deletes these and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Chosen:
    """A few addresses that a mark found expired. `name`: of the drill, which begins with `marks.sweeps.DRILL`."""

    name: str
    addresses: tuple[str, ...]

    def among(self, objects: DataFrame) -> DataFrame:
        """Those of the objects (column address) that were chosen."""
        return objects.where(objects["address"].isin(*self.addresses))
