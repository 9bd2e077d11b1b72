"""The expired addresses as plain text: what the documented rclone recipes read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.judging.text_lists import _TextLists
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter

ADDRESSES = ["data/s/a", "data/s/b, c;#", "data/s/é 🦆", 'data/s/"quoted"']


@pytest.fixture
def part(tmp_path: Path) -> Dataset:
    schema, config = pa.schema([("address", pa.string()), ("size", pa.int64())]), LocalConfig(str(tmp_path))
    writer = PartWriter(config, "parts", schema)
    writer.write(pa.RecordBatch.from_arrays([pa.array(ADDRESSES), pa.array([1] * len(ADDRESSES))], schema=schema))
    return DatasetFolder(config, "parts").dataset("", writer.close(), schema)


def test_a_list_has_one_address_a_line_as_it_is_written_and_tells_its_digest(tmp_path: Path, part: Dataset) -> None:
    lists = _TextLists(LocalConfig(str(tmp_path)), "deleted.text")
    (told,) = lists.write(part)
    (file,) = (tmp_path / "deleted.text").iterdir()
    assert file.read_bytes() == "".join(f"{address}\n" for address in ADDRESSES).encode()
    assert told == {"list": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_two_lists_of_one_part_do_not_overwrite_each_other(tmp_path: Path, part: Dataset) -> None:
    lists = _TextLists(LocalConfig(str(tmp_path)), "deleted.text")
    assert len({told["list"] for _ in range(2) for told in lists.write(part)}) == 2
    assert len(list((tmp_path / "deleted.text").iterdir())) == 2


def test_of_a_part_that_is_not_what_its_manifest_says_no_list_is_written(tmp_path: Path, part: Dataset) -> None:
    file = tmp_path / "parts" / part.parts[0].name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="not the file that its manifest names"):
        list(_TextLists(LocalConfig(str(tmp_path)), "deleted.text").write(part))
    assert not (tmp_path / "deleted.text").exists()
