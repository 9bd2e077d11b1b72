"""The client's calls, against loopback servers that answer as a test scripts them.

How it asks, and asks again, is in `test_http.py`; what a real server answers in `tests/golden/test_golden_replay.py`.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import IncompleteError, ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import Http, LakeFSError, Reply
from lakegc_core.lakefs.models import Commit, DumpRefs, GcRules, ObjectStats, PreparedCommits, StagedDump
from tests.support.scripted_lakefs import (
    COMMIT,
    KEY,
    PREPARED,
    REFS,
    REPOSITORY,
    SECRET,
    R,
    Say,
    Script,
    Scripted,
    page,
    refused,
)


@pytest.mark.parametrize("missing", ["id", "storage_namespace", "creation_date"])
def test_a_repository_without_what_matters_is_an_error(server: Scripted, missing: str) -> None:
    server.on("GET", R, Say(200, {key: value for key, value in REPOSITORY.items() if key != missing}))
    with pytest.raises(ServerError, match=f"`{missing}`"):
        server.client.repository("repo")


def test_an_old_server_that_knows_neither_storage_ids_nor_read_only_is_understood(server: Scripted) -> None:
    old = {key: value for key, value in REPOSITORY.items() if key not in ("storage_id", "read_only")}
    server.on("GET", R, Say(200, old))
    repository = server.client.repository("repo")
    assert (repository.storage_id, repository.read_only) == ("", False)


def test_an_answer_about_another_repository_is_an_error(server: Scripted) -> None:
    server.on("GET", R, Say(200, REPOSITORY | {"id": "other"}))
    with pytest.raises(ServerError, match="other"):
        server.client.repository("repo")


# ---- configuration ----


def config(storages: list[dict[str, Any]] | None, main: dict[str, Any] | None = None) -> Say:
    answer = {"version_config": {"version": "dev"}, "storage_config_list": storages}
    return Say(200, answer | ({"storage_config": main} if main is not None else {}))


@pytest.mark.parametrize("storages", [None, [], [{"blockstore_type": "gs", "blockstore_id": "only"}]])
def test_one_storage_is_taken_from_the_old_field(server: Scripted, storages: list[dict[str, Any]] | None) -> None:
    server.on("GET", "/config", config(storages, {"blockstore_type": "s3", "pre_sign_support": True}))
    server.on("GET", R, Say(200, REPOSITORY))
    found = server.client.config()
    assert found.version == "dev"
    storage = found.storage_for(server.client.repository("repo"))
    assert (storage.blockstore_type, storage.pre_sign_support) == ("s3", True)


def test_of_several_storages_the_repositorys_own_is_taken_or_none(server: Scripted) -> None:
    storages = [
        {"blockstore_type": "s3", "blockstore_id": "eu"},
        {"blockstore_type": "azure", "blockstore_id": "us"},
    ]
    server.on("GET", "/config", config(storages))
    server.on("GET", R, [Say(200, REPOSITORY | {"storage_id": name}) for name in ("us", "mars")])
    found = server.client.config()
    client = server.client
    assert found.storage_for(client.repository("repo")).blockstore_type == "azure"
    with pytest.raises(ServerError, match="mars"):
        found.storage_for(client.repository("repo"))


def test_a_server_that_names_its_one_storage_only_in_the_list_is_understood(server: Scripted) -> None:
    """One that is told its storages by their ids, and not in which one repositories of before lie."""
    server.on("GET", "/config", config([{"blockstore_type": "gs", "blockstore_id": "only"}]))
    server.on("GET", R, [Say(200, REPOSITORY | {"storage_id": name}) for name in ("only", "", "mars")])
    found, client = server.client.config(), server.client
    assert found.storage_for(client.repository("repo")).blockstore_type == "gs"
    assert found.storage_for(client.repository("repo")).blockstore_type == "gs", "a server of before storage ids"
    with pytest.raises(ServerError, match=r"'mars', which lakeFS does not list \(it lists 'only'\)"):
        found.storage_for(client.repository("repo"))


def test_of_several_storages_none_is_guessed_for_a_repository_that_names_none(server: Scripted) -> None:
    server.on("GET", "/config", config([{"blockstore_type": "s3", "blockstore_id": name} for name in ("eu", "us")]))
    server.on("GET", R, Say(200, REPOSITORY | {"storage_id": ""}))
    with pytest.raises(ServerError, match="it lists 'eu', 'us'"):
        server.client.config().storage_for(server.client.repository("repo"))


@pytest.mark.parametrize(
    ("version", "edition", "may_compact"),
    [
        ("1.100.0", "lakeFS", False),
        ("dev", "lakeFS", False),
        ("1.99.3", "lakeFS-Enterprise", False),
        ("v1.99.3", None, False),
        ("0.104.0", "", False),
        ("1.99.3-4-gabcdef0", "lakeFS-Enterprise", True),
        ("1.100.0", "lakeFS-Enterprise", True),
        ("v1.100.0", "", True),
        ("2.0.0", "lakeFS Team", True),
        ("dev", None, True),
        ("", "", True),
    ],
)
def test_a_server_may_compact_unless_its_edition_or_version_says_that_it_cannot(
    server: Scripted, version: str, edition: str | None, may_compact: bool
) -> None:
    said = {"version_config": {"version": version, "version_context": edition}}
    server.on("GET", "/config", Say(200, said | {"storage_config": {"blockstore_type": "s3"}}))
    assert server.client.config().may_compact is may_compact


def test_a_configuration_without_a_storage_is_an_error(server: Scripted) -> None:
    server.on("GET", "/config", config([]))
    with pytest.raises(ServerError, match="storage_config"):
        server.client.config()


@pytest.mark.parametrize(
    ("date", "clock"),
    [
        ("Tue, 24 Nov 2026 22:10:18 GMT", datetime(2026, 11, 24, 22, 10, 18, tzinfo=UTC)),
        ("", None),
        ("yesterday", None),
    ],
)
def test_the_servers_clock_is_the_date_of_its_answer_if_that_reads(
    server: Scripted, monkeypatch: pytest.MonkeyPatch, date: str, clock: datetime | None
) -> None:
    monkeypatch.setattr(Http, "send", lambda http, request: Reply(200, b"", date=date))
    assert server.client.clock() == clock


# ---- rules (T10) ----


def test_rules_are_told_as_they_are_set(server: Scripted) -> None:
    rules = {
        "default_retention_days": -1,
        "branches": [
            {"branch_id": "main", "retention_days": 21},
            {"branch_id": "dev", "retention_days": 0},
            {"branch_id": "main", "retention_days": 4294967296},
        ],
    }
    server.on("GET", f"{R}/settings/gc_rules", Say(200, rules))
    assert server.client.gc_rules("repo") == GcRules(-1, {"main": 4294967296, "dev": 0})


@pytest.mark.parametrize("extra", [{}, {"branches": None}, {"branches": []}])
def test_rules_without_branches_are_rules(server: Scripted, extra: dict[str, Any]) -> None:
    server.on("GET", f"{R}/settings/gc_rules", Say(200, {"default_retention_days": 7} | extra))
    assert server.client.gc_rules("repo") == GcRules(7, {})


def test_no_rules_takes_their_own_404_and_a_repository_that_is_there(server: Scripted) -> None:
    server.on("GET", f"{R}/settings/gc_rules", refused(404, "not found")).on("GET", R, Say(200, REPOSITORY))
    assert server.client.gc_rules("repo") is None
    assert server.count("GET", R) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 410, 500])
def test_a_404_of_the_rules_proves_nothing_when_the_repository_does_not_answer(server: Scripted, status: int) -> None:
    server.on("GET", f"{R}/settings/gc_rules", refused(404, "not found")).on("GET", R, refused(status))
    with pytest.raises(LakeFSError):
        server.client.gc_rules("repo")


@pytest.mark.parametrize(
    "answer",
    [
        Say(404, b"<html>no such page</html>"),
        Say(404, b""),
        Say(404, {"error": "route not found"}),
        refused(404, "invalid API endpoint"),
        refused(500, "invalid API endpoint"),
        refused(401),
        refused(403),
        refused(503),
        Say(204, b""),
        Say(200, {}),
        Say(200, {"default_retention_days": None}),
        Say(200, {"default_retention_days": 7, "branches": {}}),
        Say(200, {"default_retention_days": 7, "branches": [{"branch_id": "main"}]}),
    ],
)
def test_t10_nothing_else_reads_as_no_rules(server: Scripted, answer: Say) -> None:
    server.on("GET", f"{R}/settings/gc_rules", answer).on("GET", R, Say(200, REPOSITORY))
    with pytest.raises(ServerError):
        server.client.gc_rules("repo")


def test_t10_a_404_of_prepare_commits_says_nothing_about_rules(server: Scripted) -> None:
    server.on("POST", f"{R}/gc/prepare_commits/async", refused(404, "get gc rules: not found"))
    server.on("POST", f"{R}/gc/prepare_commits", refused(404, "get gc rules: not found"))
    with pytest.raises(LakeFSError, match="get gc rules: not found"):
        server.client.prepare_commits("repo")


# ---- prepare commits (T45, T46) ----


def async_commits(server: Scripted, status: Script) -> None:
    server.on("POST", f"{R}/gc/prepare_commits/async", Say(202, {"id": "GCPC1"}))
    server.on("GET", f"{R}/gc/prepare_commits/status", status)


def test_commits_are_prepared_by_a_task_that_is_asked_for_at_growing_intervals(server: Scripted) -> None:
    running = Say(200, {"task_id": "GCPC1", "completed": False})
    done = Say(200, {"task_id": "GCPC1", "completed": True, "result": PREPARED})
    async_commits(server, [running] * 9 + [done])
    assert server.client.prepare_commits("repo") == PreparedCommits("run1", PREPARED["gc_commits_location"])
    assert server.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15, 15])
    assert {asked.query["id"] for asked in server.asked[1:]} == {"GCPC1"}
    assert server.count("POST", f"{R}/gc/prepare_commits") == 0


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (Say(200, {"completed": True, "error": {"message": "get gc rules: not found"}}), "get gc rules"),
        (Say(200, {"completed": False, "error": {"message": "died"}}), "died"),
        (Say(200, {"completed": True, "error": {"message": "both"}, "result": PREPARED}), "both"),
        (Say(200, {"completed": True}), "neither a result nor an error"),
        (Say(200, {"completed": True, "result": None}), "neither a result nor an error"),
        (Say(200, {"completed": True, "result": {}}), "run_id"),
        (Say(200, {"completed": True, "result": PREPARED | {"gc_commits_location": ""}}), "is empty"),
        (Say(200, {"completed": False}), "did not end within 1200 s"),
        (Say(200, {"result": PREPARED}), "completed"),
        (Say(200, {"completed": "true", "result": PREPARED}), "completed"),
        (refused(404, "not found"), "no longer knows"),
        (refused(401), "check the access key"),
        (refused(500, "kv"), "kv"),
    ],
)
def test_t45_a_task_that_does_not_end_well_is_an_error(server: Scripted, status: Say, says: str) -> None:
    async_commits(server, status)
    with pytest.raises(ServerError, match=says):
        server.client.prepare_commits("repo")
    assert server.count("POST", f"{R}/gc/prepare_commits") == 0


def test_a_task_may_take_the_time_of_the_settings_for_each_step(server: Scripted) -> None:
    client = LakeFSClient(ServerSettings(server.url, KEY, SECRET, task_timeout=3), sleep=server.slept.append)
    async_commits(server, Say(200, {"completed": False}))
    with pytest.raises(ServerError, match=r"within 3 s.*task_timeout"):
        client.prepare_commits("repo")
    assert sum(server.slept) == pytest.approx(3.1)
    begun, first, second = ({"completed": False, "update_time": f"2026-11-26T18:0{minute}:00Z"} for minute in range(3))
    async_commits(server, [Say(200, each) for each in [begun] * 4 + [first, second]])
    server.slept.clear()
    with pytest.raises(ServerError, match="within 3 s"):
        client.prepare_commits("repo")
    assert len(server.slept) == 7, "the last step ended before the sixth question"


@pytest.mark.parametrize(
    "answer", [refused(404), refused(405), refused(500, "invalid API endpoint"), refused(500, "broken")]
)
def test_a_server_without_tasks_is_asked_directly(server: Scripted, answer: Say) -> None:
    server.on("POST", f"{R}/gc/prepare_commits/async", answer)
    server.on("POST", f"{R}/gc/prepare_commits", Say(201, PREPARED))
    assert server.client.prepare_commits("repo").run_id == "run1"


def test_an_unknown_call_is_not_asked_for_again_although_it_is_a_500(server: Scripted) -> None:
    server.on("POST", f"{R}/gc/prepare_commits/async", refused(500, "invalid API endpoint"))
    server.on("POST", f"{R}/gc/prepare_commits", Say(201, PREPARED))
    server.client.prepare_commits("repo")
    assert server.count("POST", f"{R}/gc/prepare_commits/async") == 1


@pytest.mark.parametrize("status", [401, 403, 410, 503])
def test_a_refused_task_is_not_tried_the_other_way(server: Scripted, status: int) -> None:
    server.on("POST", f"{R}/gc/prepare_commits/async", refused(status))
    server.on("POST", f"{R}/gc/prepare_commits", Say(201, PREPARED))
    with pytest.raises(LakeFSError):
        server.client.prepare_commits("repo")
    assert server.count("POST", f"{R}/gc/prepare_commits") == 0


def test_t46_two_json_documents_under_400_are_an_error_that_says_so(server: Scripted) -> None:
    first = json.dumps({"message": "local adapter presigned URL: operation not supported"})
    server.on("POST", f"{R}/gc/prepare_commits", Say(400, f"{first}\n{json.dumps(PREPARED)}\n".encode()))
    with pytest.raises(LakeFSError, match="followed by a second JSON document") as caught:
        server.client.prepare_commits("repo")
    assert "operation not supported" in str(caught.value)
    assert "asynchronous" in str(caught.value)
    assert server.count("POST", f"{R}/gc/prepare_commits") == 1


def test_only_201_is_a_success_of_the_direct_form(server: Scripted) -> None:
    server.on("POST", f"{R}/gc/prepare_commits", Say(200, PREPARED))
    with pytest.raises(LakeFSError, match="another success status"):
        server.client.prepare_commits("repo")


def test_t44_a_read_only_repository_is_refused_cleanly_by_both_prepares(server: Scripted) -> None:
    answer = refused(403, "read-only repository")
    server.on("POST", f"{R}/gc/prepare_commits/async", answer).on("POST", f"{R}/gc/prepare_uncommited", answer)
    for call in (server.client.prepare_commits, server.client.prepare_uncommitted):
        with pytest.raises(LakeFSError, match="the repository is read-only"):
            call("repo")
    assert len(server.asked) == 2


# ---- prepare uncommitted (T12, T14, T47) ----

PLACE = "s3://b/ns/_lakefs/retention/gc/uncommitted/run1/uncommitted/"


def staged(run: str = "run1", location: str = "", branch: str | None = None) -> Say:
    """A page. `branch`: where the next one begins; "" for an empty token, None for none."""
    answer = {"run_id": run, "gc_uncommitted_location": location}
    return Say(201, answer if branch is None else answer | {"continuation_token": branch and token(branch)})


def token(branch: str) -> str:
    return base64.b64encode(json.dumps({"branch": branch, "path": "", "run_id": "", "key": ""}).encode()).decode()


def on_staged(server: Scripted, script: Script) -> None:
    server.on("POST", f"{R}/gc/prepare_uncommited", script)


def sent_tokens(server: Scripted) -> list[str | None]:
    return [json.loads(asked.body).get("continuation_token") for asked in server.asked]


def test_t12_every_page_counts_and_every_location_is_remembered(server: Scripted) -> None:
    pages = [
        staged(location=PLACE, branch="t1"),
        staged(branch="t2"),
        staged(location=PLACE, branch="t3"),
        staged(),
    ]
    on_staged(server, pages)
    dump = server.client.prepare_uncommitted("repo")
    assert dump == StagedDump("run1", (PLACE, PLACE), 4)
    assert dump.location == PLACE
    assert sent_tokens(server) == [None, token("t1"), token("t2"), token("t3")]


@pytest.mark.parametrize("last", [staged(), staged(branch=""), staged(location="")])
def test_nothing_staged_anywhere_is_a_dump_without_location(server: Scripted, last: Say) -> None:
    on_staged(server, last)
    dump = server.client.prepare_uncommitted("repo")
    assert (dump.locations, dump.location, dump.pages) == ((), None, 1)


def test_a_token_of_null_ends_the_dump(server: Scripted) -> None:
    on_staged(
        server,
        Say(201, {"run_id": "r", "gc_uncommitted_location": PLACE, "continuation_token": None}),
    )
    assert server.client.prepare_uncommitted("repo").pages == 1


def test_t47_pages_of_two_runs_are_begun_anew(server: Scripted) -> None:
    mixed = [staged("run1", PLACE, "t1"), staged("run2", "")]
    whole = [staged("run3", PLACE, "t9"), staged("run3")]
    on_staged(server, mixed + whole)
    assert server.client.prepare_uncommitted("repo") == StagedDump("run3", (PLACE,), 2)
    assert sent_tokens(server) == [None, token("t1"), None, token("t9")]


def test_t47_runs_that_keep_mixing_are_incomplete_after_three_restarts(server: Scripted) -> None:
    on_staged(server, [staged("run1", PLACE, "t1"), staged("run2", PLACE)] * 4 + [staged("whole")])
    with pytest.raises(IncompleteError, match="belonged to run run2"):
        server.client.prepare_uncommitted("repo")
    assert len(server.asked) == 8


def test_a_branch_that_vanishes_while_it_is_scanned_begins_the_dump_anew(server: Scripted) -> None:
    on_staged(server, [staged("run1", PLACE, "t1"), refused(404, "branch not found"), staged("run2")])
    assert server.client.prepare_uncommitted("repo") == StagedDump("run2", (), 1)


def test_a_branch_that_stays_missing_is_told_after_three_restarts(server: Scripted) -> None:
    on_staged(server, refused(404, "branch not found"))
    with pytest.raises(LakeFSError, match="branch not found"):
        server.client.prepare_uncommitted("repo")
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("repository not found", "check the repository's name"),
        ("commit not found", r"a branch's head\? See docs/runbook\.md#unreadable-commit"),
    ],
)
def test_a_404_of_the_staged_dump_that_names_no_branch_is_told_at_once(
    server: Scripted, said: str, advice: str
) -> None:
    """lakeFS says the second where a branch's head is a commit that it does not know, after a restore of a dump."""
    on_staged(server, refused(404, said))
    with pytest.raises(LakeFSError, match=f"{said}.*{advice}"):
        server.client.prepare_uncommitted("repo")
    assert len(server.asked) == 1 and server.slept == []


