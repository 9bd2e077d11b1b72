"""Objects of one repository that another one of the same lakeFS has imported by their address.

Nothing of this repository refers to them any more, and only the other one's marks say that somebody does. `FAR` is in
order; the newest mark of `BROKEN` cannot be read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.judging import expired
from lakegc_core.marks.artifacts import HOME
from lakegc_core.policy.facts import NeighbourFacts
from lakegc_core.references import of_neighbours
from lakegc_core.references.of_neighbours import KEYS_SCHEMA, NeighbourReferences
from lakegc_core.sweep import look, planning
from lakegc_core.tables.dataset import Dataset
from tests.interleavings.rig import Lake, Mechanism, Row, Story, row, stopped_by

FAR, BROKEN = "far", "broken"
NOTHING = NeighbourFacts(repositories=0, unknown=0, named=(), within=1.0, addresses=0)


def _nothing(spark: object, context: object, out: object) -> NeighbourReferences:
    return NeighbourReferences(Dataset(KEYS_SCHEMA), NOTHING)


def _not_at_all(patch: pytest.MonkeyPatch) -> None:
    for module in (expired, look):
        patch.setattr(module, "read_references", _nothing)


MARKS = Mechanism("a mark keeps what neighbours' marks refer to", _not_at_all)
LOOK = Mechanism(
    "the look reads neighbours' newest marks", lambda patch: patch.setattr(look, "read_references", _nothing)
)
LAYERS = Mechanism(
    "marks that the newest one rests on count",
    lambda patch: patch.setattr(
        of_neighbours, "layers_of", lambda newest, all_of=of_neighbours.layers_of: all_of(newest)[:1]
    ),
)
READINGS = Mechanism(
    "an address counts by each of its readings",
    lambda patch: patch.setattr(
        of_neighbours.Namespace, "may_hold", lambda self, addresses: _as_written(self.uri, addresses)
    ),
)


def _only_the_newest_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(of_neighbours, "_MARKS", 1)
    patch.setattr(planning, "forgotten", lambda *_: False)  # or the sweep is refused: nothing is known of the neighbour


BEFORE = Mechanism("the mark before one that cannot be read counts", _only_the_newest_mark)
GROUPS = {each.name: each.name for each in (MARKS, LOOK, LAYERS, READINGS, BEFORE)}


def _as_written(uri: str, addresses: Any) -> Any:
    import pyarrow.compute as pc

    return pc.and_(pc.starts_with(addresses, f"{uri}/"), pc.invert(pc.match_substring(addresses, "%")))


def _imported(lake: Lake, name: str, path: str, moment: str, *, encoded: bool = False) -> Row:
    """An object that was uploaded and dropped here, and that another repository imports on a branch of its own."""
    content = lake.content()
    address = lake.repository.place.qualify(lake.forgotten(content))
    if encoded:
        address = address.replace("data/", "d%61ta/")

    def imports() -> None:
        other = lake.sandbox.repository(name)
        other.create_branch(path, next(iter(other.refs.commits)))
        other.import_objects(path, {"a": (address, len(content))})

    return row(f"{name}:{path}", "a", **{moment: imports})


@stopped_by(MARKS)
def test_another_repository_has_imported_an_object_by_its_address(lake: Lake) -> Row:
    return _imported(lake, FAR, "plain", "before_its_last_mark")


@stopped_by(LAYERS)
def test_another_repository_imported_it_before_an_optimized_mark(lake: Lake) -> Row:
    return _imported(lake, FAR, "layers", "before_its_first_mark")


@stopped_by(READINGS)
def test_another_repository_imported_it_by_an_encoded_address(lake: Lake) -> Row:
    return _imported(lake, FAR, "encoded", "before_its_last_mark", encoded=True)


@stopped_by(BEFORE)
def test_another_repository_imported_it_and_its_newest_mark_is_damaged(lake: Lake) -> Row:
    return _imported(lake, BROKEN, "damaged", "before_its_first_mark")


@stopped_by(LOOK)
def test_another_repository_imports_it_after_the_mark_and_is_marked(lake: Lake) -> Row:
    return _imported(lake, FAR, "later", "after_the_mark")


class Neighbours(Story):
    """Two other repositories are marked twice, then the lake is; one of them is marked once more before its sweep."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        found.options["safety_level"] = "standard"
        others = [
            found.sandbox.create_repository(each, f"s3://{each}", age=timedelta(days=99)) for each in (FAR, BROKEN)
        ]
        for each in others:
            each.set_rules(7)
        super().__init__(found)
        found.wait()
        self.empty = {each.name: each.backup() for each in others}
        self.saved = found.save()
        self.said: list[str] = []

    def tell(self, off: frozenset[str]) -> None:
        found = self.lake
        found.rewind(self.saved)
        for name, backup in self.empty.items():
            found.sandbox.repository(name).restore(backup)
            shutil.rmtree(found.folder / name / HOME, ignore_errors=True)
        self.fire("before_its_first_mark")
        self._mark_others("n1")
        self.fire("before_its_last_mark")
        self._mark_others("n2")
        _damage(found.folder / BROKEN / HOME / "marks/n2/committed_addresses/manifest.json")
        found.wait(hours=1)
        context = found.mark("m1")
        self.fire("after_the_mark")
        found.mark("n3", name=FAR)
        found.wait(hours=1)
        found.sweep("m1")
        if not off:
            facts = context.mark.require("expired_addresses").facts
            self.said = [f"{name}: {why}" for name, why in facts["neighbours"]["named"]]
            assert facts["neighbour"]["objects"] == 4

    def _mark_others(self, mark_id: str) -> None:
        for name in (FAR, BROKEN):
            self.lake.wait(minutes=5)
            self.lake.mark(mark_id, name=name)


def _damage(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"rows"', b'"sows"', 1))


def test_the_neighbour_whose_mark_does_not_read_is_named(story: Neighbours, lost: Callable[[str, bool], bool]) -> None:
    lost(test_another_repository_has_imported_an_object_by_its_address.__name__, True)
    assert len(story.said) == 1
    assert story.said[0].startswith(f"{BROKEN}: its newest mark cannot be read")
