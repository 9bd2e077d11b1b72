"""The plan of a sweep: what is young, of a strange name, live or not known well enough is not planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakegc_core.config.settings import NeighbourSettings
from lakegc_core.errors import RefusedError
from lakegc_core.judging.reasons import MinimumAge
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.marks import rescues
from lakegc_core.policy.facts import NeighbourFacts
from lakegc_core.policy.namespace import Namespace
from lakegc_core.policy.xids import xid_times
from lakegc_core.references.shown.asking import SHOWN_SCHEMA
from lakegc_core.references.shown.reuploads import Reuploads, find_reuploads
from lakegc_core.store.local import LocalConfig
from lakegc_core.sweep import planning
from lakegc_core.sweep.candidates import PLANNED
from lakegc_core.sweep.failures import FAILURE
from lakegc_core.sweep.look import Look
from lakegc_core.sweep.planning import Planner, _parts, _SplitPlan
from lakegc_core.tables.dataset import Dataset
from tests.support.lake import NO_SPARK
from tests.support.rows import few
from tests.support.swept import GARBAGE, Swept

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)
NAME = "data/gk5b63g7lm5ii54909u0/ca5b63g7lm5ii5490900"
CUTOFF = (NOW - DAY).timestamp()
AGE = MinimumAge(CUTOFF, CUTOFF, CUTOFF + 172_800, xid_times)
UNKNOWN = Namespace("s3://bucket/lake").unknown


def table(*rows: tuple[str, str, timedelta]) -> pa.Table:
    """Rows of (address, outcome, age)."""
    return pa.table(
        {
            "address": [row[0] for row in rows],
            "outcome": [row[1] for row in rows],
            FAILURE: pa.nulls(len(rows), pa.string()),
            "last_modified": pa.array([NOW - row[2] for row in rows], pa.timestamp("us", tz="UTC")),
        }
    )


def split(*rows: tuple[str, str, timedelta], **how: Any) -> dict[str, dict[str, str]]:
    """Addresses with outcomes, by where they are written, if any are."""
    work = replace(_SplitPlan(None, AGE, None), **how)
    return {
        name: dict(zip(part["address"].to_pylist(), part["outcome"].to_pylist(), strict=True))
        for name, part in work(table(*rows)).items()
        if part.num_rows
    }


def test_every_row_is_planned_or_has_its_outcome_on_record() -> None:
    found = split((NAME, PLANNED, 9 * DAY), ("r", "rescued", 9 * DAY), ("u", "unconfirmed", 9 * DAY))
    assert found == {"plan": {NAME: PLANNED}, "outcomes": {"r": "rescued", "u": "unconfirmed"}}


def test_what_is_too_young_by_the_stricter_of_both_is_not_planned() -> None:
    assert split((NAME, PLANNED, DAY), ("r", "rescued", DAY))["outcomes"] == {NAME: "unconfirmed", "r": "rescued"}
    young_by_name = replace(AGE, times=lambda names: np.full(len(names), NOW.timestamp()))
    assert split((NAME, PLANNED, 9 * DAY), age=young_by_name) == {"outcomes": {NAME: "unconfirmed"}}


def test_a_name_that_lakefs_never_gives_is_refused_unless_both_want_it_collected() -> None:
    strange = ("data/raw/customers.csv", PLANNED, 9 * DAY)
    assert split(strange, (NAME, PLANNED, 9 * DAY), unknown=UNKNOWN) == {
        "plan": {NAME: PLANNED},
        "outcomes": {strange[0]: "refused:foreign"},
    }
    assert set(split(strange, unknown=None)["plan"]) == {strange[0]}
    live = split((strange[0], "rescued", 9 * DAY), unknown=UNKNOWN)
    assert live == {"outcomes": {strange[0]: "rescued"}}, "live again whatever its name"


def test_where_something_may_have_been_deleted_what_is_live_and_gone_is_lost_and_not_rescued(tmp_path: Path) -> None:
    found = split(("gone", "rescued", 9 * DAY), (NAME, PLANNED, 9 * DAY), store=LocalConfig(str(tmp_path)))
    assert found == {"plan": {NAME: PLANNED}, "outcomes": {"gone": "lost"}}


def test_what_a_sweep_that_broke_off_deleted_is_gone_although_lakegc_yaml_would_keep_it_now(tmp_path: Path) -> None:
    strange = ("data/raw/customers.csv", PLANNED, 9 * DAY)
    rows = table(strange, ("gone", "not_in_backup", 9 * DAY), (NAME, "not_in_backup", 9 * DAY))
    (tmp_path / NAME).parent.mkdir(parents=True)
    (tmp_path / NAME).touch()
    found = _SplitPlan(LocalConfig(str(tmp_path)), AGE, UNKNOWN, resumed=True)(rows)["outcomes"]
    told = set(zip(found["address"].to_pylist(), found["outcome"].to_pylist(), strict=True))
    gone = {(each, outcome) for each in (strange[0], "gone") for outcome in ("failed:no_answer", "already_gone")}
    assert told == {(NAME, "not_in_backup"), *gone}


def test_what_a_look_finds_live_is_remembered_although_lakefs_fails_before_there_is_a_plan(swept: Swept) -> None:
    """One object is staged, so that the dump names it; another one only shows on the branch: the head has its bytes."""
    repository, size = swept.lake.sandbox.repository("lake"), len(b"left behind")
    repository.upload("main", "again", b"left behind")
    checksum = repository.entry("main", "again").e_tag
    repository.commit("main", "its bytes")
    for path, address in (("new", GARBAGE[0]), ("again", GARBAGE[1])):
        repository.stage("main", path, repository.place.qualify(address), size=size, checksum=checksum)

    def remembered() -> set[str]:
        return {address for batch in _rescues(swept).batches("address") for address in batch["address"].to_pylist()}

    def refused(method: str, path: str, query: object) -> tuple[int, Any] | None:
        return (403, {}) if path.endswith("/objects/ls") else None

    swept.patch.setattr(swept.lake.server, "fault", refused)
    with pytest.raises(LakeFSError):
        swept.sweep()
    assert remembered() == {GARBAGE[0]}
    swept.patch.setattr(swept.lake.server, "fault", None)
    swept.patch.setattr(Look, "heads_moved", _fails)
    with pytest.raises(RefusedError, match="no answer"):
        swept.sweep()
    assert remembered() == set(GARBAGE[:2]) and swept.left() == GARBAGE


def test_of_what_branches_show_candidates_alone_are_remembered_and_each_once(swept: Swept) -> None:
    repository = swept.lake.sandbox.repository("lake")
    repository.upload("main", "again", b"left behind")
    checksum = repository.entry("main", "again").e_tag
    repository.commit("main", "its bytes")
    address = repository.place.qualify(GARBAGE[1])
    repository.stage("main", "again", address, size=len(b"left behind"), checksum=checksum)

    def with_others(*arguments: Any) -> Reuploads | None:
        """Many candidates are looked for by a sieve, which lets others through; and each branch gives a row."""
        found = find_reuploads(*arguments)
        assert found is not None
        others = few(swept.spark, [{"address": each} for each in (*GARBAGE[1:2], "data/x/live")], SHOWN_SCHEMA)
        return replace(found, shown=found.shown + arguments[4].put("others", others, SHOWN_SCHEMA))

    swept.patch.setattr(planning, "find_reuploads", with_others)
    swept.patch.setattr(Look, "heads_moved", _fails)
    with pytest.raises(RefusedError, match="no answer"):
        swept.sweep()
    told = [each for batch in _rescues(swept).batches("address") for each in batch["address"].to_pylist()]
    assert told == GARBAGE[1:2]


def _rescues(swept: Swept) -> Dataset:
    return rescues.journal(swept.spark, swept.context).rows


def _fails(*arguments: object) -> bool:
    raise RefusedError("no answer")


@dataclass
class Neighbours:
    """A look that knows so much of other repositories."""

    unknown: int
    unread: tuple[str, ...] = ()

    @property
    def facts(self) -> Any:
        named = (("far", "its newest mark cannot be read"),) * self.unknown
        return SimpleNamespace(neighbours=NeighbourFacts(3, self.unknown, named, 7 * 86_400.0, 0, unread=self.unread))


def checked(look: Any, *, strict: bool, accepted: dict[str, str], known: tuple[str, ...] = ()) -> None:
    settings = SimpleNamespace(neighbours=NeighbourSettings(strict=strict))
    of_mark = SimpleNamespace(neighbours=NeighbourFacts(3, 0, (), 1.0, 0, known))
    context: Any = SimpleNamespace(settings=settings, mark=SimpleNamespace(facts=lambda kind: of_mark))
    Planner(NO_SPARK, context, None, None, accepted, 0.0, resumed=False)._check_neighbours(look)  # type: ignore[arg-type]


def test_a_strict_sweep_stops_where_a_look_cannot_read_what_a_neighbour_noted() -> None:
    with pytest.raises(RefusedError, match=r"cannot be read.*Nothing more was deleted"):
        checked(Neighbours(1), strict=True, accepted={})
    checked(Neighbours(1), strict=True, accepted={"neighbours": "it is an archive"})
    checked(Neighbours(1), strict=False, accepted={})
    checked(Neighbours(0), strict=True, accepted={})


def test_a_sweep_stops_where_no_mark_of_a_neighbour_reads_and_its_own_mark_noted_nothing_of_it() -> None:
    look = Neighbours(1, unread=("far",))
    with pytest.raises(RefusedError, match=r"1 of the 3 .* of which none counts.*Nothing more was deleted"):
        checked(look, strict=False, accepted={})
    checked(look, strict=False, accepted={}, known=("far",))
    checked(look, strict=False, accepted={"neighbours": "it imports nothing"})


def test_a_plan_has_a_part_at_least_and_not_more_than_tasks_can_take() -> None:
    assert [_parts(rows) for rows in (0, 1, 10_000, 10_001, 10**9)] == [1, 1, 1, 2, 1_000]
