"""Generated repositories: what a mark must find in one follows from its files alone, and is what its shape says."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.generate import BRANCH_OBJECTS, GeneratedLake, Shape
from lakegc_core.lakefs import graveler
from lakegc_core.namespace import slice_time, xid_times
from lakegc_core.sandbox.gc_prepare import PageLimits, prepare_commits, prepare_uncommitted

SHAPE = Shape(
    objects=2_000,
    commits=60,
    branches=8,
    staged=150,
    garbage=300,
    retained=9,
    dropped=4,
    spare=(40, 50),
    range_entries=100,
    slice_objects=70,
)
_DAY = 86_400


class Generated:
    """A repository of SHAPE, and what can be read of it where a collector reads."""

    def __init__(self, root: Path, shape: Shape = SHAPE) -> None:
        self.noted: list[str] = []
        self.lake = GeneratedLake(root, shape, self.noted.append)

    def file(self, location: str) -> Path:
        """A location as the server tells it."""
        return self.lake.sandbox.root / location.removeprefix("s3://")

    def stored(self) -> dict[str, float]:
        """All objects, and when each was last modified."""
        root = self.lake.folder
        return {str(path.relative_to(root)): path.stat().st_mtime for path in root.glob("data/*/*")}

    def staged(self) -> list[str]:
        answer = prepare_uncommitted(self.lake.repository, None, PageLimits())
        table = pa.concat_tables(map(pq.read_table, self.file(answer["gc_uncommitted_location"]).iterdir()))
        return [str(address) for address in table["physical_address"].to_pylist()]

    def ranges(self) -> dict[str, int]:
        """The ranges of the commits that the server calls active, and what metaranges say of their counts."""
        answer = prepare_commits(self.lake.repository)
        found: dict[str, int] = {}
        for row in csv.DictReader(io.StringIO(self.file(answer["gc_commits_location"]).read_text())):
            metarange = graveler.read_metarange(self.table(row["metarange_id"]), expected_id=row["metarange_id"])
            found |= dict(zip(metarange["range_id"].to_pylist(), metarange["count"].to_pylist(), strict=True))
        return found

    def committed(self) -> list[str]:
        """The addresses in those ranges."""
        found: list[str] = []
        for range_id, count in self.ranges().items():
            entries = graveler.read_range(self.table(range_id), count=count, expected_id=range_id)
            found += entries["address"].to_pylist()
        return found

    def table(self, table_id: str) -> bytes:
        return (self.lake.folder / "_lakefs" / table_id).read_bytes()

    def unreferenced(self) -> set[str]:
        return self.stored().keys() - set(self.staged()) - set(self.committed())


@pytest.fixture(scope="module", params=[SHAPE, replace(SHAPE, touched=(3, 5), lean=True)], ids=["plain", "lean"])
def generated(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Generated:
    return Generated(tmp_path_factory.mktemp("lake"), request.param)


def test_what_the_sandbox_refers_to_leaves_the_planned_garbage(generated: Generated) -> None:
    assert generated.unreferenced() == set(generated.noted)
    assert len(generated.noted) == len(set(generated.noted)) == generated.lake.garbage == SHAPE.garbage


def test_the_repository_holds_what_its_shape_says(generated: Generated) -> None:
    refs = generated.lake.repository.refs
    assert len(generated.stored()) == SHAPE.objects
    assert len(refs.commits) == SHAPE.commits
    assert len([name for name in refs.branches if not name.startswith("spare")]) == SHAPE.branches
    assert len(generated.staged()) == len(set(generated.staged())) == SHAPE.staged


def test_the_entries_that_a_mark_reads_are_counted(generated: Generated) -> None:
    ranges = generated.ranges()
    assert len(ranges) > SHAPE.branches
    assert max(ranges.values()) == SHAPE.range_entries
    assert sum(ranges.values()) == len(generated.committed()) == generated.lake.entries


def test_what_is_touched_lies_in_ranges_of_every_retained_commit_and_refers_to_the_same_objects(
    generated: Generated,
) -> None:
    ranges, entries = generated.lake.shape.touched
    held = generated.committed()
    assert len(held) - len(set(held)) >= ranges * entries * (SHAPE.retained - 1)


def test_every_object_is_as_old_as_its_name_and_its_slice_say(generated: Generated) -> None:
    now = generated.lake.sandbox.clock()
    slices: dict[str, int] = {}
    for address, modified in generated.stored().items():
        _, place, name = address.split("/")
        begun = slice_time(place)
        assert begun is not None and begun <= modified < begun + 3600
        assert modified == xid_times(pa.array([name]))[0]
        assert 2 * _DAY - 3600 <= now - modified <= 81 * _DAY
        slices[place] = slices.get(place, 0) + 1
    assert max(slices.values()) == SHAPE.slice_objects


def test_a_change_commits_young_objects_and_drops_a_branch(tmp_path: Path) -> None:
    changed = Generated(tmp_path)
    for number in (1, 2):
        changed.lake.change(30)
        young = [each for each in changed.stored().values() if each > changed.lake.sandbox.clock() - 2 * 3600]
        assert len(young) == 30 * number
        assert len(changed.unreferenced()) == SHAPE.garbage + sum(SHAPE.spare[:number])
    assert changed.unreferenced() == set(changed.noted)
    assert sum(changed.ranges().values()) == changed.lake.entries


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slice_objects": 50_001}, "a slice takes"),
        ({"commits": 20}, "leave"),
        ({"objects": 500}, "too few"),
        ({"objects": 5_000, "slice_objects": 1}, "need slices of more"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    shape = {"objects": 2_000, "commits": 60, "branches": 8, "staged": 150, "garbage": 300} | changes
    with pytest.raises(ValueError, match=said):
        Shape(**shape)


def test_a_branch_has_objects_of_its_own(generated: Generated) -> None:
    refs = generated.lake.repository.refs
    heads = {name: refs.commit(refs.branches[name].commit_id) for name in ("main", "branch-00000")}
    ids = {
        name: set(graveler.read_metarange(generated.table(head.meta_range_id))["range_id"].to_pylist())
        for name, head in heads.items()
    }
    (own,) = ids["branch-00000"] - ids["main"]
    assert len(graveler.read_range(generated.table(own))) == BRANCH_OBJECTS
