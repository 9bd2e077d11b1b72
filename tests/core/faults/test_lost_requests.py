"""Requests to the store that are lost, once or always."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from lakegc_core.names import STAGES
from tests.support.fault_bench import COMMITS, COMMITTED, EXPIRED, LISTING, STAGED, Bench, lost
from tests.support.proxy import Answer, Forward, Hook, Request, answer_lost, cut_off


def kind_of(request: Request) -> str:
    """What a request is about: its method, and its key without ids and numbers."""
    query = request.query
    if "list-type" in query:
        prefix = query.get("prefix", "")
        if "/lakegc/" in prefix:
            return "LIST artifacts"
        return "LIST dump" if "uncommitted" in prefix else "LIST data"
    key = unquote(request.path.partition("?")[0])
    if "/lakegc/" not in key:
        named = re.search(r"commits\.csv|uncommitted/", key)
        return f"{request.method} {named[0] if named else 'metadata'}"
    key = re.sub(r".*/lakegc/(marks/[^/]*/)?", "", key)
    return f"{request.method} {re.sub(r'part-[^/]*', 'part', key)}"


@pytest.mark.parametrize(
    "fault", [answer_lost, *(pytest.param(each, marks=pytest.mark.slow) for each in (lost, cut_off))]
)
def test_each_kind_of_request_may_be_lost_once_without_harm(bench: Callable[[str], Bench], fault: Hook) -> None:
    found = bench("random_3")
    assert found.proxy
    seen: set[str] = set()

    def hook(request: Request, forward: Forward) -> Answer | None:
        kind = kind_of(request)
        if kind in seen:
            return forward(request)
        seen.add(kind)
        return fault(request, forward)

    found.proxy.hook = hook
    assert found.survives(LISTING) == "authorised"
    assert len(seen) > 20, seen


LOST = {
    "PUT mark.json": LISTING,
    "GET mark.json": LISTING,
    "LIST data": LISTING,
    **{f"PUT {stage}/part": stage for stage in (LISTING, STAGED, COMMITS, COMMITTED, EXPIRED)},
    **{f"PUT {stage}/manifest.json": stage for stage in STAGES},
    **{f"GET {stage}/manifest.json": stage for stage in STAGES},
    "LIST dump": STAGED,
    "GET uncommitted/": STAGED,
    "PUT retention_commits/refs/part": COMMITS,
    "GET retention_commits/refs/part": COMMITS,
    "GET retention_commits/part": COMMITTED,
    "GET metadata": COMMITTED,
    "PUT committed_addresses/metaranges/part": COMMITTED,
    "GET committed_addresses/metaranges/part": COMMITTED,
    "PUT committed_addresses/ranges/part": COMMITTED,
    "PUT committed_addresses/index/part": COMMITTED,
    "PUT committed_addresses/checksums/part": COMMITTED,
    "PUT namespace_listing/units/part": LISTING,
    "GET namespace_listing/part": EXPIRED,
    "GET uncommitted_addresses/part": EXPIRED,
    "GET committed_addresses/part": EXPIRED,
    "PUT expired_addresses/kept/part": EXPIRED,
    "PUT deleted.text/part": EXPIRED,
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(
            kind,
            fault,
            id=f"{kind}-{fault.__name__}",
            marks=() if number % 4 == 0 and fault is lost else pytest.mark.slow,
        )
        for number, kind in enumerate(LOST)
        for fault in (lost, answer_lost)
        if fault is lost or kind.startswith("PUT")
    ],
)
def test_a_request_that_the_store_always_loses_ends_the_mark(
    bench: Callable[[str], Bench], kind: str, fault: Hook
) -> None:
    found = bench("random_3")
    assert found.proxy
    mark_id = found.before(LOST[kind])
    hit: list[str] = []

    def hook(request: Request, forward: Forward) -> Answer | None:
        if kind_of(request) != kind:
            return forward(request)
        hit.append(request.path)
        return fault(request, forward)

    found.proxy.hook = hook
    assert found.marks(mark_id) not in ("authorised", "not authorised")
    assert hit, f"no request was {kind}"