def test_a_page_whose_answer_is_lost_is_asked_for_again_within_its_run(server: Scripted) -> None:
    on_staged(server, [staged(location=PLACE, branch="t1"), Say(drop=True), refused(503), staged()])
    assert server.client.prepare_uncommitted("repo") == StagedDump("run1", (PLACE,), 2)
    assert sent_tokens(server) == [None, token("t1"), token("t1"), token("t1")]


def test_a_token_that_comes_back_is_an_error(server: Scripted) -> None:
    on_staged(server, staged(location=PLACE, branch="t1"))
    with pytest.raises(ServerError, match="token that was used before"):
        server.client.prepare_uncommitted("repo")


def test_pages_written_to_different_folders_are_an_error(server: Scripted) -> None:
    on_staged(server, [staged(location=PLACE, branch="t1"), staged(location=PLACE.replace("run1", "run2"))])
    with pytest.raises(ServerError, match="was written to"):
        server.client.prepare_uncommitted("repo")


@pytest.mark.parametrize(
    "answer",
    [
        Say(200, {"run_id": "run1", "gc_uncommitted_location": PLACE}),
        Say(201, {"gc_uncommitted_location": PLACE}),
        Say(201, {"run_id": "", "gc_uncommitted_location": PLACE}),
        Say(201, {"run_id": "run1"}),
        Say(201, {"run_id": "run1", "gc_uncommitted_location": None}),
        Say(201, {"run_id": "run1", "gc_uncommitted_location": PLACE, "continuation_token": 7}),
        Say(201, b""),
        refused(400, "bad token"),
        refused(401),
        refused(500),
    ],
)
def test_a_page_that_is_not_one_breaks_the_dump_off(server: Scripted, answer: Say) -> None:
    on_staged(server, [staged("run1", PLACE, "t1"), answer])
    with pytest.raises(ServerError):
        server.client.prepare_uncommitted("repo")


