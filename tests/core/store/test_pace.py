"""How deletes are paced: the window, the ceiling, patience; by a clock that the tests make up, without any store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from lakegc_core.names import NO_ANSWER, Outcome
from lakegc_core.store.base import NOT_ASKED
from lakegc_core.store.pace import Gate, Meter, Pace, Window
from lakegc_core.store.repeated_deletes import DeleteAnswer, delete_all

BUSY = DeleteAnswer.failed("SlowDown", throttled=True)
DONE = DeleteAnswer(Outcome.DELETED)
GONE = DeleteAnswer(Outcome.ALREADY_GONE)


@dataclass
class Clock:
    """Time that passes only while somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def pace(self, most: int = 8, rate: float = 0.0, patience: float = 0.0) -> Pace:
        return Pace(most, rate, patience, now=lambda: self.now, sleep=self.sleep)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_until_a_store_throttles_every_good_answer_lets_one_more_request_in_up_to_the_most() -> None:
    window = Window(8)
    assert window.limit == 4
    window.went_well(0)
    window.went_well(0)
    assert window.limit == 6
    for _ in range(100):
        window.went_well(0)
    assert window.limit == 8
    assert Window(1).limit == 1


def test_once_a_store_has_throttled_only_a_round_of_good_answers_lets_one_more_request_in() -> None:
    window = Window(16, first=8)
    window.throttled(0)
    assert window.limit == 4
    for _ in range(5):
        window.went_well(1)
    assert 5 <= window.limit < 5.2
    for _ in range(200):
        window.went_well(1)
    assert window.limit == 16


def test_a_throttled_burst_halves_the_window_once_and_what_was_sent_before_says_nothing_new() -> None:
    window = Window(16, first=16)
    for _ in range(9):
        window.throttled(0)
    window.went_well(0)
    assert window.limit == 8
    window.throttled(1)
    window.throttled(2)
    window.throttled(3)
    window.throttled(4)
    assert window.limit == 1, "there is always one"
    window.went_well(5)
    assert window.limit == 2


def test_a_ceiling_spaces_objects_out_and_saves_nothing_up() -> None:
    meter = Meter(100)
    assert [meter.delay(0, 50), meter.delay(0, 50), meter.delay(0, 10)] == [0, 0.5, 1.0]
    assert meter.delay(100, 1000) == 0, "an idle minute is no credit"
    assert meter.delay(100, 1) == 10
    assert Meter(0).delay(5, 10**9) == 0


