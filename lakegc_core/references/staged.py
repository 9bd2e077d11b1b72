"""uncommitted_addresses: every address that lakeFS says is staged on any branch, in one complete dump.

The server's dump forgets what was linked or staged by an address that it gives out in another spelling than the
namespace's: on blockstore `local`, and where a namespace is not in lakeFS's own spelling. There branches with staged
changes, and on `local` all, are also listed through the object API, and every address they show is protected
(`lists_branches`). Branches are also listed where every dump may have lost rows, because a branch was deleted during
each of several runs (`_dumped`).

The dump leaves out what is staged under an address outside of the namespace. Where branches are listed, the listings
show it; elsewhere it is known only once it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakegc_core import clock
from lakegc_core.errors import CorruptFileError, IncompleteError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import ObjectStats, StagedDump
from lakegc_core.marks.context import MarkContext, output_key
from lakegc_core.marks.elsewhere import ELSEWHERE, ELSEWHERE_SCHEMA, authorities, elsewhere_rows, sum_authorities
from lakegc_core.marks.stage_run import StageOutput
from lakegc_core.names import Json, Stage, counted
from lakegc_core.policy.facts import StagedFacts
from lakegc_core.policy.namespace import ADDRESS_FULL, ADDRESS_RELATIVE, Namespace
from lakegc_core.policy.places import ODD_PATH, have, place_of
from lakegc_core.spark.tasks import run_tasks
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_core.tables.parts import Part, PartWriter, part_results, parts_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMN = "physical_address"
_MOST_DUMPS = 3  # where branches come and go all the time, each may be one that dropped rows

STAGED_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),  # relative to the namespace
        pa.field("exact", pa.bool_(), nullable=False),  # False: a second reading of an address, protected in case
    ]
)


def dump_staged(spark: SparkSession, context: MarkContext, folder: str) -> StageOutput[StagedFacts]:
    """One complete dump into parts below `folder`: for the mark, and for every look of a sweep."""
    started = clock.now().timestamp()
    dumps = _dumped(context)
    keys = [key for dump in dumps for key in _files_of(context, dump)]
    pages = sum(dump.pages for dump in dumps)
    context.say(f"{Stage.UNCOMMITTED_ADDRESSES}: {counted(pages, 'page')}, {counted(len(keys), 'file')}")
    read = partial(_read_dump, context.outputs, DatasetFolder(context.workspace, folder), context.namespace)
    shares = [keys[number::32] for number in range(min(32, len(keys)))]
    parts = parts_of(run_tasks(spark, shares, read), [Stage.UNCOMMITTED_ADDRESSES])[Stage.UNCOMMITTED_ADDRESSES]
    is_blind = len(dumps) > 1 or lists_branches(context.namespace)
    listed, elsewhere = _list_branches(context, folder) if is_blind else ([], [])
    facts = StagedFacts(
        began_at=started,
        run_id=dumps[-1].run_id,
        pages=pages,
        pages_with_location=sum(len(dump.locations) for dump in dumps),
        files=len(keys),
        rows=rows_of(parts),
        rows_of_branch_listings=rows_of(listed),
        elsewhere=authorities(elsewhere),
    )
    return StageOutput({Stage.UNCOMMITTED_ADDRESSES: [*parts, *listed], ELSEWHERE: elsewhere}, facts)


def _dumped(context: MarkContext) -> list[StagedDump]:
    """The server's dump; several of them if each may have dropped rows. They may have dropped the same ones.

    lakeFS begins to count rows anew where it meets a branch that was deleted meanwhile, and drops a page in which it
    counts none after that: the page has no location, as if nothing were staged.

    No listing shows a branch that was made and deleted meanwhile, or deleted and made anew under its name. What the
    mark's dump lost by it, the look's own dump has.
    """
    client, repository, dumps = context.client, context.header.repository, list[StagedDump]()
    while len(dumps) < _MOST_DUMPS:
        before = {each.name for each in client.branches(repository)}
        dumps.append(dump := client.prepare_uncommitted(repository))
        if len(dump.locations) == dump.pages or before <= {each.name for each in client.branches(repository)}:
            return [dump]
        context.say(f"{Stage.UNCOMMITTED_ADDRESSES}: a branch was deleted meanwhile, and a page is empty")
    return dumps


def _files_of(context: MarkContext, dump: StagedDump) -> list[str]:
    return _files(context, dump.locations) if dump.locations else _no_files(context, dump.run_id)


def lists_branches(namespace: Namespace) -> bool:
    """True where the dump forgets linked uploads, so that branches are listed.

    lakeFS knows an upload as its own only if the address that it gave out begins with the text of the namespace. If
    not, it takes a link for one to somewhere else: it looks at no time limit, and leaves the entry out of the dump.
    """
    return namespace.is_local or f"{namespace.spelled}/" != _with_slash(namespace.uri)


def were_listed(context: MarkContext) -> bool:
    """True if a mark has what branches show among what is staged."""
    return lists_branches(context.namespace) or context.mark.facts(StagedFacts).rows_of_branch_listings > 0


def _with_slash(uri: str) -> str:
    return uri if uri.endswith("/") else f"{uri}/"


def _files(context: MarkContext, locations: Sequence[str]) -> list[str]:
    """The dump's files. There are at least as many as pages that named a location; a retry may leave more."""
    folder = output_key(context, locations[-1]).rstrip("/") + "/"
    keys = [
        key
        for batch in connect(context.outputs).list(folder)
        for key in batch.column("address").to_pylist()
        if not key.endswith("/")
    ]
    if len(keys) < len(locations):
        raise IncompleteError(
            f"lakeFS wrote staged addresses for {len(locations)} pages to {folder}, but only {len(keys)} files are "
            "there. Staged data would look like garbage. Run this again; if it stays so, check that this "
            "process reads the store that lakeFS writes to."
        )
    return sorted(keys)


