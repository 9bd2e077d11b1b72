"""A verb of `lakegc`, and the way in which other packages bring theirs.

An entry point of the group `lakegc.verbs` names a `Verb`. So `lakegc_sandbox` has its verbs here, and the core does not
know it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakegc_core.views.progress import Reporter

GROUP = "lakegc.verbs"


@dataclass(frozen=True)
class Verb:
    """One verb. `run` returns the exit code; `text` is its line in `lakegc --help`."""

    name: str
    text: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Reporter], int]


def from_elsewhere() -> list[Verb]:
    """The verbs of other packages, by name. One whose package is not installed is left out."""
    from importlib.metadata import entry_points  # here, because lakegc's own verbs do without it

    found: list[Verb] = []
    for each in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found.append(each.load())
        except ModuleNotFoundError:
            continue
    return found
