"""Replays a recording of a real lakeFS server: its REST answers, its metadata files, its object listing.

The recordings' form is in `tests/golden/README.md`. Nothing here imports lakegc: a replay that shared its
reader with the code under test would share its mistakes. What a recording does not hold is answered with 404,
but for what follows from the files it holds: single refs, and the objects that a ref shows (`_listing`).
"""

from __future__ import annotations

import csv
import functools
import json
import os
import shutil
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import cramjam
import pyarrow.parquet as pq

from lakegc_core.names import Json

API = "/api/v1"
PREPARED, DUMPED = ("task_id", "completed"), ("id", "done")  # keys of the polls of both kinds of tasks
RECORDED_FOLDER = "/srv/lakefs"  # how recordings write the folder of a server whose blockstore is `local`


class RecordingError(KeyError):
    """A recording lacks something, or is odd. The message names the recording and what it is."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Told(dict[str, Any]):
    """What a file of a recording says. RecordingError for a key that it lacks."""

    def __init__(self, file: Path) -> None:
        super().__init__(_json(file))
        self._file = file

    def __missing__(self, key: str) -> Any:
        raise RecordingError(f"{self._file.parent.name}: {self._file.name} has no {key!r}")


def recordings() -> list[Path]:
    """The folders of all recordings: below LAKEGC_GOLDEN when it is set, else below tests/golden."""
    named = os.environ.get("LAKEGC_GOLDEN")
    base = Path(named) if named else Path(__file__).parents[1] / "golden"
    found = sorted(path.parent for path in base.glob("*/api.json"))
    if not found:
        raise FileNotFoundError(f"no recordings below {base}")
    return found


@dataclass(frozen=True)
class Row:
    """One object of the listing: key relative to the namespace, bytes, unix seconds."""

    key: str
    size: int
    last_modified: float


@dataclass(frozen=True)
class Call:
    """One recorded REST call and its answer; `text` where the answer was not one JSON document."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: Any
    status: int
    answer: Any

    @property
    def text(self) -> str:
        raw = self.answer.get("_text") if isinstance(self.answer, dict) else None
        return raw if isinstance(raw, str) else json.dumps(self.answer)


