"""The names that lakeFS gives to its files: SHA-256 of the records and properties in them."""

from __future__ import annotations

from tests.support.lakefs_files import FIXTURE, FIXTURE_ID, identity, write_metarange
from tests.support.plain_tables import TableWriter, frame, identity_plainly, read_plainly

_LONG = (9_999_000, 10_000_000)


def test_ids_are_those_published() -> None:
    assert identity(FIXTURE) == FIXTURE_ID
    content = bytes.fromhex("0a09612f6f6e652e7478741209612f74776f2e74787418ac022002")
    metarange = write_metarange((b"a/two.txt", frame(FIXTURE_ID.encode(), content)))
    assert identity(metarange) == "0f867c670c21dd760f7668ada4539d554b63b7b6fc8a5f40c669d762772a74e0"
    assert identity(TableWriter().write([])) == ("5105eaf20d56aa444d5402b4eab9d952aecff97791980db9141ca8e2590ce149")
    assert identity(write_metarange()) == "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"


def test_values_of_ten_million_bytes_and_more_take_part_in_an_id() -> None:
    writer = b"i" * 32
    written = [(b"a", frame(writer, b"short")), *((b"b%08d" % size, frame(writer, b"m" * size)) for size in _LONG)]
    data = TableWriter().write([*written, (b"c", frame(writer, b""))])
    properties, records = read_plainly(data)
    assert max(len(value) for _, value in records) > 10**7 > len(records[1][1]), "on both sides of eight digits"
    assert identity(data) == identity_plainly(properties, records)
