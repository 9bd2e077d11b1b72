"""Objects in the namespace, as a mark knows them: of units that it listed itself, and of carried ones.

A unit is carried if nothing new can have appeared in it since it was listed. Objects that sweeps deleted since are
subtracted, by their journals. Listing itself is in `listing`.

A unit is a folder directly below the root or below data/, mostly a slice. A sharded namespace has a folder of the same
slice in many shards: these are one unit together, so that there are not more units than lakeFS began slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.clock import APART
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.layers import Layer
from lakegc_core.marks.ledger import CAME_BACK, COLUMNS, Kind, journals
from lakegc_core.names import SEEN_AGAIN, STILL_THERE, Outcome, Stage
from lakegc_core.policy import safety
from lakegc_core.policy.xids import sharded_slices, slice_time
from lakegc_core.spark.tasks import Mapped
from lakegc_core.store.base import LISTING_SCHEMA
from lakegc_core.tables.dataset import Dataset
from lakegc_core.tables.gather import HASH, columns_of, gather, only, partitions_for, rows_in, rows_of_feeds, since_last
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import among, scan
from lakegc_core.tables.key_scan import Source, Wanted, read_all
from lakegc_core.tables.parts import bytes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = "data/"
SHARDED = "data/!/"
"""The beginning of the names of units that are slices of a sharded namespace: `data/!/<slice>/`, which is no folder."""
UNITS = "units"
GONE = "gone"
_UNSURE = "unsure"
LEARNT = "learnt"
"""Dataset of expired_addresses: objects in carried units that no listing had. The store was asked for them."""

_DATASETS = ((Stage.NAMESPACE_LISTING, ""), (Stage.EXPIRED_ADDRESSES, LEARNT))

OBJECTS_SCHEMA: pa.Schema = pa.schema(
    [
        *LISTING_SCHEMA,
        pa.field("unit", pa.string(), nullable=False),  # what it was listed in; "" for the namespace's root
        pa.field("foreign", pa.bool_(), nullable=False),  # not lakeFS's: never a candidate
    ]
)
COUNTS = ("objects", "bytes", "foreign", "foreign_bytes", "nested")
UNITS_SCHEMA = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("listed_in", pa.string(), nullable=False),  # the mark whose listing counts for it
        pa.field("listed_at", pa.float64(), nullable=False),  # when that began, unix seconds
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
    ]
)
GONE_SCHEMA = pa.schema([LISTING_SCHEMA.field("address"), LISTING_SCHEMA.field("size")])

_DAY = 86_400.0
_AT = pa.timestamp("us", tz="UTC")
_NOT_THERE = pa.array([Outcome.DELETED, Outcome.ALREADY_GONE, Outcome.LOST], pa.string())
_THERE = pa.array([STILL_THERE, SEEN_AGAIN, Outcome.CHANGED], pa.string())


def carried_units(layers: Sequence[Layer], units: Sequence[str], now: float) -> dict[str, dict[str, Any]]:
    """The units to carry, with their rows of UNITS_SCHEMA in the mark below: slices that a layer listed RELIST or more
    after they began."""
    layer, known = layers[0], {layer.mark_id for layer in layers}
    window = safety.RELIST.total_seconds()
    wanted = {unit: begun for unit in units if (begun := _begun(unit)) is not None and begun < now + _DAY}
    found = {
        row["unit"]: row
        for row in _units_in(layer)
        if row["unit"] in wanted and row["listed_in"] in known and row["listed_at"] >= wanted[row["unit"]] + window
    }
    for row in layer.dataset(Stage.EXPIRED_ADDRESSES, OBJECTS_SCHEMA, LEARNT).dicts():
        if row["unit"] in found:
            found[row["unit"]]["objects"] += 1
            found[row["unit"]]["bytes"] += row["size"]
    return found


def _units_in(layer: Layer) -> Iterator[dict[str, Any]]:
    return layer.dataset(Stage.NAMESPACE_LISTING, UNITS_SCHEMA, UNITS).dicts()


def known_slices(layers: Sequence[Layer]) -> list[str]:
    """The units of the mark below that are slices of a sharded namespace."""
    if not layers:
        return []
    return [row["unit"] for row in _units_in(layers[0]) if row["unit"].startswith(SHARDED)]


def _begun(unit: str) -> int | None:
    """The time when a unit was begun (unix seconds), if it is a slice."""
    head = next((each for each in (SHARDED, DATA) if unit.startswith(each)), None)
    return None if head is None else slice_time(unit[len(head) : -1])


def unit_of(addresses: pa.Array) -> pa.Array:
    """The unit in which each address is listed."""
    folders = pc.struct_field(pc.extract_regex(addresses, "^(?P<unit>data/[^/]*/|data/|[^/]*/|)"), "unit")
    if not pc.any(pc.starts_with(addresses, "data/!")).as_py():
        return folders
    slices = sharded_slices(addresses)
    return pc.if_else(pc.is_valid(slices), pc.binary_join_element_wise(SHARDED, slices, "/", ""), folders)


@dataclass(frozen=True)
class Units:
    """Units that a mark knows, for tasks to look up.

    `sources`: the parts of their rows (UNITS_SCHEMA). `ages`: each layer with its age: 0 for the newest, 1 for the one
    below it, and so on.
    """

    sources: tuple[Source, ...]
    ages: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, units: Dataset, layers: Sequence[Layer]) -> Units:
        """Make it of the rows of units (UNITS_SCHEMA). `layers`: those that `listed_in` may name, newest first."""
        return cls(units.sources, tuple((layer.mark_id, number) for number, layer in enumerate(layers)))

    @classmethod
    def of_top(cls, layers: Sequence[Layer]) -> Units:
        """Make it of the units of the top one of the layers."""
        return cls.of(layers[0].dataset(Stage.NAMESPACE_LISTING, UNITS_SCHEMA, UNITS), layers)

    @property
    def rows(self) -> int:
        """The number of units, which those who look them up hold in memory."""
        return sum(each.part.rows for each in self.sources)

    def age(self, layer: str) -> int:
        """The age of a layer; -1 for a mark that is none of them."""
        return dict(self.ages).get(layer, -1)

    def ages_of(self, units: pa.Array) -> np.ndarray:
        """The age of the layer whose listing counts for each unit; -1 for units that are not known."""
        return self._look_up(units, "listed_in")

    def listed_at(self, units: pa.Array) -> np.ndarray:
        """The time when each unit was listed, unix seconds; -1 for units that are not known."""
        return self._look_up(units, "listed_at")

    def _look_up(self, units: pa.Array, column: str) -> np.ndarray:
        known, columns = _known_units(self.sources, self.ages)
        rows = pc.fill_null(pc.index_in(units, value_set=known), -1).to_numpy()
        chosen: np.ndarray = columns[column][rows]
        return chosen


@lru_cache(maxsize=4)
def _known_units(
    sources: tuple[Source, ...], ages: tuple[tuple[str, int], ...]
) -> tuple[pa.Array, dict[str, np.ndarray]]:
    """The units, and what is known of each; a last row of -1 stands for the others."""
    wanted = ["unit", "listed_in", "listed_at"]
    table = pa.Table.from_batches(read_all(sources, wanted), pa.schema([UNITS_SCHEMA.field(name) for name in wanted]))
    numbers = dict(ages)
    listed_in = [numbers.get(mark_id, -1) for mark_id in table["listed_in"].to_pylist()]
    return table["unit"].combine_chunks(), {
        "listed_in": np.array([*listed_in, -1], np.int64),
        "listed_at": np.append(table["listed_at"].to_numpy(), -1.0),
    }


_SWEPT = pa.schema(
    [
        HASH,
        *GONE_SCHEMA,
        pa.field("at", pa.int64(), nullable=False),  # unix microseconds
        pa.field("there", pa.bool_(), nullable=False),  # the store was asked, and shows the object
        pa.field("sure", pa.bool_(), nullable=False),
    ]
)


def _swept(units: Units, age: int, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Make rows of _SWEPT of what a journal says is gone or there, for carried units; and of objects that a mark saw
    again, which have no outcome. `age`: of the mark that was swept; -1 of no such mark."""
    names = rows.schema.names
    outcomes = rows["outcome"] if "outcome" in names else pa.repeat(SEEN_AGAIN, rows.num_rows)
    sizes = rows["size"] if "size" in names else pa.repeat(0, rows.num_rows)
    own = unit_of(rows["address"])
    ages = units.ages_of(own)
    at = rows["at"].cast(_AT).cast(pa.int64())
    there = pc.is_in(outcomes, _THERE)
    told = pc.or_(there, pc.is_in(outcomes, _NOT_THERE)).to_numpy(zero_copy_only=False)
    told &= (ages >= 0) & (at.to_numpy() / 1e6 >= units.listed_at(own) - APART)
    # Sure: the mark that was swept is as new as the listing of the unit, or newer, so that this sweep deleted what
    # the listing had. Not sure: an older mark was swept; the object may have gone before the listing.
    sure = (age >= 0) & (age <= ages)
    named = {"hash": hash_strings(rows["address"]), "address": rows["address"], "size": sizes}
    return only(named | {"at": at, "there": there, "sure": sure}, told)


