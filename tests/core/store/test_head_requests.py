"""Many HEADs of one store: each key has its answer, in order, and errors end what must end."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.errors import ObjectNotFoundError, StoreError, UnusableKeyError
from lakegc_core.store.base import HeadAnswer, ObjectInfo, heads
from lakegc_core.store.head_requests import ask_all, try_head
from lakegc_core.store.local.store import LocalConfig, LocalStore

KEYS = [str(number) for number in range(500)]
REFUSED = StoreError("refused")


@pytest.mark.parametrize("threads", [1, 16])
def test_the_answers_are_in_the_order_of_the_keys_and_an_error_is_that_of_its_key_alone(threads: int) -> None:
    def ask(key: str) -> HeadAnswer:
        return REFUSED if key.endswith("7") else StoreError(key)

    found = ask_all(KEYS, ask, failures=len(KEYS), threads=threads, root="r")
    assert [str(each) for each in found] == ["refused" if key.endswith("7") else key for key in KEYS]
    assert ask_all([], ask, failures=0, threads=threads, root="r") == []


@pytest.mark.parametrize("threads", [1, 16])
def test_after_too_many_errors_no_more_is_asked_and_what_was_not_asked_for_is_not_called_absent(threads: int) -> None:
    asked: list[str] = []

    def ask(key: str) -> HeadAnswer:
        asked.append(key)
        return REFUSED

    found = ask_all(KEYS, ask, failures=3, threads=threads, root="s3://lake")
    assert 4 <= len(asked) < 4 + threads
    assert [each is REFUSED for each in found] == [key in asked for key in KEYS]
    assert "s3://lake: not asked for any more, because 4 HEADs had failed" in str(found[-1])


def test_what_is_a_fault_of_lakegc_itself_is_raised_and_ends_the_rest() -> None:
    asked: list[str] = []

    def ask(key: str) -> HeadAnswer:
        asked.append(key)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask_all(KEYS, ask, failures=0, threads=4, root="r")
    assert len(asked) <= 4


@pytest.mark.parametrize(
    ("error", "answer"), [(ObjectNotFoundError(), None), (UnusableKeyError(), None), (REFUSED, REFUSED)]
)
def test_no_such_object_is_an_answer_and_so_is_an_error(error: StoreError, answer: HeadAnswer) -> None:
    def head(key: str) -> None:
        raise error

    assert try_head(head, "a") is answer  # type: ignore[arg-type]


def test_who_must_have_all_answers_gets_them_or_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalConfig(str(tmp_path)).connect()
    store.write("a", b"1")
    store.write("b", b"12")
    told = heads(store, ["b", "nothing", "a", "x/"])
    assert [each and (each.address, each.size) for each in told] == [("b", 2), None, ("a", 1), None]
    asked: list[str] = []

    def fails(own: LocalStore, key: str) -> ObjectInfo:
        asked.append(key)
        raise StoreError(f"no answer for {key}")

    monkeypatch.setattr(LocalStore, "head", fails)
    with pytest.raises(StoreError, match="no answer for a"):
        heads(store, ["a", "b", "nothing"])
    assert asked == ["a"]
