"""namespace_listing: all that lies in the storage namespace, listed in parallel by unit, before anything else is read.

A unit is a slice or another folder; one in which nothing new can have appeared is carried from the mark below. Foreign
objects are listed and flagged; they are never candidates. lakeFS's own metadata is not listed. The listing is complete
and durable before the first prepare call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import CorruptFileError, IncompleteError
from lakegc_core.inventory.carried import (
    COUNTS,
    DATA,
    GONE,
    GONE_SCHEMA,
    OBJECTS_SCHEMA,
    SHARDED,
    UNITS,
    UNITS_SCHEMA,
    carried_units,
    known_slices,
    unit_of,
    write_gone,
)
from lakegc_core.inventory.shards import ShardReading, add_counts
from lakegc_core.marks.context import DEFAULT_PREFIX, MarkContext
from lakegc_core.marks.layers import LITTLE, Basis, choose, listed_before
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Json, Stage, counted
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.policy.namespace import Namespace, overlapping
from lakegc_core.policy.xids import is_shard
from lakegc_core.spark.tasks import run_here, run_tasks
from lakegc_core.store.base import Store, StoreConfig, connect
from lakegc_core.store.clock import ahead
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import Part, PartWriter, part_results, parts_of, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NESTED = "^data/(.*/)?_lakefs/"  # metadata of another repository below data/: its data lies among ours
_PROBE = "dummy"  # that servers of long ago left at the root when a repository was created
_SHARDS = "shards"  # what tasks saw of units in shards: a row for each unit and task
_SHARDS_SCHEMA = pa.schema(
    [
        UNITS_SCHEMA.field("unit"),
        *(UNITS_SCHEMA.field(name) for name in COUNTS),
        pa.field("seen", pa.bool_(), nullable=False),  # carried, so that nothing of it was listed
    ]
)
_FOLDERS_PER_TASK = 4  # a slice holds up to 50,000 objects
_FOLDERS_HERE, _THREADS = 1_000, 4  # the most that this process lists itself


def list_namespace(spark: SparkSession, context: MarkContext) -> StageOutput[ListingFacts]:
    """List the namespace, on the marks below where these read."""
    basis = choose(context)
    try:
        return _list_on(spark, context, basis)
    except CorruptFileError as error:
        if not basis.layers:
            raise
        context.say(f"{Stage.NAMESPACE_LISTING}: {error} The mark goes on as a clean one.")
        return _list_on(spark, context, Basis((), f"what is taken over cannot be read: {error}"))


def _list_on(spark: SparkSession, context: MarkContext, basis: Basis) -> StageOutput[ListingFacts]:
    began = clock.now().timestamp()
    listing = _Listing.of(context, began)
    folders, found_metadata, parts = listing.top()
    if not found_metadata:
        raise IncompleteError(
            f"{context.data.root} holds no {context.header.block_prefix}/, where lakeFS keeps its metadata. "
            "This is not where the server writes: check endpoint, credentials and `stores` in lakegc.yaml."
        )
    units = [folder for folder in folders if not is_shard(folder)]
    slices = known_slices(basis.layers) if len(units) < len(folders) else []
    carried = carried_units(basis.layers, [*units, *slices], began) if basis.layers else {}
    anew = [folder for folder in folders if folder not in carried]
    how = f"those changed since mark {basis.layers[0].mark_id}" if basis.layers else f"a clean mark: {basis.why_clean}"
    context.say(f"{Stage.NAMESPACE_LISTING}: {_said(anew, units)} to list ({how})")
    work = _FolderListing(listing, frozenset(unit for unit in carried if unit.startswith(SHARDED)))
    results = _run(spark, context, anew, work)
    found = parts_of(results, [Stage.NAMESPACE_LISTING, UNITS, _SHARDS])
    parts += found[Stage.NAMESPACE_LISTING]
    sharded, seen = _of_shards(listing.out.dataset(_SHARDS, found[_SHARDS], _SHARDS_SCHEMA))
    carried = {unit: row for unit, row in carried.items() if not unit.startswith(SHARDED) or unit in seen}
    carried_rows = listing.out.dataset(UNITS, listing.write_units(carried.values()), UNITS_SCHEMA)
    # Rows of the root, of data/ and of the slices in shards. Counts of the root and of data/ stay 0: their objects are
    # counted by `parts`, and neither is ever carried.
    rows_beside = listing.write_units(
        listing.listed(unit, counts)
        for unit, counts in (dict.fromkeys(("", DATA), dict.fromkeys(COUNTS, 0)) | sharded).items()
    )
    oldest = min((row["listed_at"] for row in carried.values()), default=began)
    gone = (
        write_gone(spark, context, basis.layers, carried_rows, oldest) if carried_rows.parts else Dataset(GONE_SCHEMA)
    )
    freed = {"objects": gone.rows, "bytes": gone.sum("bytes")}
    units_parts = [*found[UNITS], *rows_beside, *carried_rows.parts]
    facts = ListingFacts(
        **{
            name: sum(part.sums.get(name, 0) for part in (*parts, *carried_rows.parts)) - freed.get(name, 0)
            for name in COUNTS
        },
        nested_file=_nested_file(context, listing.out.dataset(UNITS, units_parts, UNITS_SCHEMA)),
        rests_on=basis.seals,
        why_clean=basis.why_clean,
        units=len(units) + len(seen | sharded.keys()),
        units_listed=sum(not is_shard(folder) for folder in anew) + len(sharded),
        clock_skew=ahead(context.data),
        overlapping=tuple(_overlapping(context)),
    )
    return StageOutput({Stage.NAMESPACE_LISTING: parts, UNITS: units_parts, GONE: gone.parts}, facts)


def _run(spark: SparkSession, context: MarkContext, folders: list[str], work: _FolderListing) -> list[Json]:
    """List the folders, in shares, side by side. This process lists a namespace that held little last time: Spark may
    not have started, and lakeFS's dump, for which the mark waits, is requested only after the listing."""
    before = listed_before(context)
    is_little = before is not None and before.objects <= LITTLE and len(folders) <= _FOLDERS_HERE
    wanted = context.settings.scale.listing_parallelism
    most = wanted or (_THREADS if is_little else 4 * spark_width(spark))
    width = min(most, len(folders) if wanted else -(-len(folders) // _FOLDERS_PER_TASK))
    shares = [folders[number::width] for number in range(width)]
    return run_here(shares, work.run, most) if is_little else run_tasks(spark, shares, work.run)


def _overlapping(context: MarkContext) -> list[str]:
    """The other repositories that share the namespace, of those that lakeFS lists to this key. IncompleteError if it
    does not list this one. The list does not show what else it lacks."""
    every = [(each.id, each.storage_namespace) for each in context.client.repositories()]
    if context.header.repository not in {name for name, _ in every}:
        raise IncompleteError(
            f"lakeFS's list of repositories lacks {context.header.repository} itself, so it is not whole, and nothing "
            "says whether another repository shares this namespace. Let the key list all repositories "
            "(fs:ListRepositories on *), and run the mark again."
        )
    return overlapping(context.namespace, (each for each in every if each[0] != context.header.repository))


def _nested_file(context: MarkContext, units: Dataset) -> str:
    """The first metadata file of another repository below data/; "" if there is none. If the file is gone by now, or
    lies in a shard: its unit."""
    if not units.sum("nested"):
        return ""
    unit = next(row["unit"] for row in units.dicts("unit", "nested") if row["nested"])
    for batch in connect(context.data).list(unit):
        found = batch["address"].filter(pc.match_substring_regex(batch["address"], _NESTED))
        if len(found):
            return str(found[0])
    return str(unit)


def _said(anew: list[str], units: list[str]) -> str:
    """The amount that is to be listed, in words."""
    shards = sum(is_shard(folder) for folder in anew)
    plain = f"{len(anew) - shards:,} of {counted(len(units), 'unit')}"
    return f"{plain}, and what changed in {counted(shards, 'shard')}" if shards else plain


def _of_shards(rows: Dataset) -> tuple[dict[str, dict[str, int]], set[str]]:
    """Of units in shards: the counts of what was listed of each, and the carried ones that were seen. Part by part:
    each task may have a row of each unit."""
    counts: dict[str, dict[str, int]] = {}
    seen: set[str] = set()
    for batch in rows.batches():
        seen.update(batch.filter(batch["seen"])["unit"].to_pylist())
        add_counts(counts, pa.Table.from_batches([batch.filter(pc.invert(batch["seen"]))]))
    return counts, seen


@dataclass(frozen=True)
class _Listing:
    """Lists folders of the namespace, and writes what lies there. `metadata`: folders of lakeFS's own files. `began`:
    unix seconds."""

    data: StoreConfig
    out: DatasetFolder
    namespace: Namespace
    metadata: tuple[str, ...]
    mark_id: str
    began: float

    @classmethod
    def of(cls, context: MarkContext, began: float) -> _Listing:
        return cls(
            data=context.data,
            out=context.mark.out(Stage.NAMESPACE_LISTING),
            namespace=context.namespace,
            metadata=tuple(sorted({f"{DEFAULT_PREFIX}/", f"{context.header.block_prefix}/"})),
            mark_id=context.header.mark_id,
            began=began,
        )

    def top(self) -> tuple[list[str], bool, list[Part]]:
        """The folders below the root and below data/, whether lakeFS's metadata is there, and the parts of objects that
        lie beside these folders.

        Streams: the root of a repository that servers before v0.84 wrote holds all its data.
        """
        store = connect(self.data)
        writer = self.writer()
        folders: list[str] = []
        found_metadata = False
        for prefix in ("", DATA):
            for level in store.list_level(prefix):
                self.write(writer, level.objects, prefix)
                found_metadata |= pc.any(pc.equal(level.objects["address"], _PROBE)).as_py() is True
                folders += [each for each in level.prefixes if each != DATA and each not in self.metadata]
        found_metadata = found_metadata or any(self._has_files(store, prefix) for prefix in self.metadata)
        return folders, found_metadata, writer.close()

    def _has_files(self, store: Store, prefix: str) -> bool:
        """True if objects lie directly in a folder, as lakeFS's ranges and its probe do. lakegc's own, of this very
        mark too, lie deeper."""
        return any(level.objects.num_rows for level in store.list_level(prefix))

    def listed(self, unit: str, counts: Mapping[str, int]) -> Json:
        """A row of UNITS_SCHEMA, for a unit that was listed just now."""
        return {"unit": unit, "listed_in": self.mark_id, "listed_at": self.began, **counts}

    def write_units(self, rows: Iterable[Json]) -> list[Part]:
        """Write what is known of units."""
        table = pa.RecordBatch.from_pylist(list(rows), schema=UNITS_SCHEMA)
        return list(self.out.written(UNITS, table, UNITS_SCHEMA, _sums).parts)

    def writer(self) -> PartWriter:
        """A writer of objects: OBJECTS_SCHEMA."""
        return PartWriter(self.out.config, self.out.path, OBJECTS_SCHEMA, _totals)

    def write(self, writer: PartWriter, batch: pa.RecordBatch, folder: str) -> pa.Table:
        """Write objects of a folder, but for lakeFS's metadata; return the rows with what COUNTS counts of each."""
        for prefix in self.metadata:  # a prefix setting such as `meta/lakefs` lies inside a unit
            if prefix.startswith(folder) or folder.startswith(prefix):
                batch = batch.filter(pc.invert(pc.starts_with(batch["address"], prefix)))
        allowed = self.namespace.collectable(batch["address"])
        units = unit_of(batch["address"]) if is_shard(folder) else pa.array([folder] * batch.num_rows, pa.string())
        rows = pa.RecordBatch.from_arrays([*batch.columns, units, pc.invert(allowed)], schema=OBJECTS_SCHEMA)
        writer.write(rows)
        return _counted(pa.Table.from_batches([rows]))


@dataclass(frozen=True)
class _FolderListing:
    """Lists folders in a task. `carried`: the carried units in shards."""

    listing: _Listing
    carried: frozenset[str]

    def run(self, folders: list[str]) -> Iterator[Json]:
        """List folders one after the other, into parts, and write what was seen of units in shards."""
        writer, store = self.listing.writer(), connect(self.listing.data)
        shards = ShardReading(store, self.carried)
        listed: list[Json] = []
        counts: dict[str, dict[str, int]] = {}
        for folder in folders:
            if is_shard(folder):
                for batch in shards.read(folder):
                    add_counts(counts, self.listing.write(writer, batch, folder))
                continue
            whole = dict.fromkeys(COUNTS, 0)
            for batch in store.list(folder):
                for name, count in _sums(self.listing.write(writer, batch, folder)).items():
                    whole[name] += count
            listed.append(self.listing.listed(folder, whole))
        yield from part_results(Stage.NAMESPACE_LISTING, writer.close())
        yield from part_results(UNITS, self.listing.write_units(listed))
        in_shards = [{"unit": unit, **each, "seen": False} for unit, each in counts.items()]
        in_shards += [{"unit": unit, **dict.fromkeys(COUNTS, 0), "seen": True} for unit in sorted(shards.seen)]
        if in_shards:
            rows = pa.RecordBatch.from_pylist(in_shards, schema=_SHARDS_SCHEMA)
            yield from self.listing.out.results(_SHARDS, rows, _SHARDS_SCHEMA)


def _sums(table: pa.Table) -> Mapping[str, int]:
    return {name: pc.sum(table[name]).as_py() or 0 for name in COUNTS}


def _totals(table: pa.Table) -> Mapping[str, int]:
    return _sums(_counted(table))


def _counted(table: pa.Table) -> pa.Table:
    """The units of the rows, with what COUNTS counts of each row."""
    foreign = table["foreign"]
    nested = foreign
    if pc.any(foreign).as_py():
        nested = pc.and_(foreign, pc.match_substring_regex(table["address"], _NESTED))
    columns = {
        "unit": table["unit"],
        "objects": pa.repeat(1, table.num_rows),
        "bytes": table["size"],
        "foreign": foreign.cast(pa.int64()),
        "foreign_bytes": pc.multiply(table["size"], foreign.cast(pa.int64())),
        "nested": nested.cast(pa.int64()),
    }
    return pa.table(columns)
