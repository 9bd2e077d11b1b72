"""What every store must do, asked of real servers.

One table says what a server cannot hold, and why. What it cannot do is still looked at: on the wire, or as a refusal.
"""

from __future__ import annotations

import html
import io
import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import pytest

from lakegc_core.errors import ObjectNotFoundError, PreconditionFailedError, StoreError
from lakegc_core.store.base import LISTING_SCHEMA, PROBE_KEY, StoreConfig, head_if_there, heads
from lakegc_core.store.gcs.store import GCSConfig
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3.store import S3Config
from tests.core.store.conftest import KINDS, Place
from tests.support.proxy import Answer, proxy
from tests.support.s3_dialects import DIALECTS
from tests.support.servers import S3Server
from tests.support.store_faults import answering

ODD = {
    "space": "data/with space",
    "percent": "data/100%25 %zz",
    "plus": "data/a+b",
    "markup": "data/<a>&amp;'\"b",
    "double slash": "data//x",
    "NFC": "data/caf\u00e9",
    "NFD": "data/cafe\u0301",
    "non-ASCII": "data/日本/語",
    "comma suffix": "data/slice/object," + "s" * 43,
    "long": "/".join(["l" * 200] * 4) + "/" + "m" * 190,  # 994 bytes, and 1,019 with the prefix
    "newline": "data/two\nlines",
    "backslash": "data/back\\slash",
    "trailing slash": "data/folder/",
    "key below a key": "data/slice/object," + "s" * 43 + "/1",
    "control": "data/bell\x07",
}

CANNOT = {
    ("seaweedfs", "double slash"): "stores a//b as a/b",
    ("seaweedfs", "backslash"): "stores a\\b as a/b",
    ("seaweedfs", "trailing slash"): "makes a folder of it, which has no content",
    ("rclone", "double slash"): "refuses it",
    ("rclone", "trailing slash"): "stores a/ as a",
    ("rclone", "key below a key"): "answers 500: a file is no folder",
    ("rclone", "newline"): "lists it with another character, once it reads the folder again",
    ("rclone", "control"): "lists it with another character, once it reads the folder again",
    ("rclone", "conditional writes"): "overwrites, whatever the condition",
    ("azurite", "backslash"): "stores a\\b as a/b",
    ("azurite", "control"): "answers 500 to a listing with it",
    ("local", "double slash"): "is another name of a/b, and refused",
    ("local", "trailing slash"): "is a folder, and refused",
    ("local", "key below a key"): "a file is no folder",
}


CANNOT |= {(name, key): "says so" for name, dialect in DIALECTS.items() for key in dialect.cannot}


def odd_keys(place: Place) -> list[str]:
    """The odd keys this server can hold."""
    return [key for name, key in ODD.items() if (place.kind, name) not in CANNOT]


# Time

SECOND = timedelta(seconds=1)
"""Stores tell their time in whole seconds."""


def test_a_store_tells_its_time_by_one_request_whether_or_not_anything_lies_there(place: Place) -> None:
    for _ in range(2):
        before = datetime.now(UTC)
        assert before - SECOND <= place.store.clock() <= datetime.now(UTC) + SECOND
        place.store.write(PROBE_KEY, b"")


# Listing


def test_t36_odd_keys_live_their_whole_life_under_their_own_name(place: Place) -> None:
    keys = odd_keys(place)
    for key in keys:
        place.store.write(key, key.encode())
    assert sorted(place.addresses()) == sorted(keys)
    for key in keys:
        assert place.store.read(key) == key.encode()
        assert place.store.head(key).size == len(key.encode())
        assert key in place.addresses(key)
    assert place.store.delete_many(keys) == ["deleted"] * len(keys)
    assert place.addresses() == []


def test_a_listing_has_the_schema_and_says_what_head_says(place: Place) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    etag = place.store.write("data/a", b"four")
    (batch,) = place.store.list()
    assert batch.schema.equals(LISTING_SCHEMA)
    (row,) = batch.to_pylist()
    head = place.store.head("data/a")
    assert (row["address"], row["size"]) == (head.address, head.size) == ("data/a", 4)
    assert (row["etag"] or "") == (head.etag or "") == etag and '"' not in etag
    assert etag or place.kind == "no ETags"
    assert before <= row["last_modified"] <= datetime.now(UTC) + timedelta(seconds=2)
    assert abs(row["last_modified"] - head.last_modified) < timedelta(seconds=1)  # HEAD has no fractions


