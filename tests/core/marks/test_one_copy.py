"""A copy counts when the target holds what the source does, as far as the stores can prove it."""

from __future__ import annotations

import errno
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from lakegc_core.marks import one_copy
from lakegc_core.marks.one_copy import OneCopy, Room
from lakegc_core.store.base import StoreConfig, connect
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.store.s3.store import S3Config
from tests.support.disguise import Disguise
from tests.support.proxy import Answer, Forward, Hook, Proxy, Request, cut_off, pass_on, proxy
from tests.support.servers import seaweedfs
from tests.support.waiting import STARTS

KEY = "data/a"
BYTES = b"the same bytes"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Config, Proxy]]:
    """A real S3 server behind a proxy."""
    with seaweedfs(tmp_path_factory.mktemp("copies")) as server, proxy(server.endpoint) as between:
        yield server.config("", endpoint_url=between.endpoint), between


@pytest.fixture(params=["plain", "under KMS"])
def s3(request: pytest.FixtureRequest, behind: tuple[S3Config, Proxy]) -> Iterator[S3Config]:
    """An empty place; `under KMS` every object has an ETag of 32 hex digits that is no digest."""
    config, between = behind
    plain = between.hook
    if request.param == "under KMS":
        between.hook = Disguise(lambda path: True)
    yield replace(config, prefix=uuid.uuid4().hex)
    between.hook = plain


@contextmanager
def hooked(between: Proxy, hook: Hook) -> Iterator[None]:
    """The proxy has this hook until the block ends."""
    before, between.hook = between.hook, hook
    yield
    between.hook = before


def outcome(source: StoreConfig, target: StoreConfig, size: int = len(BYTES)) -> str:
    return str(OneCopy(source, target).copy({"address": KEY, "size": size})["outcome"])


def test_a_copy_within_the_store_and_one_between_stores_count_and_are_found_again(s3: S3Config, tmp_path: Path) -> None:
    connect(s3).write(KEY, BYTES)
    for target in (replace(s3, prefix=f"{s3.prefix}-backup"), LocalConfig(str(tmp_path))):
        assert [outcome(s3, target) for _ in range(2)] == ["copied", "already_there"]
        assert connect(target).read(KEY) == BYTES
        connect(s3).delete_many([KEY])
        assert [outcome(target, s3) for _ in range(2)] == ["copied", "already_there"]
        assert connect(s3).read(KEY) == BYTES


def test_something_of_another_size_is_left_alone(s3: S3Config, tmp_path: Path) -> None:
    connect(s3).write(KEY, BYTES)
    other = LocalConfig(str(tmp_path))
    connect(other).write(KEY, BYTES[:-1])
    assert outcome(s3, other) == outcome(other, s3) == "different"
    assert (connect(other).read(KEY), connect(s3).read(KEY)) == (BYTES[:-1], BYTES)


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
def test_other_bytes_of_the_same_size_are_seen_where_both_stores_prove_what_they_hold(s3: S3Config) -> None:
    target = replace(s3, prefix=f"{s3.prefix}-backup")
    connect(s3).write(KEY, BYTES)
    connect(target).write(KEY, BYTES.swapcase())
    assert outcome(s3, target) == "different"