# ---- dump ----


NOT_YET = {"branches_meta_range_id": "", "tags_meta_range_id": ""}
"""What lakeFS shows of a dump that failed after its first step."""


def on_dump(server: Scripted, status: Script) -> None:
    server.on("POST", f"{R}/dump", Say(202, {"id": "DR1"})).on("GET", f"{R}/dump", status)


def test_a_dump_tells_its_three_metaranges(server: Scripted) -> None:
    on_dump(server, [Say(200, {"id": "DR1", "done": False}), Say(200, {"done": True, "refs": REFS})])
    assert server.client.dump("repo") == DumpRefs("c1", "b1", "t1")
    assert server.asked[-1].query == {"task_id": "DR1"}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({"done": True}, "neither a result nor"),
        ({"done": True, "refs": None}, "neither a result nor"),
        ({"done": True, "refs": {}}, "commits_meta_range_id"),
        ({"done": True, "refs": REFS | {"tags_meta_range_id": ""}}, "is empty"),
        ({"done": True, "error": "kv is away"}, "kv is away"),
        ({"done": True, "error": "kv is away", "refs": REFS}, "kv is away"),
        ({"done": True, "error": "branches: no", "refs": {**REFS, **NOT_YET}}, "failed on the server: branches: no"),
        ({"done": False, "error": "kv is away"}, "kv is away"),
        ({"done": False}, "did not end within 1200 s"),
        ({"refs": REFS}, "`done`"),
    ],
)
def test_t45_a_dump_that_does_not_end_well_is_an_error(server: Scripted, status: Any, says: str) -> None:
    on_dump(server, Say(200, status))
    with pytest.raises(ServerError, match=says):
        server.client.dump("repo")