def test_listings_go_over_pages_and_deletes_over_batches(place: Place) -> None:
    keys = [f"data/{number % 3}/object-{number:05}" for number in range(place.many)]
    place.fill([*keys, "_lakefs/keep"])
    assert sorted(place.addresses("data/")) == sorted(keys)
    assert len(place.addresses()) == place.many + 1
    assert sorted(place.addresses("data/1/object-000")) == [key for key in sorted(keys) if "/1/object-000" in key]
    levels = list(place.store.list_level("data/1/"))
    assert sum(level.objects.num_rows for level in levels) == len([key for key in keys if key.startswith("data/1/")])
    assert place.store.delete_many(keys) == ["deleted"] * place.many
    assert place.addresses() == ["_lakefs/keep"]


def test_prefixes_go_over_pages_each_once(place: Place) -> None:
    slices = [f"data/slice-{number:03}/" for number in range(min(place.many, 100))]
    files = [f"data/{letter}-{number:03}" for letter in "ab" for number in range(min(place.many, 300) // 2)]
    place.fill([*files, *(name + "object" for name in slices)])
    levels = list(place.store.list_level("data/"))
    assert sorted(prefix for level in levels for prefix in level.prefixes) == slices
    assert sorted(key for level in levels for key in level.objects["address"].to_pylist()) == files


def test_units_listed_side_by_side_over_one_connection_make_the_whole_listing(place: Place) -> None:
    place.fill([f"data/slice-{unit}/object-{number}" for unit in range(8) for number in range(4)])
    (level,) = place.store.list_level("data/")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(place.addresses, level.prefixes))
    assert [len(each) for each in found] == [4] * 8
    assert sorted(key for keys in found for key in keys) == sorted(place.addresses())


def test_a_level_holds_what_lies_directly_below(place: Place) -> None:
    for key in ("top", "data/one", "data/sl ice/x", "data/slice+/y/z"):
        place.store.write(key, b"")
    (root,) = place.store.list_level()
    assert root.objects.column("address").to_pylist() == ["top"] and root.prefixes == ("data/",)
    (data,) = place.store.list_level("data/")
    assert data.objects.column("address").to_pylist() == ["data/one"]
    assert sorted(data.prefixes) == ["data/sl ice/", "data/slice+/"]
    assert data.objects.schema.equals(LISTING_SCHEMA)


def test_a_prefix_may_end_within_a_name_or_match_nothing(place: Place) -> None:
    for key in ("data/ab1", "data/ab/2", "data/b"):
        place.store.write(key, b"")
    assert sorted(place.addresses("data/ab")) == ["data/ab/2", "data/ab1"]
    assert place.addresses("data/nothing") == place.addresses("none/at/all/") == []


def test_neighbours_whose_names_begin_alike_are_another_root(seaweed: S3Server) -> None:
    name = uuid.uuid4().hex
    seaweed.config(f"{name}-2").connect().write("data/theirs", b"")
    store = seaweed.config(name).connect()
    store.write("data/ours", b"")
    assert [row["address"] for batch in store.list() for row in batch.to_pylist()] == ["data/ours"]


def test_an_empty_prefix_is_the_whole_bucket(rclone: S3Server) -> None:
    store = rclone.config("").connect()
    key = f"data/{uuid.uuid4().hex}"
    store.write(key, b"x")
    assert store.read(key) == b"x"
    assert key in [row["address"] for batch in store.list("data/") for row in batch.to_pylist()]


# Reading, writing, deleting


def test_missing_objects_are_missing(place: Place) -> None:
    for ask in (place.store.read, place.store.head):
        with pytest.raises(ObjectNotFoundError, match=r"no (such )?object"):
            ask("data/nothing")
    (outcome,) = place.store.delete_many(["data/nothing"])
    assert outcome == ("deleted" if isinstance(place.config, S3Config) else "already_gone")  # S3 does not tell
    assert place.store.delete_many([]) == []
    assert place.store.delete_many(["", "a"])[0] == "failed:InvalidKey"  # it would name the root


def test_conditional_writes_hold_or_are_at_least_asked_for(place: Place) -> None:
    if (place.kind, "conditional writes") in CANNOT:
        assert place.server is not None and isinstance(place.config, S3Config)
        with proxy(place.server.endpoint) as between:
            store = replace(place.config, endpoint_url=between.endpoint).connect()
            store.write("a", b"1", if_absent=True)
            store.write("a", b"2", if_match="0123")
            assert [request.header("If-None-Match") for request in between.requests] == ["*", None]
            assert [request.header("If-Match") for request in between.requests] == [None, '"0123"']
        assert not place.store.probe().conditional_writes
        return
    if place.kind in DIALECTS and not DIALECTS[place.kind].conditions:
        for _ in range(2):
            assert place.store.probe().conditional_writes == (not DIALECTS[place.kind].probed)
        return
    first = place.store.write("a", b"1", if_absent=True)
    with pytest.raises(PreconditionFailedError):
        place.store.write("a", b"2", if_absent=True)
    second = place.store.write("a", b"2", if_match=first)
    with pytest.raises(PreconditionFailedError):
        place.store.write("a", b"3", if_match=first)
    with pytest.raises(PreconditionFailedError):
        place.store.write("nothing", b"3", if_match=second)
    assert place.store.read("a") == b"2" and place.store.head("a").etag == second
    assert place.store.probe().conditional_writes and place.store.probe().conditional_writes


def test_the_time_is_told_without_a_write_and_a_probe_keeps_to_its_corner(place: Place) -> None:
    place.store.write("a", b"1")
    before = datetime.now(UTC)
    now = place.store.now()
    assert before - SECOND <= now <= datetime.now(UTC) + SECOND and now.tzinfo is not None
    assert place.addresses() == ["a"]
    place.store.probe()
    assert all(key.startswith("_lakefs/retention/gc/lakegc/") for key in place.addresses() if key != "a")


def test_configs_travel(place: Place) -> None:
    copy: StoreConfig = pickle.loads(pickle.dumps(place.config))
    assert copy == place.config and hash(copy) == hash(place.config)
    place.store.write("a", b"1")
    assert copy.connect().read("a") == b"1"
    assert place.config.root == place.store.root


def test_an_object_is_copied_inside_the_store_from_another_root(place: Place) -> None:
    source = place.another()
    for key in ("data/plain", "data/with space+%25/\u00e9"):
        source.store.write(key, key.encode() * 100)
        place.store.write(key, b"to be overwritten")
        etag = place.store.copy(source.config, key, key)
        assert etag is not None and etag == (place.store.head(key).etag or "")
        assert place.store.read(key) == key.encode() * 100
        assert place.store.copy(place.config, key, key + " again") is not None
        assert source.store.read(key) == place.store.read(key + " again") == key.encode() * 100
    with pytest.raises(ObjectNotFoundError):
        place.store.copy(source.config, "data/nothing", "data/nothing")


def test_a_copy_and_an_upload_that_need_the_key_to_be_free_say_so_and_leave_what_lies_there(place: Place) -> None:
    source = place.another()
    source.store.write("data/a", b"from afar")

    def send(to: StoreConfig, origin: StoreConfig) -> Iterator[tuple[str, Callable[[], object]]]:
        store = to.connect()
        yield "data/copied", lambda: store.copy(origin, "data/a", "data/copied", if_absent=True)
        yield "data/uploaded", lambda: store.upload("data/uploaded", io.BytesIO(b"from afar"), if_absent=True)

    if isinstance(place.config, S3Config | GCSConfig):  # not every server looks at conditions
        assert place.server is not None and isinstance(source.config, S3Config | GCSConfig)
        with proxy(place.server.endpoint) as between:
            endpoint = between.endpoint + urlsplit(place.server.endpoint).path
            for _, way in send(*(replace(each, endpoint_url=endpoint) for each in (place.config, source.config))):
                with suppress(StoreError):
                    way()
            sent = (request for request in between.requests if request.method in ("PUT", "POST"))
            written = [request for request in sent if "upload_id" not in request.query]  # else it was begun so
        told = [each.header("If-None-Match") or each.query.get("ifGenerationMatch") for each in written]
        assert set(told) == {"*" if isinstance(place.config, S3Config) else "0"} and len(told) >= 2
        return
    for key, way in send(place.config, source.config):
        way()
        assert place.store.read(key) == b"from afar"
        place.store.write(key, b"newer")
        with pytest.raises(PreconditionFailedError):
            way()
        assert place.store.read(key) == b"newer"


def test_what_another_store_holds_is_not_copied_inside_this_one(place: Place) -> None:
    elsewhere = S3Config("bucket", "x") if isinstance(place.config, LocalConfig) else LocalConfig("/nowhere")
    assert place.store.copy(elsewhere, "data/a", "data/a") is None
    if place.server is not None:  # the same kind of store, but another one
        place.store.write("data/a", b"")
        far = replace(place.config, endpoint_url="http://127.0.0.1:9")  # type: ignore[type-var]
        assert place.store.copy(far, "data/a", "data/b") is None
    assert "data/b" not in place.addresses()


def test_keys_that_a_server_cannot_hold_are_sent_as_they_are(place: Place) -> None:
    cannot = [key for name, key in ODD.items() if (place.kind, name) in CANNOT]
    if isinstance(place.config, LocalConfig):
        for key in ("data//x", "data/folder/"):
            with pytest.raises(StoreError):
                place.store.write(key, b"")
        return
    assert place.server is not None
    with proxy(place.server.endpoint, answering(Answer(403, {}, b""))) as between:
        endpoint = between.endpoint + urlsplit(place.server.endpoint).path
        store = replace(place.config, endpoint_url=endpoint, max_attempts=1).connect()  # type: ignore[type-var]
        for key in cannot:
            between.requests.clear()
            with suppress(StoreError):
                store.write(key, b"")
            store.delete_many([key])
            put, delete = between.requests
            name = f"{place.config.prefix}/{key}"  # type: ignore[attr-defined]
            assert put.method == "PUT" and unquote(urlsplit(put.path).path).endswith(f"/{name}")
            where = urlsplit(delete.path).path.encode() + html.unescape(delete.body.decode()).encode()
            assert name.encode() in unquote_to_bytes(where)


def test_only_some_stores_prove_by_head_what_an_object_holds(place: Place) -> None:
    place.store.write("data/a", b"abc")
    digest = "md5:900150983cd24fb0d6963f7d28e17f72"
    proven = place.kind in (*DIALECTS, "seaweedfs", "rclone", "gcs")
    assert place.store.proves == proven
    shown = proven and place.kind not in ("no ETags", "weak ETags")
    assert place.store.head("data/a").digest == (digest if shown else None)
    assert not place.store.listed_digests, "lakegc.yaml does not say so"


STAGED = (
    *("data/./slice/id", "data/../slice/id", "..", ".", "", "/", "data//id", "data/id/", "./data", "data/.lakegc-x/id"),
    *("data/" + "n" * 300, "data/" + "n/" * 700, "data/" + "é" * 2000, "data/\0id", "data/\x01", "data/\ud800id"),
    *("data/%2e%2e/id", "data/a?versionId=1#b", "data\\..\\id", "data/id+ &=%", "data/\r\nHost: x", "data/\uffff"),
)
"""What a user of lakeFS may stage as an address: any text."""
TOO_LONG = "data/" + "é" * 2000


FOLDING = pytest.param("a//b is a/b", marks=[pytest.mark.slow, pytest.mark.safety])


@pytest.mark.parametrize("place", (*KINDS, FOLDING), indirect=True)
@pytest.mark.parametrize("key", STAGED, ids=range(len(STAGED)))
def test_no_text_that_a_user_stages_as_an_address_makes_a_store_fail(place: Place, key: str) -> None:
    """Some servers fold `a//b` and `a/b/`, and tell of the object that lies there."""
    if (place.kind, key) == ("rclone", TOO_LONG):
        pytest.skip("answers 500, which may pass")
    place.store.write("data/id", b"x")
    found = head_if_there(place.store, key)
    assert found is None or "//" in f"/{key}/"


def test_many_heads_say_what_one_says_of_each_key_in_their_order(place: Place) -> None:
    keys = [text for each in odd_keys(place) for text in (each, f"{each}-nothing")]
    for key in keys[::2]:
        place.store.write(key, key.encode())
    asked = [key for key in (*keys, *STAGED) if (place.kind, key) != ("rclone", TOO_LONG)]
    assert heads(place.store, asked) == [head_if_there(place.store, key) for key in asked]