@dataclass(frozen=True)
class Recording:
    """One folder of recordings, read."""

    folder: Path
    repository: str
    namespace: str
    recorded_at: int  # unix seconds
    cutoff: int | None  # unix seconds; None: nothing is too young
    about: Json  # recording.json
    outcome: Json
    commits: Mapping[str, Json]
    calls: tuple[Call, ...]
    listing: tuple[Row, ...]

    @classmethod
    def load(cls, folder: Path) -> Recording:
        about = _Told(folder / "recording.json")
        with (folder / "listing.csv").open(encoding="utf-8", newline="") as file:
            rows = tuple(Row(row["key"], int(row["size"]), float(row["last_modified"])) for row in csv.DictReader(file))
        return cls(
            folder=folder,
            repository=about["repository"],
            namespace=about["namespace"],
            recorded_at=about["recorded_at"],
            cutoff=about["cutoff"],
            about=about,
            outcome=_Told(folder / "outcome.json"),
            commits={commit["id"]: commit for commit in _json(folder / "commits.json")},
            calls=tuple(
                Call(c["method"], c["path"], c.get("query") or {}, c.get("body"), c["status"], c["answer"])
                for c in _json(folder / "api.json")
            ),
            listing=rows,
        )

    @property
    def scheme(self) -> str:
        return self.namespace.split("://", 1)[0]

    @property
    def blockstore_type(self) -> str:
        return "azure" if self.scheme in ("http", "https") else self.scheme

    @property
    def place(self) -> str:
        """Bucket (container) and prefix of the namespace, as one relative path."""
        rest = self.namespace.split("://", 1)[1].strip("/")
        return rest.split("/", 1)[1] if self.scheme in ("http", "https") else rest

    @property
    def cutoff_for_replay(self) -> tuple[int, int]:
        """`now` (unix seconds) and minimum age (seconds) that make the replay judge as the recording did."""
        now = self.recorded_at + 1
        return now, now - self.cutoff if self.cutoff is not None else 0

    @functools.cached_property
    def metadata_prefix(self) -> str:
        """PFX: where ranges and metaranges lie, relative to the namespace."""
        paths = (f"/repositories/{self.repository}/metadata/{kind}/" for kind in ("meta_range", "range"))
        begins = tuple(paths)
        for call in self.calls:
            if call.path.startswith(begins) and call.status == 200:
                return str(call.answer["location"]).rpartition("/")[0]
        refs = next(call.answer["refs"] for call in reversed(self.all("GET", "{repo}/dump")) if call.answer.get("refs"))
        return _file(self.folder, refs["commits_meta_range_id"])[0]

    @functools.cached_property
    def unheld(self) -> frozenset[str]:
        """Listed keys that no folder can hold, such as markers of folders (`a/`). RecordingError unless all of them
        are foreign: then a replay in a folder does without them."""
        keys = {row.key for row in self.listing}
        folders = {key[:at] for key in keys for at, letter in enumerate(key) if letter == "/"}
        odd = {key for key in keys if key in folders or not all(_is_name(name) for name in key.split("/"))}
        needed = sorted(odd - set(self.outcome["foreign"] or ()))
        if needed and self.scheme in ("s3", "local"):
            raise RecordingError(f"{self.folder.name}: no folder can hold the key {needed[0]!r} of listing.csv")
        return frozenset(odd)

    def find(self, method: str, path: str) -> Call:
        """The first call of that method and path (`{repo}` stands for the repository's)."""
        return self.all(method, path)[0]

    def all(self, method: str, path: str) -> list[Call]:
        path = path.replace("{repo}", f"/repositories/{self.repository}")
        found = [call for call in self.calls if (call.method, call.path) == (method, path)]
        if not found:
            raise RecordingError(f"{self.folder.name}: api.json has no {method} {path}")
        return found

    def results(self, path: str) -> list[Json]:
        """The union of all recorded pages of a listing, in order. RecordingError if lakeFS answered none of them."""
        pages = self.all("GET", path)
        found = [call.answer["results"] or [] for call in pages if call.status == 200]
        if not found:
            raise RecordingError(
                f"{self.folder.name}: api.json has GET {path} only as {pages[0].status}: {pages[0].text}"
            )
        # By name: a listing may have been made more than once.
        return list({item.get("id", item.get("path")): item for page in found for item in page}.values())

    def task(self, path: str, id_key: str, done_key: str, task_id: str) -> Call:
        """The last poll of a task of lakeFS. RecordingError if the task is not known, or was not seen to end."""
        polls = [call for call in self.all("GET", path) if call.status == 200 and call.answer[id_key] == task_id]
        if not polls:
            raise RecordingError(f"{self.folder.name}: api.json has no GET {path} of task {task_id}")
        if not polls[-1].answer.get(done_key):
            raise RecordingError(f"{self.folder.name}: by GET {path}, task {task_id} does not end")
        return polls[-1]

    def lay_out(self, target: Path) -> Path:
        return lay_out(self, target)

    def committed(self, metarange_id: str) -> Mapping[str, Entry]:
        """What one metarange holds, by path: read from the recorded files, each once."""
        return _metarange(self.folder, metarange_id)

    def ranges(self, metarange_id: str) -> Mapping[str, Mapping[str, Entry]]:
        """The same by range."""
        names = [name.decode() for _, name, _ in _table(self.folder, metarange_id)] if metarange_id else []
        return {name: _range(self.folder, name) for name in names}

    def staged_dump(self) -> Sequence[str]:
        """Addresses, relative to the namespace, that the recorded dump of staged objects names."""
        base = self.folder / "namespace"
        files = sorted(path for path in base.rglob("retention/gc/uncommitted/*/uncommitted/*") if path.is_file())
        return [address for file in files for address in pq.read_table(file)["physical_address"].to_pylist()]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path.parent.name}: {path.name} does not read: {error}") from None


def _is_name(name: str) -> bool:
    """Whether a file or folder can have this name."""
    return name not in ("", ".", "..") and len(name.encode()) <= 255 and "\0" not in name


