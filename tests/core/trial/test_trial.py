"""`lakegc try`, from nothing to nothing, and what becomes of one that breaks off."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.config.settings import Settings
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.marks.context import begin_mark, open_mark, open_repository
from lakegc_core.store.base import connect
from lakegc_core.sweep.what_counts import check_level, check_min_age
from lakegc_core.trial.trial import Trial
from tests.core.trial.conftest import Stand, json_of

OTHERS = b"somebody else's"


@pytest.mark.usefixtures("sparing")
@pytest.mark.parametrize(
    "stand", ["local", *(pytest.param(each, marks=pytest.mark.slow) for each in ("s3", "azure"))], indirect=True
)
def test_a_trial_marks_sweeps_restores_and_removes_what_it_has_made_and_nothing_else(stand: Stand) -> None:
    """Whatever lakegc.yaml demands of repositories, and without a word that anything may be unsafe."""
    stand.write("others/object", OTHERS)
    code, out, err = stand.run(f"{stand.place}/", "--json")
    assert code == 0, err
    found = json_of(out)
    assert found["mark"]["objects"] | {"expired": 9, "foreign": 1, "young": 0} == found["mark"]["objects"]
    said = {each["name"]: each["description"] for each in found["mark"]["guards"]}
    assert said["neighbours"].startswith("A trial asks no other repository"), "the user has set no neighbours.ignore"
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
    stand: Stand, fault: Fault
) -> None:
    stand.write("others/object", OTHERS)
    stand.server.fault = fault
    left = stand.left()
    assert len(stand.keys) > 1
    stand.server.fault = None
    code, out, _ = stand.run("--remove", left)
    assert code == 0 and out.startswith(f"{left} · ")
    assert stand.keys == {"others/object"} and stand.repositories == set()
    assert [each.name for each in Path(stand.store.root.removeprefix("local://")).iterdir()] == ["others"]
    code, out, _ = stand.run("--remove", left)
    assert code == 0 and out == f"{left} · 0 objects removed\n"


@pytest.mark.slow
@pytest.mark.usefixtures("sparing")
@pytest.mark.parametrize("step", ["examine", "mark", "back_up", "sweep", "restore", "remove"])
def test_a_trial_that_is_interrupted_after_any_step_is_removed_by_the_command_that_it_names(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = getattr(Trial, step)

    def interrupted(trial: Trial, *given: Any) -> None:
        whole(trial, *given)
        trial.is_left = True
        raise KeyboardInterrupt

    monkeypatch.setattr(Trial, step, interrupted)
    left = stand.left()
    assert stand.run("--remove", left)[0] == 0
    assert stand.keys == set() and stand.repositories == set()


def test_a_trial_needs_the_real_clock(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", "1700000000")
    code, _, err = stand.run(stand.place)
    assert code == 2 and "LAKEGC_NOW replaces the clock" in err and stand.keys == set()


@pytest.mark.parametrize("arguments", [[], ["local://eval", "--remove", "local://eval"]])
def test_a_trial_takes_a_place_or_what_to_remove(stand: Stand, arguments: list[str]) -> None:
    code, _, err = stand.run(*arguments)
    assert code == 2 and "--remove" in err


def test_the_waiting_is_lifted_for_the_repository_that_the_trial_has_made_alone(stand: Stand) -> None:
    """And in its own process alone: whoever opens its mark in another way sweeps nothing."""
    stand.server.sandbox.create_repository("other", "local://other").set_rules(7)
    settings = Settings.load(None, os.environ)
    trial = Trial.below(stand.place, settings, lambda _: None)
    with pytest.raises(SettingsError, match="LAKEGC_UNSAFE=yes"):
        begin_mark(open_repository(trial.settings, "other"), "m1", **AT_ONCE)
    trial.make()
    own = begin_mark(open_repository(trial.settings, trial.grounds.name), "m1", **AT_ONCE)
    check_level(own)
    check_min_age(own)
    for level in ("none", "standard"):
        with pytest.raises(SettingsError, match=r"LAKEGC_UNSAFE=yes|--min-age 25h"):
            begin_mark(open_repository(trial.settings, "other"), "m1", **AT_ONCE | {"safety_level": level})
    elsewhere = open_mark(open_repository(settings, trial.grounds.name), "m1")
    with pytest.raises(SettingsError, match="LAKEGC_UNSAFE=yes"):
        check_level(elsewhere)
    with pytest.raises(RefusedError, match="minimum age of 0s"):
        check_min_age(elsewhere)
    assert trial.remove() > 0


AT_ONCE: dict[str, Any] = {"min_age": timedelta(0), "safety_level": "none"}


def test_no_file_and_no_variable_names_a_repository_to_throw_away(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("LAKEGC_THROW_AWAY", "LAKEGC_TRY"):
        monkeypatch.setenv(variable, "other")
    assert Settings.load(None, os.environ).throw_away is None
    (tmp_path / "lakegc.yaml").write_text("throw_away: other")
    with pytest.raises(SettingsError, match="throw_away"):
        Settings.load(str(tmp_path / "lakegc.yaml"), {})


def test_a_clock_that_is_far_ahead_is_not_waited_for(stand: Stand) -> None:
    """Of lakeFS, by the names that it gives."""
    stand.server.sandbox.clock = lambda: time.time() + 3600
    code, _, err = stand.run(stand.place)
    assert code == 3 and re.search("3[0-9]{3} s ahead", err) and "lakegc try --remove" in err


def test_a_store_that_is_not_the_one_of_lakefs_is_noticed_at_once(stand: Stand, tmp_path: Path) -> None:
    file = Path(os.environ["LAKEGC_CONFIG"])
    file.write_text(f'stores: [{{match: "local://", root: {tmp_path}/elsewhere}}]')
    code, out, err = stand.run(stand.place)
    assert code == 1 and "lakegc and lakeFS use different stores" in err and "2." not in out
