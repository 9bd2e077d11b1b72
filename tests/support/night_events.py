"""Nights in which users and operators do what is seldom done, or the world behaves oddly.

Each function plays the nights that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.marks.sweeps import report_of, sweeps_of
from lakegc_core.policy.facts import CommitsFacts
from lakegc_sandbox.model.refs import GoneError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.long_nights import Year

TRIES = 4  # nights in which something must happen


def much_is_dropped_at_once(year: Year) -> None:
    """A guard stops that until a person accepts it."""
    name = f"warehouse-{year.nights}"
    year.branch_of(name, max(100, len(year.town.stored()) // 4))
    data = _shown(year, name)
    year.plain()
    year.town.repository.delete_branch(name)
    told, nights = len(year.told), 0
    while nights < 12 and not data.isdisjoint(year.town.stored()):
        year.plain()
        nights += not _every_commit_counts(year)
    assert data.isdisjoint(year.town.stored()), "a person accepted it, and it is still there"
    assert any("blast-radius" in said for said in year.told[told:])


def what_was_staged_is_committed_in_one_go(year: Year) -> None:
    name = f"bulk-{year.nights}"
    year.branch_of(name, 80, days=2, committed=False)
    year.plain()
    year.town.repository.commit(name, "all at once")
    year.evening()
    mark_id = year.mark()
    assert _verdicts(year, mark_id)["shrink"]["passed"], _verdicts(year, mark_id)["shrink"]
    year.sweep(mark_id)
    year.morning()
    year.later(year.weeks(2), lambda: year.town.repository.delete_branch(name))


def a_hold_by_path_is_added_and_removed_weeks_later(year: Year) -> None:
    name = f"kept-{year.nights}"
    year.branch_of(name, 20)
    data = _shown(year, name)
    hold = f"path:{name}/**"
    year.town.holds = (*year.town.holds, hold)
    year.plain()
    year.town.repository.delete_branch(name)

    def lift() -> None:
        assert data <= year.town.stored().keys()
        kept = year.books.kept()
        assert {kept.get(each) for each in data} <= {"held", None}, "what holds keep bears that reason"
        year.town.holds = tuple(each for each in year.town.holds if each != hold)

    year.later(year.weeks(3), lift)
    year.plain()


def a_hold_by_tag_outlives_its_tag(year: Year) -> None:
    name = f"release-{year.nights}"
    year.branch_of(name, 20)
    data = _shown(year, name)
    year.town.repository.tag(f"{name}-tag", name)
    year.town.holds = (*year.town.holds, hold := f"tag:{name}-*")
    year.town.repository.delete_branch(name)

    def untag() -> None:
        assert data <= year.town.stored().keys()
        year.town.repository.delete_tag(f"{name}-tag")

    def lift() -> None:
        said = _verdicts(year, year.newest())["holds"]
        assert not said["passed"] and hold in said["description"], "a hold that holds nothing is named"
        year.town.holds = tuple(each for each in year.town.holds if each != hold)

    year.later(weeks := year.weeks(2), untag)
    year.later(weeks + 2, lift)
    year.plain()


def an_imported_object_dies(year: Year) -> None:
    """It lies outside of the namespace: no sweep of this repository can have taken it."""
    town, name = year.town, f"dying-{year.nights}"
    file: Path = town.server.sandbox.root / "elsewhere" / name
    file.write_bytes(b"outside")
    scheme = town.repository.place.namespace.partition("://")[0]
    town.repository.import_objects("archive", {f"archive/{name}": (f"{scheme}://elsewhere/{name}", 7)})
    year.plain()
    file.unlink()
    with pytest.raises(GoneError):
        town.repository.read("archive", f"archive/{name}")
    mark_id = _swept_mark(year)
    assert _swept_verdicts(year, mark_id)["reads"]["passed"]


def one_path_is_forbidden(year: Year) -> None:
    chosen: list[tuple[str, str]] = []

    def forbid(method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        asked = (path, query.get("path", ""))
        if not (method == "GET" and path.endswith("/objects") and asked[1]):
            return None
        chosen.append(asked)
        return (403, {"message": "forbidden"}) if asked == chosen[0] else None

    for _ in range(TRIES):
        year.evening()
        mark_id = year.mark()
        chosen.clear()
        year.town.server.fault = forbid
        try:
            result = year.sweep(mark_id)
        finally:
            year.town.server.fault = None
        year.morning()
        if result is not None and result.report:
            said = _swept_verdicts(year, mark_id)["reads"]
            assert chosen and said["passed"] and "(403)" in said["description"], said
            return
    raise AssertionError("no sweep was asked for what is forbidden")


def lakefs_may_be_asked_little(year: Year) -> None:
    """A budget: what lakeFS could not be asked about waits, and the mark says so."""
    year.town.requests = 1
    year.plain()
    year.plain()
    year.town.requests = 0
    year.plain()


def _swept_mark(year: Year) -> str:
    """A night whose mark was swept, and had something to sweep."""
    for _ in range(TRIES):
        year.evening()
        mark_id = year.mark()
        result = year.sweep(mark_id)
        year.morning()
        if result is not None and result.report:
            return mark_id
    raise AssertionError("no sweep had anything to do")


def _every_commit_counts(year: Year) -> bool:
    """Whether the last mark retained all commits: users delete the rules now and then, and that is remembered."""
    return "all" in year.town.context(year.marks[-1]).mark.facts(CommitsFacts).kept_by


def _shown(year: Year, branch: str) -> set[str]:
    return {entry.address for _, entry in year.town.repository.objects(branch)}


def _verdicts(year: Year, mark_id: str) -> dict[str, dict[str, Any]]:
    return {each.name: asdict(each) for each in pipeline.review(year.town.context(mark_id)).verdicts}


def _swept_verdicts(year: Year, mark_id: str) -> dict[str, dict[str, Any]]:
    """What guards said at the last sweep of a mark, by its report."""
    mark = year.town.opened().artifacts(mark_id)
    report = report_of(mark.store, mark.folder, sweeps_of(mark.store, mark.folder)[-1])
    assert report is not None
    return {each["name"]: each for each in report["guards"]}
