"""Lost objects: the store is asked, and only its own "there is none" makes an object lost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakegc_core.errors import StoreError
from lakegc_core.names import STILL_THERE, Outcome
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep.deletion import PLAN_SCHEMA
from lakegc_core.sweep.lost import absent, mark_gone, mark_lost, present, seen_again, settled, still_there
from tests.support.night_stores import SealedConfig
from tests.support.rows import BOTH, few, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LISTED = pa.schema([PLAN_SCHEMA.field(name) for name in ("address", "size", "last_modified")])


@pytest.fixture
def store(tmp_path: Path) -> LocalConfig:
    """A store that holds `data/there` alone."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/there").write_bytes(b"x")
    return LocalConfig(str(tmp_path))


def table(*rows: tuple[str, str]) -> pa.Table:
    shape = pa.schema([("address", pa.string()), ("size", pa.int64()), ("outcome", pa.string())])  # as of plans
    found = [{"address": address, "size": 1, "outcome": outcome} for address, outcome in rows]
    return pa.Table.from_pylist(found, shape)


def test_what_is_live_again_and_yet_gone_is_lost_and_what_is_there_is_rescued(store: LocalConfig) -> None:
    found = mark_lost(
        table(("data/gone", "rescued"), ("data/there", "rescued"), ("data/gone too", "rescued"), ("data/x", "planned")),
        store,
    )
    assert found["outcome"].to_pylist() == ["lost", "rescued", "lost", "planned"]
    assert found.column_names == ["address", "size", "outcome"]


def test_what_another_mark_deleted_is_gone_only_if_the_store_lacks_it(quick: SparkSession, store: LocalConfig) -> None:
    there = LocalStore(store).head("data/there").last_modified
    before = there - timedelta(seconds=2)
    rows = [("data/gone", 1, there), ("data/there", 1, there), ("data/there", 1, before), ("data/there", 2, there)]
    rows = [dict(zip(LISTED.names, row, strict=True)) for row in rows]
    seen, other = ("data/there", "seen_again"), ("data/there", "unconfirmed")
    for made in BOTH:
        found = [(row["address"], row["outcome"]) for row in told(seen_again(made(quick, rows, LISTED), store))]
        assert sorted(found) == sorted([("data/gone", "already_gone"), seen, seen, other, seen, other])


def test_the_store_is_asked_only_for_what_is_rescued(store: LocalConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    head = LocalStore.head
    monkeypatch.setattr(LocalStore, "head", lambda own, key: (asked.append(key), head(own, key))[1])
    mark_lost(table(("data/a", "unconfirmed"), ("data/there", "rescued"), ("data/b", "planned")), store)
    assert asked == ["data/there"]
    assert mark_lost(table(), store).num_rows == 0


def test_a_store_that_does_not_answer_ends_the_sweep_and_calls_nothing_lost_or_rescued(
    store: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(own: LocalStore, key: str) -> None:
        raise StoreError("503")

    monkeypatch.setattr(LocalStore, "head", fails)
    with pytest.raises(StoreError, match="503"):
        mark_lost(table(("data/there", "rescued")), store)


def test_of_rows_those_are_absent_that_the_store_does_not_hold(quick: SparkSession, store: LocalConfig) -> None:
    rows = quick.createDataFrame([("data/gone", 1), ("data/there", 2)], "address string, size long")
    assert [tuple(row) for row in absent(rows, store).collect()] == [("data/gone", 1)]
    assert [tuple(row) for row in present(rows, store).collect()] == [("data/there", 2)]


def test_an_object_that_was_deleted_twice_and_is_there_is_told_once_after_its_last_delete(
    quick: SparkSession, store: LocalConfig
) -> None:
    rows = quick.createDataFrame(
        [("data/there", 1, 1), ("data/there", 1, 3), ("data/there", 1, 2), ("data/gone", 1, 4)],
        "address string, size long, at long",
    )
    found = still_there(rows, store, 4, "salt")
    assert found is not None and [tuple(row) for row in found.collect()] == [("data/there", 1, 3, STILL_THERE)]
    assert still_there(rows.where("address = 'data/gone'"), store, 4, "salt") is None


@pytest.mark.parametrize("address", ["data/./x", "data/../x", "data//x", "data/\0", "data/" + "n" * 300])
def test_an_address_that_the_store_cannot_hold_is_gone_and_stops_no_sweep(store: LocalConfig, address: str) -> None:
    found = mark_lost(table((address, "rescued"), ("data/there", "rescued")), store)
    assert found["outcome"].to_pylist() == ["lost", "rescued"]


def test_an_object_whose_head_the_store_refuses_is_there_and_hides_no_other_that_is_gone(
    quick: SparkSession, store: LocalConfig
) -> None:
    sealed = SealedConfig(store.path)
    addresses = ["data/sealed", "data/gone", "data/there", "data/sealed too", "data/gone too"]
    for each in ("data/sealed", "data/sealed too"):
        LocalStore(store).write(each, b"x")
    rows = quick.createDataFrame([(each, 1) for each in addresses], "address string, size long").coalesce(1)
    told = {(row["address"], row["outcome"]) for row in settled(rows, sealed, Outcome.LEFT).collect()}
    gone = {(each, outcome) for each in addresses if "gone" in each for outcome in ("failed:no_answer", "already_gone")}
    assert told == gone | {(each, "left") for each in addresses if "gone" not in each}
    waiting = table(*((each, "over_budget") for each in addresses))
    assert mark_gone(waiting, sealed, asked=False)["outcome"].to_pylist() == ["over_budget"] * 3 + ["already_gone"] * 2
    kept = table(*((each, outcome) for each in addresses for outcome in ("not_in_backup", "refused:foreign")))
    assert mark_gone(kept, sealed, asked=False).equals(kept), "of them, no delete was ever sent"
    found = mark_gone(kept, sealed, asked=True)["outcome"].to_pylist()
    assert sorted(found) == sorted(["not_in_backup", "refused:foreign"] * 3 + ["failed:no_answer", "already_gone"] * 4)
    with pytest.raises(StoreError, match="503"):
        mark_gone(table(("data/sealed", "over_budget"), ("data/broken", "over_budget")), sealed, asked=False)


def test_what_another_mark_deleted_and_the_store_refuses_to_show_is_known_by_its_list(
    quick: SparkSession, store: LocalConfig
) -> None:
    LocalStore(store).write("data/sealed", b"x")
    at = LocalStore(store).head("data/sealed").last_modified
    for size, outcomes in ((1, ["seen_again"]), (2, ["seen_again", "unconfirmed"])):
        rows = few(quick, [{"address": "data/sealed", "size": size, "last_modified": at}], LISTED)
        found = [row["outcome"] for row in told(seen_again(rows, SealedConfig(store.path)))]
        assert found == outcomes, "an object of another size is another object"
