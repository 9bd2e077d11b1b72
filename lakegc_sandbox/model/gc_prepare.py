"""Computes what lakeFS does for a collector: the uncommitted dump, the active commits, the dump of the references.

Computed the way the server does it, defects included: identical re-uploads and full local addresses are left
out of the dump, and active commits follow the server's order-dependent walk. HTTP belongs in `gc_endpoints`.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakegc_sandbox.files import graveler_writer
from lakegc_sandbox.files.graveler_writer import RELATIVE, Commit, Entry, Record
from lakegc_sandbox.model.refs import SandboxError
from lakegc_sandbox.model.repository import Repository

DAY_NS = 86_400 * 10**9
ROW_GROUP_ROWS = 100_000
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, in paths as Python's `surrogateescape` has them."""

_UNCOMMITTED_SCHEMA = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),  # unix seconds of the entry's last_modified
    ]
)


class ScanError(Exception):
    """The server's database fails while it is scanned for what is staged."""


@dataclass(frozen=True)
class PageLimits:
    """The end of a page of the uncommitted dump: after so many branches, or so many rows. None = never."""

    branches: int | None = None
    rows: int | None = None
    scanning: Callable[[str, str], object] | None = None
    """Called as the dump is about to look for what is staged on a branch from a path on. It may change the repository,
    or raise ScanError, as when the server's own database fails."""


def location(repository: Repository, key: str, *, directory: bool = False) -> str:
    """A key as the collection endpoints show it; directories end in `/` except on `local`."""
    place = repository.place
    if place.local_base is not None:
        return place.qualify(key)
    scheme, _, path = place.namespace.partition("://")
    return f"{scheme}://{path.strip('/')}/{key}" + ("/" if directory else "")


# --- uncommitted ---


def prepare_uncommitted(repository: Repository, token: str | None, limits: PageLimits) -> dict[str, str]:
    """Write one page of the dump; its answer, with a token while there is more."""
    _check_writable(repository)
    place = repository.place
    with place.lock:
        start = _read_token(token) if token else {}
        run_id = start.get("run_id") or place.names.run_id(place.clock())
        rows, following = _page_rows(repository, start.get("branch", ""), start.get("path", ""), limits)
        answer = {"gc_uncommitted_location": "", "run_id": run_id}
        if rows:
            directory = f"{place.layout.prefix}/retention/gc/uncommitted/{run_id}/uncommitted"
            key = f"{directory}/{place.names.xid(int(place.clock()))}"
            repository.files.write(key, _uncommitted_file(rows), place.clock())
            answer["gc_uncommitted_location"] = location(repository, directory, directory=True)
        if following is not None:
            branch, path = following
            mark = {"branch": branch, "path": path, "run_id": run_id, "key": ""}
            text = json.dumps(mark, separators=(",", ":"), ensure_ascii=False)
            text = _NOT_UTF8.sub(r"\\ufffd", text)  # as Go's JSON has such bytes: the path is another one
            answer["continuation_token"] = base64.b64encode(text.encode()).decode()
        return answer


