"""Directories of an Azure account with a hierarchical namespace: they stay when their blobs go, and go when asked.

Azurite has none. `Hierarchy` stands before it and answers as Microsoft documents it: lists show directories, and Delete
Blob removes an empty one and refuses any other.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import pytest

from lakegc_core.store.base import Store, folders_in_use, holds_any
from tests.support.proxy import Answer, Forward, Request
from tests.support.store_faults import Faulty

_DIRECTORY = (
    "<Blob><Name>{}</Name><Properties><Last-Modified>Sat, 21 Nov 2026 10:00:00 GMT</Last-Modified>"
    "<Content-Length>0</Content-Length><ResourceType>directory</ResourceType></Properties></Blob>"
)


class Hierarchy:
    """An account that keeps a directory for each blob's folders. `store` is the same place without it."""

    def __init__(self, store: Store, base: str) -> None:
        self.store, self.base = store, base
        self.directories: set[str] = set()  # names, below the base
        self.deleted: list[str] = []

    def write(self, key: str) -> None:
        self.store.write(key, b"1")
        parts = key.split("/")[:-1]
        self.directories |= {"/".join(parts[: number + 1]) for number in range(len(parts))}

    def __call__(self, request: Request, forward: Forward) -> Answer:
        if request.query.get("comp") == "list":
            return self._list(request, forward(request))
        name = unquote(urlsplit(request.path).path).rpartition(self.base)[2]
        if request.method == "DELETE" and name in self.directories:
            if self._holds_any(name):
                return Answer(409, {"x-ms-error-code": "DirectoryIsNotEmpty"}, b"")
            self.directories.remove(name)
            self.deleted.append(name)
            return Answer(202, {}, b"")
        return forward(request)

    def _holds_any(self, name: str) -> bool:
        below = f"{name}/"
        return any(each.startswith(below) for each in self.directories) or holds_any(self.store, below)

    def _list(self, request: Request, answer: Answer) -> Answer:
        asked = request.query.get("prefix", "")
        shown = sorted(each for each in self.directories if f"{self.base}{each}".startswith(asked))
        if request.query.get("delimiter"):
            level = (f"{self.base}{each}/" for each in self.directories)
            inside = (name for name in level if name.startswith(asked) and name != asked)
            names = sorted({name[: name.index("/", len(asked)) + 1] for name in inside})
            more = "".join(f"<BlobPrefix><Name>{name}</Name></BlobPrefix>" for name in names)
        else:
            more = "".join(_DIRECTORY.format(f"{self.base}{each}") for each in shown)
        body = re.sub(rb"<Blobs ?/>", b"<Blobs></Blobs>", answer.body)
        return Answer(answer.status, answer.headers, body.replace(b"</Blobs>", more.encode() + b"</Blobs>"))


@pytest.fixture
def account(faulty_azure: Faulty) -> Hierarchy:
    found = Hierarchy(faulty_azure.direct, f"{faulty_azure.config.prefix}/")
    faulty_azure.proxy.hook = found
    return found


def test_empty_directories_go_from_the_deepest_up_and_what_holds_a_blob_stays(
    faulty_azure: Faulty, account: Hierarchy
) -> None:
    for key in ("marks/m1/sweeps/1/plan", "marks/m1/mark", "marks/m1/kept/a", "marks/m10/mark"):
        account.write(key)
    gone = ["marks/m1/sweeps/1/plan", "marks/m1/mark"]
    assert faulty_azure.store.delete_many(gone) == ["deleted"] * 2
    faulty_azure.store.remove_empty_folders("marks/m1/")
    assert account.deleted == ["marks/m1/sweeps/1", "marks/m1/sweeps"]
    assert account.directories == {"marks", "marks/m1", "marks/m1/kept", "marks/m10"}
    assert faulty_azure.store.delete_many(["marks/m1/kept/a"]) == ["deleted"]
    faulty_azure.store.remove_empty_folders("marks/m1/")
    assert account.directories == {"marks", "marks/m10"}
    assert faulty_azure.listed() == ["marks/m10/mark"]


def test_where_there_are_no_directories_nothing_is_deleted(faulty_azure: Faulty) -> None:
    for key in ("marks/m1", "marks/m1/a"):
        faulty_azure.direct.write(key, b"1")
    faulty_azure.store.remove_empty_folders("marks/m1/")
    assert faulty_azure.listed() == ["marks/m1", "marks/m1/a"]
    assert not any(each.method == "DELETE" for each in faulty_azure.proxy.requests)


def test_a_directory_that_the_service_does_not_delete_stays_and_is_no_folder_in_use(
    faulty_azure: Faulty, account: Hierarchy
) -> None:
    for key in ("marks/m1/mark", "marks/m2/mark"):
        account.write(key)
    faulty_azure.store.delete_many(["marks/m1/mark"])
    refusal = Answer(400, {"x-ms-error-code": "OperationNotSupportedOnDirectory"}, b"")
    faulty_azure.proxy.hook = lambda request, forward: (
        refusal if request.method == "DELETE" else account(request, forward)
    )
    faulty_azure.store.remove_empty_folders("marks/m1/")
    shown = [name for level in faulty_azure.store.list_level("marks/") for name in level.prefixes]
    assert sorted(shown) == ["marks/m1/", "marks/m2/"], "it shows for ever"
    assert folders_in_use(faulty_azure.store, "marks/") == ["marks/m2/"]
