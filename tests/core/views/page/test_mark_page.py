"""A mark as a page of HTML."""

from __future__ import annotations

import re
from typing import Any

from lakegc_core.errors import StoreError
from lakegc_core.views.history import unreadable
from lakegc_core.views.page.mark import page
from tests.support.pages import REPORT, SWEEP, history, mark, read, sweep, totals

MALICE = "<script>alert(1)</script>"
ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
AMOUNT = {"objects": 3, "bytes": 5_000}
KEEPER = {"name": "branch:exp", "shows": AMOUNT, "only": AMOUNT, "history": AMOUNT, "at_once": AMOUNT}
USAGE = {"keepers": [KEEPER], "shared": {"objects": 9, "bytes": 7_000}}
CURVES = {"default": [{"days": 1, "kept": AMOUNT}, {"days": 30, "kept": AMOUNT}, {"days": None, "kept": AMOUNT}]}
PAST = history(
    mark(21, 10**12),
    mark(14, 2 * 10**12, sweep(16, 2 * 10**12)),
    totals=totals(sweeps=1, deleted=2, bytes_deleted=2 * 10**12, kept_as_versions=5 * 10**11),
)


def headings(shown: str) -> list[str]:
    return re.findall(r"<h[12]>(.*?)</h[12]>", shown)


def test_the_page_says_what_the_screen_says_and_what_the_garbage_costs() -> None:
    shown = read(page(REPORT, [SWEEP])).text
    for part in ("lake · mark m1", "1.0 TB", "15.0%", "about 23.00 EUR a month", "data/abc/"):
        assert part in shown
    assert "swept" in shown and "no guard stops" in read(page(REPORT)).text
    assert "a guard stops the sweep" in read(page(REPORT | {"authorized": False})).text
    assert "4 of 9 commits retained (1 by head, 3 by rules)" in shown
    assert "Sweep 1: 5.0 kB deleted" in shown and "149" in shown and "already_gone" not in shown


def test_it_begins_with_the_garbage_what_was_freed_and_what_that_saves() -> None:
    shown = read(page(REPORT, [], PAST)).text
    assert (
        "150 objects (1.0 TB) of repository lake are garbage: about 23.00 EUR a month. "
        "1 sweep freed 1.5 TB, which saves about 414.00 EUR a year." in shown
    )
    assert "Garbage now1.0 TB150 objects" in shown and "Freed in all1.5 TB" in shown
    assert "found by the mark of 21 November 2026, 02:00 UTC" in shown
    assert "Saved a yearabout 414.00 EUR" in shown
    assert "500.0 GB of it kept as old versions until the store lets them expire" in shown


def test_the_parts_follow_each_other_from_what_everybody_asks_to_what_few_ask() -> None:
    assert headings(page(REPORT, [SWEEP], PAST, USAGE, CURVES)) == [
        "lake · mark m1",
        "Over time",
        "What there is",
        "The garbage, by bytes",
        "What stays, by the days of the rules",
        "What each branch, tag and hold keeps",
        "Where most of it lies",
        "The guards",
        "Sweep 1: 5.0 kB deleted",
        "Live, but not in the store",
        "Where it is",
    ]


def test_dates_are_written_as_people_write_them() -> None:
    swept = SWEEP | {"finished_at": 1795451400.0}
    shown = read(page(REPORT, [swept], PAST)).text
    assert "began 21 November 2026, 02:00 UTC · cutoff 20 November 2026, 01:00 UTC" in shown
    assert "the rest may be swept after 22 November 2026, 02:00 UTC" in shown
    assert "Sweep 1, 23 November 2026, 16:30 UTC: 5.0 kB deleted" in shown
    assert not ISO.search(shown)
    all_ready = REPORT["objects"] | {"confirmed": REPORT["objects"]["expired"]}
    assert "the rest may be swept" not in read(page(REPORT | {"objects": all_ready})).text
    first = {"old_enough_at": "2026-11-22T03:00:00.000Z", "deletable_from": "2026-11-23T03:00:00.000Z"}
    shown = read(page(REPORT | {"first_young": first})).text
    assert "old enough at 22 November 2026, 03:00 UTC, and may be deleted from 23 November 2026, 03:00 UTC" in shown


def test_without_a_history_it_says_what_this_mark_and_its_sweeps_say() -> None:
    outcomes = {"deleted": 148, "already_gone": 1, "unconfirmed": 1}
    shown = read(page(REPORT, [SWEEP | {"outcomes": outcomes, "bytes_deleted": 4 * 10**11}])).text
    assert "1 object (at most 600.0 GB) of repository lake is garbage" in shown
    assert "Freed" not in shown and "Over time" not in shown


