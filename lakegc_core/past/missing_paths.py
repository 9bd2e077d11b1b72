"""Live objects that the store lacks, with the paths under which users know them: a free check of the repository."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import IncompleteError, ServerError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Json
from lakegc_core.references.ranges.protected import protected_rows
from lakegc_core.spark.tasks import collected, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 100
"""At most so many are named with their paths; the dataset `missing` holds all addresses."""
_PAGES = 100  # of 1,000 entries each, which are searched for paths of staged objects


def missing_paths(
    spark: SparkSession, context: MarkContext, missing: DataFrame, committed: DataFrame
) -> list[dict[str, str]]:
    """Up to SHOWN of the missing addresses, each with one path that shows it; staged ones with their branch as well.
    "" where nobody knows: of staged ones a bounded search looks for the path."""
    addresses = [row[0] for row in collected(missing.select("address").limit(SHOWN))]
    holding = committed.where(committed["address"].isin(addresses)).select("address", "range_id")
    rows = collected(holding.limit(4 * SHOWN)) if addresses else []
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        wanted[row["range_id"]].add(row["address"])
    files, namespace = context.metadata, context.namespace

    def task(item: tuple[str, Sequence[str]]) -> Iterator[Json]:
        range_id, sought = item
        entries = graveler.read_range(files.read(range_id), paths=True)
        rows = protected_rows(namespace, [range_id], [len(entries)], entries)
        found = rows.filter(pc.is_in(rows["address"], pa.array(sought, pa.string())))
        for each in found.to_pylist():
            yield {"address": each["address"], "path": each["path"].decode("utf-8", "replace")}

    items = [(range_id, sorted(sought)) for range_id, sought in wanted.items()]
    known = {each["address"]: each["path"] for each in run_tasks(spark, items, task)}
    staged = _staged(context, {address for address in addresses if address not in known})
    return [
        {"address": address, "path": known.get(address) or staged[address][1], "branch": staged[address][0]}
        for address in sorted(addresses)
    ]


def _staged(context: MarkContext, wanted: set[str]) -> Mapping[str, tuple[str, str]]:
    """The branch and the path of addresses that are only staged, as far as _PAGES pages of what branches show."""
    found: defaultdict[str, tuple[str, str]] = defaultdict(lambda: ("", ""))
    client, repository, root = context.client, context.header.repository, f"{context.namespace.spelled}/"
    names = (branch.name for branch in client.branches(repository))
    pages = ((name, page) for name in names for page in client.objects(repository, name))
    with suppress(ServerError, IncompleteError):  # a branch may vanish meanwhile: names are no reason to stop
        for name, page in islice(pages, _PAGES if wanted else 0):
            for stats in page:
                address = stats.physical_address.removeprefix(root)
                if address in wanted:
                    found.setdefault(address, (name, stats.path))
            if len(found) == len(wanted):
                break
    return found
