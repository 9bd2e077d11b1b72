"""Arrow columns out of slices of a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.columns import binaries, strings, user_keys
from lakegc_core.lakefs.files.vectors import PADDING, Bytes, Ints
from tests.support.lakefs_files import read_table
from tests.support.plain_tables import TableWriter


def slices(*texts: bytes) -> tuple[Bytes, Ints, Ints]:
    """A buffer that holds these, with something between them, and where they lie."""
    lengths = np.array([len(text) for text in texts], np.int64)
    at = np.cumsum(lengths + 1) - lengths
    return np.frombuffer(b"\xff" + b"\xff".join(texts) + bytes(PADDING), np.uint8), at, lengths


@pytest.mark.parametrize(
    "texts",
    [
        (),
        (b"",),
        (b"", b""),
        (b"a",),
        (b"ab", b"cd"),
        (b"a", b"", b"bcd" * 2000, "é".encode()),
        tuple(b"x" * n for n in range(40)),
    ],
)
def test_slices_are_told_apart_whatever_their_lengths(texts: tuple[bytes, ...]) -> None:
    assert binaries(*slices(*texts)).to_pylist() == list(texts)
    found = strings(*slices(*texts), "text")
    found.validate(full=True)
    assert found.to_pylist() == [text.decode() for text in texts]


@pytest.mark.parametrize("texts", [(b"\xff",), (b"a", b"\xc3"), (b"\xc3", b"\xa9"), (b"\xed\xa0\x80",)])
def test_a_string_that_is_not_utf_8_is_an_error_by_its_name_even_if_two_together_are(texts: tuple[bytes, ...]) -> None:
    with pytest.raises(CorruptFileError, match="the e_tag is not UTF-8"):
        strings(*slices(*texts), "e_tag")
    assert binaries(*slices(*texts)).to_pylist() == list(texts)


@pytest.mark.parametrize("keys", [[b"a"], [b"", b"a", b"a\0", b"ab"], [b"p%04d" % n for n in range(3000)], [b"\xff"]])
def test_keys_are_whole_and_may_be_any_bytes(keys: list[bytes]) -> None:
    table = read_table(TableWriter().write([(key, b"value") for key in keys]))
    assert [key for group in table.groups for key in user_keys(group).to_pylist()] == keys
