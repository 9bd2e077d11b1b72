"""A mark's report, a history and a reader, for tests of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

REPORT: dict[str, Any] = {
    "repository": "lake",
    "mark_id": "m1",
    "started_at": "2026-11-21T02:00:00.000Z",
    "cutoff": "2026-11-20T01:00:00.000Z",
    "safety": "full",
    "objects": {
        "listed": 1000,
        "committed": 800,
        "uncommitted": 50,
        "foreign": 0,
        "neighbour": 0,
        "young": 0,
        "expired": 150,
        "confirmed": 0,
    },
    "bytes": {
        "listed": 10**12,
        "committed": 0,
        "uncommitted": 0,
        "foreign": 0,
        "neighbour": 0,
        "young": 0,
        "expired": 10**12,
        "confirmed": 0,
    },
    "commits": {"known": 9, "retained": 4, "kept_by": {"head": 1, "rules": 3}},
    "guards": [
        {"name": "reads", "passed": True, "severity": "ERROR", "description": "All read."},
        {
            "name": "blast-radius",
            "passed": False,
            "severity": "ERROR",
            "description": "15% <would> go.",
            "accepted_because": "dropped a & b",
        },
    ],
    "authorized": True,
    "missing": [{"path": "a/<b>", "address": "data/x"}],
    "confirmed_at": "2026-11-22T02:00:00.000Z",
    "seconds": {"namespace_listing": 1.0},
    "artifacts": "s3://bucket/lake/_lakefs/retention/gc/lakegc/marks/m1",
    "ages": [
        {"name": "under a week", "objects": 0, "bytes": 0},
        {"name": "1–4 weeks", "objects": 150, "bytes": 10**12},
    ],
    "sizes": [{"name": "1–10 MB", "objects": 150, "bytes": 10**12}],
    "prefixes": [{"prefix": "data/abc/", "objects": 150, "bytes": 10**12}],
    "price": {"per_gb_month": 0.023, "currency": "EUR"},
}
SWEEP = {"sweep": 1, "bytes_deleted": 5_000, "outcomes": {"deleted": 149, "rescued": 1, "already_gone": 0}}


class Reader(HTMLParser):
    """Collects what a page shows and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.loads, self.open = "", [], []  # type: ignore[var-annotated]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    found = Reader()
    found.feed(page)
    found.close()
    assert not found.open
    return found


def history(*marks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The history of the repository `lake` with such marks, newest first."""
    found = {
        "repository": "lake",
        "since": None,
        "marks": list(marks),
        "last_mark": marks[0]["started_at"] if marks else None,
        "garbage": {"objects": 150, "bytes": 10**12} if marks else None,
        "refused": [],
        "totals": totals(),
        "price": {"per_gb_month": 0.023, "currency": "EUR"},
    }
    return found | more


def totals(**more: int) -> dict[str, int]:
    """What sweeps came to; left out: nothing."""
    names = ("sweeps", "deleted", "bytes_deleted", "kept_as_versions", "recoverable", "in_quarantine", "unknown")
    return dict.fromkeys(names, 0) | more


def mark(day: int, expired: int, *sweeps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A mark of such a day of November 2026 as a history has it; `expired`: bytes that it found."""
    found = {
        "mark_id": f"m{day:02}",
        "started_at": f"2026-11-{day:02}T02:00:00.000Z",
        "state": "swept" if sweeps else "complete",
        "expired": 3,
        "expired_bytes": expired,
        "swept": list(sweeps),
    }
    return found | more


def sweep(day: int | None, deleted: int) -> dict[str, Any]:
    """A sweep of such a day, at 16:30, as a history has it; None: one that broke off. `deleted`: bytes."""
    finished = None if day is None else f"2026-11-{day:02}T16:30:00.000Z"
    return {"sweep": 1, "finished_at": finished, "deleted": 2 if deleted else 0, "bytes_deleted": deleted}
