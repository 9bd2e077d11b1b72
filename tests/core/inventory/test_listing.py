"""The listing is of the right place, whole, and without lakeFS's own metadata; else there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.errors import IncompleteError, RefusedError
from lakegc_core.inventory import listing
from lakegc_core.inventory.carried import UNITS
from lakegc_core.inventory.listing import _Listing, _overlapping
from lakegc_core.marks.artifacts import CLEAN, HOME
from lakegc_core.marks.context import MarkContext, begin_mark
from lakegc_core.names import STAGES
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.stages import namespace_listing
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.tables.parts import read_part
from tests.support.lake import MIN_AGE, NO_SPARK, Lake, lake, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE = "data/gk5b63g7lm5ii54909u0/"
GARBAGE = f"{SLICE}ca5b63g7lm5ii5490900"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        repository = found.create("lake")
        repository.set_rules(7)
        repository.upload("main", "a", b"1")
        repository.commit("main", "one")
        for key in (GARBAGE, "README.md", "data/loose", "exports/2024/x.csv", f"{SLICE}_lakefs/nested"):
            leave(repository, key, 30, b"12345")
        yield found


def by_address(row: dict[str, Any]) -> str:
    return str(row["address"])


def rows(context: MarkContext, dataset: str = "") -> list[dict[str, Any]]:
    parts = context.mark.require(STAGES[0]).datasets[dataset or STAGES[0]]
    folder = context.mark.stage_folder(STAGES[0], dataset)
    return [row for part in parts for batch in read_part(context.workspace, folder, part) for row in batch.to_pylist()]


def test_where_a_workspace_lies_elsewhere_a_mark_writes_nothing_of_lakegcs_into_the_namespace(
    quick: SparkSession, served: Lake, tmp_path: Path
) -> None:
    opened = replace(served.open("lake"), workspace=LocalConfig(str(tmp_path / "ops")), home="lake")
    context = begin_mark(opened, "m1", min_age=MIN_AGE, safety_level="none", rules="keep-all-commits")

    pipeline.mark(quick, context)
    assert rows(context) and not (served.files("lake") / HOME).exists()


def test_every_object_is_listed_once_and_lakefs_own_metadata_is_not(quick: SparkSession, served: Lake) -> None:
    context = served.begin("lake", "m1")
    namespace_listing(quick, context)
    found = rows(context)
    there = {
        path.relative_to(served.files("lake")).as_posix() for path in served.files("lake").rglob("*") if path.is_file()
    }
    assert sorted(row["address"] for row in found) == sorted(key for key in there if not key.startswith("_lakefs/"))
    foreign = {row["address"] for row in found if row["foreign"]}
    assert {"README.md", "exports/2024/x.csv", f"{SLICE}_lakefs/nested"} <= foreign and GARBAGE not in foreign
    facts = context.mark.facts(ListingFacts)
    assert (facts.objects, facts.bytes) == (len(found), sum(row["size"] for row in found))
    assert (facts.foreign, facts.nested, facts.nested_file) == (len(foreign), 1, f"{SLICE}_lakefs/nested")
    units = rows(context, UNITS)
    assert sum(row["objects"] for row in units if row["unit"] == SLICE) == 2 and {"", "data/"} <= {
        row["unit"] for row in units
    }


def test_what_held_little_last_time_is_listed_while_the_session_starts(quick: SparkSession, served: Lake) -> None:
    """The same rows as tasks list, and nothing is asked of Spark."""
    pipeline.mark(quick, served.begin("lake", "m1"))
    served.sandbox.repository("lake").upload("main", "b", b"22")
    here = served.begin("lake", "m2", mode=CLEAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "LITTLE", 1)
        with pytest.raises(AttributeError):
            namespace_listing(NO_SPARK, here)
    namespace_listing(NO_SPARK, here)
    tasks = served.begin("lake", "m3", mode=CLEAN)
    with pytest.raises(AttributeError):
        namespace_listing(NO_SPARK, tasks)  # m2 did not come to its end, so that nobody knows how much there is
    namespace_listing(quick, tasks)
    assert sorted(rows(here), key=by_address) == sorted(rows(tasks), key=by_address)
    one, other = (replace(each.mark.facts(ListingFacts), clock_skew=0.0) for each in (here, tasks))
    assert one == other and one.objects == len(rows(here)) > 5


def test_a_place_without_lakefs_metadata_is_not_where_the_server_writes(served: Lake, tmp_path: Path) -> None:
    context = served.begin("lake", "m1")
    (tmp_path / "wrong/data").mkdir(parents=True)
    shutil.copytree(served.files("lake") / HOME, tmp_path / "wrong" / HOME)  # without a workspace the mark is there
    elsewhere = replace(context, data=LocalConfig(str(tmp_path / "wrong")))
    with pytest.raises(IncompleteError, match="not where the server writes"):
        namespace_listing(NO_SPARK, elsewhere)
    assert context.mark.manifest(STAGES[0]) is None


@pytest.mark.parametrize("probe", ["dummy", "_lakefs/dummy"])
def test_the_probe_of_a_repository_without_commits_says_that_the_server_writes_there(
    served: Lake, tmp_path: Path, probe: str
) -> None:
    (tmp_path / "new/_lakefs").mkdir(parents=True)
    (tmp_path / "new" / probe).write_bytes(b"probe")
    there = replace(served.begin("lake", "m1"), data=LocalConfig(str(tmp_path / "new")))
    assert _Listing.of(there, 0.0).top()[1]


def test_a_listing_that_breaks_off_is_an_error_and_no_short_listing(
    served: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LocalStore.list_level

    def breaks_off(store: LocalStore, prefix: str = "") -> Iterator[Any]:
        yield from whole(store, prefix)
        if prefix == "data/":
            raise OSError("the connection was lost")

    monkeypatch.setattr(LocalStore, "list_level", breaks_off)
    context = served.begin("lake", "m1")
    with pytest.raises(OSError, match="lost"):
        _Listing.of(context, 0.0).top()


def test_a_list_of_repositories_without_this_one_is_not_whole(served: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    context = served.begin("lake", "m1")
    served.create("other")
    every = [each for each in context.client.repositories() if each.id != "lake"]
    assert every and _overlapping(context) == []
    monkeypatch.setattr(type(context.client), "repositories", lambda client: iter(every))
    with pytest.raises(IncompleteError, match="lacks lake itself"):
        _overlapping(context)


def test_repositories_that_share_the_namespace_are_told(served: Lake) -> None:
    context = served.begin("lake", "m1")
    own = context.client.repository("lake")
    for uri, shared in (("s3://bucket/lake/data/x", True), ("s3://bucket/lake2", False)):
        other = replace(own, id="other", storage_namespace=uri)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(context.client), "repositories", lambda client, other=other: iter([own, other]))
            assert bool(_overlapping(context)) is shared


def test_a_mark_whose_lease_another_collector_holds_lists_nothing(served: Lake) -> None:
    context = served.begin("lake", "m1", safety_level="standard", min_age=None)
    lease = served.files("lake") / context.home / "lease.json"
    lease.parent.mkdir(parents=True, exist_ok=True)
    lease.write_bytes(b"of another form")
    with pytest.raises(RefusedError):
        namespace_listing(NO_SPARK, context)


def test_metadata_that_lies_within_a_unit_is_not_listed_either(served: Lake) -> None:
    """The server may keep it under a prefix such as `exports/2024`."""
    context = served.begin("lake", "m1")
    listing = replace(_Listing.of(context, 0.0), metadata=("_lakefs/", "exports/2024/"))
    leave(served.sandbox.repository("lake"), "exports/2025/x.csv", 30)
    (batch,) = context.data.connect().list("exports/")
    assert batch.num_rows == 2
    writer = listing.writer()
    assert listing.write(writer, batch, "exports/").num_rows == 1
    (part,) = writer.close()
    (rows,) = read_part(context.workspace, listing.out.path, part)
    assert rows["address"].to_pylist() == ["exports/2025/x.csv"]
