"""What a metarange says of its ranges: each filed under its last key, all disjoint, unless bytes were replaced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def replaced(key: bytes) -> bytes:
    """A key as it comes out of JSON."""
    return key.decode("utf-8", "replace").encode()


@given(st.lists(st.binary(max_size=4) | st.text("aé", max_size=4).map(str.encode), min_size=1, max_size=4))
def test_the_keys_of_a_metarange_bound_its_range_also_where_bytes_were_replaced(paths: list[bytes]) -> None:
    first, last = min(paths), max(paths)
    value = range_value(RANGE_A, min_key=replaced(first), max_key=replaced(last), count=len(paths))
    (row,) = graveler.read_metarange(write_metarange((replaced(last), value))).to_pylist()
    assert row["min_key"] <= first and last <= row["max_key"]


def test_where_bytes_were_replaced_ranges_need_not_be_in_order() -> None:
    """The ranges hold b"\\xc3(" to "é", and "é" to b"\\xff": each as it comes out of JSON."""
    data = write_metarange(
        ("é".encode(), range_value(RANGE_A, min_key=replaced(b"\xc3("), max_key="é".encode())),
        (replaced(b"\xff"), range_value(RANGE_B, min_key="é".encode(), max_key=replaced(b"\xff"))),
    )
    assert graveler.read_metarange(data)["range_id"].to_pylist() == [RANGE_A, RANGE_B]


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([(b"c", range_value(RANGE_A, max_key=b"d"))], "filed under"),
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


def test_a_range_that_seems_to_end_before_it_begins_may_hold_any_path_and_a_negative_count_says_nothing() -> None:
    """Clients said so before version 1.0; lakeFS checks neither."""
    turned = (b"c", range_value(RANGE_A, min_key=b"d", max_key=b"c", count=-1))
    other = (b"e", range_value(RANGE_B, max_key=b"e", count=1))
    first, second = graveler.read_metarange(write_metarange(turned, other)).to_pylist()
    assert first["min_key"] == b"" and first["max_key"] > b"\xff" * 1024 and first["count"] == 0
    assert second["min_key"] == second["max_key"] == b"e"
