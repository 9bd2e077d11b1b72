"""A store's own log counts what marks ask it for; it sees what others write once it is told."""

from __future__ import annotations

import os
from multiprocessing import Pipe
from pathlib import Path
from unittest import mock

import pytest

from benchmarks.forgetting import forget
from benchmarks.generate import BUCKET, REPOSITORY
from benchmarks.lake import ServedLake
from benchmarks.stored import stored
from lakegc_core.errors import ObjectNotFoundError
from lakegc_core.store.s3.store import S3Config


def test_requests_are_counted_by_kind_and_files_of_others_are_seen_once_the_store_forgets(tmp_path: Path) -> None:
    folder = tmp_path / BUCKET / REPOSITORY
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "old").write_bytes(b"x")
    with stored(ServedLake(tmp_path, "", Pipe()[0])) as lake, mock.patch.dict(os.environ, lake.environment):
        store = S3Config(BUCKET, REPOSITORY).connect()
        lake.begin()
        store.head("data/old")
        store.head("data/old")
        store.write("_lakefs/mark", b"{}")
        store.head("_lakefs/mark")
        store.read("_lakefs/mark")
        assert sum(batch.num_rows for batch in store.list("data/")) == 1
        store.delete_many(["_lakefs/mark"])
        asked = {"heads": 2, "store_head": 1, "store_get": 1, "store_put": 1, "store_list": 1, "store_delete": 1}
        assert lake.counts() == asked | {"jobs": 0}
        lake.begin()
        (folder / "data" / "new").write_bytes(b"y")
        assert store.head("data/old")
        forget(tmp_path)
        assert store.head("data/new")
        with pytest.raises(ObjectNotFoundError):
            store.head("data/never")
        assert lake.counts()["heads"] == 3
