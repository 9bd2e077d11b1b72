"""What no reading of references can tell: a server that is not the one it was, shared namespaces, clocks, old marks.

Here a guard, or the look, refuses the whole sweep. Switched off, it goes through and takes what is live.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakegc_core import stages
from lakegc_core.errors import RefusedError
from lakegc_core.marks.previous import previous_mark
from lakegc_core.sweep import look
from tests.interleavings.rig import NAME, Lake, Mechanism, Row, Story, row, stopped_by, without_guards

DAY = 25 * 3600.0  # and an hour
TWO_WEEKS = 15 * 86_400.0  # and a day: a mark is swept within 14

HEADS = Mechanism("guard known-heads", without_guards("known-heads"))
FORMER = Mechanism(
    "marks of a repository that was re-created count",
    lambda patch: patch.setattr(stages, "former_state", previous_mark),
)
CLOCKS = Mechanism("guard clocks, at the mark", without_guards("clocks"))
CLOCKS_LATER = Mechanism("guard clocks, at the sweep", without_guards("clocks"))
AGE = Mechanism("guard mark-age", without_guards("mark-age"))
SHARING = Mechanism("the look asks for other repositories", lambda patch: patch.setattr(look, "overlapping", _none))
NAMESPACE = Mechanism(  # the look would refuse as well
    "guard namespace", lambda patch: (without_guards("namespace")(patch), SHARING.off(patch))
)
GROUPS = {
    **{each.name: "mark" for each in (HEADS, FORMER, NAMESPACE, CLOCKS)},
    **{each.name: "sweep" for each in (CLOCKS_LATER, AGE, SHARING)},
}


def _none(*arguments: object) -> list[str]:
    return []


# --- a mark that must not be swept ---


@stopped_by(HEADS)
def test_the_servers_database_is_restored_from_an_old_backup(lake: Lake) -> Row:
    """Its references are older than the store. Later the newer database is found after all."""
    return _committed_since_the_backup(lake, "newer")


@stopped_by(FORMER)
def test_the_repository_is_created_anew_from_an_old_dump(lake: Lake) -> Row:
    """The same, and to lakeFS it is another repository now: no mark of this one was ever made."""
    return _committed_since_the_backup(lake, "newer-2")


def _committed_since_the_backup(lake: Lake, branch: str) -> Row:
    lake.upload(branch, "a", days=3)
    lake.commit(branch, days=3)
    return row(branch, "a")


@stopped_by(NAMESPACE)
def test_another_repository_lies_within_the_namespace(lake: Lake) -> Row:
    namespace, content = f"s3://{NAME}/data/other", lake.content()
    name = lake.repository.place.names.data_address(lake.now - 60 * 86_400)

    def create() -> None:
        other = lake.sandbox.create_repository("other", namespace, folder=lake.folder / NAME / "data/other")
        other.put(f"{namespace}/{name}", content, age=timedelta(days=60))
        other.stage("main", "a", f"{namespace}/{name}", size=len(content), checksum="0" * 32)
        other.commit("main", "of the other")

    return row("", f"data/other/{name}", second_mark=create)


@stopped_by(CLOCKS)
def test_the_collectors_clock_is_a_day_ahead_at_the_mark(lake: Lake) -> Row:
    """An upload of this hour looks older than the day in which it may be linked."""
    lake.upload("linked", "b")
    content, uploaded = lake.content(), []

    def upload() -> None:
        uploaded.append(lake.repository.physical_address("main", age=timedelta(hours=1)))
        lake.repository.put(uploaded[-1], content, age=timedelta(hours=1))
        lake.ahead = 26 * 3600.0

    def link() -> None:
        lake.repository.stage("linked", "a", uploaded[-1], size=len(content), checksum="0" * 32)

    return row("linked", "a", second_mark=upload, second_sweep=link)


# --- a mark that must not be swept now ---


@stopped_by(CLOCKS_LATER)
def test_the_collectors_clock_is_ahead_at_the_sweep(lake: Lake) -> Row:
    """The gap is waited for by the collector's clock, which says that it has passed."""
    lake.upload("flight", "a")
    finish = lake.repository.begin_commit("flight", "slow hooks")
    lake.upload("flight", "a", days=0)
    return row("flight@", "a", end=finish)


