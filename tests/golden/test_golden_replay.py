"""The replay says what was recorded, and the client understands it: both over every recording there is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import DumpRefs
from tests.support.golden_replay import (
    API,
    DUMPED,
    PREPARED,
    RECORDED_FOLDER,
    Call,
    Recording,
    RecordingError,
    ReplayServer,
    lay_out,
    recordings,
)

pytestmark = pytest.mark.golden
NEEDED = (
    *("active_commits", "active_by_server", "live_committed", "live_staged_only", "live_because_tagged_only"),
    *("live_missing_in_store", "young", "foreign", "garbage", "garbage_when_tags_are_protected"),
)
"""What an outcome must say."""


def is_local(folder: Path) -> bool:
    """False if the recording does not read, too: other tests name what it lacks."""
    try:
        return Recording.load(folder).blockstore_type == "local"
    except (RecordingError, KeyError):
        return False


LOCAL = [path for path in recordings() if is_local(path)]


@pytest.fixture(scope="module", params=recordings(), ids=lambda folder: folder.name)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording.load(request.param)


@pytest.fixture(scope="module")
def server(recording: Recording) -> Iterator[ReplayServer]:
    with ReplayServer(recording, unfinished_polls=1) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ReplayServer) -> LakeFSClient:
    return client_of(server)


def client_of(server: ReplayServer) -> LakeFSClient:
    return LakeFSClient(ServerSettings(server.url, "any", "thing"), sleep=lambda _: None)


def ask(server: ReplayServer, method: str, path: str, query: Any = None, body: Any = None) -> tuple[int, str]:
    response = requests.request(
        method, server.url + API + path, params=query, json=body, auth=("any", "thing"), timeout=120
    )
    return response.status_code, response.text


@pytest.fixture(scope="module", params=LOCAL, ids=lambda folder: folder.name)
def local(request: pytest.FixtureRequest) -> Recording:
    return Recording.load(request.param)


# ---- the replay ----


def test_the_recording_is_whole(recording: Recording) -> None:
    groups = {name: set(recording.outcome[name] or ()) for name in NEEDED}
    for task, keys in (("gc/prepare_commits/async", PREPARED), ("dump", DUMPED)):
        polled = "gc/prepare_commits/status" if keys is PREPARED else task
        path = f"/repositories/{recording.repository}/{task}"
        for begun in recording.calls:
            if (begun.method, begun.path, begun.status) == ("POST", path, 202):
                recording.task(f"{{repo}}/{polled}", *keys, begun.answer["id"])
    fates = ("live_committed", "live_staged_only", "live_because_tagged_only", "young", "foreign")
    for row in recording.listing:
        fate = [name for name in (*fates, "garbage_when_tags_are_protected") if row.key in groups[name]]
        is_metadata = row.key.startswith(f"{recording.metadata_prefix}/")
        assert len(fate) == (not is_metadata), f"outcome.json: {row.key} of listing.csv is in {fate or 'no group'}"
    recording.unheld  # noqa: B018 (raises)


def test_every_recorded_call_is_answered_as_it_was(recording: Recording) -> None:
    """A task is polled to its end, and a page that lakeFS could not make may be one that the replay makes."""
    with ReplayServer(recording) as server:
        for call in recording.calls:
            unfinished = isinstance(call.answer, dict) and any(call.answer.get(key) is False for key in _DONE)
            if call.status >= 500 or unfinished:
                continue
            status, text = ask(server, call.method, call.path, call.query, call.body)
            assert status == call.status, call.path
            if isinstance(call.answer, dict) and "_text" in call.answer:
                assert text == call.answer["_text"]
            else:
                same = (each for each in recording.calls if of_call(each) == of_call(call))
                assert listed(json.loads(text)) in [listed(each.answer) for each in same], call.path


_DONE = (PREPARED[1], DUMPED[1])


def listed(answer: Any) -> Any:
    """What counts of an answer: the elements of a page, a place, or all of it."""
    found = answer if isinstance(answer, dict) else {}
    return found.get("results", found.get("location", answer))


def of_call(call: Call) -> tuple[object, ...]:
    return call.method, call.path, dict(call.query), call.body


def test_pages_may_be_cut_in_any_size(recording: Recording, server: ReplayServer) -> None:
    path = f"/repositories/{recording.repository}/branches"
    whole = recording.results("{repo}/branches")
    for amount in (1, 3, 999) if len(whole) < 100 else (333, 999):
        found: list[Any] = []
        after = ""
        while True:
            answer = json.loads(ask(server, "GET", path, {"after": after, "amount": amount})[1])
            found += answer["results"]
            assert answer["pagination"]["results"] == len(answer["results"]) <= amount
            if not answer["pagination"]["has_more"]:
                break
            after = answer["pagination"]["next_offset"]
        assert found == whole


def test_what_was_not_recorded_is_not_found(recording: Recording, server: ReplayServer) -> None:
    here = f"/repositories/{recording.repository}"
    for method, path in (
        ("GET", "/repositories/other"),
        ("GET", "/users"),
        ("DELETE", here),
        ("GET", f"{here}/commits/{'0' * 64}"),
        ("GET", f"{here}/refs/no-such-branch/commits"),
        ("GET", f"{here}/refs/no-such-branch/objects?path=x"),
        ("GET", f"{here}/dump?task_id=unknown"),
        ("GET", f"{here}/dump"),
    ):
        status, text = ask(server, method, path)
        assert (status, json.loads(text)) == (404, {"message": "not found"}), path


def test_without_credentials_nothing_is_answered(server: ReplayServer) -> None:
    assert requests.get(server.url + API + "/config", timeout=120).status_code == 401


def test_an_unknown_continuation_is_refused(recording: Recording, server: ReplayServer) -> None:
    path = f"/repositories/{recording.repository}/gc/prepare_uncommited"
    assert ask(server, "POST", path, body={"continuation_token": "made up"})[0] == 400


def test_the_layout_is_the_listing(recording: Recording, tmp_path: Path) -> None:
    root = lay_out(recording, tmp_path)
    listed = {row.key: (row.size, row.last_modified) for row in recording.listing if row.key not in recording.unheld}
    laid = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = f"{folder}/{name}"
            stat = os.stat(path)  # noqa: PTH116
            laid[path.removeprefix(f"{root}/")] = (stat.st_size, stat.st_mtime)
    assert {key: laid.get(key) for key in listed} == listed
    later = {key for key in laid if key not in listed}
    assert all(key.startswith(f"{recording.metadata_prefix}/") for key in later)
    assert {laid[key][1] for key in later} <= {float(recording.recorded_at)}
    files = recording.folder / "namespace"
    for file in files.rglob("*"):
        if file.is_file():
            assert (root / file.relative_to(files)).read_bytes() == file.read_bytes()
    assert root.relative_to(tmp_path).as_posix() == recording.place
    assert recording.namespace.rstrip("/").endswith("/" + recording.place)


def test_the_recorded_ranges_hold_what_the_object_api_listed(recording: Recording) -> None:
    inside = recording.namespace + "/"
    live = set()
    for commit_id in recording.outcome["active_commits"]:
        for entry in recording.committed(recording.commits[commit_id]["meta_range_id"]).values():
            if entry.relative:
                live.add(entry.address)
            elif entry.address.startswith(inside):
                live.add(entry.address.removeprefix(inside))
    assert live == set(recording.outcome["live_committed"])


def test_the_folder_of_a_local_server_is_replaced_when_asked(local: Recording, tmp_path: Path) -> None:
    with ReplayServer(local) as as_recorded, ReplayServer(local, tmp_path, substitute=True) as moved:
        before = client_of(as_recorded).prepare_commits(local.repository).commits_location
        after = client_of(moved).prepare_commits(local.repository).commits_location
    assert before.startswith(f"local://{RECORDED_FOLDER}/{local.place}/")
    assert after == before.replace(RECORDED_FOLDER, str(tmp_path))


def test_an_object_that_is_deleted_meanwhile_reads_as_gone(recording: Recording, tmp_path: Path) -> None:
    found = next(
        (
            (commit_id, path, entry)
            for commit_id in recording.outcome["active_commits"]
            for path, entry in recording.committed(recording.commits[commit_id]["meta_range_id"]).items()
            if entry.relative and entry.size
        ),
        None,
    )
    if found is None:
        pytest.skip("nothing is committed in it")
    commit_id, path, entry = found
    file = tmp_path / recording.place / entry.address
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    with ReplayServer(recording, tmp_path) as server:
        client = client_of(server)
        assert client.read_byte(recording.repository, commit_id, path) == 206
        file.unlink()
        assert client.read_byte(recording.repository, commit_id, path) == 410
        assert client.stat(recording.repository, commit_id, path) is not None


# ---- the client over the replay ----


def test_the_client_tells_the_recorded_server(recording: Recording, client: LakeFSClient) -> None:
    config = client.config()
    repository = client.repository(recording.repository)
    recorded = recording.find("GET", "/config").answer
    assert config.version == recorded.get("version_config", {}).get("version", "")
    assert config.storage_for(repository).blockstore_type == recording.blockstore_type
    asked = [call.answer for call in recording.calls if call.path == "/config/garbage-collection"]
    assert not asked or client.grace_period() == asked[0]["grace_period"]
    assert repository.storage_namespace == recording.namespace
    assert repository in list(client.repositories())


def test_the_client_tells_the_recorded_refs(recording: Recording, client: LakeFSClient) -> None:
    for kind, found in (
        ("branches", client.branches(recording.repository)),
        ("tags", client.tags(recording.repository)),
    ):
        expected = [(ref["id"], ref["commit_id"]) for ref in recording.results("{repo}/" + kind)]
        assert [(ref.name, ref.commit_id) for ref in found] == expected


def test_the_client_tells_the_recorded_rules(recording: Recording, client: LakeFSClient) -> None:
    rules = client.gc_rules(recording.repository)
    expected = recording.about["rules"]
    if expected is None:
        assert rules is None
        return
    assert rules is not None
    assert rules.default_retention_days == expected["default_retention_days"]
    branches = {rule["branch_id"]: rule["retention_days"] for rule in expected.get("branches") or []}
    assert rules.branches == branches


def test_the_client_finds_the_recorded_lists_of_commits(recording: Recording, client: LakeFSClient) -> None:
    if recording.about["rules"] is None:
        with pytest.raises(ServerError, match="get gc rules: not found"):
            client.prepare_commits(recording.repository)
        return
    prepared = client.prepare_commits(recording.repository)
    at = prepared.commits_location.rindex(f"/{recording.metadata_prefix}/") + 1
    csv = (recording.folder / "namespace" / prepared.commits_location[at:]).read_text()
    listed = {line.split(",")[0] for line in csv.splitlines()[1:]}
    assert listed == set(recording.outcome["active_by_server"])
    assert prepared.run_id in prepared.commits_location


def test_the_client_finds_all_pages_of_what_is_staged(recording: Recording, client: LakeFSClient) -> None:
    dump = client.prepare_uncommitted(recording.repository)
    assert dump.pages == recording.about["uncommitted_pages"]
    written = recording.folder / "namespace" / recording.metadata_prefix / "retention/gc/uncommitted"
    files = written / dump.run_id / "uncommitted"
    assert len(dump.locations) == (len(list(files.iterdir())) if files.is_dir() else 0)
    assert all(dump.run_id in location for location in dump.locations)


def test_the_client_finds_the_recorded_dump_of_refs(recording: Recording, client: LakeFSClient) -> None:
    refs = client.dump(recording.repository)
    assert isinstance(refs, DumpRefs)
    for metarange_id in (refs.commits_metarange_id, refs.branches_metarange_id, refs.tags_metarange_id):
        location = client.metarange_location(recording.repository, metarange_id)
        assert (recording.folder / "namespace" / location).is_file()


def test_the_client_tells_every_recorded_commit(recording: Recording, client: LakeFSClient) -> None:
    for commit_id, recorded in recording.commits.items():
        commit = client.commit(recording.repository, commit_id)
        assert commit.metarange_id == recorded["meta_range_id"]
        assert list(commit.parents) == (recorded["parents"] or [])
        assert (commit.creation_date, commit.version) == (recorded["creation_date"], recorded.get("version", 1))


def test_every_committed_object_of_a_head_reads(recording: Recording, client: LakeFSClient) -> None:
    for branch in recording.results("{repo}/branches")[:20]:
        entries = recording.committed(recording.commits[branch["commit_id"]]["meta_range_id"])
        for path, entry in list(entries.items())[:5]:
            assert client.read_byte(recording.repository, branch["id"], path) == (206 if entry.size else 200)
        assert client.read_byte(recording.repository, branch["id"], "no/such/path") == 404


def shown(server: ReplayServer, branch: str, **query: Any) -> list[Any]:
    """All rows of `objects/ls` of a branch, page by page, as long as there are any."""
    path = f"/repositories/{server.recording.repository}/refs/{quote(branch, safe='')}/objects/ls"
    found: list[Any] = []
    after = query.pop("after", "")
    while True:
        answer = json.loads(ask(server, "GET", path, {"after": after, "amount": 1000} | query)[1])
        assert answer["pagination"]["results"] == len(answer["results"])
        found += answer["results"]
        if not answer["pagination"]["has_more"]:
            assert answer["pagination"]["next_offset"] == ""
            return found
        after = answer["pagination"]["next_offset"]


def test_the_branches_show_all_that_is_staged_and_live_and_all_of_their_heads(
    recording: Recording, server: ReplayServer
) -> None:
    qualified = server._qualified() + "/"
    staged, committed = set(recording.outcome["live_staged_only"]), set(recording.outcome["live_committed"])
    branches = recording.results("{repo}/branches")
    for branch in branches[:300]:
        rows = shown(server, branch["id"])
        assert [row["path"].encode() for row in rows] == sorted({row["path"].encode() for row in rows})
        addresses = (row["physical_address"].replace(RECORDED_FOLDER * 2, RECORDED_FOLDER) for row in rows)
        inside = {address.removeprefix(qualified) for address in addresses if address.startswith(qualified)}
        young = set(recording.outcome["young"] or ())
        assert inside <= staged | committed | young | set(recording.outcome["live_missing_in_store"] or ())
        staged -= inside
    assert not staged or len(branches) > 300


def test_a_listing_of_objects_begins_behind_any_text_and_is_cut_in_any_size(
    recording: Recording, server: ReplayServer
) -> None:
    branch = max(recording.results("{repo}/branches"), key=lambda found: str(found["id"] == "main"))["id"]
    whole = shown(server, branch)
    paths = [row["path"] for row in whole]
    for amount in (1, 7) if len(whole) < 300 else (999,):
        assert shown(server, branch, amount=amount) == whole
    middle = paths[len(paths) // 2] if paths else "none"
    for after in ("", middle, middle + "\x00", middle[:-1], middle + "é", "\U0010ffff"):
        assert shown(server, branch, after=after) == [row for row in whole if row["path"].encode() > after.encode()]
    prefix = middle[:6]
    assert shown(server, branch, prefix=prefix) == [row for row in whole if row["path"].startswith(prefix)]
    assert shown(server, branch, prefix=prefix, after=middle) == [
        row for row in whole if row["path"].startswith(prefix) and row["path"].encode() > middle.encode()
    ]
    folders = dict.fromkeys(path.partition("/")[0] + "/" if "/" in path else path for path in paths)
    assert [row["path"] for row in shown(server, branch, delimiter="/", amount=1)] == list(folders)
    here = f"/repositories/{recording.repository}/refs"
    for row in whole[:3]:
        stat = ask(server, "GET", f"{here}/{quote(branch, safe='')}/objects/stat", {"path": row["path"]})
        assert json.loads(stat[1]) == row
    for path in (f"{here}/no-such-branch/objects/ls", f"{here}/{quote(branch, safe='')}/objects/stat?path=no/such"):
        assert ask(server, "GET", path) == (404, '{"message": "not found"}')


def test_a_local_server_lists_what_is_staged_by_full_address_too(local: Recording) -> None:
    inside = f"local://{RECORDED_FOLDER}/{local.place}/"
    found = set()
    with ReplayServer(local) as server:
        client = client_of(server)
        for branch in client.branches(local.repository):
            for page in client.objects(local.repository, branch.name):
                for stats in page:
                    address = stats.physical_address.replace(RECORDED_FOLDER * 2, RECORDED_FOLDER)
                    found.add(address.removeprefix(inside))
    assert set(local.outcome["live_staged_only"]) <= found


def test_a_local_server_answers_the_direct_prepare_with_two_documents(local: Recording) -> None:
    with ReplayServer(local) as server:
        client = client_of(server)
        with pytest.raises(LakeFSError, match="second JSON document"):
            client._prepare_commits_now(f"/repositories/{local.repository}/gc/prepare_commits")