def _once(rows: pa.Table) -> Iterator[pa.Table]:
    """One row of each address that is gone, by its hash; a sure one if there is any. What was recorded before the store
    last showed an object does not count."""
    rows = since_last(rows, "there", "hash").sort_by([("sure", "descending")])
    _, first = np.unique(rows["hash"].to_numpy(), return_index=True)
    yield rows.take(pa.array(first))


def write_gone(
    spark: SparkSession, context: MarkContext, layers: Sequence[Layer], carried: Dataset, since: float
) -> Dataset:
    """Objects of the layers that sweeps deleted from carried units, and that nothing has shown since: GONE_SCHEMA, with
    the sum `bytes`.

    `carried`: the carried units (UNITS_SCHEMA); `since`: when the first of them was listed, unix seconds.
    """
    out, units = context.mark.out(Stage.NAMESPACE_LISTING), Units.of(carried, layers)
    feeds = [
        feed
        for journal in journals(context, since)
        for feed in journal.rows.feeds(make=partial(_swept, units, units.age(journal.mark_id)))
    ]
    if not feeds:
        return Dataset(GONE_SCHEMA)
    for layer in layers:
        last = layer.manifests[Stage.EXPIRED_ADDRESSES]
        seen = layer.mark.dataset_of(last, COLUMNS[Kind.SEEN], CAME_BACK, may_lack=True)
        feeds += seen.feeds(make=partial(_swept, units, -1))
    swept = gather(spark, feeds, _SWEPT, _once, _SWEPT, partitions_for(rows_in(feeds)), holding=units.rows)
    found = out.divide(swept, {GONE: GONE_SCHEMA, _UNSURE: GONE_SCHEMA}, _split_sure, bytes_of)
    if not found[_UNSURE].parts:
        return found[GONE]
    lying = _scan(spark, layers, units, found[_UNSURE].keys())
    return found[GONE] + out.put(GONE, lying, GONE_SCHEMA, bytes_of)


