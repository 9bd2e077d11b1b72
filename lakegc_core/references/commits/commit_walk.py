"""Walks the commit graph, as one task on an executor: reads lakeFS's dump, the refs and the server's own list, decides.

The rule itself is in `lakegc_core.policy.retention`; the requests to the server, and their order, in `retained`.
"""

from __future__ import annotations

import csv
import functools
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from lakegc_core.errors import CorruptFileError, IncompleteError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json, Stage, Symptom, see
from lakegc_core.policy.retention import Graph, NamedCommits, Rules, held_rows, idle_holds, retain
from lakegc_core.references.commits.dump_files import DumpFiles
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import part_results

REFS = "refs"
OTHERS = "others"
"""Dataset: the commits that are not retained. Holds by path read them, and answers that look for paths."""

COMMITS_SCHEMA = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("metarange_id", pa.string(), nullable=False),  # "" on the repository's first commit
        pa.field("kept_by", pa.string(), nullable=False),  # head:NAME, tag:NAME, hold:HOLD, rules, dangling, …
    ]
)
REFS_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # branch | tag
        pa.field("name", pa.string(), nullable=False),
        pa.field("commit_id", pa.string(), nullable=False),
    ]
)


_NAMED = 3
_WAYS_OUT = 300  # commits that an error names for `ignore_commits`
MOST_FETCHED = 10_000
"""Commits newer than the dump, at most; if there are more, the dump is not of this repository."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A task over the commit graph, on an executor. `extra`: commits that may be newer than the dump, by id; `missing`:
    ids that lakeFS does not know, which commits may name as parents."""

    extra: dict[str, Json] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def run(self) -> Iterator[Json]:
        """Read the dump and decide. Yields `unknown`, ids of commits that are in neither, or else its results."""
        raise NotImplementedError


def told_unknown(commit_ids: Iterable[str]) -> Json:
    """The result of a walk that lacks commits: their ids; of more than MOST_FETCHED, one more than that."""
    return {"unknown": sorted(commit_ids)[: MOST_FETCHED + 1]}


@dataclass(frozen=True, kw_only=True)
class Ancestry(Walk):
    """Finds out if lakeFS has the main parent of every commit of a dump. Yields `orphans`: a few commits whose
    parent it has not. `dump`: the dump's metarange of commits."""

    files: MetadataFiles
    dump: str

    def run(self) -> Iterator[Json]:
        graph, unknown, _ = DumpFiles(self.files).graph(self.dump, self.extra, self.missing)
        if unknown:
            yield told_unknown(unknown)
            return
        yield {"orphans": [graph.commit_ids[number] for number in islice(graph.orphans, _NAMED)]}


