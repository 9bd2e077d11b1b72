"""What a ref shows, past entries whose addresses lakeFS cannot resolve: it answers 500 for the whole page."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from lakegc_core.errors import ServerError
from lakegc_core.lakefs.http import LakeFSError
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
            if shown <= after or (found and found[-1]["path"] == shown):
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


@pytest.mark.parametrize("start", [b"b\xe9", b"b\xe9/\xfc", b"b\xe4\xb8", b"b\x7f\xf5", b"b\xff"])
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
    """b"\xef" may be a byte that is not UTF-8, or the first one of U+FFFD itself."""
    shows_bytes(server, [b"a", *(b"b\xef%04d" % number for number in range(1001)), b"c"])
    with pytest.raises(ServerError, match=r"main/objects/ls: lakeFS shows 1,000 paths in a row after 'b.*not UTF-8"):
        list(server.client.objects("repo", "main"))


def test_a_page_of_one_entry_that_cannot_be_shown_leads_on(server: Scripted) -> None:
    _shows(server, GOOD | {"b/%": "far/%"})
    shown, more = server.client.objects_after("repo", "main", "a", 1)
    assert [(each.path, each.physical_address) for each in shown] == [("b/%", "s3://b/far/%")]
    assert more
    assert [each.path for each in server.client.objects_after("repo", "main", "b/%", 10)[0]] == ["imp/plain", "zz"]


def test_an_address_that_cannot_be_shown_and_whose_path_is_not_found_is_an_error(server: Scripted) -> None:
    _shows(server, GOOD | {"b": "far/%", "c": "far/%", "%/x": "far/%"})
    with pytest.raises(LakeFSError, match="far/%"):
        list(server.client.objects("repo", "main"))
