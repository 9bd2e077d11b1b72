"""Pages of a staged dump that end at paths that are not UTF-8, on the embedded lakeFS."""

from __future__ import annotations

import base64
import json

import pyarrow.parquet as pq
import pytest

from lakegc_core.errors import IncompleteError
from lakegc_core.lakefs.staged_tokens import next_token
from lakegc_sandbox import PageLimits
from tests.support.lake import Lake

NOT_TEXT = "\ufffd"


def dumped(lake: Lake, rows: int) -> set[str]:
    """The addresses that a dump names, in pages of so many rows."""
    lake.sandbox.uncommitted_page = PageLimits(rows=rows)
    run = lake.client.prepare_uncommitted("lake").run_id
    files = (lake.files("lake") / "_lakefs" / "retention" / "gc" / "uncommitted" / run / "uncommitted").iterdir()
    return {address for file in files for address in pq.read_table(file)["physical_address"].to_pylist()}


def stage(lake: Lake, *paths: bytes) -> set[str]:
    upload = lake.sandbox.repository("lake").upload
    return {upload("main", path.decode("utf-8", "surrogateescape"), b"data") for path in paths}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(b"docs/caf\xe9", id="lakeFS would go on behind it"),
        pytest.param(b"docs/caf\xf3", id="lakeFS would go on before it"),
        pytest.param("docs/caf\ufffd".encode(), id="a real one"),
    ],
)
def test_what_is_staged_at_and_after_a_path_that_is_not_utf8_is_in_the_dump(served: Lake, end: bytes) -> None:
    staged = stage(served, b"a", b"b", b"c", end, end + b"/1", b"z")
    assert dumped(served, 3) == staged


@pytest.mark.parametrize("end", [b"caf\xe9", "caf\ufffd".encode()])
def test_other_files_that_begin_alike_and_fill_pages_are_no_trouble(served: Lake, end: bytes) -> None:
    staged = stage(served, *(b"caf%d" % number for number in range(4)), end)
    assert dumped(served, 2) == staged


def test_a_folder_with_a_real_replacement_character_may_take_many_pages(served: Lake) -> None:
    staged = stage(served, *(f"caf\ufffd/{number}".encode() for number in range(9)))
    assert dumped(served, 2) == staged


def test_more_paths_that_are_not_utf8_than_a_page_holds_are_an_error_that_names_them(served: Lake) -> None:
    stage(served, *(b"docs/caf\xe9/%d" % number for number in range(9)))
    with pytest.raises(IncompleteError, match=r"on branch main, from 'docs/caf' on.*Commit or reset"):
        dumped(served, 2)


@pytest.mark.parametrize("mark", [b"", b"[]", b"7", b'{"branch": "main"}', b'{"branch": "main", "path": 7}', b"\xff"])
def test_a_token_of_another_form_is_an_error(mark: bytes) -> None:
    with pytest.raises(IncompleteError, match="cannot read"):
        next_token(base64.b64encode(mark).decode(), ())
    with pytest.raises(IncompleteError, match="cannot read"):
        next_token("t1", ())


def test_only_the_path_of_a_token_is_cut() -> None:
    mark = {"branch": "main", "path": f"a/b{NOT_TEXT}c", "run_id": "run", "key": "k", "more": [1]}
    found = next_token(base64.b64encode(json.dumps(mark).encode()).decode(), ())
    assert json.loads(base64.b64decode(found)) == mark | {"path": "a/b\x7f\U0010ffff"}


def test_a_lost_byte_that_is_written_like_a_real_u_fffd_is_gone_around_too() -> None:
    """As another version of Go's JSON may write it: until that leads no further, nothing after it is taken for read."""
    mark = {"branch": "main", "path": f"a/b{NOT_TEXT}c", "run_id": "run", "key": "k"}
    token = base64.b64encode(json.dumps(mark, ensure_ascii=False).encode()).decode()
    cut = next_token(token, ())
    assert json.loads(base64.b64decode(cut)) == mark | {"path": "a/b\x7f\U0010ffff"}
    assert next_token(token, {cut}) == token
