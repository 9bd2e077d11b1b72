"""Listings that are short, with or without a sign of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakegc_core import pipeline
from lakegc_core.policy import guards
from lakegc_core.policy.evidence import Evidence
from lakegc_core.policy.safety import FULL
from tests.support.fault_bench import LISTING, STAGED, Bench
from tests.support.proxy import Answer, Forward, Hook, Request, pass_on


def listing(prefix: str, change: Callable[[bytes], bytes]) -> Hook:
    """Changes every list page of a prefix that ends so."""

    def hook(request: Request, forward: Forward) -> Answer:
        answer = forward(request)
        asked = request.query
        hit = "list-type" in asked and asked.get("prefix", "").endswith(prefix)
        return replace(answer, body=change(answer.body)) if hit else answer

    return hook


def drop(tag: str, counted: bool, times: int = 1) -> Callable[[bytes], bytes]:
    """Takes elements out of a page; `counted`: the page's own count goes along with it."""

    def change(body: bytes) -> bytes:
        body, taken = re.subn(rb"<%s>.*?</%s>" % (tag.encode(), tag.encode()), b"", body, count=times, flags=re.S)
        if counted:
            body = re.sub(rb"<KeyCount>(\d+)", lambda found: b"<KeyCount>%d" % (int(found[1]) - taken), body)
        return body

    return change


def more(token: bytes) -> Callable[[bytes], bytes]:
    return lambda body: re.sub(rb"<IsTruncated>false</IsTruncated>", b"<IsTruncated>true</IsTruncated>" + token, body)


LISTINGS = {
    "an object fewer than counted": ("", drop("Contents", False), LISTING),
    "a unit fewer than counted": ("data/", drop("CommonPrefixes", False), LISTING),
    "more to come, but not where": ("", more(b""), LISTING),
    "the same page for ever": ("", more(b"<NextContinuationToken>a</NextContinuationToken>"), LISTING),
    "no word of an end": ("", lambda body: re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body), LISTING),
    "half a page": ("", lambda body: body[: len(body) // 2], LISTING),
    "nothing": ("", lambda body: b"", LISTING),
    "the folder of the staged dump is empty": ("/uncommitted/", drop("Contents", True, 99), STAGED),
}


@pytest.mark.parametrize("short", LISTINGS)
def test_a_listing_that_does_not_add_up_ends_the_mark(bench: Callable[[str], Bench], short: str) -> None:
    found = bench("random_3")
    assert found.proxy
    prefix, change, stage = LISTINGS[short]
    found.before(stage)
    found.proxy.hook = listing(prefix, change)
    assert found.survives(stage) not in ("authorised", "not authorised")


@pytest.mark.parametrize("tag", ["Contents", "CommonPrefixes"])
def test_a_listing_that_is_short_without_a_sign_deletes_nothing_live_and_the_default_level_refuses_it(
    bench: Callable[[str], Bench], tag: str
) -> None:
    found = bench("random_3")
    assert found.proxy
    mark_id = found.before(LISTING)
    prefix = "/" if tag == "Contents" else "data/"
    found.proxy.hook = listing(prefix, drop(tag, True, 40 if tag == "Contents" else 1))
    context = found.context(mark_id)
    pipeline.MARKING[LISTING](found.spark, context)
    found.proxy.hook = pass_on
    assert found.marks(mark_id, less=True)
    evidence = Evidence(context.header, context.mark.chain(), FULL, context.header.started_at)
    refused = {verdict.name for verdict in guards.evaluate(evidence) if verdict.stops}
    assert "live-in-listing" in refused
