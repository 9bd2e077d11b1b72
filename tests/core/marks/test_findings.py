"""The rows in which a mark says what it found."""

from __future__ import annotations

from datetime import UTC, datetime

from lakegc_core.marks.findings import FINDINGS_SCHEMA, instant


def test_an_instant_is_a_value_of_the_column_since_to_the_microsecond() -> None:
    found = instant(1_700_000_000.000001)
    assert found.type == FINDINGS_SCHEMA.field("since").type
    assert found.as_py() == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)
