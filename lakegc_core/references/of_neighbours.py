"""References of other repositories of the same lakeFS to this namespace, as their newest complete marks noted them.

Each mark notes the addresses outside of its own namespace that its entries have (`elsewhere`). Here they become keys of
this namespace, in parts, by tasks. If a neighbour's mark cannot be read, the facts say so, and the mark before it is
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import CorruptFileError, LakegcError, ObjectNotFoundError
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA, authorities, may_refer
from lakegc_core.marks.findings import NEIGHBOURS
from lakegc_core.marks.layers import Layer, layers_of, of_all
from lakegc_core.marks.neighbours import (
    Neighbour,
    Sighting,
    neighbours_of,
    not_ignored,
    sight,
    sightings,
    what_is_known,
    why_unread,
)
from lakegc_core.marks.previous import previous_mark
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import ExpiredFacts, NeighbourFacts
from lakegc_core.policy.namespace import ADDRESS_FULL, Namespace
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA, by_range_and_mark, range_and_mark_keys
from lakegc_core.spark.tasks import many, run_tasks
from lakegc_core.store.base import StoreConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.key_scan import Source, Wanted, dealt, filter_of
from lakegc_core.tables.parts import PartWriter, part_results, parts_of, read_part, spark_width

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS_SCHEMA = pa.schema([pa.field("address", pa.string(), nullable=False)])  # relative to this namespace
_MARKS = 3  # that are tried of a neighbour, at most


@dataclass(frozen=True)
class NeighbourReferences:
    """Keys that neighbours refer to here (KEYS_SCHEMA), and the facts that the guard `neighbours` judges by. `unread`:
    the neighbours without a mark, or of which the newest cannot be read."""

    keys: Dataset
    facts: NeighbourFacts
    unread: frozenset[str] = frozenset()


def read_references(spark: SparkSession, context: MarkContext, out: DatasetFolder) -> NeighbourReferences:
    """Read the addresses that the newest complete mark of each neighbour notes, and write their keys.

    ServerError if lakeFS does not list its repositories. A mark of a neighbour that cannot be read is a fact, no error.
    """
    neighbours = {each.name: each for each in neighbours_of(context)}
    now = clock.now().timestamp()
    seen = {each.name: each for each in sightings(spark, list(neighbours.values()), now)}
    keys = Dataset(KEYS_SCHEMA)
    left = seen
    for _ in range(_MARKS):
        wanted = [each for each in left.values() if may_refer(context.namespace, each.refers)]
        found, problems = _read(spark, context, out, [(neighbours[each.name], each) for each in wanted])
        keys += found
        # What could be read of a mark counts all the same: keeping more is safe. Next comes the mark before it.
        left = {name: sight(neighbours[name], now, seen[name].marked_at) for name in problems}
        seen |= {
            name: replace(left[name], problem=problem, unread=not left[name].mark_id)
            for name, problem in problems.items()
        }
        if not left:
            break
    # Of these, all marks that were tried have problems.
    seen |= {name: replace(seen[name], unread=True) for name in left}
    facts = what_is_known(list(seen.values()), context.settings.neighbours, now, keys.rows)
    if broken := [each for each in not_ignored(seen.values(), context.settings.neighbours) if each.problem]:
        context.say(f"{NEIGHBOURS}: {len(broken):,} are not known, such as {broken[0].name}: {broken[0].problem}")
    read = (each for each in seen.values() if not each.unread)
    known = sorted(each.name for each in read if may_refer(context.namespace, each.refers))
    unread = frozenset(each.name for each in seen.values() if each.problem or not each.mark_id)
    return NeighbourReferences(keys, replace(facts, known=tuple(known)), unread)


def with_remembered(
    spark: SparkSession, context: MarkContext, found: NeighbourReferences, out: DatasetFolder
) -> NeighbourReferences:
    """`found`, and all keys that the mark before had, if a neighbour that referred here has no mark now, or its newest
    cannot be read: its marks may have moved. All keys, because nobody can tell which were its own. Neighbours that
    lakegc.yaml ignores do not matter."""
    before = previous_mark(context) if found.unread else None
    if before is None:
        return found
    told = before.facts(ExpiredFacts).neighbours.known  # None: by a mark from before there was this fact
    known = found.unread if told is None else found.unread & {*told}
    lost = [each.name for each in not_ignored([Sighting(name) for name in known], context.settings.neighbours)]
    if not lost:
        return found
    found = replace(found, facts=replace(found.facts, known=tuple(sorted({*(found.facts.known or ()), *lost}))))
    rows = before.dataset(Stage.EXPIRED_ADDRESSES, KEYS_SCHEMA, NEIGHBOURS).frame(spark).distinct()
    if found.keys.rows:
        rows = rows.join(many(found.keys.frame(spark)), "address", "left_anti")
    try:
        keys = found.keys + out.put(NEIGHBOURS, rows, KEYS_SCHEMA)
    except (CorruptFileError, ObjectNotFoundError) as error:
        raise type(error)(
            f"{error} It lists what these repositories referred to here: {', '.join(lost)}. The newest mark of "
            "each cannot be read, or there is none. Mark each of them again: lakegc mark NAME. Only if you know that "
            "one imports nothing from here, name it in lakegc.yaml: neighbours: {ignore: [NAME]}."
        ) from None
    return replace(found, keys=keys, facts=replace(found.facts, addresses=keys.rows))


@dataclass(frozen=True)
class _Piece:
    """A part of a neighbour's dataset ELSEWHERE.

    `retained`: keys of the retained ranges; None if all rows count. `newest`: the id of the neighbour's mark that is
    read, which may rest on others.
    """

    name: str
    source: Source
    retained: Wanted | None
    newest: str


def _read(
    spark: SparkSession, context: MarkContext, out: DatasetFolder, wanted: Sequence[tuple[Neighbour, Sighting]]
) -> tuple[Dataset, dict[str, str]]:
    """The keys that these marks refer to, and the problems by neighbour."""
    pieces: list[_Piece] = []
    problems: dict[str, str] = {}
    for neighbour, sighting in wanted:
        try:
            pieces += _pieces(context.namespace, neighbour, layers_of(neighbour.artifacts(sighting.mark_id)))
        except LakegcError as error:
            problems[neighbour.name] = why_unread(error)
    if not pieces:
        return Dataset(KEYS_SCHEMA), problems
    slices = min(len(pieces), 2 * max(2, spark_width(spark)))
    shares = dealt(pieces, slices, lambda piece: piece.source.part.rows)
    results = run_tasks(spark, shares, _NeighbourReader(context.namespace, out.config, out.at(NEIGHBOURS)))
    problems |= {each["neighbour"]: each["problem"] for each in results if "problem" in each}
    return out.dataset(NEIGHBOURS, parts_of(results, [NEIGHBOURS])[NEIGHBOURS], KEYS_SCHEMA), problems


def _pieces(namespace: Namespace, neighbour: Neighbour, layers: Sequence[Layer]) -> Iterator[_Piece]:
    newest = layers[0]
    ranges = newest.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES)
    retained = ranges.keys("range_id", "read_in", by=by_range_and_mark)
    noted = of_all(layers, Stage.COMMITTED_ADDRESSES, ELSEWHERE_SCHEMA, ELSEWHERE)
    always = newest.dataset(Stage.UNCOMMITTED_ADDRESSES, ELSEWHERE_SCHEMA, ELSEWHERE)
    for wanted, dataset in ((retained, noted), (None, always)):
        for source in dataset.sources:
            if may_refer(namespace, authorities([source.part])):
                yield _Piece(neighbour.name, source, wanted, newest.mark_id)


@dataclass(frozen=True)
class _NeighbourReader:
    """Reads the addresses that neighbours noted, and writes the keys of this namespace among them."""

    namespace: Namespace
    artifacts: StoreConfig
    folder: str

    def __call__(self, share: Sequence[_Piece]) -> Iterator[Json]:
        writer = PartWriter(self.artifacts, self.folder, KEYS_SCHEMA)
        for piece in share:
            try:
                found = list(self._keys(piece))
            except LakegcError as error:
                yield {"neighbour": piece.name, "problem": why_unread(error)}
                continue
            for keys in found:
                writer.write(keys)
        yield from part_results(NEIGHBOURS, writer.close())

    def _keys(self, piece: _Piece) -> Iterator[pa.RecordBatch]:
        source = piece.source
        for rows in read_part(source.config, source.folder, source.part, ["range_id", "address"]):
            here = rows.filter(self.namespace.may_hold(rows["address"]))
            if here.num_rows and piece.retained is not None:
                counts = np.zeros(here.num_rows, bool)
                marks = pa.repeat(source.layer, here.num_rows)
                counts[filter_of(piece.retained).rows(range_and_mark_keys(here["range_id"], marks))] = True
                # Entries that path holds keep have no range. Each mark notes them anew: only the newest mark's count.
                if source.layer == piece.newest:
                    counts |= pc.equal(here["range_id"], "").to_numpy(zero_copy_only=False)
                here = here.filter(pa.array(counts))
            types = pa.repeat(pa.scalar(ADDRESS_FULL, pa.int8()), here.num_rows)
            keys = self.namespace.protected_keys(here["address"], types)["address"]
            yield from pa.table({"address": keys.unique()}, schema=KEYS_SCHEMA).to_batches()
