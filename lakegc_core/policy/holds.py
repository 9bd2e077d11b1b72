"""Holds: KIND:PATTERN, what each kind means, and which of them cannot mean anything. Pure functions.

`tag:` and `branch:` take patterns of names, `commit:` an id or its beginning, `path:` a glob of paths. `retention` says
which commits a hold keeps, `held_paths` of stage 4 looks entries up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.policy.globs import as_texts, matches, name_glob, path_glob

KINDS = TAG, COMMIT, BRANCH, PATH = ("tag", "commit", "branch", "path")

_ID_DIGITS = 64
HOLD = rf"^({COMMIT}:[0-9a-f]{{1,{_ID_DIGITS}}}|({TAG}|{BRANCH}):\S([\s\S]*\S)?|{PATH}:[^/\s]([\s\S]*[^/\s])?)$"
"""The holds that `problem_of` takes, as a pattern of JSON Schema."""
_WILDCARDS = re.compile(r"[*?]")


def problem_of(hold: object) -> str | None:
    """The reason why this is no hold, or one that cannot hold anything, and what to write; None for a good hold."""
    kind, _, pattern = hold.partition(":") if isinstance(hold, str) else ("", "", "")
    if kind not in KINDS or not pattern.strip():
        return f"{hold!r} is no hold; write {' or '.join(f'{allowed}:PATTERN' for allowed in KINDS)}"
    if pattern != pattern.strip():
        meant = f"{kind}:{pattern.strip()}"
        return f"{hold!r} has white space around its pattern, so it would hold nothing; write {meant!r}"
    if any("\ud800" <= letter <= "\udfff" for letter in pattern):
        return f"{hold!r} holds a character that no name has, so it would hold nothing; write ? for it"
    if kind == COMMIT:
        return _problem_of_id(pattern)
    if kind == PATH and pattern.strip("/") != pattern:
        bare = pattern.strip("/")
        meant = f"{bare}/**" if pattern.endswith("/") and bare else bare or "**"
        return (
            f"{hold!r} begins or ends with a slash, as folders do; a hold means whole paths, so it would keep nothing "
            f"of what lies in the folder; write 'path:{meant}'"
        )
    return None


def _problem_of_id(digits: str) -> str | None:
    if re.fullmatch(f"[0-9a-f]{{1,{_ID_DIGITS}}}", digits):
        return None
    if re.fullmatch(f"[0-9A-Fa-f]{{1,{_ID_DIGITS}}}", digits):
        why, instead = "ids of commits are lower-case", f"'commit:{digits.lower()}'"
    else:
        why, instead = f"an id is up to {_ID_DIGITS} digits of 0-9a-f", "commit:ID, with the id or its beginning"
    return f"'commit:{digits}' is no id of a commit ({why}), so it would hold nothing; write {instead}"


def patterns_of(holds: Iterable[str], kind: str) -> tuple[str, ...]:
    """The patterns of the holds of one kind, each once, sorted."""
    return tuple(sorted({hold.removeprefix(f"{kind}:") for hold in holds if hold.startswith(f"{kind}:")}))


def matching_names(pattern: str, names: Sequence[str]) -> list[bool]:
    """True for each name (of a tag or a branch) that a pattern means. A name has no folders: `*` is any text."""
    found: list[bool] = matches(name_glob(pattern), pa.array(names, pa.string())).to_pylist()
    return found


@dataclass(frozen=True)
class PathGlobs:
    """Some globs of paths."""

    globs: tuple[str, ...]

    def each(self, paths: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
        """A truth value a path for each glob, in order. `paths`: strings, or bytes that need not be UTF-8."""
        texts = as_texts(paths)
        return [matches(path_glob(glob), texts) for glob in self.globs]

    def any(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """True for each path that one of the globs means."""
        found = pa.repeat(False, len(paths))
        for mask in self.each(paths):
            found = pc.or_(found, mask)
        return found


def fixed_prefix(glob: str) -> bytes:
    """The text that begins every path that a glob of paths means."""
    return _WILDCARDS.split(glob, maxsplit=1)[0].encode("utf-8", "surrogateescape")
