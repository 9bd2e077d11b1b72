"""Names: which keys an address keeps alive, and which keys may ever be collected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakegc_core.errors import SettingsError
from lakegc_core.policy.namespace import Namespace, overlapping
from lakegc_core.policy.places import bucket_of, clean

BY_PREFIX, RELATIVE, FULL = 0, 1, 2
SIGNATURE = "Zm9vYmFyLV9mb29iYXItX2Zvb2Jhci1fZm9vYmFyLV8"  # 43 characters
SLICE = "gqv3epl4fd2o8m3men70"
XID = "ce8co454fd2o8m3menag"
HEX = "0123456789abcdef0123456789abcdef"
ID = 2 * HEX


def protected(uri: str, address: str, address_type: int = FULL) -> set[str]:
    """The keys that one entry keeps alive."""
    found = Namespace(uri).protected_keys(pa.array([address]), pa.array([address_type], pa.int8()))
    assert set(found["index"].to_pylist()) <= {0}
    return set(found["address"].to_pylist())


def collectable(key: str, uri: str = "s3://b/ns", *, unknown_names: bool = False) -> bool:
    """May this key ever be deleted?"""
    return bool(Namespace(uri).deletable(pa.array([key]), unknown_names=unknown_names).to_pylist()[0])


@pytest.mark.parametrize(
    ("uri", "authority", "path"),
    [
        ("s3://bucket/prefix", "bucket", "prefix"),
        ("s3://bucket/prefix/", "bucket", "prefix"),
        ("s3://bucket/prefix//", "bucket", "prefix/"),
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("gs://bucket/a/b", "bucket", "a/b"),
        ("s3://bucket/team a/ünïcode", "bucket", "team a/ünïcode"),
        ("s3://bucket/team%20a", "bucket", "team a"),
        ("s3://bucket/team%2Fa", "bucket", "team%2Fa"),
        ("https://account.blob.core.windows.net/container/p", "account.blob.core.windows.net", "container/p"),
        ("https://account.blob.core.windows.net/container/p//", "account.blob.core.windows.net", "container/p"),
        ("https://account.blob.core.windows.net/container/a%2Fb", "account.blob.core.windows.net", "container/a/b"),
        ("http://account.azurite.test:10000/container", "account.azurite.test:10000", "container"),
        ("local://repo/x", "", "repo/x"),
    ],
)
def test_a_namespace_is_read_as_the_server_reads_it(uri: str, authority: str, path: str) -> None:
    assert (Namespace(uri).authority, Namespace(uri).path) == (authority, path)


@pytest.mark.parametrize(
    "uri", ["mem://x", "file:///x", "bucket/prefix", "", "s3://", "s3:///", "local://", "local://../x", "s3://b/%zz"]
)
def test_what_is_no_collectable_namespace_is_refused(uri: str) -> None:
    with pytest.raises(SettingsError, match="known schemes"):
        Namespace(uri)


def test_a_relative_address_is_the_key_verbatim() -> None:
    for address in (f"data/{SLICE}/{XID}", f"data/{SLICE}/{XID},{SIGNATURE}", "data/a%20b+c d/é?x#y", HEX):
        assert protected("s3://b/ns", address, RELATIVE) == {address}


@pytest.mark.parametrize("address_type", [BY_PREFIX, FULL])
def test_a_full_address_in_the_namespace_is_the_rest_of_it(address_type: int) -> None:
    assert protected("s3://b/ns", "s3://b/ns/data/s/x", address_type) == {"data/s/x"}
    assert protected("s3://b", "s3://b/data/s/x", address_type) == {"data/s/x"}
    account = "https://account.blob.core.windows.net/container"
    assert protected(f"{account}/ns", f"{account}/ns/data/s/x", address_type) == {"data/s/x"}


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_t23_slashes_at_the_end_of_the_namespace_do_not_hide_an_address(slashes: str) -> None:
    for between in ("/", "//", "///"):
        assert "data/s/x" in protected(f"s3://b/ns{slashes}", f"s3://b/ns{between}data/s/x")


@pytest.mark.parametrize(
    "address",
    [
        "s3://b/ns2/data/s/x",
        "s3://b/nsdata/s/x",
        "s3://other/ns/data/s/x",
        "s3://b2/ns/data/s/x",
        "s3://b/other/data/s/x",
        "gs://elsewhere/ns/data/s/x",
        "s3://b/ns",
        "s3://b/ns/",
    ],
)
def test_t23_an_address_outside_the_namespace_protects_nothing_in_it(address: str) -> None:
    assert protected("s3://b/ns", address) == set()
    assert protected("s3://b/ns", address, BY_PREFIX) == set()


@pytest.mark.parametrize("alias", ["team-s3alias", "x@Team-S3Alias", "p--op-s3", "p--ol-s3:443", "p--xa-s3", "m.mrap"])
def test_an_address_by_the_alias_of_an_access_point_may_lie_in_any_bucket(alias: str) -> None:
    """Only the key tells. Nobody but AWS knows for which bucket an alias stands."""
    addresses = [f"s3://{alias}/ns/data/s/x", f"s3:///{alias.rpartition('@')[2].partition(':')[0]}/ns/data/s/x"]
    for address in addresses:
        assert "data/s/x" in protected("s3://b/ns", address)
        assert protected("s3://b/other", address) == set()
    assert Namespace("s3://b/ns").may_hold(pa.array(addresses)).to_pylist() == [True, True]
    assert Namespace("s3://b/other").may_hold(pa.array(addresses[:1])).to_pylist() == [False]
    assert all(Namespace("s3://b/ns").is_at(bucket_of(address)) for address in addresses)
    plain = pa.array(["s3://s3alias/ns/data/s/x", "s3://b-s3alias2/ns/data/s/x"])
    assert Namespace("s3://b/ns").may_hold(plain).to_pylist() == [False, False]


def test_a_namespace_by_the_alias_of_an_access_point_may_lie_in_any_bucket() -> None:
    namespace, address = "s3://team-xyz-s3alias/ns", "s3://b/ns/data/s/x"
    assert protected(namespace, address) == {"data/s/x"}
    assert Namespace(namespace).may_hold(pa.array([address])).to_pylist() == [True]
    assert Namespace(namespace).is_at(bucket_of(address))
    assert protected(namespace, "s3://b/other/data/s/x") == set()


def test_an_old_address_without_a_scheme_is_relative() -> None:
    assert protected("s3://b/ns", f"data/{SLICE}/{XID}", BY_PREFIX) == {f"data/{SLICE}/{XID}"}
    assert protected("s3://b/ns", HEX, BY_PREFIX) == {HEX}


def test_t23_a_full_address_protects_every_way_the_server_may_read_it() -> None:
    assert {"data/a b", "data/a%20b"} <= protected("s3://b/ns", "s3://b/ns/data/a%20b")
    assert {"data/a", "data/a?version=1"} <= protected("s3://b/ns", "s3://b/ns/data/a?version=1")
    assert "data/a#b" in protected("s3://b/ns", "s3://b/ns/data/a#b")
    assert "data/a+b" in protected("s3://b/ns", "s3://b/ns/data/a+b")
    assert "data/x" in protected("s3://b/team a/ünï", "s3://b/team%20a/%C3%BCn%C3%AF/data/x")
    assert "data/x" in protected("s3://b/team a/ünï", "s3://b/team a/ünï/data/x")
    assert "data/x" in protected("s3://b/team%20a", "s3://b/team%20a/data/x")


@pytest.mark.parametrize(
    "host",
    [
        "account.blob.core.windows.net",
        "ACCOUNT.blob.core.windows.net:443",
        "account.adls.core.windows.net",
        "account-secondary.blob.core.windows.net",
    ],
)
def test_on_azure_an_address_in_the_account_protects_whatever_the_url_of_the_account(host: str) -> None:
    namespace = "https://account.blob.core.windows.net/container/ns"
    assert "data/s/x" in protected(namespace, f"http://{host}/container/ns/data/s/x")
    assert Namespace(namespace).may_hold(pa.array([f"http://{host}/container/ns/data/s/x"])).to_pylist() == [True]
    assert Namespace(namespace).is_at(bucket_of(f"http://{host}/container/ns/data/s/x"))
    assert protected(namespace, "https://account2.blob.core.windows.net/container/ns/data/s/x") == set()
    assert protected(namespace, f"https://{host}/other/ns/data/s/x") == set()


def test_on_azure_the_decoded_path_counts_and_no_slash_at_its_end() -> None:
    namespace = "https://account.blob.core.windows.net/container/ns"
    found = Namespace(namespace).protected_keys(pa.array([f"{namespace}/data/a%2Fb"]), pa.array([FULL], pa.int8()))
    assert found.filter(found["exact"])["address"].to_pylist() == ["data/a/b"]
    assert {"data/x", "data/x/"} <= protected(namespace, f"{namespace}/data/x/")


ODD = (
    "",
    "/",
    "//",
    "a",
    "A",
    "%61",
    "a%2Fb",
    "?",
    "?x",
    "\n",
    "ns",
    "b",
    "team",
    "x.y",
    "c",
    "account",
    ".blob",
    ":1",
)


@pytest.mark.parametrize(
    "uri", ["s3://b/ns", "s3://b", "s3://b/ns//", "s3://b/a%20b.c/", "https://account.blob.x/c/n(s", "gs://b/ns/team"]
)
def test_what_is_ruled_out_quickly_protects_nothing(uri: str) -> None:
    namespace, random = Namespace(uri), np.random.default_rng(1)
    written = uri.partition("://")[2]
    starts = [
        uri,
        f"{uri}/",
        f"{uri}\\",
        f"x://{written}",
        f"s3://b/{namespace.path}/",
        uri.replace("c/", "C/"),
        "s3://",
        "https://",
    ]
    addresses = [
        f"{random.choice(starts)}{''.join(random.choice(ODD, int(random.integers(0, 6))))}" for _ in range(3000)
    ]
    may = namespace.may_hold(pa.array(addresses)).to_pylist()
    found = namespace.protected_keys(pa.array(addresses), pa.array([FULL] * len(addresses), pa.int8()))
    here: dict[str, set[str]] = {address: set() for address in addresses}
    for number, key in zip(found["index"].to_pylist(), found["address"].to_pylist(), strict=True):
        if key not in (addresses[number], clean(addresses[number])):  # what is no URL may be a key of any namespace
            here[addresses[number]].add(key)

    ruled_out = [address for address, each in zip(addresses, may, strict=True) if not each]
    assert len(ruled_out) > 200
    assert [address for address in ruled_out if here[address]] == []
    assert any(here.values()) and all(namespace.is_at(bucket_of(each)) for each in addresses if here[each])


def test_a_backslash_that_a_store_takes_for_a_slash_leads_a_neighbours_address_here() -> None:
    """Azurite reads `v\\data/x` from `v/data/x`."""
    host = "https://acc.blob.core.windows.net/lake"
    addresses = [f"{host}/v\\data/x", f"{host}\\v/data/x", f"{host}/w\\..\\v\\data/x"]
    here, theirs = Namespace(f"{host}/v"), Namespace(f"{host}/w")
    assert here.may_hold(pa.array(addresses)).to_pylist() == [True] * len(addresses)
    types = pa.array([FULL] * len(addresses), pa.int8())
    assert theirs.may_lie_elsewhere(pa.array(addresses), types).to_pylist() == [True] * len(addresses)
    assert all("data/x" in protected(f"{host}/v", each) for each in addresses)


@pytest.mark.parametrize("address_type", [BY_PREFIX, RELATIVE, FULL])
@pytest.mark.parametrize("uri", ["https://acc.blob.core.windows.net/lake/v", "s3://b/v", "gs://b/v"])
def test_a_backslash_in_an_address_is_also_read_as_a_slash(uri: str, address_type: int) -> None:
    """Azurite and SeaweedFS keep `s\\x` under the name `s/x`."""
    root = f"{uri}/" if address_type == FULL else ""
    for written in (f"data/{SLICE}\\{XID}", f"data\\{SLICE}/{XID}", f"data/{SLICE}\\\\{XID}", f"data/{SLICE}/.\\{XID}"):
        addresses = pa.array([f"{root}data/plain", f"{root}{written}"])
        found = Namespace(uri).protected_keys(addresses, pa.array([address_type] * 2, pa.int8()))
        second = found.filter(pc.equal(found["index"], 1))
        assert {written, f"data/{SLICE}/{XID}"} <= set(second["address"].to_pylist())
        assert second.filter(second["exact"])["address"].to_pylist() == [written]


def test_imports_from_elsewhere_are_not_taken_apart_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    whole = Namespace._keys_named

    def counted(self: Namespace, address: str, address_type: int) -> Iterator[str]:
        taken.append(address)
        return whole(self, address, address_type)

    monkeypatch.setattr(Namespace, "_keys_named", counted)
    far = [f"s3://{bucket}/raw/dt=2024-01-01/part-{number}" for bucket in ("b", "other") for number in range(100)]
    rows = pa.array([*far, "s3://b/ns/data/x"]), pa.array([FULL] * 201, pa.int8())
    assert Namespace("s3://b/ns").protected_keys(*rows)["address"].to_pylist() == ["data/x"]
    assert taken == ["s3://b/ns/data/x"]


def test_an_address_may_lie_elsewhere_unless_it_plainly_lies_in_the_namespace() -> None:
    rows = [
        ("s3://b/ns/other/x", FULL, False),
        ("s3://b/ns2/x", FULL, True),
        ("s3://b/ns", FULL, True),
        ("s3://b/ns/../ns2%2Fx", FULL, True),
        ("s3://c/ns/x", BY_PREFIX, True),
        ("data/x", BY_PREFIX, False),
        ("s3://c/ns/x", RELATIVE, False),
    ]
    addresses, types, expected = (list(column) for column in zip(*rows, strict=True))
    found = Namespace("s3://b/ns").may_lie_elsewhere(pa.array(addresses), pa.array(types, pa.int8()))
    assert found.to_pylist() == expected
    local = Namespace("local://lake").may_lie_elsewhere(
        pa.array(["local:///base/lake/data/x"]), pa.array([FULL], pa.int8())
    )
    assert local.to_pylist() == [True], "it may be a key of any folder on its way"


def test_only_the_first_reading_counts_as_exact() -> None:
    found = Namespace("s3://b/ns").protected_keys(
        pa.array(["data/r", "s3://b/ns/data/a%20b", "s3://b/other/x"]), pa.array([RELATIVE, FULL, FULL], pa.int8())
    )
    exact = found.filter(found["exact"])
    assert exact["index"].to_pylist() == [0, 1]
    assert exact["address"].to_pylist() == ["data/r", "data/a b"]


def test_no_entries_protect_nothing() -> None:
    empty = Namespace("s3://b/ns").protected_keys(pa.array([], pa.string()), pa.array([], pa.int8()))
    assert empty.num_rows == 0


@pytest.mark.parametrize(
    "address",
    [
        "local:///srv/lakefs/q/ns/data/s/x",
        "local:///srv/lakefs/srv/lakefs/q/ns/data/s/x",  # what is linked carries the server's folder twice
        "local://q/ns/data/s/x",
        "local:///q/ns/data/s/x",
        "local:///srv/q/ns/q/ns/data/s/x",
    ],
)
def test_on_local_an_address_is_found_by_the_namespaces_path_wherever_it_stands(address: str) -> None:
    for address_type in (BY_PREFIX, FULL):
        assert "data/s/x" in protected("local://q/ns", address, address_type)


def test_on_local_every_place_where_the_namespace_may_begin_counts() -> None:
    assert protected("local://q/ns", "local:///q/ns/data/q/ns/x") == {"x", "data/q/ns/x"}
    assert protected("local://q/ns", f"local:///f/q/ns/data/x,{SIGNATURE}") == {f"data/x,{SIGNATURE}"}
    assert protected("local://q/ns", "local:///f/q/ns2/data/x") == set()
    assert protected("local://q/ns", "local:///f/other/data/x") == set()


def test_t49_addresses_are_compared_as_they_are_written() -> None:
    composed, decomposed = "data/\u00e9", "data/e\u0301"
    assert composed != decomposed
    for address in (composed, decomposed, "data/A", "data/a"):
        assert protected("s3://b/ns", address, RELATIVE) == {address}
        assert protected("s3://b/ns", f"s3://b/ns/{address}") == {address}


UUID = "5e6ff8b9-44c0-4b4f-8d4c-0f3f7c4c9f6e"
NANOID = "V1StGXR8_Z5jdHi6B-myT"
DATA = [
    f"data/{SLICE}/{XID}",
    f"data/{SLICE}/{XID},{SIGNATURE}",
    f"data/!ab/c/{SLICE}/{XID}",
    f"data/!ab/c/{SLICE}/{XID},{SIGNATURE}",
    f"data/shard-07/{SLICE}/{XID},{SIGNATURE}",
    f"data/repo-main:{UUID}/{NANOID}",
    f"data/repo-feature/x:{UUID}/{NANOID}",
    f"data/repo-main:{UUID.replace('-', '')}/q8-Zx",
    f"data/repo-main-{UUID}/{NANOID}",
    f"data/repo-feature/x-{UUID}/{NANOID}",
    f"data/{NANOID}",
    f"data//{NANOID}",
    HEX,
    f"data/{SLICE}/{XID}.multipart",
    f"data/{SLICE}/{XID}.part_00001",
    f"data/{SLICE}/{XID}.part_00001_2",
    f"data/{SLICE}/{XID}.part_00001_1_2",
    f"data/{SLICE}/{XID}_id",
    f"data/{SLICE}/{XID}_size",
    f"data/!ab/c/{SLICE}/{XID}.part_00001",
]
UNKNOWN = [
    "data/raw/customers.csv",
    "data/plain-name",
    "data/_SUCCESS",
    "data/part-00000.parquet",
    "data/with space/100%+é//x",
    f"data/{SLICE}/customers.csv",
    f"data/{SLICE}/{XID}/x",
    f"data/{SLICE}/{XID}x",
    f"data/{SLICE}/{XID[:-1]}1",
    f"data/{SLICE}/{XID}.parquet",
    f"data/{SLICE}/{XID},{SIGNATURE[:-1]}",
    f"data/{SLICE}/{XID},{SIGNATURE}x",
    f"data/{SLICE}/{XID}.part_1",
    f"data/{SLICE.upper()}/{XID}",
    f"data/year=2024/{XID}",
    f"data/{XID}",
    f"data/{NANOID}x",
    f"data/{NANOID[:-1]}.",
    f"data/raw/{NANOID}",
    f"data/repo:{UUID}/{NANOID}",
    f"data/repo-main-{UUID}/part-00000",
    f"data/repo-main:{UUID}/part-00000.parquet",
    f"data/repo-main:{UUID[:-1]}/{NANOID}",
    f"data/{HEX}",
]

NEVER = [
    "dummy",
    "_lakefs/dummy",
    f"_lakefs/{ID}",
    "_lakefs/refs_manifest.json",
    "_lakefs/retention/gc/rules/config.json",
    "_lakefs/retention/gc/commits/run_id=gcoca17haabs73f2gtq0/commits.csv",
    f"_lakefs/retention/gc/uncommitted/gcoca17haabs73f2gtq0/uncommitted/{XID}",
    "_lakefs/retention/gc/uncommitted/gcoca17haabs73f2gtq0/summary.json",
    "_lakefs/retention/gc/unified/m/deleted/part-0.parquet",
    "_lakefs/retention/gc/reports/m/deleted.csv",
    "_lakefs/retention/gc/addresses/mark_id=m/part-0.parquet",
    "_lakefs/logs/gc/summary/x",
    "_lakefs/actions/log/run/hook.log",
    "_lakefs/exported/main/abc123/_delta_log/0.json",
    "symlinks/repo/main//symlink.txt",
    f"{HEX}-00001",
    "_gc-backup-restore/x",
    "_distCp/x",
    "README.md",
    "exports/table.parquet",
    ID,
    HEX.upper(),
    HEX[:-1],
    f"{HEX}0",
    f"{HEX}\n",
    *(f"data/{SLICE}/{XID}{blank}" for blank in " \t\n\v\f\r\x85\u00a0\u2003\u2028\u3000"),
    f"nested/{HEX}",
    "data",
    "Data/x",
    "/data/x",
    "xdata/x",
    f"data/_lakefs/{ID}",
    *(f"data/{dots}/{SLICE}/{XID}" for dots in (".", "..", "a/.", "a/..")),
    *(f"data/{SLICE}/{dots}" for dots in (".", "..")),
    f"data/other-repository/_lakefs/{ID}",
    "",
]


@pytest.mark.parametrize("key", DATA)
def test_t26_what_lakefs_writes_as_data_may_be_collected(key: str) -> None:
    assert collectable(key)


@pytest.mark.parametrize("key", UNKNOWN)
def test_a_name_below_data_that_lakefs_never_gives_is_collected_only_where_that_is_wanted(key: str) -> None:
    assert not collectable(key)
    assert collectable(key, unknown_names=True)


@pytest.mark.parametrize("key", NEVER)
def test_t25_anything_else_is_never_collected(key: str) -> None:
    assert not collectable(key)
    assert not collectable(key, unknown_names=True)


@pytest.mark.parametrize("key", ["data/", "data/folder/", f"data/{SLICE}/"])
def test_t38_a_marker_of_a_directory_is_never_collected(key: str) -> None:
    assert not collectable(key, unknown_names=True)
    assert collectable(f"{key}x", unknown_names=True)


def test_parts_of_uploads_at_the_root_are_data_on_local_alone() -> None:
    assert collectable(f"{HEX}-00001", "local://q/ns")
    assert not collectable(f"{HEX}-0001", "local://q/ns")
    assert not collectable(f"{HEX}-00001")


@pytest.mark.parametrize("folder", ["%C3%A9", "a%20b", "%25"])
def test_on_local_a_listed_address_also_keeps_the_file_whose_name_lists_show_decoded(folder: str) -> None:
    """lakeFS reads the file that is staged as local:///srv/q/ns/data/%C3%A9/x, and lists it as …/data/é/x."""
    shown = f"local:///srv/q/ns/data/{unquote(folder)}/x"
    kept = Namespace("local://q/ns").protected_keys(pa.array([shown]), pa.array([2], pa.int8()))["address"].to_pylist()
    assert {f"data/{folder}/x", f"data/{unquote(folder)}/x"} <= set(kept)


