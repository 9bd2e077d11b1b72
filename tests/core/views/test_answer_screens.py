"""What people see of `du` and `whatif`."""

from __future__ import annotations

import re
from typing import Any

from lakegc_core.views import answers

HEAD: dict[str, Any] = {"repository": "lake", "mark_id": "m1", "at": "2026-11-20T01:00:00.000Z", "price": None}
COMMIT = "c" * 64


def amount(objects: int, size: int) -> dict[str, int]:
    return {"objects": objects, "bytes": size}


def keeper(name: str, size: int, shows: int | None = None) -> dict[str, Any]:
    shown = None if shows is None else amount(1, shows)
    return {
        "name": name,
        "shows": shown,
        "only": amount(size and 1, size),
        "history": amount(0, 0),
        "at_once": amount(0, 0),
    }


def used(*keepers: dict[str, Any]) -> dict[str, Any]:
    return HEAD | {
        "objects": amount(9, 9000),
        "keepers": list(keepers),
        "shared": amount(2, 500),
        "together": [{"patterns": ["branch:exp-*"], "only": amount(3, 4_200_000_000_000), "at_once": amount(0, 0)}],
        "nothing_called_so": [],
        "besides": {"unreferenced": amount(4, 2000)},
    }


def test_du_names_the_largest_first_and_says_how_many_more_there_are() -> None:
    screen = answers.du_screen(used(*(keeper(f"branch:{number:02}", 1000 - number) for number in range(25))))
    assert "branch:19" in screen and "branch:20" not in screen and "and 5 more; --json shows all" in screen
    assert "branch:exp-* together: 4.2 TB in the end, 0 B at once" in screen
    assert "garbage" in screen and "2.0 kB" in screen


def test_du_says_which_patterns_mean_nothing() -> None:
    found = used() | {"nothing_called_so": ["branch:exp-*", "tag:v9"]}
    assert "Nothing is called branch:exp-*, tag:v9." in answers.du_screen(found)
    assert "Nothing is called" not in answers.du_screen(used())


def test_du_leaves_out_what_keeps_nothing_and_shows_nothing() -> None:
    screen = answers.du_screen(used(keeper("branch:main", 0, 700), keeper("lakeFS's own list", 0)))
    assert "branch:main" in screen and "700 B" in screen and "own list" not in screen


def test_du_says_what_each_costs_a_month_where_there_is_a_price() -> None:
    priced = used(keeper("branch:main", 5_000_000_000_000)) | {"price": {"per_gb_month": 0.02, "currency": "EUR"}}
    (line,) = [line for line in answers.du_screen(priced).splitlines() if line.startswith("branch:main")]
    assert line.endswith("about 100.00 EUR a month")


def outcome(garbage: int, more: int) -> dict[str, Any]:
    parts = {"kept_by": {"branch:exp": amount(1, more)}, "folders": {"": amount(1, more)}} if more else {}
    sums = {"garbage": amount(1, garbage), "more": amount(1, more), "less": amount(0, 0)}
    return {"kept_by": {}, "folders": {}} | parts | sums


def test_whatif_shows_what_would_be_saved_a_month_and_a_curve_for_each_rule() -> None:
    points = [{"days": days, "kept": amount(1, size)} for days, size in ((1, 10), (7, 1000), (None, 2000))]
    found = HEAD | {
        "price": {"per_gb_month": 0.02, "currency": "EUR"},
        "rules": {"default": 3, "branches": {"main": 30}},
        "without": ["tag:v0"],
        "protect_tags": False,
        "today": amount(1, 5),
        "at_once": outcome(5, 0),
        "in_the_end": outcome(10**12, 10**12),
        "curves": {"default": points},
        "nothing_called_so": ["tag:v0"],
        "entries_unread": 7000,
    }
    screen = answers.whatif_screen(found)
    assert "rules: default 3 days, branch:main 30 days · without tag:v0 · tags are not protected" in screen
    assert "Nothing is called tag:v0." in screen
    assert "saves about 20.00 EUR a month" in screen
    assert re.search(r"by what keeps it today\n  branch:exp +1.0 TB", screen)
    assert re.search(r"by the folder of its path\n  \(no folder\) +1.0 TB", screen)
    assert "the folders of 7,000 more entries were not read" in screen
    lines = [line for line in screen.splitlines() if "█" in line]
    assert [line.split()[0] for line in lines] == ["1", "7", "all"]
    assert [line.count("█") for line in lines] == sorted(line.count("█") for line in lines)


EVIL = "evil/\x1b[31mred\x1b[0m\x07\n  kept: branch:main"


def seen(screen: str) -> int:
    """How often the name is on a screen that it cannot change."""
    assert all(line.isprintable() for line in screen.split("\n"))
    return screen.count(r"evil/\x1b[31mred\x1b[0m\x07\n  kept")


def test_names_that_others_gave_cannot_change_the_screen_of_an_answer() -> None:
    used_ = used(keeper(EVIL, 5)) | {"together": [{"patterns": [EVIL], "only": amount(1, 1), "at_once": amount(0, 0)}]}
    assert seen(answers.du_screen(used_)) == 2
    parts = {"kept_by": {EVIL: amount(1, 1)}, "folders": {EVIL: amount(1, 1)}}
    found = HEAD | {
        "rules": {"default": 3, "branches": {EVIL: 3}},
        "without": [EVIL],
        "protect_tags": True,
        "today": amount(1, 5),
        "at_once": outcome(5, 0),
        "in_the_end": outcome(5, 1) | parts,
        "curves": {EVIL: [{"days": 1, "kept": amount(1, 10)}]},
        "nothing_called_so": [EVIL],
        "entries_unread": 0,
    }
    assert seen(answers.whatif_screen(found)) == 6
