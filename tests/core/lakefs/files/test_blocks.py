"""Blocks of a table: checksums, compression, and the records in them."""

from __future__ import annotations

import random

import google_crc32c
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.lakefs.files.blocks import _masked
from tests.support.lakefs_files import RECORDS, read_table
from tests.support.plain_tables import SET, TableWriter, write_block


def test_t02_the_masked_checksum_is_that_of_the_published_vector() -> None:
    crc = google_crc32c.value(b"123456789")
    assert crc == 0xE3069283
    assert _masked(np.array([crc], np.uint32))[0] == 0xC78AB0E5


def test_t04_compressed_and_uncompressed_blocks_mix_in_a_table() -> None:
    records = [(b"k%04d" % i, random.Random(i).randbytes(900) if i % 40 < 20 else b"again " * 150) for i in range(400)]
    for compress in (lambda i: True, lambda i: False, lambda i: i % 2 == 0, lambda i: i == 3):
        assert list(read_table(TableWriter(compress=compress).write(records)).records()) == records


def test_records_far_larger_than_a_block_are_read() -> None:
    records = [(b"a" * 3000, b"x" * 300_000), (b"a" * 3000 + b"b", b""), (b"b" * 70_000, b"y" * 20_000)]
    assert list(read_table(TableWriter().write(records)).records()) == records


@settings(max_examples=400)
@given(data=st.data())
def test_random_damage_under_a_right_checksum_never_raises_another_error(data: st.DataObject) -> None:
    """Blocks are damaged before they get their checksum: what a hostile or broken writer could make."""
    block = bytearray(write_block([(key + SET, value) for key, value in RECORDS[:40]], 16))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    block = block[: data.draw(st.sampled_from([len(block), len(block) - 1, 9, 8, 7, 0]))]

    class Damaged(TableWriter):
        def _add(self, content: bytes, compress: bool) -> bytes:
            return super()._add(content if self._out else bytes(block), compress)

    try:
        table = read_table(Damaged(block_bytes=1 << 20).write(RECORDS[:40]))
    except CorruptFileError:
        return
    assert len(table) == 40  # a change inside a value or of the middle of a key: only the id can tell
