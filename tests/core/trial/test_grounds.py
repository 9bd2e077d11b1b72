"""What `lakegc try` refuses: places that are not its own, and the removal of what it has not made."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from lakegc_core.errors import BucketNotFoundError
from lakegc_core.store.base import connect
from lakegc_core.trial import grounds
from lakegc_core.trial.grounds import MARKER
from lakegc_sandbox import Sandbox
from tests.core.trial.conftest import Stand, standing
from tests.core.trial.test_trial import refusing
from tests.support.fake_s3 import BUCKET, error, fake_s3
from tests.support.proxy import Answer, Forward, Hook, Request, pass_on
from tests.support.replays import environment

NAME = "lakegc-try-0123456789ab"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next trial gets this name."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: NAME[-12:])


def refused(stand: Stand, *arguments: str) -> str:
    """What a command says that is refused: nothing was written, nothing removed, nothing is left to be removed."""
    before, repositories = stand.keys, stand.repositories
    code, out, err = stand.run(*arguments)
    assert code == 3 and not out.count("paths are live")
    assert stand.keys == before and stand.repositories == repositories
    assert "This removes it" not in err
    return err


@pytest.mark.usefixtures("named")
def test_a_repository_of_the_same_name_is_refused(stand: Stand) -> None:
    stand.server.sandbox.create_repository(NAME, "local://elsewhere")
    assert f"Repository {NAME} exists already" in refused(stand, stand.place)


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("key", [MARKER, "x", "repository/_lakefs/dummy"])
def test_a_place_that_is_not_empty_is_refused(stand: Stand, key: str) -> None:
    stand.write(f"{NAME}/{key}")
    assert "is not empty" in refused(stand, stand.place)


@pytest.mark.usefixtures("named")
def test_a_trial_in_a_bucket_that_is_not_there_writes_nothing(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise BucketNotFoundError("there is no such bucket")

    monkeypatch.setattr(grounds, "check_bucket", missing)
    before = stand.keys
    code, _, err = stand.run(stand.place)
    assert code == 1 and "there is no such bucket" in err
    assert stand.keys == before and "This removes it" not in err


def refusing_writes(request: Request, forward: Forward) -> Answer | None:
    return error(403, "AccessDenied") if request.method == "PUT" else forward(request)


def losing_answers_to_writes(request: Request, forward: Forward) -> Answer | None:
    """And writing all the same."""
    answer = forward(request)
    return error(403, "AccessDenied") if request.method == "PUT" else answer


@pytest.mark.parametrize(
    ("bucket", "hook", "says", "is_left"),
    [
        ("nosuch", pass_on, "NoSuchBucket", False),
        (BUCKET, refusing_writes, "AccessDenied", False),
        (BUCKET, losing_answers_to_writes, "AccessDenied", True),
    ],
)
def test_what_a_trial_could_not_begin_in_is_called_left_only_if_its_marker_may_lie_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bucket: str, hook: Hook, says: str, is_left: bool
) -> None:
    with fake_s3(hook) as (server, _), environment(server.environment()):
        place = f"s3://{bucket}/eval"
        with standing(Sandbox(tmp_path, blockstore="s3"), place, server.config("eval"), tmp_path, capsys) as stand:
            code, out, err = stand.run(place)
    assert code == 1 and says in err and ("This removes it" in err) is is_left
    assert ("A throw-away repository" in out) is (bucket == BUCKET), "nothing is announced in a place that is not there"


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("namespace", ["local://eval", f"local://eval/{NAME}", f"local://eval/{NAME}/repository/x"])
def test_a_place_around_or_inside_another_repository_is_refused(stand: Stand, namespace: str) -> None:
    stand.server.sandbox.create_repository("big", namespace)
    assert "the storage namespace of big" in refused(stand, stand.place)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("bucket/prefix", "no plain place"),
        ("ftp://bucket/prefix", "names no place"),
        ("s3://bucket/a/../b", "no plain place"),
        ("s3://bucket//b", "no plain place"),
        ("s3://bucket/a?b", "no plain place"),
        ("s3://key:secret@bucket/a", "together with a secret"),
        ("s3://", "no plain place"),
        ("local:///tmp/folder", "no plain place"),
    ],
)
def test_what_is_no_plain_place_is_refused_before_anything_is_asked(stand: Stand, place: str, says: str) -> None:
    code, _, err = stand.run(place)
    assert code == 2 and says in err and "secret@" not in err and stand.server.requests == []


def test_a_place_on_a_store_that_this_lakefs_has_not_is_refused_before_the_store_is_asked(stand: Stand) -> None:
    code, out, err = stand.run("s3://bucket/some-prefix/")
    assert code == 2 and "2." not in out
    assert "This lakeFS keeps data in local://…" in err and "name a place such as local://trial/" in err
    assert stand.server.requests == [("GET", "/config")]


def test_the_removal_of_a_name_alone_asks_for_the_whole_place(stand: Stand) -> None:
    code, _, err = stand.run("--remove", NAME)
    assert code == 2 and f"'{NAME}' is no place" in err and f"s3://bucket/prefix/{NAME}" in err


@pytest.fixture
def left(stand: Stand) -> str:
    """The place of a trial that broke off with a repository and commits."""
    stand.server.fault = refusing("POST", "/commits", 3)
    found = stand.left()
    stand.server.fault = None
    return found


def name_of(place: str) -> str:
    return place.rpartition("/")[2]


def test_what_has_no_name_of_a_trial_is_not_removed(stand: Stand) -> None:
    stand.write(f"tables/{MARKER}")
    code, _, err = stand.run("--remove", "local://eval/tables")
    assert code == 2 and "was not made by `lakegc try`" in err and stand.keys == {f"tables/{MARKER}"}


def test_what_has_no_marker_is_not_removed(stand: Stand, left: str) -> None:
    connect(stand.store).delete_many([f"{name_of(left)}/{MARKER}"])
    assert "nothing proves" in refused(stand, "--remove", left)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda marker: b"",
        lambda marker: b"[]",
        lambda marker: json.dumps(marker | {"place": "local://other"}).encode(),
        lambda marker: json.dumps(marker | {"repository": NAME}).encode(),
        lambda marker: json.dumps(marker | {"made_by": "hand"}).encode(),
    ],
)
def test_what_has_the_marker_of_something_else_is_not_removed(
    stand: Stand, left: str, spoil: Callable[[dict[str, str]], bytes]
) -> None:
    key = f"{name_of(left)}/{MARKER}"
    stand.write(key, spoil(json.loads(connect(stand.store).read(key))))
    assert "is not the marker" in refused(stand, "--remove", left)


def test_a_repository_of_that_name_that_lies_elsewhere_is_not_removed(stand: Stand, left: str) -> None:
    sandbox, name = stand.server.sandbox, name_of(left)
    sandbox.delete_repository(name)
    sandbox.create_repository(name, "local://elsewhere")
    assert "no trial made it" in refused(stand, "--remove", left)


def test_nothing_is_removed_where_another_repository_lies(stand: Stand, left: str) -> None:
    stand.server.sandbox.create_repository("guest", f"{left}/repository/data/guest")
    assert "the storage namespace of guest" in refused(stand, "--remove", left)


def test_nothing_is_removed_where_something_strange_lies(stand: Stand, left: str) -> None:
    stand.write(f"{name_of(left)}/mine.txt")
    assert "mine.txt is nothing that a trial makes" in refused(stand, "--remove", left)