def lay_out(recording: Recording, target: Path) -> Path:
    """Put all objects of a recording below `<target>/<bucket>/<prefix>`, with their recorded times.

    Metadata files are the recorded bytes; every other object is zeros of its recorded size. Files that the
    prepare calls wrote are in no listing: they get the time of the recording. What no folder can hold is left out
    (`unheld`). Returns the namespace's folder.
    """
    root = target / recording.place
    files = recording.folder / "namespace"
    times = {row.key: row.last_modified for row in recording.listing}
    for file in sorted(path for path in files.rglob("*") if path.is_file()):
        key = file.relative_to(files).as_posix()
        there = root / key
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, there)
        when = times.pop(key, float(recording.recorded_at))
        os.utime(there, (when, when))
    made: set[str] = set()
    for row in recording.listing:
        if row.key not in times or row.key in recording.unheld:
            continue
        path = f"{root}/{row.key}"
        parent = path.rpartition("/")[0]
        if parent not in made:
            os.makedirs(parent, exist_ok=True)  # noqa: PTH103
            made.add(parent)
        with open(path, "wb") as out:  # noqa: PTH123 (tens of thousands of them)
            out.truncate(row.size)
        os.utime(path, (row.last_modified, row.last_modified))
    return root


@dataclass(frozen=True)
class Entry:
    """One committed entry. `relative`: the address is relative to the namespace."""

    address: str
    relative: bool
    size: int
    checksum: str
    mtime: int


