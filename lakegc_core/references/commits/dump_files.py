"""Reads lakeFS's dump of commits and refs, in a task on an executor: each range whole, or an error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakegc_core.errors import CorruptFileError, IncompleteError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.names import Json
from lakegc_core.policy.retention import Graph, main_parent


@dataclass(frozen=True)
class DumpFiles:
    """The metaranges and ranges that a dump consists of.

    `ignored`: ids of commits that lakegc.yaml says to ignore. Those whose metarange cannot be read have no content.
    They hand on retention to those of their parents that the graph has.
    """

    files: MetadataFiles
    ignored: Collection[str] = ()

    def graph(
        self, metarange_id: str, extra: Mapping[str, Json], missing: Collection[str] = ()
    ) -> tuple[Graph, set[str], list[str]]:
        """Returns three things: the graph of all commits; the ids of parents that it lacks; and the ids of ignored
        commits of which a metarange or a parent was passed over.

        A main parent is not lacking if it is in `missing`: lakeFS does not know it. Other parents can be lacking only
        for newer commits, because a branch that was merged may be gone. `extra`: commits by id; those that the dump
        has are taken from the dump.
        """
        tables = self.tables(metarange_id, graveler.read_commits)
        if not tables:
            raise IncompleteError(
                "lakeFS's dump of all commits is empty; every repository has a first commit. Run this again."
            )
        whole = pa.concat_tables(tables)
        names = ("commit_id", "metarange_id", "creation_us", "parents", "version")
        columns = {name: whole[name].to_pylist() for name in names}
        dumped = set(columns["commit_id"])
        newer = [commit for commit_id, commit in extra.items() if commit_id not in dumped]
        columns = {name: values + [each[name] for each in newer] for name, values in columns.items()}
        passed_over = self._ignore(columns)
        graph, unknown = Graph.build(*columns.values())
        merged = {each for commit in newer if commit["commit_id"] not in self.ignored for each in _merged(commit)}
        return graph, unknown.difference(missing) | (merged - dumped - extra.keys()), passed_over

    def _ignore(self, columns: Mapping[str, list[Any]]) -> list[str]:
        """Change the columns in place: of ignored commits, drop parents that are not known, and metaranges that cannot
        be read. Returns the ids of the commits of which one was dropped, or that have no metarange."""
        ids, metaranges, parents = (columns[name] for name in ("commit_id", "metarange_id", "parents"))
        known = set(ids) if self.ignored else set()
        passed_over: list[str] = []
        for number, commit_id in enumerate(ids):
            if commit_id not in self.ignored:
                continue
            left = [each for each in parents[number] if each in known]
            content = metaranges[number] if self._is_readable(metaranges[number]) else ""
            if not content or len(left) < len(parents[number]):
                passed_over.append(commit_id)
            parents[number], metaranges[number] = left, content
        return passed_over

    def _is_readable(self, metarange_id: str) -> bool:
        try:
            if not graveler.is_id(metarange_id):
                return False
            graveler.read_metarange(self._file(metarange_id))
            return True
        except (ObjectNotFoundError, CorruptFileError):
            return False

    def tables(self, metarange_id: str, read: Callable[[bytes], pa.Table]) -> list[pa.Table]:
        """The ranges of one of the dump's three metaranges, each compared with what the metarange says of it."""
        tables = []
        listed = graveler.read_metarange(self._file(metarange_id))
        for each in listed.to_pylist():
            table = read(self._file(each["range_id"]))
            if table.num_rows != each["count"]:
                raise CorruptFileError(
                    f"lakeFS's dump has {table.num_rows:,} records in {each['range_id']}, its metarange says "
                    f"{each['count']:,}. Run this again."
                )
            tables.append(table)
        return tables

    def _file(self, identifier: str) -> bytes:
        data = self.files.read(identifier)
        graveler.verify_identity(data, identifier)
        return data


def _merged(commit: Json) -> set[str]:
    parents = commit["parents"]
    return {*parents} - {main_parent(parents, commit["version"])} if parents else set()
