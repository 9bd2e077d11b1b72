"""Metadata files are found by their ids, in the folder that the mark's header names."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.store.local import LocalConfig


def test_a_file_is_read_by_its_id_in_a_task_as_well(tmp_path: Path) -> None:
    (tmp_path / "odd/folder").mkdir(parents=True)
    (tmp_path / "odd/folder/abc").write_bytes(b"range")
    files = MetadataFiles(LocalConfig(str(tmp_path)), "odd/folder")
    assert files.key("abc") == "odd/folder/abc"
    assert pickle.loads(pickle.dumps(files)).read("abc") == b"range"
    with pytest.raises(ObjectNotFoundError):
        files.read("other")