def test_a_sweep_says_what_lies_in_quarantine_and_until_when_as_long_as_it_lies_there() -> None:
    swept = SWEEP | {"quarantine": {"age": 604800.0, "until": 1795451400.0}}
    said = "Sweep 1: 5.0 kB deleted, 5.0 kB of it in quarantine until 23 November 2026, 16:30 UTC"
    assert said in read(page(REPORT, [swept])).text
    part = swept | {"quarantine": swept["quarantine"] | {"objects": 1, "bytes": 1_000}}
    assert "5.0 kB deleted, 1.0 kB of it in quarantine until" in read(page(REPORT, [part])).text
    emptied = history(mark(21, 10**12, sweep(23, 5_000) | {"quarantined_until": None}) | {"mark_id": REPORT["mark_id"]})
    assert "in quarantine" not in read(page(REPORT, [swept], emptied)).text


def test_a_history_that_does_not_read_hides_no_mark() -> None:
    shown = read(page(REPORT, [], unreadable("lake", StoreError("<no> answer")))).text
    assert "The history of the repository cannot be read: <no> answer" in shown
    assert "150 objects (1.0 TB) of repository lake are garbage" in shown and "Freed" not in shown


def test_an_older_mark_says_that_there_is_a_newer_one() -> None:
    older = "a newer mark began 28 November 2026, 02:00 UTC"
    assert older in read(page(REPORT, [], history(mark(28, 5), mark(21, 10**12)))).text
    assert "a newer mark" not in read(page(REPORT, [], PAST)).text


def test_what_keeps_the_rest_is_shown_where_it_was_asked() -> None:
    shown = read(page(REPORT, [], PAST, USAGE, CURVES)).text
    for part in ("branch:exp", "By the days of default", "30 days", "for ever", "Several of them keep 7.0 kB together"):
        assert part in shown
    assert "--answers" not in shown


def test_where_it_was_not_asked_it_says_in_one_line_which_command_shows_it() -> None:
    shown = read(page(REPORT, [], PAST)).text
    assert "lakegc du lake shows" in shown and "lakegc whatif lake shows" in shown
    assert "lakegc report lake --html FILE --answers makes this page with both" in shown
    only = read(page(REPORT, [], PAST, usage=USAGE)).text
    assert "lakegc whatif lake shows" in only and "lakegc du lake shows" not in only


def test_a_repository_without_rules_has_no_curve_and_one_with_many_shows_the_first() -> None:
    assert "has no rules, so that every commit counts" in read(page(REPORT, [], PAST, USAGE, {})).text
    many = dict.fromkeys(("default", *(f"branch:b{n}" for n in range(9))), CURVES["default"])
    shown = read(page(REPORT, [], PAST, USAGE, many)).text
    assert shown.count("By the days of") == 2 * 6, "as a title and as text"
    assert "4 more: lakegc whatif lake shows all." in shown


def test_many_branches_are_cut_and_the_rest_is_counted() -> None:
    many = USAGE | {"keepers": [KEEPER | {"name": f"branch:b{n}"} for n in range(23)]}
    shown = read(page(REPORT, [], PAST, many, {})).text
    assert "branch:b19" in shown and "branch:b20" not in shown
    assert "3 more: lakegc du lake --json shows all." in shown


def test_what_holds_keep_is_a_line_of_its_own_with_the_holds() -> None:
    kept = {kind: REPORT[kind] | {"held": 7, "committed": 793} for kind in ("objects", "bytes")}
    commits = REPORT["commits"] | {"kept_by": {"head": 1, "hold": 3}}
    report = REPORT | kept | {"commits": commits, "holds": ["path:legal/<x>/**", "tag:v*"]}
    shown = read(page(report)).text
    assert "Kept: held77 B0.7%by path:legal/<x>/** · the 3 commits held count as committed" in shown


def test_a_sweep_has_the_price_that_was_set_when_it_was_made() -> None:
    price = {"per_gb_month": 0.05, "currency": "<USD>"}
    swept = SWEEP | {"bytes_deleted": 10**12, "price": price, "versioned": False}
    assert "1.0 TB deleted, about 50.00 <USD> a month" in read(page(REPORT, [swept])).text
    for other in ({"price": None}, {"versioned": True}, {"versioned": None}, {"recoverable_until": 9e9}):
        assert "deleted, " not in read(page(REPORT, [swept | other])).text


