"""JSON artifacts: one form for a value, the same digest however it was put together, and no damage that passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.errors import MarkError
from lakegc_core.marks.json_files import decode, digest, encode

VALUES = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8)
)


@given(VALUES)
def test_what_is_read_back_has_the_digest_of_what_was_written(value: dict[str, Any]) -> None:
    assert digest(decode(encode(value), "here")) == digest(value)


def test_the_order_of_keys_changes_no_digest_and_a_value_does() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) != digest({"a": 1, "b": 3})


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", encode({"a": 1})[:-3]])
def test_what_is_no_json_object_is_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(MarkError, match=r"marks/m1/mark\.json is not a JSON object"):
        decode(data, "marks/m1/mark.json")