# ---- commits and metaranges (T40, T41) ----

ONE_COMMIT = {
    "id": COMMIT,
    "parents": ["p1", "p2"],
    "committer": "x",
    "creation_date": 1700000000,
    "meta_range_id": "m1",
    "version": 0,
}


def test_a_commit_keeps_the_order_of_its_parents_and_its_version(server: Scripted) -> None:
    server.on("GET", f"{R}/commits/{COMMIT}", Say(200, ONE_COMMIT))
    assert server.client.commit("repo", COMMIT) == Commit(COMMIT, "m1", ("p1", "p2"), 1700000000, 0)


def test_a_commit_without_version_is_of_version_1_and_may_have_no_metarange(server: Scripted) -> None:
    old = {key: value for key, value in ONE_COMMIT.items() if key != "version"}
    server.on("GET", f"{R}/commits/{COMMIT}", Say(200, old | {"meta_range_id": "", "parents": []}))
    commit = server.client.commit("repo", COMMIT)
    assert (commit.version, commit.metarange_id, commit.parents) == (1, "", ())


@pytest.mark.parametrize(
    "change",
    [{"id": "d" * 64}, {"parents": None}, {"parents": [1]}, {"creation_date": "x"}, {"meta_range_id": None}],
)
def test_a_commit_of_another_shape_is_an_error(server: Scripted, change: dict[str, Any]) -> None:
    server.on("GET", f"{R}/commits/{COMMIT}", Say(200, ONE_COMMIT | change))
    with pytest.raises(ServerError, match="odd answer"):
        server.client.commit("repo", COMMIT)


