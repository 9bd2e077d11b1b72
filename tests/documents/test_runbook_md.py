"""docs/runbook.md has a section for every guard and every symptom that messages name, and names nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from lakegc_core.names import Symptom, see
from lakegc_core.policy.guards import BY_NAME, GUARDS
from tests.support.links import DOCUMENTS, ROOT, anchor, prose

RUNBOOK = ROOT / "docs" / "runbook.md"
TEXT = RUNBOOK.read_text(encoding="utf-8")
PACKAGES = ("lakegc_core", "lakegc_dagster", "lakegc_sandbox")
PARTS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


def sections(text: str) -> dict[str, str]:
    """The sections of the third level, by their headings."""
    found = [part.partition("\n") for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]]
    return {heading: body for heading, _, body in found}


OF_GUARDS = sections(next(part for part in PARTS if part.startswith("A guard refuses\n")))


HEADINGS = re.findall(r"^### (.+)$", prose(RUNBOOK), re.MULTILINE)


def nodes() -> Iterator[ast.AST]:
    """The syntax of all code."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield from ast.walk(ast.parse(file.read_text(encoding="utf-8")))


def test_every_guard_has_its_section_in_the_order_of_the_table_and_no_other_section_is_among_them() -> None:
    assert list(OF_GUARDS) == [guard.name for guard in GUARDS]


@pytest.mark.parametrize("name", BY_NAME)
def test_the_section_of_a_guard_says_what_was_seen_what_to_do_and_whether_it_may_be_accepted(name: str) -> None:
    section, guard = OF_GUARDS[name], BY_NAME[name]
    assert "**What lakegc saw.**" in section and "**What to do.**" in section
    told = section.partition("**Override:**")[2].split()[0].strip(".;")
    stops = guard.severity == "ERROR"
    assert told == ("if" if guard.may_be_accepted else "no" if stops else "not")


def test_every_symptom_that_messages_name_has_a_section() -> None:
    assert [anchor(heading) for heading in HEADINGS] == HEADINGS and len(set(HEADINGS)) == len(HEADINGS)
    assert {symptom.value for symptom in Symptom} <= set(HEADINGS) - BY_NAME.keys()


def test_every_symptom_is_named_by_some_message_and_what_else_messages_name_are_guards() -> None:
    used, guards = set(), set()
    for node in nodes():
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Symptom":
            used.add(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "see" and isinstance(node.args[0], ast.Constant):
            guards.add(node.args[0].value)
    assert used == set(Symptom.__members__)
    assert guards and guards <= BY_NAME.keys()


def test_no_code_and_no_document_names_a_section_in_another_way_that_does_not_exist() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")] + [*DOCUMENTS]
    found = {name for file in files for name in re.findall(r"runbook\.md#([\w-]+)", file.read_text(encoding="utf-8"))}
    assert found - {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose(RUNBOOK), re.MULTILINE)} == set()


def test_the_sentence_names_the_file_from_the_root_and_the_heading() -> None:
    place = see(Symptom.LEASE_HELD).removeprefix("See ").rstrip(".")
    path, _, heading = place.partition("#")
    assert (ROOT / path) == RUNBOOK and heading in HEADINGS
