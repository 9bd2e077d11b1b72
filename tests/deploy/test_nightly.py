"""docs/nightly.md names what there is: its settings are read, its definitions load, its commands start what exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakegc_core import cli
from lakegc_core.config.settings import Settings
from lakegc_dagster.definitions import defs as ready

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LINES = "".join(block for kind, block in BLOCKS if not kind).splitlines()
COMMANDS = [shlex.split(line, comments=True) for line in LINES if line.strip()]


def blocks(kind: str) -> list[str]:
    return [block for each, block in BLOCKS if each == kind]


def switches(definitions: Any) -> dict[str, set[str]]:
    """What can be turned on, by kind."""
    repository = definitions.get_repository_def()
    return {
        "sensor": {each.name for each in repository.sensor_defs},
        "schedule": {each.name for each in repository.schedule_defs},
    }


def test_its_settings_are_read_and_delete_nothing_at_first(tmp_path: Path) -> None:
    found = []
    for number, block in enumerate(blocks("yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        found.append(Settings.load(str(file), {"HOME": str(tmp_path)}))
    nights, trial = found
    assert nights.price and not any(each.sweep or each.safety == "none" for each in nights.repositories)
    assert trial.policy_for("sandbox").sweep and trial.policy_for("sandbox").safety == "none"
    assert not trial.policy_for("analytics").mark and not trial.policy_for("analytics").sweep


def test_its_definitions_load_and_have_what_it_turns_on() -> None:
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)
    dg.Definitions.validate_loadable(names["defs"])
    assert switches(names["defs"]) == switches(ready)


def test_its_commands_name_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    started = [command[1:4] for command in COMMANDS if command[0] == "dagster" and "start" in command]
    assert len(started) == 4
    assert all(name in switches(ready)[kind] for kind, _, name in started)
    own = [command[1:] for command in COMMANDS if command[0] == "lakegc"]
    assert {verb for verb, *_ in own} == {"mark", "marks", "review", "sweep"}
    for verb, *arguments in own:
        with pytest.raises(SystemExit, match="0"):
            cli.main([verb, "--help"])
        said = capsys.readouterr().out
        assert all(each in said for each in arguments if each.startswith("--"))
    copied = [command[1] for command in COMMANDS if command[0] == "cp" and not command[1].startswith("..")]
    assert copied and all((ROOT / name).is_file() for name in copied)
