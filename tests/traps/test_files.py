"""Traps in lakeFS's metadata files as they lie in the store, read as a task of the mark reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.lakefs.files import graveler
from lakegc_core.references.ranges.range_files import RangeWriter, range_writer
from lakegc_core.tables.dataset import DatasetFolder
from lakegc_sandbox import Layout, Repository
from lakegc_sandbox.files.graveler_writer import write_range
from tests.support.lake import lake


@dataclass(frozen=True)
class Files:
    """The metarange of a head and one range of it, and the work of a task that reads them."""

    metarange: Path
    range: Path
    work: RangeWriter
    repository: Repository

    def read(self, kind: str) -> None:
        """Read one of the two, to the end."""
        if kind == "metarange":
            batch = pa.RecordBatch.from_pylist([{"metarange_id": self.metarange.name}])
            assert sum(found.num_rows for found in self.work.reader.metaranges(iter([batch]))) > 1
        else:
            batch = pa.RecordBatch.from_pylist([{"range_id": self.range.name, "references": 1, "count": 3}])
            assert list(self.work.ranges(iter([batch])))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with lake(tmp_path, layout=Layout(range_modulus=50_000)) as served:
        repository = served.create("lake")
        for path in ("a", "b", "c"):
            repository.upload("main", path, path.encode(), age=timedelta(days=9))
        home = served.files("lake") / "_lakefs"
        metarange = home / repository.commit("main", "three").meta_range_id
        (said,) = graveler.read_metarange(metarange.read_bytes()).to_pylist()
        context = served.begin("lake", "m1")
        work = range_writer(context, DatasetFolder(context.workspace, "here"))
        yield Files(metarange, home / said["range_id"], work, repository)


@pytest.mark.parametrize("kind", ["metarange", "range"])
def test_t05_a_missing_file_is_an_error_and_no_empty_table(files: Files, kind: str) -> None:
    files.read(kind)
    file: Path = getattr(files, kind)
    file.unlink()
    with pytest.raises(ObjectNotFoundError, match=file.name):
        files.read(kind)


def test_t39_a_range_is_known_by_its_content_and_not_by_place_or_date(files: Files) -> None:
    """Another range of the same paths and count lies under its name, of its size and date."""
    files.read("range")
    date = files.range.stat()
    records = [
        (path.encode(), replace(entry, address=entry.address.replace("data/", "datb/")).value)
        for path, entry in files.repository.objects("main")
    ]
    files.range.write_bytes(write_range(records).data)
    os.utime(files.range, ns=(date.st_atime_ns, date.st_mtime_ns))
    assert len(graveler.read_range(files.range.read_bytes())) == len(records) == 3
    with pytest.raises(CorruptFileError, match="it is not that file"):
        files.read("range")