def test_the_location_of_a_metarange_tells_the_servers_prefix(server: Scripted) -> None:
    server.on("GET", f"{R}/metadata/meta_range/m1", Say(200, {"location": "meta/of/ours/m1"}))
    assert server.client.metarange_location("repo", "m1") == "meta/of/ours/m1"


@pytest.mark.parametrize("location", ["", "_lakefs/other", None])
def test_a_location_that_is_not_the_metaranges_is_an_error(server: Scripted, location: str | None) -> None:
    server.on("GET", f"{R}/metadata/meta_range/m1", Say(200, {"location": location}))
    with pytest.raises(ServerError, match="odd answer"):
        server.client.metarange_location("repo", "m1")


# ---- objects (T42, T43) ----

STATS = {
    "path": "a b/ü",
    "path_type": "object",
    "physical_address": "s3://b/ns/data/x/y,z",
    "checksum": "abc",
    "size_bytes": 0,
}


def test_objects_come_page_by_page(server: Scripted) -> None:
    server.on("GET", f"{R}/refs/main/objects/ls", [page([STATS], True, "a b/ü"), page([])])
    found = list(server.client.objects("repo", "main", prefix="a b/"))
    assert found == [[ObjectStats("a b/ü", "s3://b/ns/data/x/y,z", 0, "abc")], []]
    assert server.asked[1].query["after"] == "a b/ü"
    assert server.asked[0].query["prefix"] == "a b/"