def test_on_azure_a_listed_address_with_a_query_in_its_container_keeps_its_object() -> None:
    """lakeFS reads https://H/lake%3Fx/ns/data/x from the container lake, and lists it as https://H/lake?x/ns/data/x."""
    host = "https://acc.blob.core.windows.net"
    shown = pa.array([f"{host}/lake?x/ns/data/x", f"{host}/other?x/ns/data/y"])
    kept = Namespace(f"{host}/lake/ns").protected_keys(shown, pa.array([2, 2], pa.int8()))["address"].to_pylist()
    assert "data/x" in kept and "data/y" not in kept


def test_on_local_a_name_with_a_query_is_never_collected_because_lists_cut_it_off() -> None:
    key = f"data/{XID}/{XID}?x"
    assert not collectable(key, "local://q/ns", unknown_names=True)
    assert not collectable(f"data/a?b/{XID}/{XID}", "local://q/ns")
    assert collectable(key, unknown_names=True)


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("gs://b/ns", [f"{HEX}.multipart", f"{HEX}.part_00001", f"{HEX}.part_00001_1"]),
        ("https://a.blob.core.windows.net/c/ns", [f"{HEX}_id", f"{HEX}_size"]),
    ],
)
def test_what_multipart_uploads_of_old_servers_left_at_the_root_is_data_on_their_store(
    uri: str, names: list[str]
) -> None:
    assert all(collectable(name, uri) for name in names)
    assert not any(collectable(name) for name in names)


