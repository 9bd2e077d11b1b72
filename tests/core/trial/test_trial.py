"""`lakegc try`, from nothing to nothing, and what becomes of one that breaks off."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.store.base import connect
from lakegc_core.trial.trial import Trial
from tests.core.trial.conftest import Stand, json_of

OTHERS = b"somebody else's"


@pytest.mark.usefixtures("sparing")
@pytest.mark.parametrize("stand", ["s3", pytest.param("azure", marks=pytest.mark.slow)], indirect=True)
def test_a_trial_marks_sweeps_restores_and_removes_what_it_has_made_and_nothing_else(stand: Stand) -> None:
    """Whatever lakegc.yaml demands of repositories, and without a word that anything may be unsafe."""
    stand.write("others/object", OTHERS)
    code, out, err = stand.run(f"{stand.place}/", "--json")
    assert code == 0, err
    found = json_of(out)
    assert found["mark"]["objects"] | {"expired": 9, "foreign": 1, "young": 0} == found["mark"]["objects"]
    causes = {each["words"]: each["objects"] for each in found["mark"]["origins"]["causes"]}
    assert causes == {
        "were replaced or deleted on branch main": 4,
        "were left by a deleted branch or a reset": 3,
        "were never committed": 2,
    }
    assert [found[step]["outcomes"][name] for step, name in STEPS] == [9, 9, 9]
    assert found["paths_read"] == 14 and found["doctor"]["counts"]["alarm"] == 0
    assert "lakegc try --remove " in err, "said before anything is made, for one that is killed"
    assert stand.keys == {"others/object"} and stand.repositories == set()
    assert connect(stand.store).read("others/object") == OTHERS
    assert not {"LAKEGC_UNSAFE", "LAKEGC_NOW"} & os.environ.keys()


STEPS = (("backup", "copied"), ("sweep", "deleted"), ("restore", "copied"))

Fault = Callable[[str, str, Mapping[str, str]], tuple[int, Any] | None]


def refusing(method: str, ending: str, after: int = 0) -> Fault:
    """A lakeFS that refuses calls whose path ends so, but for the first few."""
    seen = [0]

    def fault(asked: str, path: str, _: Mapping[str, str]) -> tuple[int, Any] | None:
        if asked != method or not path.endswith(ending):
            return None
        seen[0] += 1
        return (403, {"message": "not today"}) if seen[0] > after else None

    return fault


@pytest.mark.parametrize(
    "fault",
    [
        refusing("POST", "/repositories"),
        refusing("PUT", "/gc_rules"),
        refusing("POST", "/commits", 3),
        refusing("DELETE", "/objects"),
    ],
    ids=["create", "rules", "fourth commit", "delete"],
)
def test_what_a_trial_that_broke_off_has_made_is_named_with_the_command_that_removes_it(
    on_local: Stand, fault: Fault
) -> None:
    on_local.write("others/object", OTHERS)
    on_local.server.fault = fault
    left = on_local.left()
    assert len(on_local.keys) > 1
    on_local.server.fault = None
    code, out, _ = on_local.run("--remove", left)
    assert code == 0 and out.startswith(f"{left} · ")
    assert on_local.keys == {"others/object"} and on_local.repositories == set()
    assert [each.name for each in Path(on_local.store.root.removeprefix("local://")).iterdir()] == ["others"]
    code, out, _ = on_local.run("--remove", left)
    assert code == 0 and out == f"{left} · 0 objects removed\n"


@pytest.mark.slow
@pytest.mark.usefixtures("sparing")
@pytest.mark.parametrize("step", ["examine", "mark", "back_up", "sweep", "restore", "remove"])
def test_a_trial_that_is_interrupted_after_any_step_is_removed_by_the_command_that_it_names(
    on_local: Stand, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = getattr(Trial, step)

    def interrupted(trial: Trial, *given: Any) -> None:
        whole(trial, *given)
        trial.is_left = True
        raise KeyboardInterrupt

    monkeypatch.setattr(Trial, step, interrupted)
    left = on_local.left()
    assert on_local.run("--remove", left)[0] == 0
    assert on_local.keys == set() and on_local.repositories == set()


def test_a_trial_needs_the_real_clock(on_local: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", "1700000000")
    code, _, err = on_local.run(on_local.place)
    assert code == 2 and "LAKEGC_NOW replaces the clock" in err and on_local.keys == set()


@pytest.mark.parametrize("arguments", [[], ["local://eval", "--remove", "local://eval"]])
def test_a_trial_takes_a_place_or_what_to_remove(on_local: Stand, arguments: list[str]) -> None:
    code, _, err = on_local.run(*arguments)
    assert code == 2 and "--remove" in err