@pytest.mark.parametrize("missing", ["path", "physical_address", "size_bytes", "checksum"])
def test_an_object_without_what_matters_is_an_error(server: Scripted, missing: str) -> None:
    stats = {key: value for key, value in STATS.items() if key != missing}
    server.on("GET", f"{R}/refs/main/objects/ls", page([stats]))
    with pytest.raises(ServerError, match=missing):
        list(server.client.objects("repo", "main"))


def test_an_odd_object_is_named_by_its_call_its_place_and_its_field(server: Scripted) -> None:
    odd = STATS | {"size_bytes": f"{SECRET} bytes"}
    server.on("GET", f"{R}/refs/main/objects/ls", page([STATS, odd, STATS | {"checksum": 7}]))
    with pytest.raises(ServerError) as caught:
        list(server.client.objects("repo", "main"))
    said = (
        f"to GET {R}/refs/main/objects/ls: `results[1].size_bytes` must be a whole number, not '*** bytes', and 1 more"
    )
    assert said in str(caught.value)


def test_stat_tells_the_object_or_that_there_is_none(server: Scripted) -> None:
    where = f"{R}/refs/main/objects/stat"
    server.on("GET", where, [Say(200, STATS), refused(404, "not found"), Say(404, b"proxy")])
    client = server.client
    stat = client.stat("repo", "main", "a b/ü")
    assert stat is not None
    assert stat.physical_address == "s3://b/ns/data/x/y,z"
    assert client.stat("repo", "main", "a b/ü") is None
    with pytest.raises(LakeFSError):
        client.stat("repo", "main", "a b/ü")
    assert server.asked[0].query["path"] == "a b/ü"