@pytest.mark.parametrize(
    "folder",
    sorted(each.parent for each in Path(__file__).parents[2].glob("golden/*/outcome.json")),
    ids=lambda each: each.name,
)
def test_recorded_servers_gave_names_that_may_be_collected_and_no_others(folder: Path) -> None:
    outcome = json.loads((folder / "outcome.json").read_text())
    namespace = json.loads((folder / "recording.json").read_text())["namespace"]
    ours = {name for group in outcome if group.startswith(("garbage", "live")) for name in outcome[group] or ()}
    for names, expected in ((sorted(ours), True), (sorted(outcome["foreign"] or ()), False)):
        may = Namespace(namespace).deletable(pa.array(names, pa.string()), unknown_names=False).to_pylist()
        assert {name for name, each in zip(names, may, strict=True) if each is not expected} == set()


@pytest.mark.parametrize(
    ("one", "other", "touch"),
    [
        ("s3://b/ns", "s3://b/ns", True),
        ("s3://b/ns", "s3://b/ns/", True),
        ("s3://b/ns", "s3://b/ns/data/other", True),
        ("s3://b", "s3://b/ns", True),
        ("s3://b/team%20a", "s3://b/team a/x", True),
        ("s3://b/ns", "s3://b/ns2", False),
        ("s3://b/ns", "s3://b2/ns", False),
        ("s3://b/ns", "gs://b/ns", False),
        ("https://acc.blob.core.windows.net/c/ns", "http://Acc.azurite.test:10000/c/ns/x", True),
        ("https://acc.blob.core.windows.net/c/ns", "https://acc.blob.core.windows.net/d/ns", False),
        ("https://acc.blob.core.windows.net/c/ns", "https://acc2.blob.core.windows.net/c/ns", False),
        ("local://q/ns", "local://q/ns/x", True),
        ("local://q/ns", "local://q/nsx", False),
    ],
)
def test_t24_namespaces_touch_where_one_lies_in_the_other(one: str, other: str, touch: bool) -> None:
    assert Namespace(one).overlaps(Namespace(other)) is touch
    assert Namespace(other).overlaps(Namespace(one)) is touch


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        (
            "s3://lake/a/b",
            "s3://x@lake/a/b s3://x:y@lake/a/b s3://lake:/a/b s3:///lake/a/b S3://lake/a/b s3://lake/a/./b "
            "s3://lake/a//b s3://lake/q/../a/b s3://lake/a/b?x=1 s3://lake/a%2Fb/.. s3://lake/%61/b/../../a",
        ),
        ("local://V", "local:///V local://./V local://q/../V local://V/ local://V//data local:////V"),
        (
            "https://acc.blob.x/c/n",
            "https://u@acc.blob.x/c/n http://ACC.y:1/c/n https://acc.blob.x/c//n https://acc.z/c%2Fn",
        ),
    ],
)
def test_namespaces_touch_whatever_they_are_spelled_like(uri: str, same: str) -> None:
    for other in same.split():
        assert overlapping(Namespace(uri), [("other", other)]) == ["other"], other
        if other.startswith(("s3://lake/a%2F", "s3://lake/%61")):
            continue  # these alone are other keys to lakeFS, and the same to some clients
        assert overlapping(Namespace(other), [("one", uri)]) == ["one"], other


@pytest.mark.parametrize("other", ["s3://lake/%zz", "s3://l ake/x", "s3:lake/x", "s3://", "", "no uri", "s3://b\n/x"])
def test_a_namespace_that_lakefs_would_not_resolve_touches_every_one_of_its_kind(other: str) -> None:
    assert overlapping(Namespace("s3://b/ns"), [("odd", other)]) == ["odd"]


@pytest.mark.parametrize("other", ["local://", "local:///", "local://.", "local://../base/V", "local://q/../../V"])
def test_a_namespace_that_is_the_servers_folder_or_leads_out_of_it_touches_every_one_there(other: str) -> None:
    assert overlapping(Namespace("local://V"), [("odd", other)]) == ["odd"]
    assert overlapping(Namespace("s3://b/ns"), [("odd", other)]) == [], "another kind of store"


def test_repositories_that_touch_are_named_and_those_in_other_stores_passed_over() -> None:
    others = [("twin", "s3://b/ns"), ("inner", "s3://b/ns/data/x"), ("far", "s3://c/ns"), ("memory", "mem://b/ns")]
    assert overlapping(Namespace("s3://b/ns"), others) == ["twin", "inner"]
