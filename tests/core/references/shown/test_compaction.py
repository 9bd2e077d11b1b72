"""Staging compaction: what a compacted metarange may hold, unseen, waits for as long as something alike is staged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakegc_core import pipeline
from lakegc_core.errors import StoreError
from lakegc_core.marks.context import open_mark
from lakegc_core.policy import safety
from lakegc_core.references.shown import compaction
from lakegc_core.references.shown.classes import HAD_ITS_TURN
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.sweep import planning
from lakegc_core.tables.parts import list_parts, read_part
from tests.core.references.shown.test_reuploads import expired, forgotten, kept, marked, md5
from tests.interleavings.rig import NAME, OLD, Lake
from tests.interleavings.rig import lake as a_lake
from tests.support.replays import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAME = bytes(500)


@pytest.fixture
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake too large to be listed whole, on a server that may compact."""
    with a_lake(spark, tmp_path_factory.mktemp("compaction")) as found, pytest.MonkeyPatch.context() as patch:
        patch.setitem(safety.LEVELS, "none", replace(safety.LEVELS["none"], whole_pages=0))
        found.options = {"safety_level": "none", "min_age": timedelta(0)}
        found.sandbox.version, found.sandbox.version_context = "1.100.0", "lakeFS-Enterprise"
        found.repository.create_branch("dev", "main")
        yield found


def upload(lake: Lake, path: str = "a", data: bytes = SAME, days: float = OLD) -> str:
    return lake.repository.upload("dev", path, data, age=timedelta(days=days))


def covered(lake: Lake, days: float = OLD / 2) -> tuple[str, str]:
    """An upload that was compacted, and the same bytes uploaded again over it."""
    first = upload(lake)
    lake.repository.compact("dev")
    second = upload(lake, days=days)
    assert [entry.address for _, _, entry in lake.repository.uncommitted("dev")] == [second], "the dump names this one"
    assert lake.repository.entry("dev", "a").address == second, "and the branch shows it"
    return first, second


def asked_the_store(lake: Lake) -> bool:
    """Whether a mark or a look asked the store for sizes, and put down what it found."""
    return any(lake.folder.rglob(compaction.STAGED_SIZES))


def swept(lake: Lake, name: str) -> dict[str, str]:
    """What became of each object, by address."""
    lake.sweep(name)
    context = open_mark(lake.open(), name)
    folder = f"{context.mark.folder}/sweeps/1/outcomes"
    parts = [read_part(context.workspace, folder, part) for part in list_parts(context.workspace, folder)]
    return {row["address"]: row["outcome"] for part in parts for batch in part for row in batch.to_pylist()}


def test_t51_what_the_next_commit_brings_back_is_neither_expired_nor_swept(lake: Lake) -> None:
    first, second = covered(lake)
    garbage = forgotten(lake, 700)
    context, report = marked(lake, "m")
    assert expired(context) == garbage
    assert kept(context)[first] == "unasked" and kept(context)[second] == "staged"
    assert report["asked"]["waiting"] == {"objects": 1, "bytes": 500}
    (waiting,) = rows(context, "expired_addresses", "waiting")
    assert waiting["waited"] == HAD_ITS_TURN, "or it came before all others at each mark, and could spend the budget"
    assert set(swept(lake, "m")) == garbage
    lake.commit("dev", days=0)
    assert lake.repository.entry("dev", "a").address == first
    assert lake.repository.read("dev", "a") == SAME


def test_t51_once_nothing_alike_is_staged_what_nobody_shows_goes(lake: Lake) -> None:
    first, second = covered(lake)
    alike = forgotten(lake, 500)
    assert not expired(marked(lake, "m1")[0])
    lake.commit("dev", days=0)
    lake.wait(hours=1)
    context, _ = marked(lake, "m2")
    assert expired(context) == alike | {second}, "the commit kept the one that was compacted"
    assert set(swept(lake, "m2").values()) == {"deleted"}
    assert lake.stored() >= {first} and not lake.stored() & (alike | {second})


