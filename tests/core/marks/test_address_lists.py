"""Lists of addresses, as lakeFS's collectors and lakegc write them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.address_lists import ADDRESSES, as_lines, read_list
from lakegc_core.store.local import LocalConfig


def told(folder: Path, key: str) -> list[str]:
    batches = list(read_list(LocalConfig(str(folder)), key))
    assert all(batch.schema == ADDRESSES for batch in batches)
    return [address for batch in batches for address in batch["address"].to_pylist()]


def test_a_parquet_file_and_a_table_of_text_say_the_same(tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1, 2], "address": ["data/a", "data/ü,1"]}), tmp_path / "list.parquet")
    (tmp_path / "list.csv").write_text('address\ndata/a\n"data/ü,1"\n')
    assert told(tmp_path, "list.parquet") == told(tmp_path, "list.csv") == ["data/a", "data/ü,1"]


def test_a_list_of_nothing_is_a_list(tmp_path: Path) -> None:
    pq.write_table(pa.table({"address": pa.array([], pa.string())}), tmp_path / "list.parquet")
    assert told(tmp_path, "list.parquet") == []


def test_what_is_no_list_of_addresses_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": ["data/a"]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"address": ["data/a", None]}), tmp_path / "null.parquet")
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "null.parquet").read_bytes()[:-9])
    (tmp_path / "empty.parquet").write_bytes(b"")
    for name in ("other", "null", "torn", "empty"):
        with pytest.raises(CorruptFileError, match=f"{name}.parquet"):
            told(tmp_path, f"{name}.parquet")
    with pytest.raises(ObjectNotFoundError):
        told(tmp_path, "gone.parquet")


@pytest.mark.parametrize("broken", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_the_rest_of_an_address_with_a_line_break_is_no_address_of_its_own(broken: str) -> None:
    lines = as_lines([f"data/raw/x{broken}data/slice/live", "data/slice/garbage"]).decode()
    assert lines.endswith("\n") and len(lines.splitlines()) == 2
    assert "data/slice/live" not in lines.splitlines() and "data/slice/garbage" in lines.splitlines()
