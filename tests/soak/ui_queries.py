"""What Dagster's UI asks its webserver, in the UI's own words: read from the source maps that dagster-webserver brings.

So a page is timed by what it really costs, and a new release of Dagster by what it asks then. Which queries make up a
page belongs in `pages`.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from pathlib import Path

from graphql import (
    DefinitionNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    NameNode,
    OperationDefinitionNode,
    SelectionSetNode,
    Visitor,
    parse,
    print_ast,
    visit,
)

_WEBSERVER = importlib.util.find_spec("dagster_webserver")
assert _WEBSERVER is not None and _WEBSERVER.origin, "dagster-webserver is a development dependency"
_BUILD = Path(_WEBSERVER.origin).parent / "webapp" / "build"
_BLOCK = re.compile(r"gql`(\s*(?:query|fragment|mutation)\s.*?)`", re.DOTALL)
_SLOT = re.compile(r"\$\{\w+\}")  # where the UI puts in a fragment of another file


@functools.cache
def query(name: str) -> str:
    """The query or mutation of that name, with every fragment that it uses. LookupError if the UI has none."""
    return "\n".join(print_ast(visit(definition, _Typed())) for definition in _with_fragments(name))


class _Typed(Visitor):
    """The UI's client asks of everything what it is."""

    def leave_selection_set(self, node: SelectionSetNode, *_: object) -> SelectionSetNode:
        return SelectionSetNode(selections=(*node.selections, FieldNode(name=NameNode(value="__typename"))))


def _with_fragments(name: str) -> list[DefinitionNode]:
    known, found, wanted = _definitions(), dict[str, DefinitionNode](), [name]
    while wanted:
        each = wanted.pop()
        if each in found:
            continue
        if each not in known:
            raise LookupError(
                f"The UI of this dagster-webserver has no {each} in the source maps below {_BUILD}: look how it is "
                "called there now, and say so in tests/soak/pages.py."
            )
        found[each] = known[each]
        wanted += _spreads(known[each])
    return list(found.values())


def _spreads(definition: DefinitionNode) -> list[str]:
    names: list[str] = []

    class Collect(Visitor):
        def enter_fragment_spread(self, node: FragmentSpreadNode, *_: object) -> None:
            names.append(node.name.value)

    visit(definition, Collect())
    return names


@functools.cache
def _definitions() -> dict[str, DefinitionNode]:
    """Every operation and fragment of the UI, by name."""
    found: dict[str, DefinitionNode] = {}
    for file in sorted(_BUILD.rglob("*.js.map")):
        for source in json.loads(file.read_text(encoding="utf-8")).get("sourcesContent", ()):
            for block in _BLOCK.findall(source or ""):
                for definition in parse(_SLOT.sub("", block), no_location=True).definitions:
                    if isinstance(definition, (OperationDefinitionNode, FragmentDefinitionNode)) and definition.name:
                        found[definition.name.value] = definition
    return found
