"""Each right in lakeFS that a key lacks is named, with what it is for."""

from __future__ import annotations

import pytest

from lakegc_core.doctor.finding import Level
from lakegc_core.doctor.lakefs_rights import try_server
from tests.core.doctor.conftest import Patient, refuse, worst

REPOSITORY = "/repositories/lake"
CALLS = {
    "/config": ("right-config", "fs:ReadConfig"),
    "/config/garbage-collection": ("right-grace-period", "fs:ReadConfig"),
    "/branches": ("right-list-branches", "fs:ListBranches"),
    "/tags": ("right-list-tags", "fs:ListTags"),
    "/settings/gc_rules": ("right-get-rules", "retention:GetGarbageCollectionRules"),
    "/gc/prepare_uncommited": ("right-prepare-uncommitted", "retention:PrepareGarbageCollectionUncommitted"),
    "/gc/prepare_commits/async": ("right-prepare-commits", "retention:PrepareGarbageCollectionCommits"),
    "/dump": ("right-dump", "fs:ListCommits"),
    "/refs/main/objects/ls": ("right-list-objects", "fs:ListObjects"),
    "/repositories": ("right-list-repositories", "fs:ListRepositories"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_right_that_a_mark_needs_and_the_key_lacks_is_an_alarm(on_folder: Patient, call: str) -> None:
    name, right = CALLS[call]
    on_folder.server.fault = refuse(call)
    finding = on_folder.finding(name)
    assert finding.level is Level.ALARM and right in finding.what


def test_commits_and_the_place_of_metadata_are_asked_for(on_folder: Patient) -> None:
    def fault(method: str, path: str, query: object) -> tuple[int, object] | None:
        refused = path.startswith((f"{REPOSITORY}/commits/", f"{REPOSITORY}/metadata/"))
        return (401, {"message": "no"}) if refused else None

    on_folder.server.fault = fault
    names = {each.name for each in worst(on_folder.examine())}
    assert {"right-read-commit", "right-metadata"} <= names


def test_a_key_that_may_not_read_objects_can_mark_and_not_sweep(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/refs/main/objects")
    (finding,) = worst(on_folder.examine())
    assert finding.name == "right-read-object" and finding.level is Level.WARNING
    assert "fs:ReadObject" in finding.what and "sweep" in finding.why


def test_a_path_whose_data_is_gone_is_an_alarm(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/refs/main/objects", 410, {"message": "gone"})
    assert "the data is gone" in on_folder.finding("unreadable").what


def test_an_object_without_bytes_reads_or_is_gone_like_any_other(on_folder: Patient) -> None:
    address = on_folder.repository.upload("main", "_SUCCESS", b"")
    assert worst(on_folder.examine()) == []
    on_folder.repository.files.delete(address)
    assert "_SUCCESS on branch main cannot be read: the data is gone" in on_folder.finding("unreadable").what


def test_a_path_that_was_deleted_meanwhile_is_nothing(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/refs/main/objects", 404, {"message": "not found"})
    assert worst(on_folder.examine()) == []


def test_a_server_that_lacks_a_call_is_told_in_the_words_of_the_client(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/dump", 404, {"message": "invalid API endpoint"})
    assert "invalid API endpoint" in on_folder.finding("right-dump").what


def test_a_list_of_repositories_without_the_repository_itself_is_an_alarm(on_folder: Patient) -> None:
    page = {"pagination": {"has_more": False, "results": 0, "next_offset": ""}, "results": []}
    on_folder.server.fault = refuse("/repositories", 200, page)
    found = on_folder.finding("right-list-repositories")
    assert found.level is Level.ALARM and "lacks lake itself" in found.what


def test_a_repository_without_branches_is_an_alarm(on_folder: Patient) -> None:
    page = {"pagination": {"has_more": False, "results": 0, "next_offset": ""}, "results": []}
    on_folder.server.fault = refuse("/repositories/lake/branches", 200, page)
    assert "lists no branch" in on_folder.finding("right-list-branches").what


def test_a_read_only_repository_is_an_alarm_and_nothing_is_prepared(on_folder: Patient) -> None:
    on_folder.repository.read_only = True
    (finding,) = worst(on_folder.examine())
    assert finding.name == "read-only" and finding.level is Level.ALARM
    asked = [path for method, path in on_folder.server.requests if method == "POST"]
    assert not any(path.endswith("/dump") for path in asked)


def test_without_rules_the_commits_to_keep_are_not_asked_for(on_s3: Patient) -> None:
    on_s3.repository.delete_rules()
    assert [each.name for each in worst(on_s3.examine())] == ["no-rules"]
    assert not any("prepare_commits" in path for _, path in on_s3.server.requests)


def test_a_head_that_lakefs_does_not_know_does_not_end_the_server(on_s3: Patient) -> None:
    """lakeFS (1.76 to 1.84) dies when it is asked for the commits to keep, and a branch's head is such a commit."""
    on_s3.server.fault = refuse("/gc/prepare_uncommited", 404, {"message": "commit not found"})
    assert on_s3.finding("right-prepare-uncommitted").level is Level.ALARM
    asked = [path for method, path in on_s3.server.requests if method == "POST"]
    assert f"{REPOSITORY}/dump" in asked and not any("prepare_commits" in path for path in asked)


def test_what_concerns_no_repository_is_three_questions(on_folder: Patient) -> None:
    before = len(on_folder.server.requests)
    assert try_server(on_folder.client) == []
    asked = [path for _, path in on_folder.server.requests[before:]]
    assert asked == ["/config", "/config/garbage-collection", "/repositories"]
