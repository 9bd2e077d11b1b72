"""What a metarange says of its ranges: each filed under its last key, all disjoint."""

from __future__ import annotations

import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files import graveler
from tests.support.lakefs_files import RANGE_A, RANGE_B, range_value, write_metarange
from tests.support.plain_tables import frame, int_field, to_svarint


def test_a_metarange_names_its_ranges() -> None:
    data = write_metarange(
        (b"c", range_value(RANGE_A, min_key=b"a", max_key=b"c")),
        (b"\xff", range_value(RANGE_B, max_key=b"\xff", count=1)),
    )
    assert graveler.read_metarange(data).to_pylist() == [
        {"range_id": RANGE_A, "min_key": b"a", "max_key": b"c", "count": 2},
        {"range_id": RANGE_B, "min_key": b"\xff", "max_key": b"\xff", "count": 1},
    ]


def test_a_range_whose_first_path_is_empty_begins_with_it() -> None:
    """lakeFS imports the marker `dir/` of a folder to the path "" of a branch. Protobuf leaves out what is empty."""
    alone = [(b"", range_value(RANGE_A, count=1)), (b"d", range_value(RANGE_B, max_key=b"d", count=1))]
    several = [(b"c", range_value(RANGE_A, max_key=b"c")), (b"d", range_value(RANGE_B, max_key=b"d", count=1))]
    for records in (alone, several):
        assert graveler.read_metarange(write_metarange(*records))["min_key"].to_pylist() == [b"", b"d"]


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([(b"c", range_value(RANGE_A, max_key=b"d"))], "filed under"),
        ([(b"c", range_value(RANGE_A, min_key=b"d", max_key=b"c"))], "down to"),
        ([(b"c", range_value(RANGE_A, max_key=b"c", count=-1))], "-1 entries"),
        ([(b"c", range_value("A" * 64, max_key=b"c"))], "64 lower-case"),
        ([(b"c", range_value("a" * 63, max_key=b"c"))], "64 lower-case"),
        ([(b"c", range_value("a" * 64 + "\n", max_key=b"c"))], "64 lower-case"),
        ([(b"c", frame(RANGE_A.encode(), int_field(2, 5)))], "wire type"),
        ([(b"c", frame(RANGE_A.encode(), b"\x12\x05c"))], "runs over"),
        ([(b"c", range_value(RANGE_A, max_key=b"c")[:-1])], "does not end"),
        ([(b"c", range_value(RANGE_A, max_key=b"c") + b"x")], "does not end"),
        ([(b"c", to_svarint(-64) + RANGE_A.encode())], "negative"),
        (
            [
                (b"c", range_value(RANGE_A, min_key=b"a", max_key=b"c")),
                (b"d", range_value(RANGE_B, min_key=b"c", max_key=b"d")),
            ],
            "overlap",
        ),
    ],
)
def test_a_metarange_that_does_not_hold_together_is_refused(records: list[tuple[bytes, bytes]], sentence: str) -> None:
    with pytest.raises(CorruptFileError, match=sentence):
        graveler.read_metarange(write_metarange(*records))