def test_t51_what_a_compaction_after_the_dump_brings_back_is_not_swept(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dump of the look names the later upload; by the time that lakeFS is asked, the branch shows the earlier."""
    content = lake.content()
    address = lake.forgotten(content)
    garbage = forgotten(lake, 700)
    assert expired(marked(lake, "m")[0]) == garbage | {address}
    lake.repository.stage("dev", "a", lake.repository.place.qualify(address), size=len(content), checksum=md5(content))
    lake.repository.compact("dev")
    upload(lake, data=content, days=0)
    take_look = planning.take_look

    def looked(*arguments: Any) -> Any:
        found = take_look(*arguments)
        lake.repository.compact("dev")
        assert lake.repository.entry("dev", "a").address == address
        return found

    monkeypatch.setattr(planning, "take_look", looked)
    assert swept(lake, "m") == {address: "unconfirmed"} | dict.fromkeys(garbage, "deleted")
    assert lake.repository.read("dev", "a") == content


def test_what_a_re_upload_of_the_heads_content_may_hide_waits_too(lake: Lake) -> None:
    """Changed, compacted, changed back, compacted: the head claims the same, so that no dump names what lies there."""
    upload(lake)
    lake.commit("dev", days=0)
    changed = upload(lake, data=bytes(600))
    lake.repository.compact("dev")
    back = upload(lake)
    lake.repository.compact("dev")
    again = upload(lake, days=OLD / 2)
    assert not lake.repository.uncommitted("dev") and lake.repository.entry("dev", "a").address == again
    context, _ = marked(lake, "m")
    assert expired(context) == {changed}
    assert (kept(context)[again], kept(context)[back]) == ("staged", "unasked")
    lake.commit("dev", days=0)
    assert lake.repository.entry("dev", "a").address == back


def test_what_was_staged_since_the_listing_counts_by_the_size_that_the_store_tells(lake: Lake) -> None:
    first, second = covered(lake)
    (lake.folder / NAME / second).unlink()
    late: dict[str, str] = {}

    def fire(stage: str) -> None:
        if stage == "namespace_listing":
            late["again"] = upload(lake, days=0)

    context = lake.mark("m", fire)
    assert late["again"] not in kept(context), "the listing had ended"
    assert first not in expired(context)
    assert kept(context)[first] == "unasked"
    assert asked_the_store(lake)


def test_a_staged_object_that_is_gone_keeps_nothing(lake: Lake) -> None:
    first, second = covered(lake)
    (lake.folder / NAME / second).unlink()
    assert expired(marked(lake, "m")[0]) == {first}


@pytest.mark.parametrize("few", [0, 20])
def test_sizes_are_those_of_the_named_objects_and_a_store_that_refuses_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(compaction, "_FEW", few)  # of more in one slice, the slice is listed whole
    config, listed = LocalConfig(str(tmp_path)), list[str]()
    for number, name in enumerate(("data/s1/a", "data/s1/a_size", "data/s1/b", "data/s2/c", "data/d")):
        connect(config).write(name, bytes(number + 1))
    listing = LocalStore.list
    monkeypatch.setattr(LocalStore, "list", lambda store, prefix="": listed.append(prefix) or listing(store, prefix))
    asked = [["data/s1/a", "data/s1/gone"], ["data/d", "data/s2/c"]]
    batches = (pa.RecordBatch.from_pydict({"address": each}) for each in asked)
    told = [size for batch in compaction._Sizes(config).sizes(batches) for size in batch["size"].to_pylist()]
    assert sorted(told) == [1, 4, 5]
    assert sorted(listed) == (sorted([*asked[0], *asked[1]]) if few else ["data/d", "data/s1/", "data/s2/"])

    def refused(store: LocalStore, prefix: str = "") -> Any:
        raise StoreError(f"{prefix}: the store answered AccessDenied")

    monkeypatch.setattr(LocalStore, "list", refused)
    with pytest.raises(StoreError, match="AccessDenied"):
        list(compaction._Sizes(config).sizes(iter([pa.RecordBatch.from_pydict({"address": asked[0]})])))


def _open_source(lake: Lake) -> None:
    lake.sandbox.version_context = "lakeFS"


def _of_before(lake: Lake) -> None:
    lake.sandbox.version = "1.99.1"


def _said(lake: Lake) -> None:
    opened = lake.open
    said = {"compaction": "never"}

    def open_repository(*names: str) -> Any:
        found = opened(*names)
        return replace(found, settings=replace(found.settings, server=replace(found.settings.server, **said)))

    lake.open = open_repository  # type: ignore[method-assign]


@pytest.mark.parametrize("without", [_open_source, _of_before, _said])
def test_where_nothing_is_compacted_nothing_waits_and_nothing_more_is_asked(
    lake: Lake, without: Callable[[Lake], None]
) -> None:
    without(lake)
    upload(lake)
    garbage = forgotten(lake, 500)
    context = lake.mark("m", lambda stage: upload(lake, "b", days=0) and None if stage == "namespace_listing" else None)
    report = pipeline.review(context).report
    assert expired(context) == garbage
    assert report["asked"] == {"pages": 0, "heads": 0, "waiting": {"objects": 0, "bytes": 0}}
    assert swept(lake, "m") == dict.fromkeys(garbage, "deleted")
    assert not asked_the_store(lake)
