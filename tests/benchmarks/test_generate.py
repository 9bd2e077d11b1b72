"""Generated repositories: what a mark must find in one follows from its files alone, and is what its shape says."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.generate import BRANCH_OBJECTS, BUCKET, REPOSITORY, GeneratedLake, Shape
from lakegc_core.lakefs.files import graveler
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.xids import slice_time, xid_times
from lakegc_sandbox.model.gc_prepare import PageLimits, prepare_commits, prepare_uncommitted
from tests.support.servers import rclone_s3

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

    def sizes(self) -> dict[str, int]:
        """All objects, and how long each file is."""
        root = self.lake.folder
        return {str(path.relative_to(root)): path.stat().st_size for path in root.glob("data/*/*")}

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
        return [str(entry["address"]) for entry in self.entries()]

    def entries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for range_id, count in self.ranges().items():
            entries = graveler.read_range(self.table(range_id), expected_id=range_id).to_pylist()
            assert len(entries) == count
            found += entries
        return found

    def claimed(self) -> dict[str, int]:
        """The sizes that entries claim, committed and staged ones, by address."""
        claimed = {entry["address"]: entry["size"] for entry in self.entries()}
        for branch in self.lake.repository.refs.branches.values():
            claimed |= {entry.address: entry.size for entry in branch.staging.values() if entry}
        return claimed

    def claimed_e_tags(self) -> dict[str, str]:
        """The same of their ETags."""
        claimed = {entry["address"]: entry["e_tag"] for entry in self.entries()}
        for branch in self.lake.repository.refs.branches.values():
            claimed |= {entry.address: entry.e_tag for entry in branch.staging.values() if entry}
        return claimed

    def e_tags(self) -> list[str]:
        return [str(entry["e_tag"]) for entry in self.entries()]

    def table(self, table_id: str) -> bytes:
        return (self.lake.folder / "_lakefs" / table_id).read_bytes()

    def unreferenced(self) -> set[str]:
        return self.stored().keys() - set(self.staged()) - set(self.committed())


@pytest.fixture(
    scope="module",
    params=[SHAPE, replace(SHAPE, touched=(3, 5), lean=True), replace(SHAPE, added_every=4)],
    ids=["plain", "lean", "rare"],
)
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


def test_every_object_has_a_size_of_its_own_which_its_entry_claims_and_takes_no_room(generated: Generated) -> None:
    sizes = generated.sizes()
    assert len(set(sizes.values())) == len(sizes) == SHAPE.objects
    assert min(sizes.values()) > 0
    claimed = generated.claimed()
    assert len(claimed) > SHAPE.range_entries
    assert {address: sizes[address] for address in claimed} == claimed
    assert not any((generated.lake.folder / address).stat().st_blocks for address in sizes)


def test_sizes_can_be_few_and_coincide_with_those_of_garbage(tmp_path: Path) -> None:
    generated = Generated(tmp_path, replace(SHAPE, sizes=7))
    sizes = generated.sizes()
    assert len(set(sizes.values())) == 7
    assert {sizes[address] for address in generated.noted} == set(generated.claimed().values()) == set(sizes.values())
    assert generated.unreferenced() == set(generated.noted)


def test_identical_files_are_of_one_content_and_are_rewritten_to_other_paths(tmp_path: Path) -> None:
    generated = Generated(tmp_path, replace(SHAPE, sizes=1))
    assert set(generated.sizes().values()) == {1}
    assert set(generated.e_tags()) == {md5(b"\0").hexdigest()}
    assert generated.unreferenced() == set(generated.noted)
    assert len(generated.noted) == SHAPE.garbage


def test_objects_can_have_one_size_and_each_a_content_of_its_own_of_which_entries_claim_the_md5(tmp_path: Path) -> None:
    generated = Generated(tmp_path, replace(SHAPE, length=48))
    stored = {address: (generated.lake.folder / address).read_bytes() for address in generated.stored()}
    assert set(generated.sizes().values()) == set(generated.claimed().values()) == {48}
    assert len(set(stored.values())) == len(stored) == SHAPE.objects
    claimed = generated.claimed_e_tags()
    assert len(claimed) == SHAPE.objects - SHAPE.garbage
    assert claimed == {address: md5(stored[address]).hexdigest() for address in claimed}
    assert generated.unreferenced() == set(generated.noted)


def test_a_store_on_the_same_files_lists_and_proves_what_entries_claim(tmp_path: Path) -> None:
    small = replace(SHAPE, objects=400, staged=20, garbage=60, commits=30, spare=(), length=64)
    generated = Generated(tmp_path / "lake", small)
    claimed = generated.claimed_e_tags()
    with rclone_s3(generated.lake.sandbox.root, BUCKET, tmp_path) as server:
        store = server.config(REPOSITORY).connect()
        listed = pa.Table.from_batches(store.list("data/"))
        some = sorted(claimed)[:20]
        proven = {address: store.head(address).digest for address in some}
    told = dict(zip(listed["address"].to_pylist(), listed["etag"].to_pylist(), strict=True))
    assert {address: told[address] for address in claimed} == claimed
    assert proven == {address: f"md5:{claimed[address]}" for address in some}


def test_what_is_uploaded_together_can_share_a_size_but_garbage_shares_none_with_what_lives(tmp_path: Path) -> None:
    generated = Generated(tmp_path, replace(SHAPE, by_lot=True))
    sizes, garbage = generated.sizes(), set(generated.noted)
    assert len(set(sizes.values())) < SHAPE.objects / 10
    assert {sizes[address] for address in garbage}.isdisjoint(sizes[each] for each in sizes.keys() - garbage)


def test_every_name_is_one_that_lakefs_gives(generated: Generated) -> None:
    addresses = pa.array(generated.stored().keys(), pa.string())
    assert pc.all(
        Namespace(generated.lake.repository.place.namespace).deletable(addresses, unknown_names=False)
    ).as_py()


def test_a_store_on_the_same_files_tells_the_same_sizes(generated: Generated, tmp_path: Path) -> None:
    with rclone_s3(generated.lake.sandbox.root, BUCKET, tmp_path) as server:
        listed = pa.Table.from_batches(server.config(REPOSITORY).connect().list("data/"))
    assert dict(zip(listed["address"].to_pylist(), listed["size"].to_pylist(), strict=True)) == generated.sizes()


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