@stopped_by(AGE)
def test_an_old_mark_is_swept_after_its_garbage_came_to_life_and_was_hidden(lake: Lake) -> Row:
    stage, pending = lake.dropped("a"), []
    lake.upload("hidden", "b")

    def hide() -> None:
        stage("hidden")
        pending.append(lake.repository.begin_commit("hidden", "slow hooks"))
        lake.upload("hidden", "a", days=0)

    return row("hidden@", "a", two_weeks_later=hide, end=lambda: pending[-1]())


@stopped_by(SHARING)
def test_another_repository_is_restored_onto_the_namespace_after_the_mark(lake: Lake) -> Row:
    """It was made from an old dump, in which a branch still shows what is garbage here."""
    address = lake.forgotten(lake.content())

    def create() -> None:
        lake.sandbox.create_repository("twin", f"s3://{NAME}", folder=lake.folder / NAME)

    return row("", address, twin=create)


# --- the story ---


class WhoseData(Story):
    """A good mark, swept when it must not be; and a mark of a state that must not be marked."""

    groups = GROUPS

    def __init__(self, found: Lake) -> None:
        found.options["safety_level"] = "full"
        old = found.repository.backup()
        super().__init__(found)
        self.refused = ""
        self.old, self.good = old, found.repository.backup()
        found.mark("m1")
        self.saved = found.save()

    def tell(self, off: frozenset[str]) -> None:
        """On: everything is refused. Off: the sweep goes through."""
        if not off or SHARING.name in off or AGE.name in off or CLOCKS_LATER.name in off:
            self._sweep_when_one_must_not(off)
        if not off or HEADS.name in off or FORMER.name in off or NAMESPACE.name in off or CLOCKS.name in off:
            self._mark_what_one_must_not(off)

    def _sweep_when_one_must_not(self, off: frozenset[str]) -> None:
        found = self.lake
        if not off:
            found.rewind(self.saved)
            found.wait(hours=25)
            self.fire("twin")
            self._try("m1", refused=True)
            found.sandbox.delete_repository("twin")
        found.rewind(self.saved)
        self.fire("two_weeks_later")
        if SHARING.name in off:
            self.fire("twin")
        if not off or CLOCKS_LATER.name in off:
            found.ahead = TWO_WEEKS if not off or AGE.name in off else DAY
        found.wait(seconds=0 if found.ahead else TWO_WEEKS if AGE.name in off else DAY)
        self._try("m1", refused=not off)
        found.sandbox.repositories.pop("twin", None)
        found.ahead = 0
        found.wait()
        self.fire("end")
        self.judge(CLOCKS_LATER, AGE, SHARING)

    def _mark_what_one_must_not(self, off: frozenset[str]) -> None:
        found = self.lake
        found.rewind(self.saved)
        found.wait(days=1)
        found.repository.restore(self.old)
        found.repository.creation_date += 86_400
        found.options["safety_level"] = "standard"
        self.fire("second_mark")
        found.wait()
        found.mark("m2")
        found.wait(minutes=20)
        self._try("m2", refused=not off)
        found.options["safety_level"] = "full"
        found.sandbox.repositories.pop("other", None)
        found.repository.restore(self.good)
        self.fire("second_sweep")

    def _try(self, mark_id: str, *, refused: bool) -> None:
        if not refused:
            self.lake.sweep(mark_id)
            return
        before = self.lake.stored()
        with pytest.raises(RefusedError) as why:
            self.lake.sweep(mark_id)
        assert self.lake.stored() == before
        self.refused += f"{why.value}\n"


def test_each_refusal_says_what_was_found(story: WhoseData, lost: Callable[[str, bool], bool]) -> None:
    lost(test_the_servers_database_is_restored_from_an_old_backup.__name__, True)
    for said in (
        "shared with, or nested in or around, that of twin",
        "clocks: The store's clock",
        "mark-age: The mark is 15.0 days old",
        "known-heads:",
        "namespace: The namespace is shared with, or nested in or around, that of other",
    ):
        assert said in story.refused
