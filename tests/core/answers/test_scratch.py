"""The folder of an answer goes with it, and so does what older questions have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.answers.scratch import scratch
from lakegc_core.errors import StoreError
from lakegc_core.marks.artifacts import ANSWERS
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.store.local import LocalStore
from tests.support.lake import Lake, lake


def test_what_an_answer_wrote_is_gone_afterwards_and_so_is_what_a_broken_one_left_a_day_ago(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        context = served.open("lake")
        store, home = context.workspace.connect(), f"{context.home}/{ANSWERS}"
        store.write(f"{home}/20250330T115900-0/a/part", b"old")
        store.write(f"{home}/20250331T115900-0/a/part", b"of a question that is being answered")
        with pytest.raises(RuntimeError), scratch(context, here=False) as aside:
            assert aside.config == context.workspace
            store.write(f"{aside.path}/a/b/part", b"1")
            raise RuntimeError
        left = [file for file in (served.files("lake") / home).rglob("*") if file.is_file()]
        assert [file.read_bytes() for file in left] == [b"of a question that is being answered"]


def heard(served: Lake) -> tuple[RepositoryContext, list[str]]:
    """A new repository, and what is said of it."""
    served.create("lake")
    said: list[str] = []
    return replace(served.open("lake"), say=said.append), said


@pytest.mark.parametrize("told", ["no", "failed:AccessDenied"])
def test_what_cannot_be_removed_is_said_and_spoils_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    def fails(self: LocalStore, keys: Sequence[str], gate: Any = None) -> list[str]:
        if told.startswith("failed:"):
            return [told for _ in keys]
        raise StoreError(told)

    with lake(tmp_path) as served:
        context, said = heard(served)
        monkeypatch.setattr(LocalStore, "delete_many", fails)
        with scratch(context, here=False) as aside:
            aside.config.connect().write(f"{aside.path}/part", b"1")
        assert len(said) == 1 and f"could not be removed ({told})" in said[0]


def test_a_store_that_does_not_list_what_was_left_hides_no_answer_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: LocalStore, prefix: str) -> Any:
        raise StoreError("AccessDenied")

    with lake(tmp_path) as served:
        context, said = heard(served)
        monkeypatch.setattr(LocalStore, "list_level", fails)
        with pytest.raises(RuntimeError), scratch(context, here=False):
            raise RuntimeError
        assert len(said) == 1 and "could not be removed (AccessDenied)" in said[0]


def test_where_spark_runs_on_this_machine_nothing_is_written_to_the_store(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        before = sorted(served.files("lake").rglob("*"))
        with scratch(served.open("lake"), here=True) as aside:
            aside.config.connect().write(f"{aside.path}/part", b"1")
            place = Path(aside.config.root.removeprefix("local://"))
            assert place.is_dir() and sorted(served.files("lake").rglob("*")) == before
        assert not place.exists()