class ReplayServer:
    """A loopback lakeFS that answers a recording's calls by their meaning: use as a context manager.

    Pages are cut anew for whatever `after`, `amount` and `prefix` are asked; every call may be made as often
    as one likes; tasks are finished after `unfinished_polls` polls. `target` is the folder that `lay_out`
    filled: reading an object that is no longer in it answers 410. `substitute` writes it in place of the
    recorded folder of a `local` server; `there` says whether an object still exists where no folder can. Any
    basic auth is accepted. `asked`: (method, path below /api/v1).
    """

    def __init__(
        self,
        recording: Recording,
        target: Path | None = None,
        *,
        substitute: bool = False,
        unfinished_polls: int = 0,
        there: Callable[[str], bool] | None = None,
    ) -> None:
        if substitute and target is None:
            raise ValueError("substitute needs the target folder")
        self.recording = recording
        self.target = target
        self.asked: list[tuple[str, str]] = []
        self._folder = str(target) if substitute else RECORDED_FOLDER
        self._unfinished_polls = unfinished_polls
        self._exists = there
        self._polls_left: dict[str, int] = {}
        self._begun: dict[str, int] = {}  # tasks, by the path of the call
        self._lock = threading.Lock()
        self._listing_lock = threading.Lock()
        self._listings: dict[str, Mapping[str, Json]] = {}
        self._keys = {row.key: row.size for row in recording.listing}
        self._server = _QuietServer(("127.0.0.1", 0), _handler(self._answer))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # How each call is answered: (status, body).

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[int, str]:
        with self._lock:
            self.asked.append((method, path))
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            status, text = self._route(method, path, parts, query, body)
        except KeyError:
            as_recorded = (c for c in self.recording.calls if (c.method, c.path) == (method, path))
            call = next(as_recorded, Call(method, path, {}, None, 404, {"message": "not found"}))
            status, text = (call.status, call.text) if call.status >= 400 else (404, '{"message": "not found"}')
        if self._folder != RECORDED_FOLDER:
            text = text.replace(RECORDED_FOLDER, json.dumps(self._folder)[1:-1])
        return status, text

    def _route(
        self, method: str, path: str, parts: list[str], query: Mapping[str, str], body: bytes
    ) -> tuple[int, str]:
        if method == "GET" and path == "/repositories":
            return self._page("/repositories", query)
        if parts[0] == "config" and method == "GET":
            return self._recorded("GET", path)
        if parts[0] != "repositories" or parts[1] != self.recording.repository:
            raise KeyError(path)
        match (method, parts[2:]):
            case ("GET", []):
                return self._recorded("GET", "{repo}")
            case ("GET", ["branches" | "tags" as kind]):
                return self._page("{repo}/" + kind, query)
            case ("GET", ["branches" | "tags" as kind, name]):
                found = {item["id"]: item for item in self.recording.results("{repo}/" + kind)}
                return 200, json.dumps(found[name])
            case ("GET", ["branches", name, "diff"]):
                return self._page(f"{{repo}}/branches/{name}/diff", query, key="path")
            case ("GET", ["settings", "gc_rules"] | ["gc", "rules"]):
                return self._recorded("GET", "{repo}/settings/gc_rules")
            case ("POST", ["gc", "prepare_uncommited"]):
                return self._staged_page(body)
            case ("POST", ["gc", "prepare_commits"]):
                return self._recorded("POST", "{repo}/gc/prepare_commits")
            case ("POST", ["gc", "prepare_commits", "async"]):
                return self._begin("{repo}/gc/prepare_commits/async")
            case ("GET", ["gc", "prepare_commits", "status"]):
                return self._status("{repo}/gc/prepare_commits/status", query["id"], *PREPARED)
            case ("POST", ["dump"]):
                return self._begin("{repo}/dump")
            case ("GET", ["dump"]):
                return self._status("{repo}/dump", query["task_id"], *DUMPED)
            case ("GET", ["commits", commit_id]):
                return 200, json.dumps(self.recording.commits[commit_id])
            case ("GET", ["metadata", "meta_range" | "range", any_id]):
                return 200, json.dumps({"location": f"{self.recording.metadata_prefix}/{any_id}"})
            case ("GET", ["refs", ref, "commits"]):
                return self._page(f"{{repo}}/refs/{ref}/commits", query, in_order=False)
            case ("GET", ["refs", ref, "objects", "ls"]):
                return self._objects_page(ref, query)
            case ("GET", ["refs", ref, "objects", "stat"]):
                return 200, json.dumps(self._stat(ref, query["path"]))
            case ("GET", ["refs", ref, "objects"]):
                return self._read(ref, query["path"], is_part="Range" in query)
        raise KeyError(path)

    def _recorded(self, method: str, path: str) -> tuple[int, str]:
        call = self.recording.find(method, path)
        return call.status, call.text

    def _page(self, path: str, query: Mapping[str, str], *, key: str = "id", in_order: bool = True) -> tuple[int, str]:
        items = self.recording.results(path)
        after, prefix = query.get("after", ""), query.get("prefix", "")
        items = [item for item in items if item[key].startswith(prefix)]
        if in_order:
            items.sort(key=lambda item: item[key].encode())
            items = [item for item in items if item[key].encode() > after.encode()]
        elif after:
            items = items[[item[key] for item in items].index(after) + 1 :]
        amount = min(int(query.get("amount", "100")), 1000)
        page = items[:amount]
        return 200, json.dumps(_paged(page, len(items) > amount, key))

    def _staged_page(self, body: bytes) -> tuple[int, str]:
        token = (json.loads(body) if body else {}).get("continuation_token") or ""
        for call in self.recording.all("POST", "{repo}/gc/prepare_uncommited"):
            if ((call.body or {}).get("continuation_token") or "") == token:
                return call.status, call.text
        return 400, json.dumps({"message": "invalid continuation token"})

    def _begin(self, path: str) -> tuple[int, str]:
        calls = self.recording.all("POST", path)
        with self._lock:
            call = calls[min(self._begun.get(path, 0), len(calls) - 1)]  # the recorded tasks in turn, then the last one
            self._begun[path] = self._begun.get(path, 0) + 1
            self._polls_left[call.answer["id"]] = self._unfinished_polls
        return call.status, call.text

    def _status(self, path: str, task: str, id_key: str, done_key: str) -> tuple[int, str]:
        call = self.recording.task(path, id_key, done_key, task)
        with self._lock:
            left = self._polls_left.get(task, 0)
            self._polls_left[task] = left - 1
        if left > 0:
            unfinished = {id_key: task, done_key: False, "update_time": call.answer.get("update_time")}
            return 200, json.dumps(unfinished)
        return call.status, call.text

    # Objects: the recorded listing of a ref where there is one, else a derived one.

    def _listing(self, ref: str) -> Mapping[str, Json]:
        """What a ref shows, by path, in the order of UTF-8 bytes; KeyError if there is no such ref.

        Recorded: the listings of branches in rewrites, azure_rewrites and local_*. Derived for all other refs:
        the entries of its commit, read from the recorded ranges. The default branch also shows what the recorded
        dump of staged objects names, under made-up paths, since the dump tells no path and no branch. A derived
        listing does not know which committed paths the staged entries cover: it shows those as committed.
        """
        with self._listing_lock:
            if ref not in self._listings:
                recorded, whole = self._recorded_listing(ref)
                shown = recorded if whole else {**self._derived_listing(ref), **recorded}
                self._listings[ref] = dict(sorted(shown.items(), key=lambda item: item[0].encode()))
            return self._listings[ref]

    def _recorded_listing(self, ref: str) -> tuple[dict[str, Json], bool]:
        """What the recorded pages of a ref's listing show, and whether they are all that the ref shows: lakeFS may
        have answered 500 to some."""
        path = f"/repositories/{self.recording.repository}/refs/{ref}/objects/ls"
        pages = [call for call in self.recording.calls if (call.method, call.path) == ("GET", path)]
        shown = [item for call in pages if call.status == 200 for item in call.answer["results"] or []]
        return {item["path"]: item for item in shown}, bool(pages) and all(call.status == 200 for call in pages)

    def _derived_listing(self, ref: str) -> dict[str, Json]:
        recording = self.recording
        heads = self._heads
        entries = recording.committed(recording.commits[heads.get(ref, ref)]["meta_range_id"])
        found = {path: self._row(path, entry) for path, entry in entries.items()}
        if ref == recording.find("GET", "{repo}").answer["default_branch"]:
            for address in recording.staged_dump():
                entry = Entry(address, True, self._keys.get(address, 0), "0" * 32, recording.recorded_at)
                found[f"staged, path not recorded/{address}"] = self._row(f"staged, path not recorded/{address}", entry)
        return found

    @functools.cached_property
    def _heads(self) -> Mapping[str, str]:
        """Commit ids of branches and tags; a branch prevails, as in lakeFS."""
        kinds = ("tags", "branches")
        return {item["id"]: item["commit_id"] for kind in kinds for item in self.recording.results("{repo}/" + kind)}

    def _row(self, path: str, entry: Entry) -> Json:
        return {
            "checksum": entry.checksum,
            "content_type": "application/octet-stream",
            "mtime": entry.mtime,
            "path": path,
            "path_type": "object",
            "physical_address": self._qualified() + "/" + entry.address if entry.relative else entry.address,
            "size_bytes": entry.size,
        }

    def _objects_page(self, ref: str, query: Mapping[str, str]) -> tuple[int, str]:
        """One page of `objects/ls`, cut as lakeFS cuts it: `after` may be any text, `amount` above 1000 is 1000."""
        listing = self._listing(ref)
        after, prefix, delimiter = (query.get(name, "") for name in ("after", "prefix", "delimiter"))
        amount = min(int(query.get("amount", "100")), 1000)
        paths = list(listing)
        begin = bisect_right(paths, after.encode(), key=str.encode)
        page: list[Json] = []
        for path in paths[begin:]:
            if not path.startswith(prefix):
                continue
            cut = path.find(delimiter, len(prefix)) if delimiter else -1
            item = listing[path]
            if cut >= 0:
                group = path[: cut + len(delimiter)]
                if group == after or (page and page[-1]["path"] == group):
                    continue
                item = {"path": group, "path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
            page.append(item)
            if len(page) > amount:
                break
        return 200, json.dumps(_paged(page[:amount], len(page) > amount, "path"))

    def _stat(self, ref: str, path: str) -> Json:
        return self._listing(ref)[path]

    def _qualified(self) -> str:
        """The namespace as physical addresses of this server begin, without a slash at its end."""
        if self.recording.blockstore_type == "local":
            return f"local://{RECORDED_FOLDER}/{self.recording.place}"
        return self.recording.namespace.rstrip("/")

    def _read(self, ref: str, path: str, *, is_part: bool) -> tuple[int, str]:
        stat = self._stat(ref, path)
        if is_part and stat["size_bytes"] == 0:  # whether the data is there or not
            return 416, json.dumps({"message": "Requested Range Not Satisfiable"})
        address: str = stat["physical_address"]
        inside = self._qualified() + "/"
        # What is linked on `local` is shown with the folder twice (golden/README.md).
        address = address.replace(RECORDED_FOLDER * 2, RECORDED_FOLDER)
        if address.startswith(inside) and not self._there(address.removeprefix(inside)):
            return 410, json.dumps({"message": "no data"})
        return (206, "\0") if is_part else (200, "\0" * min(1, stat["size_bytes"]))

    def _there(self, key: str) -> bool:
        if self._exists is not None:
            return self._exists(key)
        if self.target is not None:
            return (self.target / self.recording.place / key).is_file()
        return key in self._keys


def _paged(page: list[Json], more: bool, key: str) -> Json:
    pagination = {
        "has_more": more,
        "max_per_page": 1000,
        "next_offset": page[-1][key] if more else "",
        "results": len(page),
    }
    return {"pagination": pagination, "results": page}


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about a client that hung up; anything else is a fault of the replay."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _handler(
    answer: Callable[[str, str, Mapping[str, str], bytes], tuple[int, str]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(url.query, True).items()}
            query |= {"Range": self.headers["Range"]} if "Range" in self.headers else {}
            if not self.headers.get("Authorization", "").startswith("Basic "):
                status, text = 401, json.dumps({"message": "error authenticating request"})
            elif not url.path.startswith(API + "/"):
                status, text = 404, json.dumps({"message": "not found"})
            else:
                status, text = answer(self.command, url.path.removeprefix(API), query, body)
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, *_: object) -> None:
            pass

    return Handler