def test_a_branch_whose_head_lakefs_does_not_know_shows_nobody_knows_what(server: Scripted) -> None:
    server.on("GET", f"{R}/refs/main/objects/stat", refused(404, "commit not found"))
    with pytest.raises(LakeFSError, match="runbook"):
        server.client.stat("repo", "main", "x")


@pytest.mark.parametrize("status", [200, 206, 404, 410])
def test_reading_one_byte_tells_the_status(server: Scripted, status: int) -> None:
    server.on("GET", f"{R}/refs/main/objects", Say(status, b"x"))
    assert server.client.read_byte("repo", "main", "a b/ü") == status
    assert server.asked[0].headers["Range"] == "bytes=0-0"
    assert server.asked[0].query["path"] == "a b/ü"


@pytest.mark.parametrize("status", [200, 404, 410])
def test_of_an_object_without_bytes_reading_it_whole_tells_if_it_is_there(server: Scripted, status: int) -> None:
    """To a range of it, lakeFS says 416 before it asks the store."""
    server.on("GET", f"{R}/refs/main/objects", [Say(416, {"message": "Requested Range Not Satisfiable"}), Say(status)])
    assert server.client.read_byte("repo", "main", "_SUCCESS") == status
    assert ["Range" in asked.headers for asked in server.asked] == [True, False]
    assert {asked.query["path"] for asked in server.asked} == {"_SUCCESS"}


