"""The documents name what there is: links, paths, functions and keys of lakegc.yaml; and README stays short."""

from __future__ import annotations

import argparse
import ast
import math
import os
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from lakegc_core.cli.entry import VERBS, parser
from lakegc_core.cli.verb import from_elsewhere
from lakegc_core.config.settings import Settings
from lakegc_core.errors import SettingsError
from tests.support.links import DOCUMENTS, LINKING, ROOT, broken, prose

LONGEST = 200
"""Lines of README."""
TWO_PAGES = 120
"""Lines of 120 characters."""
SECTIONS: dict[str, dict[str, object]] = {
    "": {},
    "server": {},
    "stores": {"match": "s3://lake", "versions": "delete"},
    "spark": {},
    "scale": {},
    "price": {"per_gb_month": 1},
    "metrics": {},
    "neighbours": {},
    "repositories": {"match": "*"},
}
"""Mappings of lakegc.yaml whose keys are fixed, each with the keys that it needs; "" is the top level."""

_PATH = re.compile(r"[\w*-][\w.*-]*(?:/[\w.*-]+)*/?")
_ENDINGS = (".py", ".md", ".toml", ".lock", ".example", ".png")
_FUNCTION = re.compile(r"`([\w/]+\.py)`: `(\w+)(?:\.(\w+))?`")


def names(documents: list[Path]) -> list[str]:
    return [document.relative_to(ROOT).as_posix() for document in documents]


@cache
def files() -> frozenset[str]:
    """Every file of the project, and every folder with a slash at its end."""
    found: set[str] = set()
    for folder, below, here in os.walk(ROOT):
        below[:] = [name for name in below if not name.startswith((".", "__")) and name != "build"]
        place = Path(folder).relative_to(ROOT).as_posix()
        found |= {f"{place}/".removeprefix("./"), *(f"{place}/{name}".removeprefix("./") for name in here)}
    return frozenset(found)


@cache
def top_folders() -> frozenset[str]:
    return frozenset(name.partition("/")[0] for name in files() if "/" in name)


def is_path(text: str) -> bool:
    """Whether a text in backticks names a file or a folder of the project."""
    if not _PATH.fullmatch(text):
        return False
    return text.endswith(_ENDINGS) or ("/" in text and text.partition("/")[0] in top_folders())


def exists(path: str) -> bool:
    """Whether a file or a folder is called so, from the root or below some folder."""
    wanted = path if path in files() or path.endswith(_ENDINGS) else f"{path.rstrip('/')}/"
    return any(name == wanted or name.endswith(f"/{wanted}") for name in files())


def keys_of(section: str, folder: Path) -> set[str]:
    """The keys that the settings know in a section: what they name when they meet one that they do not know."""
    unknown = SECTIONS[section] | {"no-such-key": 1}
    content = {section: [unknown] if "match" in unknown else unknown} if section else unknown
    file = folder / "lakegc.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        Settings.load(str(file), {"HOME": str(folder)})
    told = re.search(r"allowed are ([\w, ]+)", str(caught.value))
    assert told, str(caught.value)
    return set(told[1].strip().split(", "))


def documented_keys() -> dict[str, set[str]]:
    """The keys in the tables of docs/settings.md, by the section that their heading names."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    found: dict[str, set[str]] = {}
    for part in re.split(r"^#{2,3} ", text, flags=re.MULTILINE)[1:]:
        heading = part.partition("\n")[0].strip()
        found[heading] = set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
    return found


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("name", names(LINKING))
def test_every_relative_link_leads_to_a_file_and_a_heading(name: str) -> None:
    assert broken(ROOT / name) == []


@pytest.mark.parametrize("name", names(DOCUMENTS))
def test_every_path_that_is_named_exists(name: str) -> None:
    found = {text for text in re.findall(r"`([^`\n]+)`", prose(ROOT / name)) if is_path(text)}
    assert sorted(path for path in found if not exists(path)) == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "docs/thirty-tasks.md"])
def test_every_function_stands_in_the_module_that_is_named_with_it(name: str) -> None:
    wrong = []
    for module, outer, inner in _FUNCTION.findall(prose(ROOT / name)):
        places = [path for path in files() if path == module or path.endswith(f"/{module}")]
        defined = {
            node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else node.id
            for path in places
            for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        }
        wrong += [f"{module}: {each}" for each in (outer, inner) if each and each not in defined]
    assert wrong == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_lakegc_yaml_stands_in_the_table_of_its_section(section: str, tmp_path: Path) -> None:
    known, documented = keys_of(section, tmp_path), documented_keys()
    if section:
        assert documented[section] == known
    else:
        assert known - documented["lakegc.yaml"] == SECTIONS.keys() - {""}
        assert known >= documented["lakegc.yaml"]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of lakegc in backticks and blocks, each with its options."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks = "".join(block for language, block in found if not language)
    lines = [*re.findall(r"`(lakegc [^`\n]+)`", text), *re.findall(r"^(lakegc .+)$", blocks, re.MULTILINE)]
    words = [line.partition("#")[0].split() for line in lines]
    of_verbs = [each for each in words if each[1] != "VERB" and not each[1].startswith("--")]
    return [(each[1], [word for word in each if word.startswith("--")]) for each in of_verbs]


@pytest.mark.parametrize("name", names(DOCUMENTS))
def test_every_command_that_is_named_exists_with_its_options(name: str) -> None:
    verbs = next(
        action.choices
        for action in parser([*VERBS, *from_elsewhere()])._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    for verb, options in commands((ROOT / name).read_text(encoding="utf-8")):
        assert verb in verbs, verb
        assert set(options) <= {each for action in verbs[verb]._actions for each in action.option_strings}, verb


def test_architecture_shows_the_house_on_two_pages_before_its_glossary() -> None:
    house = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("\n## Glossary\n")[0]
    assert sum(max(1, math.ceil(len(line) / 120)) for line in house.splitlines()) <= TWO_PAGES


def test_architecture_names_every_room_of_the_core() -> None:
    named = set(re.findall(r"^\| (`.+?`) \| ", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE))
    rooms = {room.strip("`/") for each in named for room in each.split(", ")}
    core = ROOT / "lakegc_core"
    assert {each.parent.name for each in core.glob("*/__init__.py")} <= rooms
    assert {each.name for each in core.glob("*.py")} - {"__init__.py"} <= rooms


@pytest.mark.parametrize("package", ["lakegc_core", "lakegc_dagster", "lakegc_sandbox"])
def test_every_module_opens_with_a_sentence_that_says_what_it_holds(package: str) -> None:
    """ARCHITECTURE.md sends its readers there."""
    files = [each for each in (ROOT / package).rglob("*.py") if each.stat().st_size]
    assert files and [each.name for each in files if not each.read_text(encoding="utf-8").startswith('"""')] == []


def test_every_task_has_an_answer_below_the_tasks() -> None:
    text = (ROOT / "docs" / "thirty-tasks.md").read_text(encoding="utf-8")
    tasks, answers = text.partition("\n## Answers\n")[::2]
    numbers = [str(number) for number in range(1, 31)]
    assert [re.findall(r"^([0-9]+)\. ", part, re.MULTILINE) for part in (tasks, answers)] == [numbers, numbers]
    assert not re.search(r"\w\.py\b", tasks)