def _no_files(context: MarkContext, run_id: str) -> list[str]:
    """No keys, after a look into the run's own folder: a server that names no location must have written nothing."""
    folder = f"{context.header.block_prefix}/retention/gc/uncommitted/{run_id}/"
    if any(batch.num_rows for batch in connect(context.outputs).list(folder)):
        raise IncompleteError(
            f"lakeFS says that nothing is staged, and yet wrote to {folder} in the same run. Staged data would look "
            "like garbage. Run this again; if it stays so, look into the server's log."
        )
    return []


def _read_dump(outputs: StoreConfig, out: DatasetFolder, namespace: Namespace, keys: Sequence[str]) -> Iterator[Json]:
    """Read files of the server's dump into parts in `out` itself."""
    batches = (batch for key in keys for batch in read_dump_file(connect(outputs).read(key), key))
    rows = (each for batch in batches for each in protect_dumped(namespace, batch.column(0)))
    yield from part_results(Stage.UNCOMMITTED_ADDRESSES, out.written("", rows, STAGED_SCHEMA).parts)


def read_dump_file(data: bytes, key: str) -> Iterator[pa.RecordBatch]:
    """The addresses in one file of the server's dump, as batches of one column. CorruptFileError if it is not whole."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if _COLUMN not in file.schema_arrow.names:
            raise CorruptFileError(f"{key} has no column {_COLUMN}: it is not lakeFS's list of staged addresses.")
        rows = 0
        for batch in file.iter_batches(columns=[_COLUMN]):
            addresses = batch.column(0).cast(pa.string())
            if addresses.null_count:
                raise CorruptFileError(f"{key} holds an empty address among the staged ones.")
            rows += len(addresses)
            yield pa.RecordBatch.from_arrays([addresses], names=["address"])
        if rows != file.metadata.num_rows:
            raise CorruptFileError(f"{key} holds {rows} rows where its footer says {file.metadata.num_rows}.")
    except (pa.ArrowException, OSError, EOFError) as error:
        raise CorruptFileError(f"{key} cannot be read as parquet ({error}). Run this again.") from None


def _list_branches(context: MarkContext, folder: str) -> tuple[list[Part], list[Part]]:
    """Every physical address that branches with staged changes show (on `local`: all branches), through the object API,
    in parts; streamed page by page. Then those that may lie elsewhere."""
    writer = PartWriter(context.workspace, folder, STAGED_SCHEMA)
    elsewhere = PartWriter(context.workspace, f"{folder}/{ELSEWHERE}", ELSEWHERE_SCHEMA, sum_authorities)
    client, repository = context.client, context.header.repository
    for branch in client.branches(repository):
        if not context.namespace.is_local and not _has_changes(client, repository, branch.name):
            continue  # it shows its head, and what hides behind it: `reuploads` asks for that
        for page in objects_of(client, repository, branch.name):
            writer.write(protect_listed(context.namespace, [stats.physical_address for stats in page]))
            table = pa.table(
                {
                    "address": pa.array([stats.physical_address for stats in page], pa.string()),
                    "address_type": pa.array([ADDRESS_FULL] * len(page), pa.int8()),
                    "size": pa.array([stats.size_bytes for stats in page], pa.int64()),
                }
            )
            table = table.filter(pc.invert(_own(context.namespace, table["address"])))
            for rows in elsewhere_rows(context.namespace, [""], [table.num_rows], table).to_batches():
                elsewhere.write(rows)
    return writer.close(), elsewhere.close()


def _own(namespace: Namespace, shown: pa.ChunkedArray) -> pa.ChunkedArray:
    """True for each shown address that surely lies in the namespace, in lakeFS's spelling. None on `local`."""
    start = f"{namespace.spelled}/"
    if namespace.is_local or place_of(f"{start}_") != place_of(f"{_with_slash(namespace.uri)}_"):
        return pc.equal(shown, "")
    return pc.and_not(pc.starts_with(shown, start), pc.match_substring_regex(shown, ODD_PATH))


