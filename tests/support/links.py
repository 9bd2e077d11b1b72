"""Where the documents are, and which of their links lead nowhere. `python -m tests.support.links` checks them all."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = ("README.md", "ARCHITECTURE.md", "SAFETY.md", "CONTRIBUTING.md")
DOCUMENTS = [ROOT / name for name in NAMED] + sorted((ROOT / "docs").glob("*.md"))
LINKING = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "deploy" / "README.md"]
"""Every document with links; `make docs` makes a site of them."""

_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(document: Path) -> str:
    """A document without its blocks of code."""
    return _BLOCK.sub("", document.read_text(encoding="utf-8"))


def anchor(heading: str) -> str:
    """What a link to a heading ends in, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(document: Path) -> set[str]:
    """The headings of a document, as links name them."""
    return {anchor(heading) for heading in _HEADING.findall(prose(document))}


def broken(document: Path) -> list[str]:
    """The relative links of a document that lead to no file, or to no heading in it."""
    found = []
    for target in _LINK.findall(prose(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (heading and heading not in headings(file)):
            found.append(target)
    return found


def main() -> int:
    """Print every broken link; 1 if there is one."""
    lines = [
        f"{document.relative_to(ROOT)}: {target} leads nowhere" for document in LINKING for target in broken(document)
    ]
    print("\n".join(lines) or f"All links of {len(LINKING)} documents lead to a file and a heading.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
