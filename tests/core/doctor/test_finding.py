"""Findings in order, and sentences that are whole."""

from __future__ import annotations

from lakegc_core.doctor.finding import Diagnosis, Finding, Level, Need, Trials, cannot_be_told, sentence, worst_first
from lakegc_core.errors import StoreError
from lakegc_core.store.settings import Untold

NEED = Need(Level.WARNING, "why", "do")


def finding(name: str, level: Level) -> Finding:
    return Finding(name, level, "what", "why", "do")


def test_the_worst_comes_first_and_the_rest_stays_in_order() -> None:
    given = [finding("a", Level.NOTE), finding("b", Level.ALARM), finding("c", Level.NOTE), finding("d", Level.WARNING)]
    assert [each.name for each in worst_first(given)] == ["b", "d", "a", "c"]


def test_an_alarm_of_a_part_is_one_of_the_whole() -> None:
    part = Diagnosis("r", {}, (), (finding("a", Level.ALARM),))
    assert Diagnosis("", {}, (), (), (part,)).is_alarming
    assert not Diagnosis("", {}, (), (finding("a", Level.WARNING),)).is_alarming


def test_only_errors_of_lakegc_are_findings() -> None:
    def fails() -> None:
        raise StoreError("no such bucket")

    trials = Trials()
    assert trials.attempt("fine", "Reading", lambda: 3, NEED) == 3
    assert trials.attempt("broken", "Reading", fails, NEED) is None
    assert trials.findings == [Finding("broken", Level.WARNING, "Reading fails: no such bucket.", "why", "do")]


def test_what_cannot_be_told_says_what_asking_takes_where_that_is_known() -> None:
    assert cannot_be_told("x", "Whether", Untold("no", "s3:X")).what == "Whether cannot be told: no (needs s3:X)."
    assert cannot_be_told("x", "Whether", Untold("odd.")).what == "Whether cannot be told: odd."


def test_sentences_end() -> None:
    assert [sentence(each) for each in ("a", "a.", "a?", 'say "a."')] == ["a.", "a.", "a?", 'say "a."']
