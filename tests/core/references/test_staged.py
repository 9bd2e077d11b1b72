"""The staged dump is read whole, or not at all; every branch is listed where the dump is blind."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import CorruptFileError, IncompleteError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import Stage
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.staged import (
    _MOST_DUMPS,
    _files,
    _no_files,
    dump_staged,
    lists_branches,
    objects_of,
    protect_dumped,
    protect_listed,
    read_dump_file,
)
from lakegc_core.tables.parts import read_part
from lakegc_sandbox import PageLimits
from tests.support.lake import NO_SPARK, lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def dump_file(*addresses: str | None, column: str = "physical_address") -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({column: pa.array(addresses, pa.string())}), sink)
    return sink.getvalue()


def test_a_file_of_the_dump_gives_all_its_addresses() -> None:
    found = [batch.column(0).to_pylist() for batch in read_dump_file(dump_file("data/a", "data/b"), "f")]
    assert found == [["data/a", "data/b"]]
    assert [batch.num_rows for batch in read_dump_file(dump_file(), "f")] in ([], [0])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "cannot be read as parquet"),
        (b"[]", "cannot be read as parquet"),
        (dump_file("data/a")[:-1], "cannot be read as parquet"),
        (dump_file("data/a")[4:], "cannot be read as parquet"),
        (dump_file("data/a", column="address"), "no column physical_address"),
        (dump_file("data/a", None), "empty address"),
    ],
)
def test_a_file_of_the_dump_that_is_not_whole_is_an_error(data: bytes, sentence: str) -> None:
    with pytest.raises(CorruptFileError, match=sentence):
        list(read_dump_file(data, "f"))


def test_a_dump_of_fewer_files_than_pages_is_not_whole(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        repository.upload("main", "a", b"1")
        context = served.begin("lake", "m1")
        (location,) = context.client.prepare_uncommitted("lake").locations
        assert len(_files(context, [location])) == 1
        with pytest.raises(IncompleteError, match=r"2 pages .* only 1 files"):
            _files(context, [location, location])


def test_a_server_that_says_that_nothing_is_staged_must_have_written_nothing(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.begin("lake", "m1")
        assert _no_files(context, "run") == []
        file = served.files("lake") / "_lakefs/retention/gc/uncommitted/run/part-0"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
        with pytest.raises(IncompleteError, match="nothing is staged, and yet wrote"):
            _no_files(context, "run")


def test_a_dump_that_is_damaged_is_an_error_and_one_of_nothing_staged_has_no_rows(
    quick: SparkSession, tmp_path: Path
) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        context = served.begin("lake", "m1")
        nothing = dump_staged(NO_SPARK, context, "nothing")
        assert (nothing.datasets[Stage.UNCOMMITTED_ADDRESSES], nothing.facts.rows) == ([], 0)
        address = repository.upload("main", "a", b"1")
        found = dump_staged(quick, context, "whole")
        rows = [
            row
            for part in found.datasets[Stage.UNCOMMITTED_ADDRESSES]
            for batch in read_part(context.workspace, "whole", part)
            for row in batch.to_pylist()
        ]
        assert rows == [{"address": address, "exact": True}] and found.facts.rows == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(context.client), "prepare_uncommitted", damaging(served.files("lake"), context))
            with pytest.raises(CorruptFileError, match="cannot be read as parquet"):
                dump_staged(quick, context, "damaged")


def staged_keys(spark: SparkSession, context: MarkContext) -> set[str]:
    """The keys that a staged dump protects."""
    found = dump_staged(spark, context, "staged").datasets[Stage.UNCOMMITTED_ADDRESSES]
    return {
        row["address"]
        for part in found
        for each in read_part(context.workspace, "staged", part)
        for row in each.to_pylist()
    }


@pytest.mark.parametrize("deletions", [0, 1, _MOST_DUMPS - 1, _MOST_DUMPS])
def test_what_is_staged_is_known_although_branches_are_deleted_while_the_server_dumps(
    quick: SparkSession, tmp_path: Path, deletions: int
) -> None:
    """The server drops the page in which it meets a deleted branch, unless rows follow."""
    with lake(tmp_path) as served:
        repository = served.create("lake")
        address = repository.upload("main", "a", b"1")
        repository.create_branch("zz", "main")  # the call fails if the last branch vanishes

        def scanned(branch: str, path: str) -> None:
            if "vanishing" in repository.refs.branches:
                repository.delete_branch("vanishing")

        def asked(method: str, path: str, query: Mapping[str, str]) -> None:
            listings = sum(each == path for _, each in served.server.requests)
            if path.endswith("/branches") and listings == 2 * dumps() + 1 and dumps() < deletions:
                repository.create_branch("vanishing", "zz")

        def dumps() -> int:
            return sum(each.endswith("/prepare_uncommited") for _, each in served.server.requests)

        served.sandbox.uncommitted_page = PageLimits(scanning=scanned)
        context = served.begin("lake", "m1")
        served.server.requests.clear()
        served.server.fault = asked
        assert staged_keys(quick, context) == {address}
        assert dumps() == min(deletions + 1, _MOST_DUMPS)


def test_every_reading_of_a_dumped_address_is_protected(quick: SparkSession, tmp_path: Path) -> None:
    """Some stores take `a//b` or `a\\b` and `a/b` for one object."""
    with lake(tmp_path) as served:
        repository = served.create("lake")
        context = served.begin("lake", "m1")
        repository.stage("main", "a", repository.place.qualify("data//s/x"), size=1, checksum="0" * 32)
        repository.stage("main", "b", repository.place.qualify("data%2Fs%2Fy"), size=1, checksum="0" * 32)
        repository.stage("main", "c", repository.place.qualify("data/s\\z"), size=1, checksum="0" * 32)
        found = dump_staged(quick, context, "dump").datasets[Stage.UNCOMMITTED_ADDRESSES]
        rows = [
            row for part in found for batch in read_part(context.workspace, "dump", part) for row in batch.to_pylist()
        ]
        assert {row["address"] for row in rows} >= {"data//s/x", "data/s/x", "data%2Fs%2Fy", "data/s/y"}
        assert {row["address"] for row in rows} >= {"data/s\\z", "data/s/z"}


@pytest.mark.parametrize(
    "uri", ["https://account.blob.core.windows.net/container/ns", "s3://bucket/ns", "gs://bucket/ns"]
)
def test_a_dumped_address_with_a_backslash_is_also_read_with_a_slash(uri: str) -> None:
    rows = [row for batch in protect_dumped(Namespace(uri), pa.array(["data/s\\x"])) for row in batch.to_pylist()]
    assert {(row["address"], row["exact"]) for row in rows} == {("data/s\\x", True), ("data/s/x", False)}


def test_a_dumped_address_that_may_have_been_staged_whole_and_encoded_is_also_read_so() -> None:
    """lakeFS cuts the namespace off `https://…/ns/data%2Fs%2Fx` in its dump, and reads `data/s/x` on Azure."""
    staged = pa.array(["data%2Fs%2Fx", "%64ata/s/y", "data/s/%7A", "data/s/plain"])
    for slash in ("", "/"):
        namespace = Namespace(f"https://account.blob.core.windows.net/container/ns{slash}")
        rows = [row for batch in protect_dumped(namespace, staged) for row in batch.to_pylist()]
        found = {(row["address"], row["exact"]) for row in rows}
        assert {("data/s/x", False), ("data/s/y", False), ("data/s/z", False)} <= found
        assert found >= {(address, True) for address in staged.to_pylist()}, "as lakeFS reads them below data/"


def damaging(folder: Path, context: MarkContext) -> Callable[..., object]:
    """A dump of which each file lost its end once the server had written it."""
    prepare = type(context.client).prepare_uncommitted

    def prepared(client: LakeFSClient, repository: str) -> object:
        found = prepare(client, repository)
        for key in _files(context, found.locations):
            (folder / key).write_bytes((folder / key).read_bytes()[:-3])
        return found

    return prepared


def test_every_reading_of_a_listed_address_is_protected_and_none_outside_the_namespace() -> None:
    namespace = Namespace("s3://bucket/lake")
    shown = ["s3://bucket/lake/data/a%20b", "s3://bucket/lake2/data/x", "s3://bucket/lake/data/c"]
    found = {row["address"]: row["exact"] for row in protect_listed(namespace, shown).to_pylist()}
    assert {"data/a b", "data/a%20b", "data/c"} <= found.keys() and found["data/c"] is True
    assert not any("lake2" in address or address == "data/x" for address in found)
    assert protect_listed(namespace, []).num_rows == 0


# --- branches, where every one is listed ---


@pytest.mark.parametrize(
    "namespace", ["s3://bucket/team%20a", "s3://x@bucket/ns", "s3://bucket/ns?a", "S3://bucket/ns"]
)
def test_a_link_in_a_namespace_that_lakefs_spells_otherwise_is_staged_although_no_dump_names_it(
    tmp_path: Path, namespace: str
) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake", "s3://bucket/lake")
        repository.place = replace(repository.place, namespace=namespace)
        address = repository.physical_address("main")
        repository.put(address, b"linked")
        repository.stage("main", "a", address, size=6, checksum="0" * 32)
        assert served.client.prepare_uncommitted("lake").locations == ()
        context = replace(served.begin("lake", "m1"), namespace=Namespace(namespace))
        found = dump_staged(NO_SPARK, context, "listed")
        rows = [
            row["address"]
            for part in found.datasets[Stage.UNCOMMITTED_ADDRESSES]
            for batch in read_part(context.workspace, "listed", part)
            for row in batch.to_pylist()
        ]
        assert address.partition("/data/")[2] in {row.removeprefix("data/") for row in rows}


@pytest.mark.parametrize(
    ("namespace", "listed"),
    [
        ("s3://bucket/ns", False),
        ("s3://bucket", False),
        ("s3://bucket/", False),
        ("gs://bucket/team a/", False),
        ("https://account.blob.core.windows.net/c/ns", False),
        ("http://account.blob.core.windows.net/c/ns", True),
        ("s3://bucket/ns//", True),
        ("gs://bucket/team%20a", True),
        ("local://ns", True),
    ],
)
def test_branches_are_listed_where_lakefs_gives_out_addresses_in_another_spelling(namespace: str, listed: bool) -> None:
    assert lists_branches(Namespace(namespace)) is listed


def test_a_branch_that_is_deleted_meanwhile_shows_nothing_more(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        repository.upload("main", "a", b"1")
        repository.commit("main", "one")
        assert [stats.path for page in objects_of(served.client, "lake", "main") for stats in page] == ["a"]
        assert list(objects_of(served.client, "lake", "deleted-meanwhile")) == []


@pytest.mark.parametrize(
    "answer", [{"message": "not found"}, {"message": "invalid API endpoint"}, b"<html>proxy</html>"]
)
@pytest.mark.parametrize("branch", ["main", "deleted-meanwhile"])
def test_any_other_404_about_a_branch_is_an_error(tmp_path: Path, answer: object, branch: str) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        served.server.fault = lambda method, path, query: (404, answer) if path.endswith("/objects/ls") else None
        gone = branch != "main" and answer == {"message": "not found"}
        if gone:
            assert list(objects_of(served.client, "lake", branch)) == []
        else:
            with pytest.raises(LakeFSError):
                list(objects_of(served.client, "lake", branch))