@pytest.mark.parametrize("status", [302, 400, 401, 403, 416, 500])
def test_a_status_that_says_nothing_about_the_object_is_an_error(server: Scripted, status: int) -> None:
    server.on("GET", f"{R}/refs/main/objects", refused(status))
    with pytest.raises(LakeFSError) as caught:
        server.client.read_byte("repo", "main", "x")
    assert caught.value.status == status


@pytest.mark.parametrize(
    "said",
    ["api error InvalidRange: The requested range is not satisfiable", "api error NoSuchBucket: It does not exist"],
)
def test_an_object_that_is_shorter_than_its_entry_says_or_a_lost_bucket_is_asked_for_once(
    server: Scripted, said: str
) -> None:
    """lakeFS answers 500. A sweep reads dozens of paths, one after another: six attempts take 15 s at each."""
    said = f"operation error S3: GetObject, https response error StatusCode: 416, RequestID: 1, HostID: , {said}"
    server.on("GET", f"{R}/refs/main/objects", refused(500, said))
    with pytest.raises(LakeFSError, match="answered with 500"):
        server.client.read_byte("repo", "main", "x")
    assert len(server.asked) == 1 and server.slept == []


def test_stat_may_show_an_object_that_reading_calls_gone(server: Scripted) -> None:
    server.on("GET", f"{R}/refs/main/objects/stat", Say(200, STATS))
    server.on("GET", f"{R}/refs/main/objects", refused(410, "No data"))
    assert server.client.stat("repo", "main", "x") is not None
    assert server.client.read_byte("repo", "main", "x") == 410


def test_a_long_object_is_not_read_to_its_end(server: Scripted) -> None:
    server.on("GET", f"{R}/refs/main/objects", Say(200, b"x" * 50_000_000))
    assert server.client.read_byte("repo", "main", "x") == 200


def test_repositories_are_listed_on_all_pages(server: Scripted) -> None:
    second = REPOSITORY | {"id": "repo2", "storage_namespace": "s3://b/ns2", "read_only": True}
    server.on("GET", "/repositories", [page([REPOSITORY], True, "repo"), page([second])])
    found = list(server.client.repositories())
    assert [(repository.id, repository.read_only) for repository in found] == [
        ("repo", False),
        ("repo2", True),
    ]
