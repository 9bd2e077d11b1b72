"""The expired addresses as plain text: what the documented rclone recipes read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError
from lakegc_core.judging.text_lists import TEXT_FOLDER, _TextLists, write_text
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from lakegc_core.tables.parts import PartWriter
from tests.support.lake import NO_SPARK, Lake
from tests.support.policies import role

ADDRESSES = ["data/s/a", "data/s/b, c;#", "data/s/é 🦆", 'data/s/"quoted"']


@pytest.fixture
def part(tmp_path: Path) -> Dataset:
    return written(LocalConfig(str(tmp_path)), ADDRESSES)


def written(config: LocalConfig, *parts: list[str]) -> Dataset:
    schema, found = pa.schema([("address", pa.string()), ("size", pa.int64())]), []
    for addresses in parts:
        writer = PartWriter(config, "parts", schema)
        writer.write(pa.RecordBatch.from_arrays([pa.array(addresses), pa.array([1] * len(addresses))], schema=schema))
        found += writer.close()
    return DatasetFolder(config, "parts").dataset("", found, schema)


def test_a_list_has_one_address_a_line_as_it_is_written_and_tells_its_digest(tmp_path: Path, part: Dataset) -> None:
    lists = _TextLists(LocalConfig(str(tmp_path)), "deleted.text")
    (told,) = lists.write(part)
    (file,) = (tmp_path / "deleted.text").iterdir()
    assert file.read_bytes() == "".join(f"{address}\n" for address in ADDRESSES).encode()
    assert told == {"list": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_no_list_of_an_attempt_that_broke_off_names_anything_and_the_role_of_a_mark_suffices(served: Lake) -> None:
    """Some object that it listed may be live since."""
    context, store = served.begin("lake", "m1"), LocalConfig(str(served.files("lake")))
    folder = served.files("lake") / context.mark.folder / TEXT_FOLDER
    with role("s3-mark.json"):
        write_text(NO_SPARK, context, written(store, ["data/a", "data/live since"], ["data/b"], ["data/c"]))
        names = write_text(NO_SPARK, context, written(store, ["data/a"], ["data/b"]))
    lines = {file.name: file.read_text().splitlines() for file in folder.iterdir()}
    assert len(names) == 2 and sorted(lines[name] for name in names) == [["data/a"], ["data/b"]]
    assert [lines[name] for name in lines.keys() - set(names)] == [[], []]


def test_of_a_part_that_is_not_what_its_manifest_says_no_list_is_written(tmp_path: Path, part: Dataset) -> None:
    file = tmp_path / "parts" / part.parts[0].name
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="not the file that its manifest names"):
        list(_TextLists(LocalConfig(str(tmp_path)), "deleted.text").write(part))
    assert not (tmp_path / "deleted.text").exists()
