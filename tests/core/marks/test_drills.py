"""The records of drills say what is not over, and which drill was the last that deleted anything; damage is no pass."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakegc_core.errors import MarkError, PreconditionFailedError
from lakegc_core.marks import drills, quarantine
from lakegc_core.marks.context import Kept, RepositoryContext
from lakegc_core.marks.emptying import empty
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalStore
from lakegc_core.store.settings import StoreSettings, Untold
from tests.support.lake import lake

if TYPE_CHECKING:
    from lakegc_core.names import Json

BEGUN: Json = {"mark_id": "m1", "begun_at": 5.0, "way": "quarantine", "place": None, "objects": [{"address": "data/a"}]}
ENDED: Json = {
    **BEGUN,
    "finished_at": 9.0,
    "passed": True,
    "why": "",
    "sweep": 1,
    "outcomes": {"back": 1},
    "bytes": 3,
    "seconds": 4.0,
}


@pytest.fixture
def context(tmp_path: Path) -> Iterator[RepositoryContext]:
    with lake(tmp_path) as found:
        found.create("lake", "s3://b/ns")
        yield found.open("lake")


def state(context: RepositoryContext) -> tuple[str, str]:
    found = drills.last_told(context)
    assert found is not None
    return str(found["drill"]), str(found["state"])


def test_a_drill_is_unfinished_until_its_report_stands_and_the_last_one_that_deleted_counts(
    context: RepositoryContext,
) -> None:
    assert drills.unfinished(context) == [] and drills.last_drill(context) is None
    drills.begin(context, "d1", BEGUN)
    assert [each.name for each in drills.unfinished(context)] == ["d1"] and state(context) == ("d1", "unfinished")
    with pytest.raises(PreconditionFailedError):
        drills.begin(context, "d1", BEGUN)
    drills.close(context, "d1", ENDED)
    assert drills.unfinished(context) == [] and state(context) == ("d1", "passed")
    facts = drills.last_drill(context)
    assert facts is not None and (facts.at, facts.problem) == (9.0, "")

    drills.begin(context, "d2", BEGUN)
    drills.close(context, "d2", {**ENDED, "passed": False, "why": "nobody confirmed", "sweep": None})
    assert state(context) == ("d1", "passed"), "the other one has deleted nothing"
    drills.begin(context, "d3", BEGUN)
    drills.close(context, "d3", {**ENDED, "passed": False, "why": "1 of 1 objects did not come back", "sweep": 2})
    assert state(context) == ("d3", "failed")


def test_a_drill_out_of_what_the_store_kept_lapses_once_the_store_says_that_it_keeps_nothing(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    drills.begin(context, "d1", {**BEGUN, "way": "store"})
    drills.close(context, "d1", {**ENDED, "way": "store"})
    nothing = StoreSettings(False, timedelta(0), "", "", (), None)
    kept = (
        replace(nothing, versioning=True),
        replace(nothing, versioning=Untold("the key may not ask")),
        replace(nothing, soft_delete=timedelta(days=7)),
        replace(nothing, soft_delete=Untold("the key may not ask")),
    )
    for told in (*kept, nothing, replace(kept[2], undeletes=False)):
        monkeypatch.setattr(LocalStore, "settings", lambda store, told=told: told)
        facts = drills.last_drill(replace(context, kept=Kept()))
        assert facts is not None and facts.problem == ""
        assert ("keeps nothing now" in facts.lapsed) is (told not in kept)


def test_a_command_asks_the_store_once_what_it_keeps_however_many_marks_it_judges(
    context: RepositoryContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    drills.begin(context, "d1", {**BEGUN, "way": "store"})
    drills.close(context, "d1", {**ENDED, "way": "store"})
    settings, asked = LocalStore.settings, list[str]()

    def counted(store: LocalStore) -> StoreSettings:
        asked.append(store.root)
        return settings(store)

    monkeypatch.setattr(LocalStore, "settings", counted)
    with ThreadPoolExecutor(4) as pool:
        marks = [replace(context, say=print) for _ in range(8)]
        assert len(list(pool.map(drills.last_drill, marks))) == 8 and asked == [context.data.root]


def test_a_record_that_was_altered_is_no_pass_and_keeps_all_copies(context: RepositoryContext) -> None:
    drill = drills.begin(context, "d1", BEGUN)
    assert drill.sweep_name == "drill:d1"
    drills.close(context, "d1", {**ENDED, "passed": False})
    store, report = connect(context.workspace), f"{context.home}/drills/d1/report.json"
    store.write(report, store.read(report).replace(b'"passed": false', b'"passed": true'))
    facts = drills.last_drill(context)
    assert state(context) == ("d1", "damaged") and facts is not None and "cannot be read" in facts.problem

    quarantine.begin(context, "m2", 1, 1.0)
    connect(quarantine.place_of(context, "m2")).write("data/a", b"abc")
    store.delete_many([report])
    store.write(f"{context.home}/drills/d1/begun.json", b"{}")
    with pytest.raises(MarkError, match="was changed after it was written"):
        drills.unfinished(context)
    assert "was changed after it was written" in empty(context, None).kept["m2"]