def _has_changes(client: LakeFSClient, repository: str, branch: str) -> bool:
    paths: list[str] = []
    with unless_vanished(client, repository, branch):
        paths = client.staged_paths(repository, branch, 1)
    return bool(paths)


def objects_of(client: LakeFSClient, repository: str, branch: str) -> Iterator[list[ObjectStats]]:
    """Objects of a branch, page by page. One that is deleted meanwhile shows nothing more; every other 404 raises."""
    with unless_vanished(client, repository, branch):
        yield from client.objects(repository, branch)


@contextmanager
def unless_vanished(client: LakeFSClient, repository: str, branch: str) -> Iterator[None]:
    """Ends early, without an error, at lakeFS's own 404 about a branch that is no longer there."""
    try:
        yield
    except LakeFSError as error:
        if not error.is_absent or any(each.name == branch for each in client.branches(repository)):
            raise


def protect_dumped(namespace: Namespace, addresses: pa.Array) -> Iterator[pa.RecordBatch]:
    """The keys that addresses of the staged dump protect (STAGED_SCHEMA).

    The dump does not tell types: it cuts the namespace off full addresses. A full one may be written encoded, and Azure
    reads it decoded.
    """
    yield protected(namespace, addresses, ADDRESS_RELATIVE)
    if have(addresses, b"%", b"?"):
        written = addresses.filter(pc.match_substring_regex(addresses, "[%?]"))
        named = pc.binary_join_element_wise(_with_slash(namespace.uri), written, "")
        rows = protected(namespace, named, ADDRESS_FULL)
        yield rows.set_column(1, STAGED_SCHEMA.field("exact"), pa.repeat(pa.scalar(False), rows.num_rows))


def protect_listed(namespace: Namespace, addresses: Sequence[str]) -> pa.RecordBatch:
    """The keys that physical addresses of the object API protect. An address outside the namespace protects none."""
    return protected(namespace, pa.array(addresses, pa.string()), ADDRESS_FULL)


def protected(namespace: Namespace, addresses: pa.Array, address_type: int) -> pa.RecordBatch:
    """The keys that addresses of one type protect (STAGED_SCHEMA), by every reading of each."""
    found = namespace.protected_keys(addresses, pa.repeat(pa.scalar(address_type, pa.int8()), len(addresses)))
    table = pa.table({"address": found["address"], "exact": found["exact"]}, schema=STAGED_SCHEMA)
    return (
        table.combine_chunks().to_batches()[0]
        if table.num_rows
        else pa.RecordBatch.from_pylist([], schema=STAGED_SCHEMA)
    )
