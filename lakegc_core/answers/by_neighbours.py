"""Names the other repositories that refer to objects, as far as the newest mark of each tells."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.answers.workers import Workers
from lakegc_core.errors import LakegcError
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA
from lakegc_core.marks.layers import layers_of, of_all
from lakegc_core.marks.neighbours import neighbours_of, sight
from lakegc_core.names import Json, Stage
from lakegc_core.policy.facts import ExpiredFacts
from lakegc_core.policy.namespace import ADDRESS_FULL
from lakegc_core.references.ranges.range_files import RANGES, RANGES_SCHEMA
from lakegc_core.tables.gather import Feed


def referring(
    workers: Workers, context: MarkContext, addresses: Collection[str], most_rows: float
) -> Mapping[str, tuple[str, ...]]:
    """The names of the neighbours that refer to each of some addresses, of which a mark says that neighbours do. None
    where their marks do not tell any more, or have more than `most_rows` rows to read."""
    known = context.mark.facts(ExpiredFacts).neighbours.known or () if addresses else ()
    found: dict[str, list[str]] = {each: [] for each in addresses}
    for neighbour in neighbours_of(context) if known else ():
        if neighbour.name in known:
            with suppress(LakegcError):  # what cannot be read names nobody
                sighting = sight(neighbour, clock.now().timestamp())
                mark = neighbour.artifacts(sighting.mark_id) if sighting.mark_id else None
                for each in _referred(workers, context, mark, addresses, most_rows) if mark else ():
                    found[each].append(neighbour.name)
    return {address: tuple(sorted(names)) for address, names in found.items()}


def _referred(
    workers: Workers, context: MarkContext, mark: MarkArtifacts, addresses: Collection[str], most_rows: float
) -> set[str]:
    """Those of the addresses that a complete mark of a neighbour refers to."""
    layers, namespace, wanted = layers_of(mark), context.namespace, pa.array(sorted(addresses), pa.string())
    newest = layers[0]
    noted = of_all(layers, Stage.COMMITTED_ADDRESSES, ELSEWHERE_SCHEMA, ELSEWHERE)
    staged = newest.dataset(Stage.UNCOMMITTED_ADDRESSES, ELSEWHERE_SCHEMA, ELSEWHERE)
    ranges = newest.dataset(Stage.COMMITTED_ADDRESSES, RANGES_SCHEMA, RANGES)
    if noted.rows + staged.rows + ranges.rows > most_rows:
        return set()

    def entries(feed: Feed) -> Iterator[Json]:
        for batch in feed.read():
            here = batch.filter(namespace.may_hold(batch["address"]))
            types = pa.repeat(pa.scalar(ADDRESS_FULL, pa.int8()), here.num_rows)
            keys = namespace.protected_keys(here["address"], types)
            for row in keys.filter(pc.is_in(keys["address"], value_set=wanted)).to_pylist():
                range_id = here["range_id"][row["index"]].as_py()
                if range_id or feed.source.layer == newest.mark_id:  # without a range: of the newest mark alone
                    yield {"address": row["address"], "range_id": range_id}

    found = workers.run((noted + staged).feeds("range_id", "address"), entries)
    asked = pa.array(sorted({each["range_id"] for each in found}), pa.string())

    def retained(feed: Feed) -> Iterator[Json]:
        for batch in feed.read():
            yield from batch.filter(pc.is_in(batch["range_id"], value_set=asked)).to_pylist()

    counts = {"", *(each["range_id"] for each in (workers.run(ranges.feeds("range_id"), retained) if found else ()))}
    return {each["address"] for each in found if each["range_id"] in counts}
