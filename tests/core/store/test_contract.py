"""What every store must do, asked of real ones; then the faults of a network between lakegc and S3.

One table says what a server cannot hold, and why. What it cannot do is still looked at: on the wire, or as a
refusal.
"""

from __future__ import annotations

import os
import pickle
import time
import traceback
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SettingsError,
    StoreError,
)
from lakegc_core.store.base import LISTING_SCHEMA, NO_ANSWER, StoreConfig
from lakegc_core.store.s3 import S3Config
from lakegc_core.store.s3_listing import split_page
from tests.core.store.conftest import (
    PAGES,
    Faulty,
    Place,
    altering,
    delete_errors,
    local,
    malformed_batch,
    slow_down,
)
from tests.proxy import Answer, answer_lost, cut_off, failing, pass_on, proxy
from tests.servers import SECRET_KEY, S3Server

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
    ("rclone", "control"): "lists it after its deletion, with another character",
    ("rclone", "conditional writes"): "overwrites, whatever the condition",
    ("local", "double slash"): "is another name of a/b, and refused",
    ("local", "trailing slash"): "is a folder, and refused",
    ("local", "key below a key"): "a file is no folder",
}


def odd_keys(place: Place) -> list[str]:
    """The odd keys this server can hold."""
    return [key for name, key in ODD.items() if (place.kind, name) not in CANNOT]


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
    assert row["etag"] == head.etag == etag and '"' not in etag
    assert before <= row["last_modified"] <= datetime.now(UTC) + timedelta(seconds=2)
    assert abs(row["last_modified"] - head.last_modified) < timedelta(seconds=1)  # HEAD has no fractions


def test_listings_go_over_pages_and_deletes_over_batches(place: Place) -> None:
    keys = [f"data/{number % 3}/object-{number:05}" for number in range(2500)]
    place.fill([*keys, "_lakefs/keep"])
    assert sorted(place.addresses("data/")) == sorted(keys)
    assert len(place.addresses()) == 2501
    assert sorted(place.addresses("data/1/object-000")) == [key for key in sorted(keys) if "/1/object-000" in key]
    levels = list(place.store.list_level("data/1/"))
    assert sum(level.objects.num_rows for level in levels) == 833
    assert place.store.delete_many(keys) == ["deleted"] * 2500
    assert place.addresses() == ["_lakefs/keep"]


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
    assert outcome == ("already_gone" if place.kind == "local" else "deleted")
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


def test_a_probe_tells_the_time_and_keeps_to_its_corner(place: Place) -> None:
    probe = place.store.probe()
    assert abs(probe.clock - datetime.now(UTC)) < timedelta(seconds=5) and probe.clock.tzinfo is not None
    assert all(key.startswith("_lakefs/retention/gc/lakegc/") for key in place.addresses())


def test_t38_on_a_versioned_bucket_a_deleted_object_is_listed_no_more_and_its_bytes_stay(seaweed: S3Server) -> None:
    client, bucket = seaweed.client(), f"versioned-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = seaweed.config("ns", bucket=bucket).connect()
    assert store.probe().versioning
    store.write("data/a", b"12345")
    assert store.delete_many(["data/a"]) == ["deleted"]
    assert not [batch.num_rows for batch in store.list("data/")]
    with pytest.raises(ObjectNotFoundError):
        store.read("data/a")
    assert store.delete_many(["data/a"]) == ["deleted"]  # one marker more
    versions = client.list_object_versions(Bucket=bucket, Prefix="ns/data/")["Versions"]
    assert [(version["Key"], version["Size"]) for version in versions] == [("ns/data/a", 5)]


def test_configs_travel(place: Place) -> None:
    copy: StoreConfig = pickle.loads(pickle.dumps(place.config))
    assert copy == place.config and hash(copy) == hash(place.config)
    place.store.write("a", b"1")
    assert copy.connect().read("a") == b"1"
    assert place.config.root == place.store.root


# The file system


def test_a_missing_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    place = local(tmp_path / "nowhere")
    for ask in (place.addresses, lambda: list(place.store.list_level()), place.store.probe):
        with pytest.raises(StoreError, match="no such folder"):
            ask()


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a\0b", "a//b", "./a", "a/", "\udcff"])
def test_keys_that_name_another_place_are_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "x").write_bytes(b"not ours")
    place = local(tmp_path / "root")
    for ask in (place.store.read, place.store.head, lambda key: place.store.write(key, b"")):
        with pytest.raises(StoreError):
            ask(key)
    assert place.store.delete_many([key]) == ["failed:InvalidKey"]
    assert (tmp_path / "x").exists()