def _page_rows(
    repository: Repository, branch: str, path: str, limits: PageLimits
) -> tuple[list[tuple[str, int]], tuple[str, str] | None]:
    """The rows of one page from a position on, and the position of the next page."""
    names = [name for name in sorted(repository.refs.branches) if name >= branch]
    rows: list[tuple[str, int]] = []
    uncounted = 0
    for place, name in enumerate(names):
        if limits.branches is not None and place == limits.branches:
            return _counted(rows, uncounted), (name, "")
        if name not in repository.refs.branches:  # it vanished: the server begins to count anew
            if name == names[-1]:
                raise SandboxError(404, f"branch '{name}' not found")
            uncounted = len(rows)
            continue
        for staged_path, entry in _scan(repository, name, path if name == branch else "", limits):
            if limits.rows is not None and len(rows) >= limits.rows:
                return rows, (name, staged_path)
            address = _dumped_address(repository, entry)
            if address is not None:
                rows.append((address, entry.last_modified // 10**9))
    return _counted(rows, uncounted), None


def _counted(rows: list[tuple[str, int]], uncounted: int) -> list[tuple[str, int]]:
    """The rows of a page that are uploaded: all, unless no row was counted after the first so many."""
    return rows if len(rows) > uncounted else []


def _scan(repository: Repository, branch: str, path: str, limits: PageLimits) -> Iterator[tuple[str, Entry]]:
    """The staged entries of a branch from a path on, in the order of paths, each as it is when its turn comes."""
    while True:
        if limits.scanning is not None:
            try:
                limits.scanning(branch, path)
            except ScanError:  # the server takes it for the end of the branch
                return
        rows = repository.uncommitted(branch) if branch in repository.refs.branches else []
        ahead = (
            (staged, entry)
            for staged, change, entry in sorted(rows, key=lambda row: _bytes(row[0]))
            if change != "removed" and _bytes(staged) >= _bytes(path)
        )
        found = next(ahead, None)
        if found is None:
            return
        yield found
        if limits.scanning is None:
            yield from ahead
            return
        path = f"{found[0]}\0"


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _dumped_address(repository: Repository, entry: Entry) -> str | None:
    if entry.address_type == RELATIVE:
        return entry.address
    namespace = repository.place.namespace_slash
    return entry.address.removeprefix(namespace) if entry.address.startswith(namespace) else None


def _uncommitted_file(rows: list[tuple[str, int]]) -> bytes:
    addresses, dates = zip(*rows, strict=True)
    table = pa.table([pa.array(addresses, pa.string()), pa.array(dates, pa.int64())], schema=_UNCOMMITTED_SCHEMA)
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        version="1.0",
        compression="gzip",
        use_dictionary=["physical_address"],
        write_statistics=False,
        store_schema=False,
        row_group_size=ROW_GROUP_ROWS,
    )
    return sink.getvalue()


def _read_token(token: str) -> dict[str, str]:
    try:
        mark = json.loads(base64.b64decode(token, validate=True))
    except (binascii.Error, ValueError):
        raise SandboxError(400, "invalid continuation token") from None
    if not isinstance(mark, dict):
        raise SandboxError(400, "invalid continuation token")
    return {str(name): str(value) for name, value in mark.items()}


# --- commits ---


def prepare_commits(repository: Repository) -> dict[str, str]:
    """Write the list of active commits; its answer. Status 404 without rules."""
    _check_writable(repository)
    place = repository.place
    with place.lock:
        if repository.rules is None:
            raise SandboxError(404, "get gc rules: not found")
        run_id = place.names.run_id(place.clock())
        lines = ["commit_id,expired,metarange_id"]
        lines += [f"{commit.id},false,{commit.meta_range_id}" for commit in active_commits(repository)]
        key = f"{place.layout.prefix}/retention/gc/commits/run_id={run_id}/commits.csv"
        repository.files.write(key, ("\n".join(lines) + "\n").encode(), place.clock())
        return {
            "gc_addresses_location": location(
                repository, f"{place.layout.prefix}/retention/gc/addresses", directory=True
            ),
            "gc_commits_location": location(repository, key),
            "gc_commits_presigned_url": (
                "" if place.local_base is not None else "https://presigned.invalid/commits.csv"
            ),
            "run_id": run_id,
        }


def active_commits(repository: Repository) -> list[Commit]:
    """The commits the server calls active, which may lack some that a branch showed recently.

    Its walk stops at a commit seen with as long a retention, also where that visit came by an older child.
    """
    if repository.rules is None:
        raise SandboxError(404, "get gc rules: not found")
    default_days, branch_days = repository.rules
    commits = repository.refs.commits
    now = int(repository.place.clock() * 1e9)
    seen: dict[str, int] = {}  # commit -> threshold of the last walk through it
    active: dict[str, None] = {}
    for commit_id, branch in _starting_points(repository):
        days = default_days if branch is None else branch_days.get(branch, default_days)
        threshold = now - days * DAY_NS
        child_created = commits[commit_id].creation_date
        current: str | None = commit_id
        if branch is not None:
            active[commit_id] = None
            seen[commit_id] = threshold
            current = commits[commit_id].main_parent
        while current is not None:
            if current in seen and seen[current] <= threshold:
                break
            if child_created > threshold:
                active[current] = None
            seen[current] = threshold
            child_created = commits[current].creation_date
            current = commits[current].main_parent
    return [commits[commit_id] for commit_id in active]


def _starting_points(repository: Repository) -> list[tuple[str, str | None]]:
    """Branch heads and leaves, which are nobody's main parent, in the order of their commit ids."""
    refs = repository.refs
    heads = {branch.commit_id for branch in refs.branches.values()}
    parents = {commit.main_parent for commit in refs.commits.values()}
    starts: list[tuple[str, str | None]] = [(branch.commit_id, branch.name) for branch in refs.branches.values()]
    starts += [(commit_id, None) for commit_id in refs.commits if commit_id not in parents | heads]
    return sorted(starts, key=lambda start: (start[0], start[1] or ""))


# --- references ---


def dump_refs(repository: Repository) -> dict[str, str]:
    """Write commits, branches and tags as tables; the ids of their metaranges."""
    with repository.place.lock:
        refs = repository.refs
        commits = {commit.id: commit.value for commit in refs.commits.values()}
        branches = {name: graveler_writer.ref_value(name, branch.commit_id) for name, branch in refs.branches.items()}
        tags = {name: graveler_writer.ref_value(name, commit_id) for name, commit_id in refs.tags.items()}
        return {
            "commits_meta_range_id": _dump_table(repository, "commit", commits),
            "branches_meta_range_id": _dump_table(repository, "branch", branches),
            "tags_meta_range_id": _dump_table(repository, "tag", tags),
        }


def _dump_table(repository: Repository, entity: str, values: Mapping[str, bytes]) -> str:
    records: list[Record] = [(name.encode(), values[name]) for name in sorted(values)]
    place = repository.place
    ranges = graveler_writer.write_ranges(
        records, modulus=place.layout.range_modulus, max_size=place.layout.range_max_size, entity=entity
    )
    metarange = graveler_writer.write_metarange((table.info for table in ranges), entity)
    for table in (*ranges, metarange):
        repository.write_metadata(table.id, table.data)
    return metarange.id


def _check_writable(repository: Repository) -> None:
    if repository.read_only:
        raise SandboxError(403, "read-only repository")
