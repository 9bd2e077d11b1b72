"""`make size`: lines of code of lakegc_core by room, without blank lines, comments, docstrings and imports.

`python -m tests.support.size FOLDER` counts another package.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_EMPTY = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> int:
    """The lines of a module that hold code."""
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _EMPTY:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - set(_lines_of_text(ast.parse(source))))


def _lines_of_text(tree: ast.Module) -> Iterator[int]:
    """The lines of imports and of strings that stand alone: docstrings, also those below a constant or a field."""
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def by_room(package: Path) -> tuple[Counter[str], Counter[str]]:
    """Lines of code, and files, of each room: a folder or a module directly below the package."""
    lines, files = Counter[str](), Counter[str]()
    for file in sorted(package.rglob("*.py")):
        room = file.relative_to(package).parts[0]
        lines[room] += code_lines(file.read_text(encoding="utf-8"))
        files[room] += 1
    return lines, files


def main(package: Path) -> None:
    lines, files = by_room(package)
    whole = lines.total()
    for room, count in lines.most_common():
        print(f"{room:<18}{count:>8,}{count / whole:>8.1%}{files[room]:>6} files")
    print(f"{'together':<18}{whole:>8,}{1:>8.0%}{files.total():>6} files")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "lakegc_core"))