def test_links_are_neither_listed_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"not ours")
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "file").symlink_to(tmp_path / "outside" / "x")
    place = local(tmp_path / "root")
    assert place.addresses() == place.addresses("folder/") == []
    assert place.store.delete_many(["folder/x", "file"]) == ["failed:InvalidKey", "failed:ELOOP"]
    with pytest.raises(StoreError):
        place.store.read("folder/x")
    assert (tmp_path / "outside" / "x").exists()


def test_one_key_that_cannot_be_deleted_does_not_stop_the_others(tmp_path: Path) -> None:
    place = local(tmp_path)
    place.fill(["data/folder/x", "data/a", "data/b"])
    keys = ["data/a", "data/folder", "data/a/below", "data/b"]
    assert place.store.delete_many(keys) == ["deleted", "failed:EISDIR", "already_gone", "deleted"]
    assert place.addresses() == ["data/folder/x"] and (tmp_path / "data").is_dir()


def test_names_that_are_not_text_are_shown_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / os.fsdecode(b"bad\xff")).touch()
    place = local(tmp_path)
    assert place.addresses() == ["data/bad\\xff"]
    assert place.store.delete_many(["data/bad\\xff"]) == ["already_gone"]
    assert place.addresses() == ["data/bad\\xff"]


def test_files_of_a_write_under_way_are_no_objects(tmp_path: Path) -> None:
    place = local(tmp_path)
    etag = place.store.write("data/a", b"1")
    place.store.write("data/a", b"2", if_match=etag)  # leaves its lock file
    (tmp_path / "data" / ".lakegc-0123").write_bytes(b"half")
    assert place.addresses() == ["data/a"]
    assert place.store.delete_many(["data/.lakegc-0123"]) == ["failed:InvalidKey"]


# Faults between lakegc and S3


@pytest.mark.parametrize("page", PAGES)
def test_a_list_page_that_does_not_add_up_is_an_error(faulty: Faulty, page: str) -> None:
    change, message = PAGES[page]
    for key in ("data/a", "data/b", "data/c"):
        faulty.direct.write(key, b"")
    faulty.proxy.hook = altering(change)
    with pytest.raises((IncompleteError, StoreError), match=message):
        faulty.listed()


