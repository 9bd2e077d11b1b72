"""A range that cannot be read is passed over only where ignored commits alone have it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from lakegc_core.lakefs.files import graveler
from lakegc_core.references.ranges.lost_ranges import NOTHING_IGNORED, Ignored, read_in
from lakegc_core.references.ranges.range_files import range_reader
from tests.support.lake import lake


def test_a_lost_range_is_taken_out_if_as_many_ignored_metaranges_hold_it_as_metaranges_in_all(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        for number in range(6):
            repository.upload("main", f"a/{number}", b"x", age=timedelta(days=9))
        commit = repository.commit("main", "six")
        reader = range_reader(served.begin("lake", "m1"))
        files = served.files("lake") / "_lakefs"
        told = graveler.read_metarange((files / commit.meta_range_id).read_bytes()).to_pylist()
        ranges = [{"range_id": each["range_id"], "references": 1} for each in told]
        lost, *others = ids = [each["range_id"] for each in told]
        ignored = Ignored((commit.meta_range_id,))

        assert ignored.without_lost(reader.files, ranges, reader.entries) == (ids, set())
        (files / lost).unlink()
        assert ignored.without_lost(reader.files, ranges, reader.entries) == (others, {lost})
        shared = ranges[0] | {"references": 2}
        assert ignored.without_lost(reader.files, [shared], reader.entries) == ([lost], set())
        assert NOTHING_IGNORED.without_lost(reader.files, ranges[:1], reader.entries) == ([lost], set())


def test_a_range_that_was_passed_over_is_on_record_as_one_that_no_mark_has_read() -> None:
    assert read_in(pa.array(["a", "b"]), {"b"}, "m1").to_pylist() == ["m1", ""]