def test_names_from_the_repository_cannot_break_the_page() -> None:
    shown = read(page(REPORT)).text
    assert "15% <would> go." in shown and "dropped a & b" in shown and "a/<b>" in shown


def test_whatever_comes_from_outside_is_escaped() -> None:
    one = {"prefix": MALICE, "objects": 1, "bytes": 1}
    named = dict.fromkeys(("repository", "mark_id", "safety", "artifacts"), MALICE)
    guard: dict[str, Any] = {"name": MALICE, "passed": False, "severity": "ERROR", "description": MALICE}
    report = REPORT | named | {
        "guards": [guard | {"accepted_because": MALICE}],
        "missing": [{"path": MALICE, "address": MALICE}],
        "prefixes": [one],
        "foreign_prefixes": [one],
        "holds": [f"path:{MALICE}"],
        "ages": [one | {"name": MALICE}],
        "price": {"per_gb_month": 1, "currency": MALICE},
    }  # fmt: skip
    past = history(mark(21, 5, mark_id=MALICE), mark(20, 5, problem=MALICE), price=report["price"])
    usage = USAGE | {"keepers": [KEEPER | {"name": MALICE}]}
    for shown in (
        page(report, [SWEEP | {"outcomes": {MALICE: 1}}], past, usage, {MALICE: CURVES["default"]}),
        page(report, [], past),
        page(report, [], unreadable("lake", StoreError(MALICE))),
    ):
        assert "<script" not in shown and MALICE in read(shown).text


def test_the_page_needs_no_network_and_runs_nothing() -> None:
    shown = page(REPORT, [SWEEP], PAST, USAGE, CURVES)
    assert read(shown).loads == [] and "http-equiv" not in shown and "@import" not in shown and "url(" not in shown
    tags = re.sub(r">[^<]*<", "><", shown.partition("</style>")[2])
    assert "<script" not in shown and not re.search(r"\son\w+=", tags)


def test_text_has_the_colours_of_the_page_also_in_pictures_so_that_it_is_read_in_the_dark() -> None:
    shown = page(REPORT, [SWEEP], PAST, USAGE, CURVES)
    style, body = shown.split("</style>")
    colours = set(re.findall(r"<text[^>]* fill=\"([^\"]*)\"", body))
    assert colours == {"currentColor"}
    assert "svg { color: var(--soft)" in style and "prefers-color-scheme: dark" in style
    light, dark = (set(re.findall(r"(--\w+):", part)) for part in style.split("@media")[:2])
    assert light == dark, "each colour has one for the dark"


def test_a_mark_without_garbage_has_no_pictures_of_it() -> None:
    empty = REPORT | {"objects": REPORT["objects"] | {"expired": 0}, "bytes": REPORT["bytes"] | {"expired": 0}}
    shown = page(empty | {"price": None, "prefixes": [], "missing": []})
    assert "<svg" not in shown and "a month" not in read(shown).text
    assert "Nothing in repository lake is garbage." in read(shown).text


def test_what_lies_below_data_under_unknown_names_is_told_with_what_to_do() -> None:
    objects = REPORT["objects"] | {"foreign": 3, "unknown": 2}
    size = REPORT["bytes"] | {"foreign": 4_000, "unknown": 3_000}
    folders = [{"prefix": "data/raw/", "objects": 2, "bytes": 3_000}]
    shown = read(page(REPORT | {"objects": objects, "bytes": size, "foreign_prefixes": folders})).text
    for part in ("Of it below data/", "collect_unknown_names: true", "What is not lakeFS's", "data/raw/", "3.0 kB"):
        assert part in shown
    assert "Of it below data/" not in read(page(REPORT)).text


def test_it_says_why_objects_are_garbage_and_where_users_last_saw_them() -> None:
    origins = {
        "causes": [
            {"words": "were left by branch <exp>, which was gone on 3 November 2025", "objects": 9, "bytes": 10}
        ],
        "folders": [{"prefix": "tables/<b>/", "objects": 9, "bytes": 10}, {"prefix": "", "objects": 1, "bytes": 1}],
        "unread_metaranges": 0,
    }
    shown = read(page(REPORT | {"origins": origins}, [], PAST))
    assert "Why it is garbage" in shown.text and "Under which paths it was last shown" in shown.text
    assert "objects that were left by branch <exp>, which was gone on 3 November 2025" in shown.text
    assert "Why it is garbage" in shown.text and "Under which paths it was last shown" in shown.text
    assert "tables/<b>/" in shown.text and "(root)" in shown.text
    assert "Why it is garbage" not in read(page(REPORT | {"origins": None}, [], PAST)).text
