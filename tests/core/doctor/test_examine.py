"""The doctor's rounds: nothing above a note on sound repositories, nothing left behind, nothing broken by one error."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_core.config.settings import RepositoryPolicy
from lakegc_core.doctor import examine as rounds
from lakegc_core.doctor.examine import examine_all
from lakegc_core.doctor.finding import Level
from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import LakeFSError
from tests.core.doctor.conftest import Patient, refuse, worst

LOOKS = {
    "the server",
    "rights in lakeFS",
    "clocks",
    "rights in the store",
    "how the store keeps objects",
    "namespaces and neighbours",
    "rules and policy",
    "the newest mark",
    "requests and cost",
}


@pytest.fixture(params=["on_folder", "on_s3"])
def patient(request: pytest.FixtureRequest) -> Patient:
    found: Patient = request.getfixturevalue(request.param)
    return found


def test_on_a_sound_repository_it_finds_only_that_there_is_no_mark_and_leaves_nothing_behind(patient: Patient) -> None:
    before = patient.files()
    found = patient.examine()
    of_the_server = ["slashes-folded"] if patient.s3 else []  # SeaweedFS takes a//b for a/b
    assert [(each.name, each.level) for each in found.findings] == [
        (name, Level.NOTE) for name in (*of_the_server, "no-mark")
    ]
    assert set(found.looked_at) == LOOKS and not found.is_alarming
    assert patient.files() == before
    if patient.folder is not None:
        assert not (patient.folder / "_lakefs/retention/gc/lakegc").exists(), "not even a folder"


def test_what_lies_in_lakegcs_own_folder_stays(patient: Patient) -> None:
    store = patient.store.connect() if patient.store else None
    for key in ("lease.json", "marks/m1/mark.json", "doctor/notes"):
        whole = f"_lakefs/retention/gc/lakegc/{key}"
        if store:
            store.write(whole, b"x")
        elif patient.folder is not None:
            (patient.folder / whole).parent.mkdir(parents=True, exist_ok=True)
            (patient.folder / whole).write_bytes(b"x")
    before = patient.files()
    patient.examine()
    assert patient.files() == before


def test_the_json_has_everything(on_folder: Patient) -> None:
    found = on_folder.examine().as_json()
    assert found["repository"] == "lake" and found["server"]["version"] == "1.84.0"
    assert found["findings"][0].keys() == {"name", "level", "what", "why", "do"}
    assert found["counts"] == {"alarm": 0, "warning": 0, "note": 1}
    assert "repositories" not in found


def test_a_repository_that_is_not_there_is_an_error(on_folder: Patient) -> None:
    with pytest.raises(LakeFSError, match="404"):
        rounds.examine(on_folder.settings, "none", client=on_folder.client)


@pytest.mark.parametrize(
    ("status", "body", "do"),
    [
        (404, b"<html>File not found</html>", "The endpoint is not a lakeFS: correct LAKECTL_SERVER_ENDPOINT_URL"),
        (401, {"message": "error authenticating request"}, "Correct the access key and its secret."),
        (401, b"", "Correct the access key and its secret."),
        (200, b"<html>Log in</html>", "Correct what the message names"),
    ],
)
@pytest.mark.parametrize("of_all", [False, True], ids=["one", "all"])
def test_a_cause_that_makes_every_call_fail_is_one_alarm(
    on_folder: Patient, status: int, body: Any, do: str, of_all: bool
) -> None:
    on_folder.server.fault = lambda *_: (status, body)
    found = examine_all(on_folder.settings, client=on_folder.client) if of_all else on_folder.examine()
    (finding,) = found.every_finding
    assert finding.name == "no-lakefs" and finding.level is Level.ALARM and finding.do.startswith(do)
    assert [path for _, path in on_folder.server.requests] == ["/config"]


def test_a_key_that_may_not_see_the_repository_is_an_alarm(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/repositories/lake")
    found = on_folder.examine()
    (finding,) = found.findings
    assert finding.name == "right-repository" and "fs:ReadRepository" in finding.what and found.is_alarming


def test_a_look_that_breaks_off_is_named_and_the_others_go_on(
    on_folder: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[object]:
        raise ServerError("the server fell over")

    monkeypatch.setattr(rounds, "examine_rules", fails)
    found = on_folder.examine()
    finding = next(each for each in found.findings if each.name == "not-looked-at")
    assert finding.level is Level.WARNING and "rules and policy broke off: the server fell over." in finding.what
    assert set(found.looked_at) == LOOKS - {"rules and policy"}


def test_without_a_name_it_looks_at_the_rules_and_places_of_all_and_at_no_store(on_folder: Patient) -> None:
    sandbox = on_folder.server.sandbox
    sandbox.create_repository("bare")
    sandbox.create_repository("inside", "local://lake/inside").set_rules(7)
    sandbox.create_repository("frozen").read_only = True
    before = on_folder.files()
    found = examine_all(on_folder.settings, client=on_folder.client)
    by_name = {part.repository: [each.name for each in part.findings] for part in found.parts}
    assert by_name == {
        "bare": ["no-rules"],
        "frozen": [],
        "inside": ["shared-namespace"],
        "lake": ["shared-namespace"],
    }
    assert found.is_alarming and found.findings == ()
    assert on_folder.files() == before
    told = found.as_json()
    assert told["repository"] is None and told["counts"]["alarm"] == 3
    assert [part["repository"] for part in told["repositories"]] == sorted(by_name)
    assert not any("/gc/prepare" in path or "/dump" in path for _, path in on_folder.server.requests)


def test_without_a_name_repositories_that_take_part_in_no_round_are_not_asked_for_rules(on_folder: Patient) -> None:
    on_folder.server.sandbox.create_repository("bare")
    policies = (RepositoryPolicy(match="bare", mark=False),)
    assert worst(examine_all(on_folder.at(repositories=policies).settings, client=on_folder.client)) == []


def test_without_a_name_a_list_of_repositories_that_fails_is_named(on_folder: Patient) -> None:
    on_folder.server.fault = refuse("/repositories")
    found = examine_all(on_folder.settings, client=on_folder.client)
    assert {each.name for each in found.findings} == {"right-list-repositories", "not-looked-at"}


def test_very_many_repositories_are_not_compared_with_one_another(
    on_folder: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MOST", 0)
    found = examine_all(on_folder.settings, client=on_folder.client)
    assert [each.name for each in found.findings] == ["places-not-compared"]
