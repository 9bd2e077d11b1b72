"""Reading only the blocks of a part that can hold what is looked for, and all rows of the part accounted for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakegc_core.errors import CorruptFileError
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables import parts as parquet
from lakegc_core.tables.parts import Part, PartWriter, read_part, spark_width

SCHEMA = pa.schema([pa.field("unit", pa.string(), nullable=False), pa.field("number", pa.int64(), nullable=False)])
UNITS = st.lists(st.sampled_from(["", "data/", *(f"data/{letter}/" for letter in "abcdefgh")]), max_size=40)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalConfig:
    monkeypatch.setattr(parquet, "_ROWS_PER_GROUP", 4)
    return LocalConfig(str(tmp_path))


def written(config: LocalConfig, units: list[str]) -> list[Part]:
    writer = PartWriter(config, "folder", SCHEMA)
    for number, unit in enumerate(units):
        writer.write(pa.RecordBatch.from_pydict({"unit": [unit], "number": [number]}, schema=SCHEMA))
    return writer.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(UNITS, UNITS)
def test_no_row_with_a_wanted_value_is_left_out(config: LocalConfig, units: list[str], wanted: list[str]) -> None:
    within = ("unit", sorted(set(wanted)))
    found = [
        (row["unit"], row["number"])
        for part in written(config, units)
        for batch in read_part(config, "folder", part, within=within)
        for row in batch.to_pylist()
    ]
    blocks = {number // 4 for number, unit in enumerate(units) if unit in wanted}
    assert {number // 4 for _, number in found} >= blocks
    assert {(unit, number) for number, unit in enumerate(units) if unit in wanted} <= set(found)


def test_blocks_without_a_wanted_value_are_not_read(config: LocalConfig) -> None:
    (part,) = written(config, sorted("abcdefgh" * 4))
    found = [batch["unit"].to_pylist() for batch in read_part(config, "folder", part, within=("unit", ["c", "x"]))]
    assert found == [["c"] * 4]
    assert list(read_part(config, "folder", part, within=("unit", []))) == []


def test_a_part_of_another_number_of_rows_is_an_error_also_where_none_is_read(config: LocalConfig) -> None:
    (part,) = written(config, ["a"] * 8)
    other = Part(part.name, part.rows + 1, part.bytes, part.sha256)
    for wanted in ([], ["a"]):
        with pytest.raises(CorruptFileError, match="holds 8 rows"):
            list(read_part(config, "folder", other, within=("unit", wanted)))


@pytest.mark.parametrize(("told", "width"), [("8", 4), ("1", 1), ("auto", 100), (None, 100)])
def test_tasks_side_by_side_go_by_the_partitions_of_a_shuffle_and_by_sparks_default_where_there_is_no_number(
    told: str | None, width: int
) -> None:
    """Databricks says `auto`."""
    conf = {} if told is None else {"spark.sql.shuffle.partitions": told}
    assert spark_width(cast("Any", SimpleNamespace(conf=conf))) == width