def test_no_more_objects_a_second_are_sent_than_the_ceiling_says(clock: Clock) -> None:
    pace = clock.pace(rate=500)
    sent: list[tuple[float, int]] = []

    def ask(keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        sent.append((clock.now, len(keys)))
        return dict.fromkeys(keys, DONE)

    for call in range(20):
        delete_all([f"{call}-{n}" for n in range(100)], ask, attempts=1, gate=Gate(pace))
    assert sent[-1][0] == pytest.approx(3.8)
    for start, _ in sent:
        assert sum(objects for at, objects in sent if start <= at < start + 0.99) <= 500


def test_no_more_requests_are_in_flight_than_the_window_has_room_for() -> None:
    pace, here, most, lock, full = Pace(3), 0, 0, threading.Lock(), threading.Barrier(3)

    def ask(keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        nonlocal here, most
        with lock:
            here, most = here + 1, max(most, here + 1)
        full.wait(120)  # each waits for two others: three are in flight
        threading.Event().wait(0.005)  # room for a fourth that should not be there
        with lock:
            here -= 1
        return dict.fromkeys(keys, DONE)

    threads = [
        threading.Thread(target=delete_all, args=([str(n)], ask), kwargs={"attempts": 1, "gate": Gate(pace)})
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3 and not full.broken


def answers(
    *rounds: Mapping[str, DeleteAnswer] | DeleteAnswer | None,
) -> tuple[Callable[[Sequence[str]], object], list[list[str]]]:
    """A store that gives these answers, the last one for ever; and what it was asked for."""
    asked: list[list[str]] = []

    def ask(keys: Sequence[str]) -> Mapping[str, DeleteAnswer] | None:
        said = rounds[min(len(asked), len(rounds) - 1)]
        asked.append(list(keys))
        return dict.fromkeys(keys, said) if isinstance(said, DeleteAnswer) else said

    return ask, asked


def test_throttling_that_passes_is_no_failure_however_often_it_was_answered(clock: Clock) -> None:
    ask, asked = answers(*[BUSY] * 9, DONE)
    pace = clock.pace(patience=1000)
    assert delete_all(["a", "b"], ask, attempts=2, gate=Gate(pace)) == {"a": Outcome.DELETED, "b": Outcome.DELETED}
    assert len(asked) == 10 and len(clock.slept) == 9
    assert pace.window.limit == 2, "one, and one more since it went well"


def test_throttling_that_lasts_is_the_answer_in_the_end(clock: Clock) -> None:
    ask, asked = answers(BUSY)
    assert delete_all(["a"], ask, attempts=2, gate=Gate(clock.pace(patience=45))) == {"a": "failed:SlowDown"}
    assert 45 <= clock.now < 80 and len(asked) > 5
    ask, asked = answers(BUSY)
    assert delete_all(["a"], ask, attempts=2, gate=Gate(clock.pace())) == {"a": "failed:SlowDown"}
    assert len(asked) == 2, "without patience it is like any other failure"


def test_only_keys_that_may_fare_better_are_asked_for_again(clock: Clock) -> None:
    mixed = {"a": DONE, "b": DeleteAnswer.failed("AccessDenied"), "c": BUSY, "d": DeleteAnswer(Outcome.ALREADY_GONE)}
    ask, asked = answers(mixed, DONE)
    outcomes = delete_all("abcd", ask, attempts=3, gate=Gate(clock.pace()))
    assert outcomes == {
        "a": Outcome.DELETED,
        "b": "failed:AccessDenied",
        "c": Outcome.DELETED,
        "d": Outcome.ALREADY_GONE,
    }
    assert asked == [["a", "b", "c", "d"], ["c"]]


def test_what_is_found_gone_after_a_lost_answer_was_deleted_by_it(clock: Clock) -> None:
    ask, _ = answers(DeleteAnswer.lost(), DeleteAnswer(Outcome.ALREADY_GONE))
    assert delete_all(["a"], ask, attempts=3, gate=Gate(clock.pace())) == {"a": Outcome.DELETED}
    ask, asked = answers(DeleteAnswer.lost())
    assert delete_all(["a"], ask, attempts=3, gate=Gate(clock.pace(patience=1000))) == {"a": NO_ANSWER}
    assert len(asked) == 3, "patience is for stores that throttle"


def test_what_is_found_gone_after_the_store_broke_down_was_deleted_by_it_and_after_throttling_was_not(
    clock: Clock,
) -> None:
    for first, outcome in ((DeleteAnswer.failed("500", again=True), Outcome.DELETED), (BUSY, Outcome.ALREADY_GONE)):
        ask, _ = answers(first, GONE)
        assert delete_all(["a"], ask, attempts=3, gate=Gate(clock.pace())) == {"a": outcome}


def test_a_batch_that_the_store_does_not_take_is_divided(clock: Clock) -> None:
    ask, _ = answers(DeleteAnswer.not_together())
    single, asked = answers(BUSY, DONE, DONE, GONE)
    pace = clock.pace(most=1)
    outcomes = delete_all("abc", ask, attempts=2, gate=Gate(pace), single=single)
    assert outcomes == {"a": Outcome.DELETED, "b": Outcome.DELETED, "c": Outcome.ALREADY_GONE}
    assert asked == [["a"], ["a"], ["b"], ["c"]]


def test_only_the_keys_that_a_batch_said_nothing_of_are_asked_for_alone_and_it_may_have_done_them(clock: Clock) -> None:
    ask, together = answers({"a": DONE, "b": DeleteAnswer.unnamed(), "c": BUSY}, DONE)
    single, alone = answers(GONE)
    outcomes = delete_all("abc", ask, attempts=2, gate=Gate(clock.pace()), single=single)
    assert outcomes == dict.fromkeys("abc", Outcome.DELETED)
    assert (together, alone) == ([["a", "b", "c"], ["c"]], [["b"]])


def test_a_key_that_no_request_was_let_through_for_alone_keeps_what_the_batch_left_open(clock: Clock) -> None:
    for left, outcome in ((DeleteAnswer.unnamed(), NO_ANSWER), (DeleteAnswer.not_together(), NOT_ASKED)):
        (ask, _), (single, alone), once = answers(left), answers(DONE), iter([None])
        gate = Gate(clock.pace(), lambda once=once: next(once, True) is None)  # type: ignore[misc]
        assert delete_all(["a"], ask, attempts=2, gate=gate, single=single) == {"a": outcome}
        assert alone == []


def test_a_gate_that_shuts_does_not_make_sure_what_was_in_doubt(clock: Clock) -> None:
    for second in (BUSY, DeleteAnswer.not_together(), DeleteAnswer.not_sent()):
        (ask, asked), (single, alone), left = answers(DeleteAnswer.lost(), second), answers(DONE), iter(range(2))
        gate = Gate(clock.pace(), lambda left=left: next(left, None) is not None)  # type: ignore[misc]
        assert delete_all(["a"], ask, attempts=5, gate=gate, single=single) == {"a": NO_ANSWER}
        assert len(asked) == 2 and not alone


def test_a_gate_that_shuts_leaves_what_was_not_carried_out_without_an_outcome(clock: Clock) -> None:
    def shut_after(requests: int) -> Callable[[], bool]:
        left = iter(range(requests))
        return lambda: next(left, None) is not None

    ask, asked = answers({"a": DONE, "b": BUSY, "c": DeleteAnswer.lost()}, DONE)
    outcomes = delete_all("abc", ask, attempts=5, gate=Gate(clock.pace(), shut_after(1)))
    assert outcomes == {"a": Outcome.DELETED, "b": NOT_ASKED, "c": NO_ANSWER} and len(asked) == 1
    assert delete_all("ab", ask, attempts=5, gate=Gate(clock.pace(), shut_after(0))) == dict.fromkeys("ab", NOT_ASKED)
    assert len(asked) == 1, "the question comes before the request"


def test_a_request_that_raises_gives_its_place_back(clock: Clock) -> None:
    def ask(keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        raise ValueError("a defect")

    pace = clock.pace(most=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="a defect"):
            delete_all(["a"], ask, attempts=1, gate=Gate(pace))
    assert pace.window.limit == 1