# A reader of lakeFS's tables, as short as it can be: no checks, no speed.


@functools.lru_cache(maxsize=4096)
def _metarange(folder: Path, metarange_id: str) -> Mapping[str, Entry]:
    if not metarange_id:
        return {}
    found: dict[str, Entry] = {}
    for _, range_id, _ in _table(folder, metarange_id):
        found.update(_range(folder, range_id.decode()))
    return found


@functools.lru_cache(maxsize=4096)
def _range(folder: Path, range_id: str) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    for path, _, data in _table(folder, range_id):
        fields = _proto(data)
        found[path.decode()] = Entry(
            address=_bytes(fields, 1).decode(),
            relative=fields.get(6) == 1,
            size=_int(fields, 3),
            checksum=_bytes(fields, 4).decode(),
            mtime=_int(_proto(_bytes(fields, 2)), 1),
        )
    return found


@functools.lru_cache(maxsize=4096)
def _file(folder: Path, table_id: str) -> tuple[str, Path]:
    """The server's prefix, and the file of a range or metarange."""
    base = folder / "namespace"
    file = next(base.rglob(table_id), None)
    if file is None:
        raise RecordingError(f"{folder.name}: namespace/ has no file {table_id}")
    return file.parent.relative_to(base).as_posix(), file


def _table(folder: Path, table_id: str) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Key, identity and data of every record of a metarange or range file."""
    table = _file(folder, table_id)[1].read_bytes()
    footer = table[-53:]
    handles, at = [], 1
    for _ in range(2):
        offset, at = _uvarint(footer, at)
        length, at = _uvarint(footer, at)
        handles.append((offset, length))
    meta = dict(_block(table, handles[0]))
    properties = dict(_block(table, _handle(meta[b"rocksdb.properties"])))
    index = [_handle(value) for _, value in _block(table, handles[1])]
    if properties[b"rocksdb.block.based.table.index.type"][0] == 2:
        index = [_handle(value) for lower in index for _, value in _block(table, lower)]
    for handle in index:
        for key, value in _block(table, handle):
            size, at = _uvarint(value, 0)
            identity = value[at : at + size // 2]  # zig-zag
            size, at = _uvarint(value, at + size // 2)
            yield key[:-8], identity, value[at : at + size // 2]


def _handle(value: bytes) -> tuple[int, int]:
    offset, at = _uvarint(value, 0)
    return offset, _uvarint(value, at)[0]


def _block(table: bytes, handle: tuple[int, int]) -> list[tuple[bytes, bytes]]:
    offset, length = handle
    block = table[offset : offset + length]
    if table[offset + length]:
        block = bytes(cramjam.snappy.decompress_raw(block))
    end = len(block) - 4 * (int.from_bytes(block[-4:], "little") + 1)
    records, key, at = [], b"", 0
    while at < end:
        shared, at = _uvarint(block, at)
        unshared, at = _uvarint(block, at)
        size, at = _uvarint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        records.append((key, block[at : at + size]))
        at += size
    return records


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _proto(data: bytes) -> dict[int, int | bytes]:
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _uvarint(data, at)
        value, at = _uvarint(data, at)
        if tag & 7 == 2:
            fields[tag >> 3] = data[at : at + value]
            at += value
        else:
            fields[tag >> 3] = value
    return fields


def _bytes(fields: Mapping[int, int | bytes], number: int) -> bytes:
    value = fields.get(number, b"")
    assert isinstance(value, bytes)
    return value


def _int(fields: Mapping[int, int | bytes], number: int) -> int:
    value = fields.get(number, 0)
    assert isinstance(value, int)
    return value


_CLASSES = ("Call", "Entry", "Recording", "RecordingError", "ReplayServer", "Row")
__all__: Sequence[str] = [*_CLASSES, "lay_out", "recordings"]