def test_an_older_copy_counts_as_one_of_what_may_be_written_over_only_where_both_stores_prove_their_content(
    s3: S3Config, behind: tuple[S3Config, Proxy], tmp_path: Path
) -> None:
    """As one of what a restore has brought back since."""
    target = replace(s3, prefix=f"{s3.prefix}-backup")

    def outcome_of(target: StoreConfig) -> str:
        return str(OneCopy(s3, target, made_after=True).copy({"address": KEY, "size": len(BYTES)})["outcome"])

    def later(request: Request, forward: Forward) -> Answer | None:
        answer = before(request, forward)
        if answer is None or request.method != "HEAD" or f"/{s3.prefix}/" not in request.path:
            return answer
        named = {name: value for name, value in answer.headers.items() if name.lower() != "last-modified"}
        return replace(answer, headers=named | {"Last-Modified": "Fri, 01 Jan 2100 00:00:00 GMT"})

    before = behind[1].hook
    connect(s3).write(KEY, BYTES)
    assert outcome_of(target) == outcome_of(LocalConfig(str(tmp_path))) == "copied"
    with hooked(behind[1], later):
        assert outcome_of(target) == ("already_there" if connect(target).head(KEY).digest else "different")
        assert outcome_of(LocalConfig(str(tmp_path))) == "different"


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
def test_a_copy_that_does_not_show_has_failed_and_says_nothing_of_its_object(
    s3: S3Config, behind: tuple[S3Config, Proxy]
) -> None:
    target = replace(s3, prefix=f"{s3.prefix}-backup")
    connect(s3).write(KEY, BYTES)

    def hidden(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        is_copy = request.method == "HEAD" and f"/{target.prefix}/" in request.path
        return replace(answer, status=404, body=b"") if is_copy else answer

    with hooked(behind[1], hidden):
        assert outcome(s3, target) == "failed"
    connect(s3).delete_many([KEY])
    assert outcome(s3, target) == "missing"


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
def test_an_object_that_comes_in_parts_comes_whole_in_whatever_order(
    s3: S3Config, behind: tuple[S3Config, Proxy], tmp_path: Path
) -> None:
    whole, last_sent = bytes(range(256)) * (17 << 12), threading.Event()  # 17 MiB: parts of 8, 8 and 1
    connect(s3).write(KEY, whole)

    def last_part_first(request: Request, forward: Forward) -> Answer:
        begin = (request.header("Range") or "").removeprefix("bytes=").partition("-")[0]
        assert begin != str(8 << 20) or last_sent.wait(STARTS)
        answer = forward(request)
        if begin == str(16 << 20):
            last_sent.set()
        return answer

    with hooked(behind[1], last_part_first):
        assert outcome(s3, LocalConfig(str(tmp_path)), len(whole)) == "copied"
    assert last_sent.is_set() and connect(LocalConfig(str(tmp_path))).read(KEY) == whole


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
def test_an_object_that_breaks_off_on_the_way_has_failed_and_stops_no_other(
    s3: S3Config, behind: tuple[S3Config, Proxy], tmp_path: Path
) -> None:
    connect(s3).write(KEY, BYTES)
    with hooked(
        behind[1], lambda request, forward: (cut_off if request.method == "GET" else pass_on)(request, forward)
    ):
        assert outcome(s3, LocalConfig(str(tmp_path))) == "failed"
    assert outcome(s3, LocalConfig(str(tmp_path))) == "copied"


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
@pytest.mark.parametrize("newer", [b"newer, of another length", BYTES.swapcase()], ids=["other", "of equal size"])
def test_what_somebody_else_writes_while_an_object_is_brought_back_stays(
    s3: S3Config, tmp_path: Path, newer: bytes
) -> None:
    copies = LocalConfig(str(tmp_path / "copies"))
    connect(copies).write(KEY, BYTES)
    for target in (s3, LocalConfig(str(tmp_path / "data"))):
        work = OneCopy(copies, target, if_absent=True)
        row, found = work.look({"address": KEY, "size": len(BYTES)})
        assert found is not None
        connect(target).write(KEY, newer)
        assert work.make(row, found)["outcome"] == ("different" if len(newer) != len(BYTES) else "already_there")
        assert connect(target).read(KEY) == newer


@pytest.mark.parametrize("s3", ["plain"], indirect=True)
@pytest.mark.parametrize("status", [412, 501])
def test_where_a_store_refuses_the_condition_although_nothing_lies_there_an_object_comes_back_without_it(
    s3: S3Config, behind: tuple[S3Config, Proxy], tmp_path: Path, status: int
) -> None:
    def refusing(request: Request, forward: Forward) -> Answer:
        if request.method == "PUT" and request.header("If-None-Match"):
            code = "PreconditionFailed" if status == 412 else "NotImplemented"
            return Answer(status, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode())
        return forward(request)

    copies, within = LocalConfig(str(tmp_path)), replace(s3, prefix=f"{s3.prefix}-backup")
    for source in (copies, within):
        connect(source).write(KEY, BYTES)
        with hooked(behind[1], refusing):
            row = OneCopy(source, s3, if_absent=True).copy({"address": KEY, "size": len(BYTES)})
        assert row["outcome"] == "copied", row["problem"]
        assert connect(s3).read(KEY) == BYTES
        connect(s3).delete_many([KEY])


def test_where_a_folder_has_no_hard_links_an_object_comes_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    copies, data = (LocalConfig(str(tmp_path / name)) for name in ("copies", "data"))
    connect(copies).write(KEY, BYTES)
    monkeypatch.setattr("os.link", no_links)
    assert OneCopy(copies, data, if_absent=True).copy({"address": KEY, "size": len(BYTES)})["outcome"] == "copied"
    assert connect(data).read(KEY) == BYTES


def test_objects_on_their_way_between_two_stores_take_no_more_room_than_there_is_and_a_larger_one_goes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = (LocalConfig(str(tmp_path / name)) for name in ("source", "target"))
    sizes = {f"data/{number}": 6 for number in range(5)} | {"data/large": 20}
    for key, size in sizes.items():
        connect(source).write(key, bytes(size))
    arrived, release, lock, download = threading.Semaphore(0), threading.Event(), threading.Lock(), LocalStore.download
    under_way: list[int] = []
    seen: list[tuple[int, ...]] = []

    class Watched(Room):
        @contextmanager
        def taken(self, size: int) -> Iterator[None]:
            arrived.release()
            with super().taken(size):
                yield
                with lock:
                    under_way.remove(size)

    def watched(store: LocalStore, key: str, file: IO[bytes]) -> None:
        with lock:
            under_way.append(sizes[key])
            seen.append(tuple(under_way))
        assert release.wait(STARTS)
        download(store, key, file)

    monkeypatch.setattr(one_copy, "_room", Watched(13))
    monkeypatch.setattr(LocalStore, "download", watched)
    with ThreadPoolExecutor(len(sizes)) as pool:
        infos = [connect(source).head(key) for key in sizes]
        work = OneCopy(source, target)
        done = [pool.submit(work._carry, connect(source), connect(target), each) for each in infos]
        assert all(arrived.acquire(timeout=STARTS) for _ in done)
        release.set()
        for each in done:
            each.result()
    assert {key: connect(target).head(key).size for key in sizes} == sizes
    assert len(seen) == len(sizes) and all(sum(each) <= 13 or each == (20,) for each in seen)
