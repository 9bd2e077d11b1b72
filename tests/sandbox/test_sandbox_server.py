"""The sandbox over HTTP: shapes as recorded from a real lakeFS, statuses, paging, lakegc's own client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from lakegc_sandbox import Attributes, PageLimits, Repository, Sandbox, SandboxServer

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass
class Lake:
    """A running sandbox with one repository."""

    sandbox: Sandbox
    repo: Repository
    server: SandboxServer

    def call(self, method: str, path: str, **options: Any) -> requests.Response:
        path = path.replace("{repo}", f"/repositories/{self.repo.name}")
        options.setdefault("auth", (self.server.access_key, self.server.secret_key))
        return requests.request(method, f"{self.server.url}/api/v1{path}", timeout=120, **options)

    def get(self, where: str, **query: Any) -> Any:
        response = self.call("GET", where, params=query)
        assert response.status_code == 200, response.text
        return response.json()


def _lake(tmp_path: Path, blockstore: str) -> Lake:
    sandbox = Sandbox(tmp_path, blockstore=blockstore, seed=1)
    repo = sandbox.create_repository("lake", f"{blockstore}://bucket/lake")
    return Lake(sandbox, repo, SandboxServer(sandbox))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = _lake(tmp_path, "local")
    with lake.server:
        yield lake


@pytest.fixture
def s3_lake(tmp_path: Path) -> Iterator[Lake]:
    lake = _lake(tmp_path, "s3")
    with lake.server:
        yield lake


# --- shapes ---


def assert_shape(found: Any, recorded: list[Any], where: str) -> None:
    """`found` has the keys that every recorded value has, and none that no recorded value has."""
    if isinstance(found, dict) and where.endswith((".metadata", ".capabilities_config")):
        return
    if isinstance(found, dict):
        dicts = [value for value in recorded if isinstance(value, dict)]
        assert dicts, f"{where}: no such object recorded"
        always = set.intersection(*(set(value) for value in dicts))
        ever = set.union(*(set(value) for value in dicts))
        assert always <= set(found) <= ever, where
        for key, value in found.items():
            assert_shape(value, [one[key] for one in dicts if key in one], f"{where}.{key}")
    elif isinstance(found, list):
        elements = [element for value in recorded if isinstance(value, list) for element in value]
        for element in found:
            assert_shape(element, elements, f"{where}[]")
    else:
        assert type(found) in {type(value) for value in recorded}, where


def template(path: str) -> str:
    path = re.sub(r"^/repositories/[^/]+", "{repo}", path)
    path = re.sub(r"/(commits|meta_range)/[0-9a-f]{64}$", r"/\1/ID", path)
    path = re.sub(r"/refs/.+/(commits|objects/ls)$", r"/refs/REF/\1", path)
    return re.sub(r"/branches/.+/diff$", "/branches/REF/diff", path)


def recorded_answers() -> dict[tuple[str, str, int, str], list[Any]]:
    """All recorded answers by method, path template, status and whether they are of blockstore `local`."""
    answers: dict[tuple[str, str, int, str], list[Any]] = {}
    for file in sorted(GOLDEN.glob("*/api.json")):
        kind = "local" if file.parent.name.startswith("local") else "s3"
        for call in json.loads(file.read_text()):
            key = (call["method"], template(call["path"]), call["status"], kind)
            answers.setdefault(key, []).append(call["answer"])
    return answers


RECORDED = recorded_answers()


@pytest.mark.golden
@pytest.mark.parametrize("key", sorted(RECORDED), ids=lambda key: " ".join(map(str, key)))
def test_answers_have_the_recorded_shape(key: tuple[str, str, int, str], tmp_path: Path) -> None:
    method, path, status, kind = key
    lake = _lake(tmp_path, kind)
    repo = lake.repo
    if status != 404 and "gc/prepare_commits/status" not in path:
        repo.set_rules(20, {"main": 30})
    repo.upload("main", "a/one", b"1")
    commit = repo.commit("main", "one", metadata={"k": "v"})
    repo.create_branch("dev", "main")
    repo.tag("t", "main")
    repo.upload("main", "a/two", b"2")
    repo.stage("main", "full", repo.place.qualify("x"), size=1, checksum="x")
    lake.sandbox.uncommitted_page = PageLimits(branches=1)
    path = path.replace("/refs/REF", "/refs/main").replace("/branches/REF", "/branches/main")
    path = path.replace("/commits/ID", f"/commits/{commit.id}").replace("/ID", f"/{commit.meta_range_id}")
    with lake.server:
        questions: list[dict[str, str]] = [{}]
        if path.endswith("prepare_commits/status"):
            failed = lake.call("POST", "{repo}/gc/prepare_commits/async").json()["id"]
            repo.set_rules(20)
            passed = lake.call("POST", "{repo}/gc/prepare_commits/async").json()["id"]
            questions = [{"id": failed}, {"id": passed}]
        elif (method, path) == ("GET", "{repo}/dump"):
            questions = [{"task_id": lake.call("POST", path).json()["id"]}]
        for question in questions:
            response = lake.call(method, path, params=question)
            assert response.status_code == status
            recorded = [answer for one in RECORDED if one[:3] == key[:3] for answer in RECORDED[one]]
            if "_text" in recorded[0]:  # two documents in one answer
                texts = (response.text, recorded[0]["_text"])
                found, expected = (re.sub(r'":"[^"]*"', "", text) for text in texts)
                assert found == expected
            else:
                assert_shape(response.json(), recorded, path)


@pytest.mark.golden
def test_a_page_without_rows_has_no_location_and_the_last_no_token(lake: Lake) -> None:
    lake.repo.create_branch("a", "main")
    lake.repo.upload("main", "x", b"1")
    lake.sandbox.uncommitted_page = PageLimits(branches=1)
    first = lake.call("POST", "{repo}/gc/prepare_uncommited", json={}).json()
    body = {"continuation_token": first["continuation_token"]}
    second = lake.call("POST", "{repo}/gc/prepare_uncommited", json=body).json()
    assert first["gc_uncommitted_location"] == ""
    assert second["gc_uncommitted_location"].endswith(f"/uncommitted/{first['run_id']}/uncommitted")
    assert "continuation_token" not in second
    assert second["run_id"] == first["run_id"]


# --- access and errors ---


@pytest.mark.parametrize("auth", [None, ("who", "knows")])
def test_wrong_credentials_are_401(lake: Lake, auth: tuple[str, str] | None) -> None:
    response = lake.call("GET", "/config", auth=auth)
    assert (response.status_code, list(response.json())) == (401, ["message"])


def test_unknown_things_are_404_with_a_message(lake: Lake) -> None:
    for path in (
        "/nope",
        "/repositories/other",
        "{repo}/commits/ffff",
        "{repo}/refs/nope/commits",
        "{repo}/branches/nope/diff",
        "{repo}/refs/main/objects?path=nope",
        "{repo}/gc/prepare_commits/status?id=GCPCnope",
        "{repo}/settings/gc_rules",
    ):
        response = lake.call("GET", path)
        assert (response.status_code, list(response.json())) == (404, ["message"]), path
    assert lake.call("GET", "/nope").json() == {"message": "invalid API endpoint"}


def test_faults_answer_in_the_sandboxs_place(lake: Lake) -> None:
    calls: list[tuple[str, str, dict[str, str]]] = []

    def fault(method: str, path: str, query: Any) -> tuple[int, Any] | None:
        calls.append((method, path, dict(query)))
        return (503, {"message": "slow down"}) if path.endswith("/tags") else None

    lake.server.fault = fault
    assert lake.call("GET", "{repo}/tags", params={"amount": 3}).status_code == 503
    assert lake.call("GET", "{repo}/branches").status_code == 200
    assert calls[0] == ("GET", "/repositories/lake/tags", {"amount": "3"})
    assert lake.server.requests[-1] == ("GET", "/repositories/lake/branches")


def test_the_date_header_tells_the_sandboxs_time(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, clock=lambda: 1_700_000_000.0)
    with SandboxServer(sandbox) as server:
        response = requests.get(server.url + "/api/v1/config", timeout=120)
    assert response.headers["Date"] == "Tue, 14 Nov 2023 22:13:20 GMT"


# --- listings ---


def test_hidden_branches_are_shown_only_when_asked_for(lake: Lake) -> None:
    lake.repo.create_branch("secret", "main", hidden=True)
    assert [row["id"] for row in lake.get("{repo}/branches")["results"]] == ["main"]
    shown = lake.get("{repo}/branches", show_hidden="true")["results"]
    assert [row["id"] for row in shown] == ["main", "secret"]


@pytest.mark.parametrize("amount", [1, 3, 7, 100])
def test_listings_page(lake: Lake, amount: int) -> None:
    for number in range(7):
        lake.repo.upload("main", f"p/{number}", b"%d" % number)
        lake.repo.commit("main", f"{number}")
        lake.repo.create_branch(f"b{number}", "main")
    lake.repo.upload("main", "p/33", b"1")
    lake.repo.delete("main", "p/0")
    for path, key, expected in (
        ("{repo}/branches", "id", [*(f"b{number}" for number in range(7)), "main"]),
        ("{repo}/refs/main/objects/ls", "path", ["p/1", "p/2", "p/3", "p/33", "p/4", "p/5", "p/6"]),
        ("{repo}/branches/main/diff", "path", ["p/0", "p/33"]),
        ("{repo}/refs/main/commits", "message", [*"6543210", "Repository created"]),
    ):
        found, after = [], ""
        while True:
            answer = lake.get(path, after=after, amount=amount)
            found += [row[key] for row in answer["results"]]
            assert len(answer["results"]) == answer["pagination"]["results"] <= amount
            after = answer["pagination"]["next_offset"]
            if not answer["pagination"]["has_more"]:
                break
        assert found == expected
        assert after == ""


def test_objects_list_by_prefix_and_delimiter(lake: Lake) -> None:
    for path in ("a/1", "a/2", "b", "c/d/1", "c/e"):
        lake.repo.upload("main", path, b"1")

    def listed(**query: Any) -> list[tuple[str, str]]:
        rows = lake.get("{repo}/refs/main/objects/ls", **query)["results"]
        return [(row["path"], row["path_type"]) for row in rows]

    both = [("a/", "common_prefix"), ("b", "object"), ("c/", "common_prefix")]
    assert listed(delimiter="/") == both
    assert listed(delimiter="/", after="a/") == both[1:]
    assert listed(delimiter="/", after="a/1") == both  # lakeFS begins behind the path, and shows its group again
    assert listed(delimiter="/", prefix="c/") == [("c/d/", "common_prefix"), ("c/e", "object")]
    assert listed(prefix="a/") == [("a/1", "object"), ("a/2", "object")]


def test_objects_list_behind_any_text(lake: Lake) -> None:
    for path in ("a", "a!", "a/1", "é", "\U0001f600"):
        lake.repo.upload("main", path, b"1")

    def listed(**query: Any) -> list[str]:
        return [row["path"] for row in lake.get("{repo}/refs/main/objects/ls", **query)["results"]]

    assert listed(after="a") == ["a!", "a/1", "é", "\U0001f600"]
    assert listed(after="a\x00") == ["a!", "a/1", "é", "\U0001f600"]
    assert listed(after="a.") == ["a/1", "é", "\U0001f600"]
    assert listed(after="\uffff") == ["\U0001f600"]
    assert listed(after="\U0010ffff") == []
    assert listed(after="z", prefix="a") == []
    assert listed(after="a!", prefix="a", amount=1) == ["a/1"]


def test_a_branch_a_prefix_and_a_path_are_reset_as_the_type_says(lake: Lake) -> None:
    for path in ("a/1", "a/2", "b"):
        lake.repo.upload("main", path, b"1")

    def reset(status: int, **body: str) -> list[str]:
        assert lake.call("PUT", "{repo}/branches/main", json=body).status_code == status
        return [row["path"] for row in lake.get("{repo}/refs/main/objects/ls")["results"]]

    assert reset(400, type="everything") == reset(400) == reset(400, type="object") == ["a/1", "a/2", "b"]
    assert reset(204, type="object", path="a/1") == ["a/2", "b"]
    assert reset(204, type="common_prefix", path="a/") == ["b"]
    assert reset(204, type="reset") == []


def test_the_first_parent_log_leaves_merged_commits_out(lake: Lake) -> None:
    lake.repo.create_branch("dev", "main")
    lake.repo.upload("dev", "a", b"1")
    lake.repo.commit("dev", "on dev")
    lake.repo.merge("dev", "main", message="merge")
    messages = [row["message"] for row in lake.get("{repo}/refs/main/commits")["results"]]
    assert messages == ["merge", "on dev", "Repository created"]
    rows = lake.get("{repo}/refs/main/commits", first_parent="true")["results"]
    assert [row["message"] for row in rows] == ["merge", "Repository created"]


def test_linked_objects_on_local_are_listed_with_the_folder_twice(lake: Lake, tmp_path: Path) -> None:
    address = lake.repo.physical_address("main")
    lake.repo.stage("main", "linked", address, size=1, checksum="x")
    row = lake.get("{repo}/refs/main/objects/ls")["results"][0]
    assert row["physical_address"] == f"local://{tmp_path}{address.removeprefix('local://')}"


# --- objects ---


def test_reading_whole_and_in_part(lake: Lake) -> None:
    lake.repo.upload("main", "späte/größe.bin", b"0123456789", attributes=Attributes("text/plain"))
    lake.repo.upload("main", "empty", b"")

    def read(path: str, wanted: str | None = None) -> requests.Response:
        headers = {"Range": wanted} if wanted else {}
        return lake.call("GET", "{repo}/refs/main/objects", params={"path": path}, headers=headers)

    whole = read("späte/größe.bin")
    assert (whole.status_code, whole.content, whole.headers["Content-Type"]) == (
        200,
        b"0123456789",
        "text/plain",
    )
    for wanted, expected in (("bytes=0-0", b"0"), ("bytes=7-", b"789"), ("bytes=-2", b"89")):
        part = read("späte/größe.bin", wanted)
        assert (part.status_code, part.content) == (206, expected)
    assert part.headers["Content-Range"] == "bytes 8-9/10"
    assert read("späte/größe.bin", "bytes=10-").status_code == 416
    assert read("empty", "bytes=0-0").status_code == 416
    assert read("empty").content == b""
    assert lake.call("HEAD", "{repo}/refs/main/objects?path=empty").headers["Content-Length"] == "0"


def test_a_removed_object_is_410_to_read_and_200_to_stat(lake: Lake) -> None:
    lake.repo.files.delete(lake.repo.upload("main", "a", b"1"))
    lake.repo.files.delete(lake.repo.upload("main", "empty", b""))
    query = {"path": "a"}
    response = lake.call("GET", "{repo}/refs/main/objects", params=query, headers={"Range": "bytes=0-0"})
    assert (response.status_code, list(response.json())) == (410, ["message"])
    assert lake.call("HEAD", "{repo}/refs/main/objects", params=query).status_code == 200
    assert lake.get("{repo}/refs/main/objects/stat", path="a")["size_bytes"] == 1
    for headers, status in (({"Range": "bytes=0-0"}, 416), ({}, 410)):  # 416 by the size of the entry alone
        read = lake.call("GET", "{repo}/refs/main/objects", params={"path": "empty"}, headers=headers)
        assert read.status_code == status


# --- building a history ---


def test_a_history_can_be_built_over_http(lake: Lake) -> None:
    created = {"name": "new", "storage_namespace": "local://new", "default_branch": "trunk"}
    assert lake.call("POST", "/repositories", json=created).status_code == 201
    assert lake.call("POST", "/repositories", json=created).status_code == 409
    lake.repo = lake.sandbox.repository("new")

    def call(status: int, method: str, path: str, **options: Any) -> Any:
        response = lake.call(method, "{repo}" + path, **options)
        assert response.status_code == status, response.text
        return response.json() if "json" in response.headers.get("Content-Type", "") else response.text

    def upload(branch: str, path: str, data: bytes) -> Any:
        return call(201, "POST", f"/branches/{branch}/objects", params={"path": path}, data=data)

    assert upload("trunk", "a", b"1")["size_bytes"] == 1
    form = {"content": ("name", b"form data", "text/plain")}
    stats = call(201, "POST", "/branches/trunk/objects", params={"path": "f"}, files=form)
    assert (stats["size_bytes"], stats["content_type"]) == (9, "text/plain")
    dated = {"message": "one", "date": 1_700_000_000, "metadata": {"k": "v"}}
    first = call(201, "POST", "/branches/trunk/commits", json=dated)
    assert (first["creation_date"], first["metadata"]) == (1_700_000_000, {"k": "v"})
    call(400, "POST", "/branches/trunk/commits", json=dated)
    branch = {"name": "dev-x", "source": "trunk"}
    assert call(201, "POST", "/branches", json=branch) == first["id"]
    assert call(200, "GET", "/branches/dev-x") == {"commit_id": first["id"], "id": "dev-x"}
    upload("dev-x", "b", b"2")
    call(201, "POST", "/branches/dev-x/commits", json={"message": "two"})
    reference = call(200, "POST", "/refs/dev-x/merge/trunk", json={})["reference"]
    tag = call(201, "POST", "/tags", json={"id": "t", "ref": "trunk"})
    assert tag == {"commit_id": reference, "id": "t"}
    call(204, "DELETE", "/branches/dev-x")
    place = call(200, "GET", "/branches/trunk/staging/backing", params={"path": "l"})
    link = {"staging": place, "checksum": "x", "size_bytes": 4, "mtime": 1_700_000_000}
    assert call(200, "PUT", "/branches/trunk/staging/backing", params={"path": "l"}, json=link)["mtime"]
    nowhere = {"staging": {}, "checksum": "x", "size_bytes": 4}
    assert call(200, "PUT", "/branches/trunk/staging/backing", params={"path": "n"}, json=nowhere)["path"] == "n"
    assert "empty url" in call(500, "GET", "/refs/trunk/objects/ls")["message"], "as lakeFS 1.84 answers"
    assert "empty url" in call(500, "GET", "/refs/trunk/objects/stat", params={"path": "n"})["message"]
    call(204, "DELETE", "/branches/trunk/objects", params={"path": "n"})
    call(400, "PUT", "/branches/trunk/staging/backing", params={"path": "l"}, json={**link, "checksum": '" "'})
    odd = {"physical_address": "ftp://x/y", "checksum": "x", "size_bytes": 4}
    call(400, "PUT", "/branches/trunk/objects", params={"path": "o"}, json=odd)
    stage = {"physical_address": f"local://{lake.sandbox.root}/else/where", "checksum": "x", "size_bytes": 4}
    call(201, "PUT", "/branches/trunk/objects", params={"path": "s"}, json=stage)
    copy = {"src_path": "a", "shallow": True}
    call(501, "POST", "/branches/trunk/objects/copy", params={"dest_path": "c"}, json=copy)
    call(201, "POST", "/branches/trunk/objects/copy", params={"dest_path": "c"}, json={"src_path": "a"})
    call(204, "DELETE", "/branches/trunk/objects", params={"path": "l"})
    call(200, "POST", "/branches/trunk/objects/delete", json={"paths": ["s"]})
    assert [path for path, _ in lake.repo.objects("trunk")] == ["a", "b", "c", "f"]
    call(204, "PUT", "/branches/trunk", json={"type": "reset"})
    call(204, "POST", "/branches/trunk/revert", json={"ref": "trunk", "parent_number": 1})
    call(201, "POST", "/branches/trunk/cherry-pick", json={"ref": "t", "parent_number": 1})
    call(204, "PUT", "/branches/trunk/hard_reset", params={"ref": first["id"]})
    assert [path for path, _ in lake.repo.objects("trunk")] == ["a", "f"]
    rules = {"default_retention_days": 5, "branches": [{"branch_id": "trunk", "retention_days": 0}]}
    call(204, "PUT", "/settings/gc_rules", json=rules)
    assert call(200, "GET", "/settings/gc_rules") == rules
    call(204, "DELETE", "/settings/gc_rules")
    call(404, "GET", "/settings/gc_rules")


def test_a_link_below_the_namespaces_data_needs_a_signature_and_no_other_does(s3_lake: Lake) -> None:
    own = s3_lake.repo.place.qualify("data/slice/id")
    for address, status in ((own, 400), (f"{own},signature", 200), ("s3://elsewhere/x", 200), ("any text", 200)):
        link = {"staging": {"physical_address": address}, "checksum": "x", "size_bytes": 4}
        answer = s3_lake.call("PUT", "{repo}/branches/main/staging/backing", params={"path": "l"}, json=link)
        assert answer.status_code == status, answer.text


# --- tasks, and lakegc's own client ---


def test_tasks_show_as_pending_for_as_many_polls_as_set(s3_lake: Lake) -> None:
    s3_lake.sandbox.pending_polls = 2
    s3_lake.repo.set_rules(3)
    for start, poll, name, done in (
        ("{repo}/gc/prepare_commits/async", "{repo}/gc/prepare_commits/status", "id", "completed"),
        ("{repo}/dump", "{repo}/dump", "task_id", "done"),
    ):
        response = s3_lake.call("POST", start)
        assert response.status_code == 202
        task = response.json()["id"]
        answers = [s3_lake.get(poll, **{name: task}) for _ in range(3)]
        assert [answer[done] for answer in answers] == [False, False, True]
        assert set(answers[2]) - set(answers[1]) <= {"result", "refs"}


def test_a_task_that_cannot_write_begins_and_fails_with_an_error(s3_lake: Lake, tmp_path: Path) -> None:
    s3_lake.repo.set_rules(3)
    (tmp_path / "bucket/lake/_lakefs").rename(tmp_path / "moved")
    (tmp_path / "bucket/lake/_lakefs").write_text("no folder")
    for start, poll, name in (
        ("{repo}/gc/prepare_commits/async", "{repo}/gc/prepare_commits/status", "id"),
        ("{repo}/dump", "{repo}/dump", "task_id"),
    ):
        task = s3_lake.call("POST", start)
        assert task.status_code == 202
        answer = s3_lake.get(poll, **{name: task.json()["id"]})
        assert "_lakefs" in str(answer["error"]) and not {"refs", "result"} & set(answer)


def test_locations_on_s3_lie_in_the_namespace(s3_lake: Lake, tmp_path: Path) -> None:
    s3_lake.repo.set_rules(3)
    s3_lake.repo.upload("main", "a", b"1")
    staged = s3_lake.call("POST", "{repo}/gc/prepare_uncommited").json()["gc_uncommitted_location"]
    commits = s3_lake.call("POST", "{repo}/gc/prepare_commits").json()["gc_commits_location"]
    assert re.fullmatch(r"s3://bucket/lake/_lakefs/retention/gc/uncommitted/\w{20}/uncommitted/", staged)
    assert (tmp_path / commits.removeprefix("s3://")).is_file()


def test_lakegcs_own_client_understands_it(lake: Lake) -> None:
    from lakegc_core.config.settings import ServerSettings
    from lakegc_core.lakefs.client import LakeFSClient

    settings = ServerSettings(lake.server.url, lake.server.access_key, lake.server.secret_key)
    client = LakeFSClient(settings, sleep=lambda _: None)
    repo = lake.repo
    repo.set_rules(3, {"main": 9})
    for number in range(5):
        repo.upload("main", f"p{number}", b"1")
        repo.commit("main", f"{number}")
    repo.create_branch("hidden", "main", hidden=True)
    repo.upload("main", "staged", b"1")
    lake.sandbox.uncommitted_page = PageLimits(branches=1)
    lake.sandbox.pending_polls = 1
    assert client.grace_period() == 86_400
    assert client.repository("lake").storage_namespace == "local://bucket/lake"
    assert [ref.name for ref in client.branches("lake")] == ["hidden", "main"]
    rules = client.gc_rules("lake")
    assert rules is not None
    assert client.prepare_commits("lake")
    assert client.prepare_uncommitted("lake")
    assert client.dump("lake")
    assert sum(len(page) for page in client.objects("lake", "main")) == 6
    client.close()
