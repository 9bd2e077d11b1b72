"""JSON artifacts: one form for a value, the same digest however it was put together, and no damage that passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.errors import MarkError
from lakegc_core.marks.json_files import decode, digest, encode, read_json, read_sealed, sealed, unsealed
from lakegc_core.store.local import LocalConfig

VALUES = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8)
)


@given(VALUES)
def test_what_is_read_back_has_the_digest_of_what_was_written(value: dict[str, Any]) -> None:
    assert digest(decode(encode(value), "here")) == digest(value)


def test_the_order_of_keys_changes_no_digest_and_a_value_does() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) != digest({"a": 1, "b": 3})


def test_a_sealed_value_reads_back_as_it_was_and_no_other_does() -> None:
    value = sealed({"mark_id": "m1", "parts": (1, 2), "days": {7: 1}})
    read_back = decode(encode(value), "here")
    assert unsealed(read_back, "changed", mark_id="m1") == {"mark_id": "m1", "parts": [1, 2], "days": {"7": 1}}
    without = {key: each for key, each in value.items() if key != "digest"}
    for other in (without, value | {"parts": [1]}, value | {"more": 1}, value | {"digest": "0" * 64}):
        with pytest.raises(MarkError, match="changed"):
            unsealed(other, "changed")
    with pytest.raises(MarkError, match="changed"):
        unsealed(value, "changed", mark_id="m2")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", encode({"a": 1})[:-3]])
def test_what_is_no_json_object_is_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(MarkError, match=r"marks/m1/mark\.json is not a JSON object"):
        decode(data, "marks/m1/mark.json")


@pytest.mark.parametrize(
    ("where", "do"),
    [
        ("marks/m1/mark.json", "make a new mark."),
        ("marks/m1/sweeps/1/report.json", "run `lakegc verify REPO m1`, and bring the file back"),
    ],
)
def test_a_damaged_file_is_mended_by_what_can_mend_it(where: str, do: str) -> None:
    with pytest.raises(MarkError) as caught:
        decode(b"{", where)
    assert f"It was damaged or is not lakegc's: {do}" in str(caught.value)


def test_what_is_not_there_is_none_and_what_does_not_read_is_an_error(tmp_path: Path) -> None:
    store = LocalConfig(str(tmp_path)).connect()
    assert (read_json(store, "a.json"), read_sealed(store, "a.json", "changed")) == (None, None)
    store.write("a.json", encode(value := sealed({"mark_id": "m1"})))
    assert read_json(store, "a.json") == value
    assert read_sealed(store, "a.json", "changed", mark_id="m1") == {"mark_id": "m1"}
    with pytest.raises(MarkError, match="changed"):
        read_sealed(store, "a.json", "changed", mark_id="m2")
    store.write("a.json", b"[]")
    with pytest.raises(MarkError, match=r"a\.json is not a JSON object"):
        read_json(store, "a.json")
    with pytest.raises(MarkError, match=r"a\.json is not a JSON object"):
        read_sealed(store, "a.json", "changed")