def test_a_list_page_cut_off_by_the_network_is_asked_for_again_and_then_an_error(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = failing(1, cut_off)
    assert faulty.listed() == ["data/a"] and len(faulty.proxy.requests) == 2
    faulty.proxy.hook = cut_off
    with pytest.raises(StoreError, match="ListObjectsV2"):
        faulty.listed()


def test_pages_the_fast_reader_does_not_know_are_read_by_botocore(faulty: Faulty) -> None:
    for key in ("data/a", "data/b c"):
        faulty.direct.write(key, b"12")
    fast = list(faulty.store.list())
    faulty.proxy.hook = altering(lambda body: body.replace(b"<Contents>", b"<Contents ><!-- -->"))
    assert [batch.to_pylist() for batch in faulty.store.list()] == [batch.to_pylist() for batch in fast]
    assert split_page(b"<ListBucketResult><Contents ><!-- --></Contents></ListBucketResult>") is None


def test_t07_an_object_cut_off_is_read_again_and_then_an_error(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"0123456789")
    faulty.proxy.hook = failing(1, cut_off)
    assert faulty.store.read("data/a") == b"0123456789"
    faulty.proxy.hook = cut_off
    with pytest.raises(IncompleteError):
        faulty.store.read("data/a")


def test_a_delete_whose_answer_is_lost_may_have_happened(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = answer_lost
    assert faulty.store.delete_many(["data/a", "data/b"]) == [NO_ANSWER] * 2
    faulty.proxy.hook = lambda request, forward: time.sleep(1.5)  # longer than it waits
    assert faulty.store.delete_many(["data/a"]) == [NO_ANSWER]
    faulty.proxy.hook = pass_on
    assert faulty.listed() == []


def test_an_error_page_of_something_else_is_a_failure(faulty: Faulty) -> None:
    faulty.proxy.hook = lambda request, forward: Answer(400, {"Content-Type": "text/html"}, b"<p>proxy")
    assert faulty.store.delete_many(["data/a", "half a \ud800"]) == ["failed:400", "failed:InvalidKey"]
    with pytest.raises(StoreError):
        faulty.listed()


def test_t36_only_the_batch_whose_answer_was_lost_has_none(faulty: Faulty) -> None:
    faulty.proxy.hook = failing(2, answer_lost)
    outcomes = faulty.store.delete_many([f"data/{number}" for number in range(1001)])
    assert outcomes == [NO_ANSWER] * 1000 + ["deleted"]


def test_t35_a_store_that_throttles_is_waited_for(faulty: Faulty) -> None:
    faulty.direct.write("data/a", b"")
    faulty.proxy.hook = failing(1, slow_down)
    assert faulty.store.delete_many(["data/a"]) == ["deleted"]
    faulty.proxy.hook = slow_down
    assert faulty.store.delete_many(["data/a", "data/b"]) == ["failed:SlowDown"] * 2


def test_t35_errors_of_single_keys_are_theirs_alone(faulty: Faulty) -> None:
    prefix = faulty.config.prefix

    keys = ["data/a", "data/b", "data/c"]
    faulty.proxy.hook = delete_errors((f"{prefix}/data/b", "AccessDenied"), (f"{prefix}/data/c", "NoSuchKey"))
    assert faulty.store.delete_many(keys) == ["deleted", "failed:AccessDenied", "already_gone"]
    faulty.proxy.hook = delete_errors(("something/else", "AccessDenied"))
    assert faulty.store.delete_many(keys) == ["failed:AccessDenied"] * 3
    faulty.proxy.hook = failing(1, delete_errors((f"{prefix}/data/b", "SlowDown")))
    assert faulty.store.delete_many(keys) == ["deleted"] * 3
    assert b"data/a" not in faulty.proxy.requests[-1].body  # only what failed is asked for again


def test_a_batch_the_store_cannot_read_is_deleted_key_by_key(faulty: Faulty) -> None:
    keys = ["data/a", "data/b"]
    for key in keys:
        faulty.direct.write(key, b"")
    faulty.proxy.hook = malformed_batch
    assert faulty.store.delete_many(keys) == ["deleted", "deleted"]
    assert faulty.listed() == []


def test_a_conditional_write_whose_answer_was_lost_is_known_for_our_own(faulty: Faulty) -> None:
    faulty.proxy.hook = failing(1, answer_lost)
    etag = faulty.store.write("lease", b"mine", if_absent=True)
    assert faulty.store.head("lease").etag == etag
    faulty.proxy.hook = failing(1, answer_lost)
    with pytest.raises(PreconditionFailedError):
        faulty.store.write("lease", b"another's", if_absent=True)


def test_no_secret_in_any_text(faulty: Faulty, seaweed: S3Server) -> None:
    wrong = replace(faulty.config, secret_access_key="hush-a")
    gone = replace(faulty.config, endpoint_url="http://127.0.0.1:9", access_key_id="hush-b", session_token="hush-c")
    texts = [repr(faulty.config), repr(wrong), repr(gone), repr(faulty.store), str(gone)]
    for config in (wrong, gone, replace(faulty.config, bucket="no-such-bucket")):
        store = config.connect()
        texts += store.delete_many(["data/a"])
        for ask in (lambda store=store: list(store.list()), lambda store=store: store.write("a", b"")):
            with pytest.raises(StoreError) as caught:
                ask()
            texts += traceback.format_exception(caught.value)
    joined = "\n".join(texts)
    assert "hush" not in joined and SECRET_KEY not in joined
    assert all(code in joined for code in ("SignatureDoesNotMatch", "EndpointConnectionError", "NoSuchBucket"))
    with pytest.raises(SettingsError, match="holds credentials") as refused:
        S3Config("bucket", endpoint_url="http://id:hush-a@127.0.0.1:9")
    assert "hush" not in str(refused.value)


def test_the_environment_of_the_sdk_is_enough(seaweed: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in seaweed.environment().items():
        monkeypatch.setenv(name, value)
    store = S3Config(seaweed.bucket, uuid.uuid4().hex).connect()
    store.write("data/a", b"1")  # and by path: no host is called after the bucket here
    assert store.read("data/a") == b"1" and store.delete_many(["data/a"]) == ["deleted"]
