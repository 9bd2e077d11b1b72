"""Every answer of lakeFS can go wrong, and no mark is ever authorised on less than everything.

Each case spoils one call and then marks a recording whose right outcome is known. The mark has to fail with an error of
lakegc's own, or its guards must not authorise it, or what expires is exactly the garbage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from lakegc_core import pipeline
from tests.support.fault_bench import COMMITS, LISTING, STAGED, Bench, Said, Spoil, crossed


def status(code: int) -> Spoil:
    return lambda said: (code, json.dumps({"message": "spoilt by the test"}))


def body(text: str) -> Spoil:
    return lambda said: (said[0], text)


def hang_up(said: Said) -> Said:
    raise ConnectionError


WRONG: dict[str, Spoil] = {
    "404": status(404),
    "400": status(400),
    "500": status(500),
    "401": status(401),
    "an empty body": body(""),
    "an empty object": body("{}"),
    "a list": body("[]"),
    "null": body("null"),
    "half of it": lambda said: (said[0], said[1][: len(said[1]) // 2]),
    "two documents": lambda said: (said[0], said[1] + said[1]),
    "no answer": hang_up,
}

# name: (recording, how the call reads, the stage that makes it)
CALLS = {
    "config": ("random_3", "GET /config?", LISTING),
    "grace period": ("random_3", "GET /config/garbage-collection?", LISTING),
    "repository": ("random_3", "GET {repo}?", LISTING),
    "metarange location": ("random_3", "GET {repo}/metadata/meta_range/", LISTING),
    "repositories": ("random_3", "GET /repositories?", LISTING),
    "staged, page 1": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= {}", STAGED),
    "staged, page 3": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= <page 3>", STAGED),
    "staged, last page": ("uncommitted_pages", "POST {repo}/gc/prepare_uncommited?after= <page 7>", STAGED),
    "rules": ("random_3", "GET {repo}/settings/gc_rules?", COMMITS),
    "prepare commits": ("random_3", "POST {repo}/gc/prepare_commits", COMMITS),
    "status of commits": ("random_3", "GET {repo}/gc/prepare_commits/status?", COMMITS),
    "dump": ("random_3", "POST {repo}/dump?", COMMITS),
    "status of dump": ("random_3", "GET {repo}/dump?", COMMITS),
    "tags": ("random_3", "GET {repo}/tags?", COMMITS),
    "branches, page 1": ("uncommitted_pages", "GET {repo}/branches?after= ", COMMITS),
    "branches, page 2": ("uncommitted_pages", "GET {repo}/branches?after=work", COMMITS),
    "objects of a branch on local": ("local_rich", "GET {repo}/refs/main/objects/ls?", STAGED),
}


def spoil(bench: Bench, call: str, how: Spoil, times: int = 10**9) -> None:
    """From now on this call is answered so, at most so many times."""
    recording = bench.replay.recording
    pages = [page.body or {} for page in recording.all("POST", "{repo}/gc/prepare_uncommited")]
    start = CALLS[call][1].replace("{repo}", f"/repositories/{recording.repository}")
    start = re.sub("<page ([0-9])>", lambda found: json.dumps(pages[int(found[1]) - 1]), start)
    left = iter(range(times))

    def spoilt(method: str, path: str, sent: bytes) -> Spoil | None:
        asked = f"{method} {path} {sent.decode() if method == 'POST' else ''}"
        hit = asked.startswith(start) and next(left, None) is not None
        return how if hit else None

    bench.server.spoilt = spoilt


@pytest.mark.parametrize(("call", "wrong"), crossed(CALLS, WRONG))
def test_a_call_that_fails_ends_the_mark(bench: Callable[[str], Bench], call: str, wrong: str) -> None:
    recording, _, stage = CALLS[call]
    found = bench(recording)
    found.before(stage)
    spoil(found, call, WRONG[wrong])
    came = found.survives(stage)
    # Servers before v1.72 answer the asynchronous form so, and have another.
    if call != "prepare commits":
        assert came != "authorised", f"{call} is not needed?"


def change(**values: Any) -> Spoil:
    """The answer with these values; `__` in a name leads into an object, None takes a key out."""

    def spoilt(said: Said) -> Said:
        whole = json.loads(said[1])
        for name, value in values.items():
            *above, last = name.split("__")
            inner = whole
            for step in above:
                inner = inner.setdefault(step, {})
            if value is None:
                inner.pop(last, None)
            else:
                inner[last] = value(inner[last]) if callable(value) else value
        return said[0], json.dumps(whole)

    return spoilt


EMPTY_PAGE = change(results=[], pagination__results=0, pagination__has_more=False)
SHORT_PAGE = change(results=lambda page: page[:-1])
LAST_PAGE = change(pagination__has_more=False)
CIRCLE = change(pagination__has_more=True, pagination__next_offset="")
EMPTY_METARANGE = "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"

# What is said, the call, how it is spoilt, and whether the mark may still be right: another answer may tell the same.
SHORT: list[tuple[str, str, Spoil, bool]] = [
    ("an empty page of repositories", "repositories", EMPTY_PAGE, False),
    ("fewer repositories than announced", "repositories", SHORT_PAGE, False),
    ("an empty page of tags", "tags", EMPTY_PAGE, True),
    ("fewer tags than announced", "tags", SHORT_PAGE, False),
    ("tags in a circle", "tags", CIRCLE, False),
    ("an empty page of branches", "branches, page 1", EMPTY_PAGE, False),
    ("fewer branches than announced", "branches, page 2", SHORT_PAGE, False),
    ("no second page of branches", "branches, page 1", LAST_PAGE, True),
    ("branches in a circle", "branches, page 1", CIRCLE, False),
    ("a staged page without a location", "staged, page 1", change(gc_uncommitted_location=None), False),
    ("a staged page whose location is empty", "staged, page 1", change(gc_uncommitted_location=""), True),
    ("a staged page where nothing is", "staged, page 1", change(gc_uncommitted_location=lambda at: f"{at}x/"), False),
    ("a staged page elsewhere", "staged, page 1", change(gc_uncommitted_location="s3://other/place/"), False),
    ("staged pages in two places", "staged, page 3", change(gc_uncommitted_location=lambda at: f"{at}x/"), False),
    ("a staged page of another run", "staged, page 3", change(run_id="another"), False),
    ("a staged page without a run", "staged, page 1", change(run_id=None), False),
    ("staged pages that end too soon", "staged, page 1", change(continuation_token=None), True),
    ("staged pages in a circle", "staged, page 3", change(continuation_token=None), True),
    ("commits that never come", "status of commits", change(completed=False, result=None), False),
    ("commits without a result", "status of commits", change(result=None), False),
    ("commits that ended in an error", "status of commits", change(result=None, error={"message": "died"}), False),
    ("commits without a location", "status of commits", change(result__gc_commits_location=None), False),
    ("commits where nothing is", "status of commits", change(result__gc_commits_location=lambda at: f"{at}x"), False),
    ("commits elsewhere", "status of commits", change(result__gc_commits_location="s3://o/commits.csv"), False),
    ("a dump that never ends", "status of dump", change(done=False, refs=None), False),
    ("a dump without refs", "status of dump", change(refs=None), False),
    ("a dump that ended in an error", "status of dump", change(error="died"), False),
    ("a dump without commits", "status of dump", change(refs__commits_meta_range_id=None), False),
    ("a dump without tags", "status of dump", change(refs__tags_meta_range_id=None), False),
    ("a dump whose commits are not there", "status of dump", change(refs__commits_meta_range_id="0" * 64), False),
    ("a dump whose branches are not there", "status of dump", change(refs__branches_meta_range_id="0" * 64), False),
    ("a dump whose tags are not there", "status of dump", change(refs__tags_meta_range_id="0" * 64), False),
    ("a dump of no commits", "status of dump", change(refs__commits_meta_range_id=EMPTY_METARANGE), False),
    ("metadata in another place", "metarange location", change(location="elsewhere/" + "0" * 64), False),
    ("metadata without a place", "metarange location", change(location="0" * 64), False),
]


@pytest.mark.parametrize(("call", "how", "may_be_right"), [each[1:] for each in SHORT], ids=[each[0] for each in SHORT])
def test_an_answer_that_is_short_or_leads_nowhere_never_costs_data(
    bench: Callable[[str], Bench], call: str, how: Spoil, may_be_right: bool
) -> None:
    recording, _, stage = CALLS[call]
    found = bench(recording)
    found.before(stage)
    spoil(found, call, how)
    came = found.survives(stage)
    assert may_be_right or came != "authorised"


def test_a_server_that_names_no_staged_file_but_wrote_one_is_not_believed(bench: Callable[[str], Bench]) -> None:
    found = bench("random_3")
    found.before(STAGED)
    found.server.spoilt = lambda method, path, sent: (
        change(gc_uncommitted_location="") if "prepare_uncommited" in path else None
    )
    assert "nothing is staged" in found.survives(STAGED)


def test_lost_rules_in_the_explicit_mode_only_keep_more(bench: Callable[[str], Bench]) -> None:
    found = bench("random_3")
    spoil(found, "rules", status(404))
    context = found.replay.begin("no-rules", rules="keep-all-commits")
    review = pipeline.mark(found.spark, context)
    assert review.authorized
    assert set(pipeline.expired_of(context)) < found.replay.right()