@dataclass(frozen=True)
class CommitWalk(Walk):
    """Reads the dump, the refs and the server's CSV, and decides; runs as one task on an executor. Retained commits go
    to `out` itself, others and unlisted refs to folders in it. `former`: heads and tags as the mark before saw them.
    `ignored`: see `DumpFiles`."""

    outputs: StoreConfig
    files: MetadataFiles
    out: DatasetFolder
    refs: Dataset
    former: Dataset
    commits_metarange: str
    branches_metarange: str
    tags_metarange: str
    server_csv: str | None
    rules: Rules | None
    protect_tags: bool
    holds: tuple[str, ...]
    now: int
    margin: int
    ignored: tuple[str, ...] = ()

    def run(self) -> Iterator[Json]:
        graph, unknown, passed_over = self._dump().graph(self.commits_metarange, self.extra, self.missing)
        ids, metaranges = graph.commit_ids, graph.metarange_ids
        row = {commit_id: number for number, commit_id in enumerate(ids)}
        named, unlisted = self._named(row, unknown)
        heads, tags = named["branch"], named["tag"]
        server = self._server(row, metaranges, unknown)
        if unknown:
            yield told_unknown(unknown)
            return
        yield from self.out.results(REFS, pa.Table.from_pylist(unlisted, REFS_SCHEMA), REFS_SCHEMA)
        protected = tags if self.protect_tags else []
        held = held_rows(graph, heads, tags, self.holds)
        counting = NamedCommits(heads, protected, held)
        # `ours`: without the server's list, to compare our rule with the server's.
        kept = retain(graph, counting, self.rules, self.now, margin=self.margin, server=server)
        ours = retain(graph, counting, self.rules, self.now, margin=self.margin)
        yield from write_commits(Stage.RETENTION_COMMITS, self.out, graph, kept)
        others = {number: "not retained" for number in range(len(ids)) if number not in kept}
        yield from write_commits(OTHERS, self.out.below(OTHERS), graph, others)
        server_rows = set(server)
        yield {
            "facts": {
                "known": len(ids),
                "retained": len(kept),
                "retained_metaranges": len({metaranges[number] for number in kept} - {""}),
                "branches": len({name for name, _ in heads}),
                "tags": len(tags),
                "tags_protected": self.protect_tags,
                "commits_odd": sum(metaranges[each] != "" and not graveler.is_id(metaranges[each]) for each in others),
                "commits_ignored": [each for each in self.ignored if each in passed_over],
                "holds": list(self.holds),
                "holds_idle": idle_holds(held, self.holds),
                "former_heads_unknown": len(set(self.former.values("commit_id")) - row.keys()),
                "refs_not_retained": len({number for _, number in (*heads, *protected)} - set(kept)),
                "server_retained": len(server_rows) if self.server_csv else None,
                "kept_beyond_server": len(set(ours) - server_rows) if self.server_csv else None,
                "server_beyond_ours": len(server_rows - set(ours)) if self.server_csv else None,
                "kept_by": dict(Counter(reason.partition(":")[0] for reason in kept.values())),
            }
        }

    def _dump(self) -> DumpFiles:
        return DumpFiles(self.files, self.ignored)

    def _named(self, row: Mapping[str, int], unknown: set[str]) -> tuple[dict[str, list[tuple[str, int]]], list[Json]]:
        """Names and rows of heads and tags, by kind; a branch that moved between two listings counts with both heads.
        Adds the ids that the graph lacks to `unknown`.

        Refs of the dump count too, because a listing that lacks a page looks complete. The second value is the refs
        that only the dump has.
        """
        named: dict[str, set[tuple[str, int]]] = {"branch": set(), "tag": set()}

        def add(kind: str, name: str, commit_id: str) -> None:
            number = row.get(commit_id)
            if number is None:
                unknown.add(commit_id)
            else:
                named[kind].add((name, number))

        listed: set[tuple[str, str, str]] = set()
        unlisted: list[Json] = []
        for ref in self.refs.dicts():
            add(ref["kind"], ref["name"], ref["commit_id"])
            listed.add((ref["kind"], ref["name"], ref["commit_id"]))
        for kind, metarange_id in (("branch", self.branches_metarange), ("tag", self.tags_metarange)):
            for table in self._dump().tables(metarange_id, functools.partial(graveler.read_refs, entity=kind)):
                for ref in table.to_pylist():
                    add(kind, ref["name"], ref["commit_id"])
                    if (kind, ref["name"], ref["commit_id"]) not in listed:
                        unlisted.append({"kind": kind, **ref})
        return {kind: sorted(found) for kind, found in named.items()}, unlisted

    def _server(self, row: Mapping[str, int], metaranges: Sequence[str], unknown: set[str]) -> list[int]:
        """Rows of the commits that the server's CSV retains. Adds the ids that the graph lacks to `unknown`.
        CorruptFileError if the graph has another metarange for one."""
        if self.server_csv is None:
            return []
        rows: list[int] = []
        for commit_id, metarange_id in read_server_csv(connect(self.outputs).read(self.server_csv)):
            number = row.get(commit_id)
            if number is None:
                unknown.add(commit_id)
            elif metarange_id not in (None, metaranges[number]) and commit_id not in self.ignored:
                raise CorruptFileError(
                    f"lakeFS names metarange {metarange_id} for commit {commit_id}, its dump another one."
                )
            else:
                rows.append(number)
        return rows


