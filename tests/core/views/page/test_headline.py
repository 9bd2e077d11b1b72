"""The headline of a page: what it calls garbage, freed and saved."""

from __future__ import annotations

from typing import Any

import pytest

from lakegc_core.views.page.headline import headline, sentences
from tests.support.pages import read, totals

EUR = {"per_gb_month": 0.02, "currency": "EUR"}
NONE = {"objects": 0, "bytes": 0}
GB = 10**9


def sums(garbage: dict[str, int] = NONE, price: dict[str, Any] | None = EUR, **swept: int) -> dict[str, Any]:
    return {"garbage": garbage, "totals": totals(**swept), "price": price}


def test_what_old_versions_hold_and_what_nobody_knows_is_not_called_freed() -> None:
    held = {"kept_as_versions": 10 * GB, "recoverable": 20 * GB, "unknown": 30 * GB}
    shown = read(headline(sums(sweeps=4, deleted=9, bytes_deleted=100 * GB, **held), "repository lake")).text
    assert "4 sweeps freed 40.0 GB, which saves about 9.60 EUR a year." in shown
    for part in (
        "Freed in all40.0 GB9 objects (100.0 GB) deleted by 4 sweeps",
        "10.0 GB of it kept as old versions",
        "20.0 GB of it can still be brought back",
        "of 30.0 GB it is not known",
        "Saved a yearabout 9.60 EUR",
        "at 0.02 EUR per GB and month",
    ):
        assert part in shown


@pytest.mark.parametrize(
    ("found", "since", "said"),
    [
        (sums(), None, "Nothing in x is garbage. No sweep has deleted anything yet."),
        (
            sums({"objects": 1, "bytes": 5}),
            None,
            "1 object (5 B) of x is garbage: less than 0.01 EUR a month. No sweep",
        ),
        (sums({"objects": 2, "bytes": GB}, None), None, "2 objects (1.0 GB) of x are garbage. No sweep"),
        (sums(), "2026-10-24T01:00:00.000Z", "No sweep has deleted anything since 24 October 2026."),
        (
            sums(sweeps=1, deleted=1, bytes_deleted=GB),
            "2026-10-24T01:00:00.000Z",
            "Since 24 October 2026, 1 sweep freed 1.0 GB, which saves about 0.24 EUR a year.",
        ),
        (
            sums(sweeps=2, deleted=1, bytes_deleted=GB, unknown=GB),
            None,
            "2 sweeps deleted 1.0 GB; the store may still hold all of it.",
        ),
        (sums() | {"totals": None}, None, "Nothing in x is garbage."),
    ],
)
def test_it_is_said_in_sentences(found: dict[str, Any], since: str | None, said: str) -> None:
    assert said in sentences(found, "x", since)


def test_without_a_price_there_is_no_money() -> None:
    shown = read(
        headline(sums(price=None, sweeps=1, deleted=1, bytes_deleted=GB), "x", "2026-10-24T01:00:00.000Z")
    ).text
    assert "Freed since 24 October 20261.0 GB" in shown and "Saved" not in shown and "EUR" not in shown
