"""Which repository somebody may have meant, by what a loopback server lists, and which names of tags are refs."""

from __future__ import annotations

import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.models import Ref
from lakegc_core.lakefs.named import ref_of_tag, repository_named
from tests.support.scripted_lakefs import REPOSITORY, R, Say, Scripted, page, refused


@pytest.fixture
def lists(server: Scripted) -> Scripted:
    """Knows the repository `repo` in s3://b/ns, and lists three."""
    others = [
        REPOSITORY | {"id": "repo-dev", "storage_namespace": "s3://b/ns-dev/"},
        REPOSITORY | {"id": "nested", "storage_namespace": "s3://b/ns/deeper"},
    ]
    return server.on("GET", R, Say(200, REPOSITORY)).on("GET", "/repositories", page([REPOSITORY, *others]))


def test_a_repository_that_is_there_is_returned_without_a_listing(lists: Scripted) -> None:
    assert repository_named(lists.client, "repo").id == "repo"
    assert [asked.path for asked in lists.asked] == [R]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rpeo", "Did you mean repo?"),
        ("repo-de", "Did you mean repo-dev or repo?"),
        ("NESTED", "Did you mean nested?"),
        ("warehouse", ""),
    ],
)
def test_those_that_are_called_alike_are_named_beside_what_lakefs_says(lists: Scripted, name: str, near: str) -> None:
    with pytest.raises(LakeFSError, match="check the repository's name") as raised:
        repository_named(lists.client, name)
    assert raised.value.status == 404
    assert str(raised.value).partition("and the endpoint")[2] == (f". {near}" if near else "")


def test_the_id_of_a_mark_in_the_place_of_the_repository_is_told_as_that(lists: Scripted) -> None:
    lists.on("GET", "/repositories/20261129T043839Z", Say(400, {"message": "argument repository: invalid value"}))
    with pytest.raises(LakeFSError, match="looks like the id of a mark: the name of the repository comes before it"):
        repository_named(lists.client, "20261129T043839Z")


def test_a_name_in_upper_case_which_lakefs_refuses_names_the_one_that_is_meant(lists: Scripted) -> None:
    lists.on("GET", "/repositories/Repo", Say(400, {"message": "argument repository: invalid value"}))
    with pytest.raises(LakeFSError, match=r"invalid value.* Did you mean repo or repo-dev") as raised:
        repository_named(lists.client, "Repo")
    assert raised.value.status == 400


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("s3://b/ns", "Did you mean repo?"),
        ("s3://b/ns/", "Did you mean repo?"),
        ("s3://b/ns/data/x", "Did you mean repo?"),
        ("s3://b/ns-dev", "Did you mean repo-dev?"),
        ("s3://b/ns/deeper/", "Did you mean nested?"),
        ("s3://b/n", ""),
        ("gs://b/ns", ""),
    ],
)
def test_a_place_is_no_repository_and_the_one_that_lies_there_is_named(lists: Scripted, place: str, meant: str) -> None:
    with pytest.raises(SettingsError) as raised:
        repository_named(lists.client, place)
    plain = f"'{place}' is a place in a store, and not the name of a repository."
    assert str(raised.value) == (f"{plain} {meant}" if meant else plain)


def test_where_the_key_may_not_list_repositories_the_error_is_the_plain_one(server: Scripted) -> None:
    server.on("GET", "/repositories", refused(401))
    with pytest.raises(LakeFSError) as raised:
        repository_named(server.client, "rpeo")
    assert raised.value.status == 404 and str(raised.value).endswith("and the endpoint")
    with pytest.raises(SettingsError, match=r"not the name of a repository\.$"):
        repository_named(server.client, "s3://b/ns")


@pytest.mark.parametrize("answer", [refused(401), Say(404, b"<html>nothing here</html>")])
def test_of_other_errors_and_of_a_proxys_nothing_is_guessed(lists: Scripted, answer: Say) -> None:
    lists.on("GET", "/repositories/rpeo", answer)
    with pytest.raises(LakeFSError) as raised:
        repository_named(lists.client, "rpeo")
    assert raised.value.status == answer.status and "Did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", ["x%2Fy", "p%", "v@1", "a~b", "m$", "main$", "main@"])
def test_a_tag_whose_name_lakefs_1_84_reads_as_something_else_is_asked_for_by_its_commit(name: str) -> None:
    assert ref_of_tag(Ref(name=name, commit_id="c")) == "c"
    assert ref_of_tag(Ref(name="v1.0-ü_x", commit_id="c")) == "v1.0-ü_x"
