"""What a page shows is read as every other physical address is, only quicker."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakegc_core.config.settings import ServerSettings
from lakegc_core.lakefs.models import ObjectStats
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.shown import asking
from lakegc_core.references.shown.asking import SHOWN_SCHEMA, before, keys_of
from lakegc_core.references.staged import protect_listed
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.key_scan import Wanted
from tests.support.scripted_lakefs import Scripted, shows_bytes, told

NAMESPACES = [
    "s3://bucket/lake",
    "s3://bucket/lake/",
    "s3://bucket/lake//",
    "s3://bucket",
    "s3://bucket/",
    "s3://bucket/a.b(c)+/läke",
    "s3://bucket/a%20b",
    "s3://bucket/a%2Fb",
    "gs://bucket/lake",
    "https://account.blob.core.windows.net/container/lake",
    "local://lake",
]
ENDS = [
    "data/slice/name",
    "data/slice/name,signature_-",
    "data/sli%63e/name",
    "data/slice/name?versionId=1",
    "/data/slice/name",
    "data/slice/näme\nwith 🦆",
    "data/a+b&c=d",
    "%64ata/slice/name",
    "",
    "?",
]
ELSEWHERE = [
    "s3://bucket/lake2/data/x",
    "s3://bucketx/lake/data/x",
    "s3://other/data/x",
    "data/slice/name",
    "",
    "s3://",
]


def addresses(uri: str) -> list[str]:
    return [f"{root}{end}" for root in (uri, f"{uri.rstrip('/')}/") for end in ENDS] + ELSEWHERE


@pytest.mark.parametrize("uri", NAMESPACES)
def test_the_keys_are_those_of_every_reading(uri: str) -> None:
    namespace = Namespace(uri)
    for address in addresses(uri):
        found = keys_of(namespace, [address])
        assert found.schema == SHOWN_SCHEMA
        assert set(found["address"].to_pylist()) == set(protect_listed(namespace, [address])["address"].to_pylist())
    together = keys_of(namespace, addresses(uri))["address"].to_pylist()
    assert sorted(together) == sorted(protect_listed(namespace, addresses(uri))["address"].to_pylist())


def test_addresses_of_one_reading_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(asking, "protect_listed", lambda _, odd: (asked.extend(odd), protect_listed(_, odd))[1])
    found = keys_of(Namespace("s3://bucket/lake"), ["s3://bucket/lake/data/a/b", "s3://bucket/lake/data/a%20b"])
    assert asked == ["s3://bucket/lake/data/a%20b"]
    assert "data/a/b" in found["address"].to_pylist()
    assert keys_of(Namespace("s3://bucket/lake"), []).num_rows == 0


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6))
def test_a_page_that_begins_before_a_path_begins_with_it(path: str) -> None:
    """lakeFS lists what comes after a text, by the bytes of UTF-8."""
    start = before(path.encode())
    assert start.encode() < path.encode()


@given(st.text(alphabet="ab\x00\uffff\U0010ffff", min_size=1, max_size=4), st.text(alphabet="ab\x00\uffff", max_size=4))
def test_hardly_anything_lies_between(path: str, other: str) -> None:
    start = before(path.encode())
    if start < other < path:
        assert other.startswith((start, f"{path[:-1]}{chr(ord(path[-1]) - 1)}\U0010ffff"))


@given(st.binary(min_size=1, max_size=6))
def test_a_path_that_is_no_text_is_asked_for_from_before_its_first_odd_byte(path: bytes) -> None:
    assert before(path).encode() < path


class Branch:
    """A branch of these paths, as lakeFS shows it: bytes that are no text come as other characters."""

    def __init__(self, paths: list[bytes]) -> None:
        self.paths, self.asked = sorted(paths), 0

    def objects_after(self, repository: str, ref: str, after: str, amount: int) -> tuple[list[ObjectStats], bool]:
        self.asked += 1
        left = [path for path in self.paths if path > after.encode()]
        shown = [path.decode("utf-8", "replace") for path in left[:amount]]
        return [ObjectStats(path, f"s3://b/l/{path}", 1, "") for path in shown], len(left) > amount


def walked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paths: list[bytes], first: bytes) -> Branch:
    """The branch, after it was asked for one path alone."""
    branch, store = Branch(paths), LocalConfig(str(tmp_path))
    monkeypatch.setattr(asking, "client_of", lambda server: branch)
    server = ServerSettings("http://127.0.0.1:1", "key", "secret")
    work = asking.Asking(server, "r", Namespace("s3://b/l"), store, "shown", Wanted(()), 1)
    list(work.ask([asking.Interval("main", first, first, 1)]))
    return branch


def test_paths_in_a_row_that_are_no_text_are_passed_by_a_whole_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [b"a/\xe9%03d" % number for number in range(60)]
    assert walked(monkeypatch, tmp_path, [*names, b"b"], names[30]).asked == 2


def test_what_is_staged_between_two_entries_takes_whole_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [b"a/%06d" % number for number in range(30_000)]
    assert walked(monkeypatch, tmp_path, [*names, b"a/\xe9", b"b"], b"a/\xe9").asked == 1


def test_an_interval_is_asked_for_page_by_page_up_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [b"a/%06d" % number for number in range(2_500)]
    branch, store = Branch([*names, b"b"]), LocalConfig(str(tmp_path))
    monkeypatch.setattr(asking, "client_of", lambda server: branch)
    server = ServerSettings("http://127.0.0.1:1", "key", "secret")
    work = asking.Asking(server, "r", Namespace("s3://b/l"), store, "shown", Wanted(()), 1)
    list(work.ask([asking.Interval("main", names[0], names[-1], len(names))]))
    assert branch.asked == 3


def test_more_paths_than_a_page_holds_that_are_no_text_at_the_same_place_are_all_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: set[str] = set()
    monkeypatch.setattr(asking, "keys_of", lambda _, shown: (seen.update(shown), keys_of(_, shown))[1])
    paths = [b"a", *(b"b\xe9%04d" % number for number in range(1100)), b"c"]
    server = Scripted()
    shows_bytes(server, paths)
    settings = ServerSettings(server.url, "key", "secret")
    work = asking.Asking(settings, "repo", Namespace("s3://b/l"), LocalConfig(str(tmp_path)), "shown", Wanted(()), 1)
    list(work.ask([asking.Interval("main", b"a", None, 1)]))
    server.close()
    assert seen == {f"s3://b/{told(path)}" for path in paths}
