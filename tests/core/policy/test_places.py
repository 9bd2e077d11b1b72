"""Where lakeFS resolves a spelling: what a real server answered to each, and what Go's parser refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.policy.namespace import Namespace, overlapping
from lakegc_core.policy.places import (
    bucket_of,
    clean,
    climbs,
    may_have_odd_segments,
    parse,
    place_of,
    readings,
    touching,
)

SPELLINGS = Path(__file__).parent / "spellings"
STORES = ["s3", "gs", "azure", "local"]
RELATIVE = 1
TYPES = {"by_prefix": 0, "relative": RELATIVE, "full": 2}
ACCOUNT = "https://devstoreaccount1.blob.core.windows.net"
# Two namespaces of the server that was asked, and where the bytes of their objects lay.
NAMESPACES = {
    "s3": {"s3://lake/ns": "lake/ns/", "s3://lake/far": "lake/far/"},
    "gs": {"gs://lake/ns": "lake/ns/", "gs://lake/far": "lake/far/"},
    "azure": {f"{ACCOUNT}/lake/ns": "lake/ns/", f"{ACCOUNT}/lake/far": "lake/far/"},
    "local": {"local://ns": "/srv/lake/ns/", "local://far": "/srv/lake/far/"},
}


def asked(store: str, kind: str) -> list[dict[str, Any]]:
    """What lakeFS answered to spellings of one kind."""
    rows: list[dict[str, Any]] = json.loads((SPELLINGS / f"{store}.json").read_text())
    return [row for row in rows if row["kind"] == kind]


def entry_of(row: dict[str, Any]) -> tuple[str, int]:
    """Address and type of an entry as lakeFS writes it down: below data/ it makes what the API is given relative."""
    address, namespace = row["spelling"], row["namespace"]
    inside = f"{namespace.removesuffix('/')}/"
    if row.get("how", "api") == "api" and address.startswith(f"{inside}data/"):
        return address[len(inside) :], RELATIVE
    return address, TYPES[row.get("type", "full")]


def protected(uri: str, address: str, address_type: int) -> dict[str, bool]:
    """The keys that one entry keeps alive in a namespace, and whether lakeFS reads just these."""
    found = Namespace(uri).protected_keys(pa.array([address]), pa.array([address_type], pa.int8()))
    return dict(zip(found["address"].to_pylist(), found["exact"].to_pylist(), strict=True))


def _slashed(key: str) -> str:
    return key.replace("\\", "/")


@pytest.mark.parametrize("store", STORES)
def test_every_object_that_lakefs_read_under_some_spelling_is_kept_by_it(store: str) -> None:
    rows = [row for row in asked(store, "address") if row.get("reads")]
    assert len(rows) >= 80
    wrong = []
    for row in rows:
        address, address_type = entry_of(row)
        for uri, root in NAMESPACES[store].items():
            key = row["reads"].removeprefix(root)
            found = protected(uri, address, address_type)
            if store == "azure":  # the emulator took both slashes for one, and kept the name that came last
                key, found = _slashed(key), dict.fromkeys((_slashed(each) for each in found), True)
            if key and row["reads"].startswith(root) and not found.get(key):
                wrong.append((row["spelling"], row.get("type"), row["reads"], protected(uri, address, address_type)))
    assert wrong == []


@pytest.mark.parametrize("store", STORES)
def test_a_mark_notes_for_its_neighbours_every_spelling_of_an_object_that_lies_elsewhere(store: str) -> None:
    own, far = NAMESPACES[store]
    rows = [row for row in asked(store, "address") if str(row.get("reads")).startswith(NAMESPACES[store][far])]
    assert len(rows) >= 20
    for row in rows:
        address, address_type = entry_of(row)
        told = pa.array([address]), pa.array([address_type], pa.int8())
        assert Namespace(row.get("namespace", own)).may_lie_elsewhere(*told).to_pylist() == [True], row
        assert Namespace(far).may_hold(told[0]).to_pylist() == [True], row
        assert Namespace(far).is_at(bucket_of(address)), row


def landed(store: str) -> dict[str, str]:
    """Where namespaces lay to which something was written, under every spelling."""
    rows = ((row["spelling"], row.get("lands") or row.get("bare_lands")) for row in asked(store, "namespace"))
    # Where symbolic links lead, no name tells.
    return {spelling: place for spelling, place in rows if place and not spelling.startswith("local://link")}


@pytest.mark.parametrize("store", STORES)
def test_a_namespace_lies_where_lakefs_wrote_to_it(store: str) -> None:
    found = landed(store)
    assert len(found) >= 40
    base = "/srv/lake/" if store == "local" else ""
    wrong = []
    for spelling, place in found.items():
        read = place_of(spelling)
        path = Namespace(spelling).path if read else None
        bucket = f"{read.bucket}/" if read and store in ("s3", "gs") else ""
        if read is None and store == "local" and climbs(clean(spelling.partition("://")[2])):
            continue  # only the server knows the name of the folder above
        here = f"{base}{bucket}{path}{'/' if path else ''}"
        if path is None or (_slashed(here) if store == "azure" else here) != place:
            wrong.append((spelling, place, read))
    assert wrong == []


@pytest.mark.parametrize("store", STORES)
def test_namespaces_touch_whenever_lakefs_wrote_to_one_place(store: str) -> None:
    found = list(landed(store).items())
    missed = [
        (one, other)
        for one, here in found
        if place_of(one)
        for other, there in found
        if (here.startswith(there) or there.startswith(here)) and not overlapping(Namespace(one), [("other", other)])
    ]
    assert missed == []


@pytest.mark.parametrize("store", STORES)
def test_a_repository_whose_namespace_has_no_place_touches_every_one(store: str) -> None:
    own = next(iter(NAMESPACES[store]))
    rows = [row for row in asked(store, "namespace") if row.get("bare_accepted") and place_of(row["spelling"]) is None]
    assert rows
    assert [row for row in rows if not overlapping(Namespace(own), [("odd", row["spelling"])])] == []


def test_gos_parser_refuses_what_it_refuses_and_drops_what_it_drops() -> None:
    for odd in (
        "",
        "s3://b/%zz",
        "s3://b/%4",
        "s3://l ake/x",
        "s3://b/a\nb",
        "s3://b/a\x7f",
        "://x",
        "b/x",
        "s3://b:8x/y",
    ):
        assert parse(odd) is None, odd
    assert [(url.host, url.raw) for url in map(parse, ("s3://u:p@b:9/a%20b?q#f", "s3://b/a#f")) if url] == [
        ("b:9", "/a b"),
        ("b", "/a#f"),
    ]


def test_an_address_of_which_no_bucket_is_told_may_lie_in_any() -> None:
    assert [place.bucket for place in readings("s3://l%61ke/ns/x", "s3")][:1] == ["*"]
    assert protected("s3://lake/ns", "s3://l%61ke/ns/data/x", 2) == {"data/x": False}


def test_paths_are_cleaned_as_far_as_they_lead() -> None:
    assert [clean(path) for path in ("a//b/./c/", "a/../b", "../a/../../b", "/", ".")] == [
        "a/b/c",
        "b",
        "../../b",
        "",
        "",
    ]
    assert touching("a/b", "../x") and touching("", "a") and not touching("a/b", "a/bc")


@pytest.mark.parametrize("odd", ["", "a//b", "/a", "a/", "a/./b", "./a", "a/..", ".", "..", "a/.b", ".a"])
def test_an_odd_segment_among_many_plain_paths_is_not_overlooked(odd: str) -> None:
    plain = ["data/x", "data.y/z.csv", "é/ü"]
    assert not may_have_odd_segments(pa.array(plain)) and not may_have_odd_segments(pa.array([], pa.string()))
    for many in ([odd, *plain], [*plain, odd], [plain[0], odd, *plain]):
        assert may_have_odd_segments(pa.array(many))
        assert may_have_odd_segments(pa.array(["x//y", *many])[1:]), "of a part of an array too"
    assert not may_have_odd_segments(pa.array([odd, *plain])[1:])