def _split_sure(table: pa.Table) -> dict[str, pa.Table]:
    return {GONE: table.filter(table["sure"]), _UNSURE: table.filter(pc.invert(table["sure"]))}


def _current(units: Units, layer: str, rows: pa.RecordBatch) -> Mapping[str, Any]:
    """Let through rows of a layer that no newer listing of their unit replaces."""
    return columns_of(rows.filter(pa.array(units.age(layer) <= units.ages_of(rows["unit"]))))


def find(
    spark: SparkSession,
    layers: Sequence[Layer],
    wanted: Wanted | None = None,
    *,
    gone: bool = True,
    here: bool = False,
) -> Mapped:
    """Objects whose address may be wanted (None: all objects), as the top one of the layers knows them: OBJECTS_SCHEMA.
    `gone=False`: also those that sweeps have deleted since their carried unit was listed. `here`: see
    `gather.is_little`."""
    top = layers[0]
    found = _scan(spark, layers, Units.of_top(layers) if len(layers) > 1 else None, wanted, here=here)
    deleted = top.dataset(Stage.NAMESPACE_LISTING, GONE_SCHEMA, GONE).keys()
    return among(spark, found, deleted, found=False) if gone and deleted.rows else found


def _scan(
    spark: SparkSession, layers: Sequence[Layer], units: Units | None, wanted: Wanted | None, *, here: bool = False
) -> Mapped:
    """`wanted`: of parts with a column `address`. `units`: rows that a newer listing of their unit replaces are
    dropped; None: all rows count."""
    within = partial(_within, wanted) if wanted else None
    feeds = [
        feed
        for layer in layers
        for stage, name in _DATASETS
        for feed in layer.dataset(stage, OBJECTS_SCHEMA, name).feeds(
            make=partial(_current, units, layer.mark_id) if units else columns_of, within=within
        )
    ]
    holding = units.rows if units else 0
    if wanted is None:
        return rows_of_feeds(spark, feeds, OBJECTS_SCHEMA, together=True, holding=holding, here=here)
    return scan(spark, feeds, OBJECTS_SCHEMA, wanted, together=True, holding=holding, here=here)


def _within(wanted: Wanted) -> tuple[str, Sequence[str]]:
    """The column `unit`, and in which units some addresses lie."""
    return "unit", _units_of(wanted.sources)


@lru_cache(maxsize=2)
def _units_of(sources: tuple[Source, ...]) -> Sequence[str]:
    found: set[str] = set()
    for batch in read_all(sources, ["address"]):
        found.update(pc.unique(unit_of(batch["address"])).to_pylist())
    return sorted(found)