def write_commits(dataset: str, out: DatasetFolder, graph: Graph, chosen: Mapping[int, str]) -> Iterator[Json]:
    """Write the commits of some rows, each with the reason for which it is kept, as parts of COMMITS_SCHEMA in `out`
    itself.

    A client of lakeFS may record a commit with any text in the place of a metarange's id, or of a parent's.
    CorruptFileError if such a commit is retained; if it is not, it has no content, or no parent.
    """
    if dataset != OTHERS and (orphans := [number for number in graph.orphans if number in chosen]):
        others = f", and the same is true of {len(orphans) - 1:,} others" if len(orphans) > 1 else ""
        raise CorruptFileError(
            f"Commit {graph.commit_ids[orphans[0]]} is retained, and lakeFS does not know its parent "
            f"{graph.orphans[orphans[0]]!r}{others}. What that kept is not known, and nothing is collected while that "
            f"is so. {way_out([graph.commit_ids[number] for number in orphans[:_WAYS_OUT]])}"
        )
    metaranges = {number: graph.metarange_ids[number] for number in chosen}
    for number in [number for number, each in metaranges.items() if each and not graveler.is_id(each)]:
        if dataset != OTHERS:
            raise CorruptFileError(unreadable_commit(graph.commit_ids[number], metaranges[number]))
        metaranges[number] = ""
    columns = [
        pa.array([graph.commit_ids[number] for number in chosen], pa.string()),
        pa.array(list(metaranges.values()), pa.string()),
        pa.array(list(chosen.values()), pa.string()),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=COMMITS_SCHEMA)
    yield from part_results(dataset, out.written("", rows, COMMITS_SCHEMA).parts)


def unreadable_commit(commit_id: str, metarange_id: str) -> str:
    """The error of a retained commit whose metarange's id is none."""
    return (
        f"Commit {commit_id} is retained, and its metarange is {metarange_id!r}, which is no id. What it refers to is "
        f"not known, and nothing is collected while that is so. {way_out([commit_id])}"
    )


def way_out(commit_ids: Sequence[str]) -> str:
    """What to do about retained commits whose metarange or parent cannot be read."""
    return (
        "If lakeFS cannot read it either, and it will not come back: delete or reset the branches and tags at it, and "
        f"name it in lakegc.yaml: `ignore_commits: [{', '.join(commit_ids)}]`. {see(Symptom.UNREADABLE_COMMIT)}"
    )


def read_server_csv(data: bytes) -> list[tuple[str, str | None]]:
    """Commit and metarange of every commit that the server retains; metarange None before v0.100.

    IncompleteError for an empty list: a repository's heads always count.
    """
    if not data.endswith(b"\n"):
        raise IncompleteError("lakeFS's list of retained commits ends in the middle of a line.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CorruptFileError("lakeFS's list of retained commits is not the plain text that it must be.") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    if not reader.fieldnames or not {"commit_id", "expired"} <= set(reader.fieldnames):
        raise CorruptFileError(f"lakeFS's list of retained commits has the columns {reader.fieldnames}.")
    found: list[tuple[str, str | None]] = []
    for line in reader:
        commit_id, metarange_id, expired = line["commit_id"], line.get("metarange_id"), line["expired"]
        if None in line.values() or None in line or not commit_id or expired not in ("true", "false"):
            raise CorruptFileError(f"lakeFS's list of retained commits holds the odd line {line}.")
        if expired == "false":
            found.append((commit_id, metarange_id))
    if not found:
        raise IncompleteError("lakeFS's list of retained commits is empty, but the heads of branches always count.")
    return found
