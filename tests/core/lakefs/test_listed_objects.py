"""What a ref shows, past entries whose addresses lakeFS cannot resolve: it answers 500 for the whole page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_sandbox.model.repository import Repository
from tests.support.lake import lake
from tests.support.scripted_lakefs import Asked, R, Say, Scripted, page, shows_bytes, told

GOOD = {"a": "data/1", "imp/plain": "far/plain", "zz": "data/2"}
MANY = {f"imp/{number:04}": f"data/{number}" for number in range(1500)}


def _shows(server: Scripted, entries: Mapping[str, str]) -> None:
    """As a real lakeFS answers: seen with an import of `100%.csv` on v1.84, on S3 and local alike."""
    addresses = {path: f"s3://b/{key}" for path, key in entries.items()}

    def refused(address: str) -> Say | None:
        if "%" not in address:
            return None
        return Say(500, {"message": f"could not parse URI: parse {json.dumps(address)}: invalid URL escape"})

    def listed(asked: Asked) -> Say:
        after, delimiter, amount = asked.query["after"], asked.query.get("delimiter", ""), int(asked.query["amount"])
        prefix = asked.query.get("prefix", "")
        found: list[dict[str, object]] = []
        for path in sorted(addresses):
            if not path.startswith(prefix):
                continue
            at = path.find(delimiter, len(prefix)) if delimiter else -1
            shown = path[: at + len(delimiter)] if at >= 0 else path
            if path < after or shown == after or (found and found[-1]["path"] == shown):
                continue
            if len(found) == amount:
                return page(found, True, str(found[-1]["path"]))
            address = "" if at >= 0 else addresses[path]
            if problem := refused(address):
                return problem
            found.append({"path": shown, "physical_address": address, "size_bytes": 1, "checksum": ""})
        return page(found)

    server.on("GET", f"{R}/refs/main/objects/ls", listed)  # alone: a mark's key may ask for nothing else


@pytest.mark.parametrize(
    "odd",
    [
        {"imp/100%.csv": "far/100%.csv"},
        {"imp/q%": "far/q%", "imp/q%q%": "far/q%q%", "imp/t%/x": "far/t%/x"},
        {"renamed/of.csv": "far/100%.csv"},
        {"ü/%": "far/%", "Z%": "far/%", '\U0001f600"%"\\': 'far/"%"\\', "\ue000x%": "far/x%"},
        {"imp/a%.csv/a%.csv": "far/a%.csv/a%.csv", "a\x00%": "%"},
        {f"imp/{number}%": f"far/{number}%" for number in range(40)},
    ],
    ids=["one", "several", "of another name", "far from ASCII", "twice in one path", "many"],
)
def test_a_branch_with_addresses_that_are_no_urls_is_shown_whole(server: Scripted, odd: dict[str, str]) -> None:
    entries = MANY | GOOD | odd
    _shows(server, entries)
    found = [each for objects in server.client.objects("repo", "main") for each in objects]
    expected = [(path, f"s3://b/{entries[path]}") for path in sorted(entries)]
    assert [(each.path, each.physical_address) for each in found] == expected
    assert not server.slept, "to ask the same once more helps nobody"


def test_a_branch_with_paths_that_are_no_text_is_shown_whole_and_each_path_once(server: Scripted) -> None:
    paths = [b"a%04d" % number for number in range(998)] + [b"b\x80", b"b\x81", b"b\x90", b"b\xe9", b"c", b"d\xff"]
    shows_bytes(server, paths)  # from behind the first page's last path as it is told, b\x90 and b\xe9 are not shown
    found = [each.path for objects in server.client.objects("repo", "main") for each in objects]
    assert found == [told(path) for path in paths]


@pytest.mark.parametrize(
    "start",
    [
        *(b"b\xe9", b"b\xe9/\xfc", b"b\xe4\xb8", b"b\x7f\xf5", b"b\xff"),
        *(
            b"b\xef\xbf\xbd/",
            b"b\xef\xbf\xbd\xef\xbf\xbd",
            b"b\xef\xbf\xbd/\xe9",
            b"b\xef\xbf\xbd\xef",
            b"b\xe9\xef\xbf\xbd",
        ),
        *(b"b\xef", b"b\xef\xff", b"b\xef\x90", b"b\xef\xbf", b"b\xef\xbf\xff", b"b\xef\xbf\xbe\xff"),
    ],
)
def test_more_paths_than_a_page_holds_that_are_no_text_at_the_same_place_are_shown_whole(
    server: Scripted, start: bytes
) -> None:
    """A real lakeFS (1.84) takes such bytes in `after` and `prefix`."""
    many = [start + b"%04d" % number for number in range(1100)]
    others = [b"a", b"b", b"b\x80", b"b\xef", b"b\xef\xbf\xbdx", "b中".encode(), b"b\xe4z", b"b\xff\xffz", b"c"]
    shows_bytes(server, [*many, *others])
    found = {each.path for objects in server.client.objects("repo", "main") for each in objects}
    assert found == {told(path) for path in (*many, *others)}


def test_a_page_of_paths_of_which_nobody_can_tell_whether_they_are_text_is_an_error_if_more_follow(
    server: Scripted,
) -> None:
    """b"\xef" may be a byte that is not UTF-8, or the first one of U+FFFD itself. b"\xc3\xa9" is text."""
    shows_bytes(server, [b"a", *(b"b\xef\xc3\xa9%04d" % number for number in range(1001)), b"c"])
    with pytest.raises(ServerError, match=r"main/objects/ls: lakeFS shows 1,000 paths in a row after 'b.*not UTF-8"):
        list(server.client.objects("repo", "main"))


def test_a_page_of_one_entry_that_cannot_be_shown_leads_on(server: Scripted) -> None:
    _shows(server, GOOD | {"b/%": "far/%"})
    shown, more = server.client.objects_after("repo", "main", "a", 1)
    assert [(each.path, each.physical_address) for each in shown] == [("b/%", "s3://b/far/%")]
    assert more
    assert [each.path for each in server.client.objects_after("repo", "main", "b/%", 10)[0]] == ["imp/plain", "zz"]


def test_an_address_that_cannot_be_shown_and_whose_path_is_not_found_is_an_error(server: Scripted) -> None:
    _shows(server, GOOD | {"b/ü": "far/%"})
    with pytest.raises(LakeFSError, match=r"main/objects/ls: from 'a' on .*far/%.* Delete this path") as found:
        list(server.client.objects("repo", "main"))
    assert "asked 1 times" not in str(found.value)


# --- what the link call takes for an address ---


def linked(repository: Repository, *entries: tuple[str, str]) -> None:
    """Paths with the text that a client linked as their address."""
    for path, address in entries:
        repository.stage("main", path, address, size=1, checksum="c" * 32)


def shown_by(client: LakeFSClient) -> dict[str, str]:
    found = [each for objects in client.objects("lake", "main") for each in objects]
    assert [each.path for each in found] == sorted({each.path for each in found}), "each once, in order"
    return {each.path: each.physical_address for each in found}


@pytest.mark.parametrize("committed", [False, True])
def test_a_branch_with_links_of_any_text_as_address_is_shown_whole(tmp_path: Path, committed: bool) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        good = {path: repository.upload("main", path, b"1") for path in ("a", "dir/part-1/x", "dir/z", "zz")}
        odd = {"dir/none": "", "dir/part-1": "", "dir/part-10": "", "dir/part-1.": "", "~/{}": "ftp://x/y", "0": "/foo"}
        odd |= {"a/b": "nonsense", "a/b/c": "", "dir/nonsense": "nonsense", "b c": "data/slice/id,sig", "dir/%": "*"}
        linked(repository, *odd.items())
        if committed:
            repository.commit("main", "links")
        shown = shown_by(served.client)
        assert shown.keys() == good.keys() | odd.keys()
        assert {shown[path] for path in good} == {repository.place.qualify(key) for key in good.values()}
        told = {path: address for path, address in odd.items() if address in ("nonsense", "data/slice/id,sig")}
        assert {path: shown[path] for path in odd if shown[path]} == told, "lakeFS tells what is no URL"


def test_one_of_two_such_paths_that_begin_alike_is_not_taken_for_the_other(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        linked(repository, ("xü", ""), ("x", ""))
        with pytest.raises(LakeFSError, match="from '' on"):
            shown_by(served.client)
        linked(repository, ("x1", ""))
        with pytest.raises(LakeFSError, match="from 'x1' on"):
            shown_by(served.client)
        repository.delete("main", "xü")
        repository.reset("main", "xü")
        linked(repository, ("xü1", ""))
        assert shown_by(served.client).keys() == {"x", "x1", "xü1"}


@pytest.mark.parametrize(
    ("blockstore", "address"),
    [
        ("gs", "s3://bucket/key"),
        ("gs", "ftp://x"),
        ("azure", ""),
        ("azure", "x://y"),
        ("local", "local://q/x"),
        ("local", "local:///etc/passwd"),
        ("local", "relative"),
    ],
)
def test_such_links_are_gone_around_on_every_blockstore(tmp_path: Path, blockstore: str, address: str) -> None:
    namespace = {"azure": "https://account.blob.core.windows.net/c/lake"}.get(blockstore, f"{blockstore}://bucket/lake")
    with lake(tmp_path, blockstore=blockstore) as served:
        repository = served.create("lake", namespace)
        repository.upload("main", "a", b"1")
        linked(repository, ("b/c", address))
        shown = shown_by(served.client)
        assert shown.keys() == {"a", "b/c"}
        assert shown["b/c"] == (address if address == "relative" else "")


def test_within_a_prefix_the_path_that_is_the_prefix_itself_is_found(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        linked(served.create("lake"), ("dir/ü", ""), ("dir/ü/a", ""))
        found = [each.path for objects in served.client.objects("lake", "main", "dir/ü") for each in objects]
        assert found == ["dir/ü", "dir/ü/a"]
