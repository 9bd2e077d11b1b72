"""Metrics are well-formed OpenMetrics, say what the history says, and are never found half written."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.views.metrics import metrics_text, stage_seconds, write_metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

NOW = 1_800_000_000.0
BEFORE, LATER = "2020-01-01T00:00:00.000Z", "2030-01-01T00:00:00.000Z"
_LABEL = r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE = re.compile(rf"([a-z_]+)\{{({_LABEL}(?:,{_LABEL})*)\}} (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_UNESCAPED = {r"\"": '"', r"\\": "\\", r"\n": "\n"}


def parsed(text: str) -> Samples:
    """The samples of an OpenMetrics text. Fails for anything that the standard does not allow."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    found: Samples = {}
    families: dict[str, str] = {}
    name = ""
    for line in text.splitlines()[:-1]:
        if declared := re.fullmatch(r"# TYPE ([a-z_]+) (gauge|counter)", line):
            name = declared[1]
            assert name not in families, "a family stands in one piece"
            families[name] = declared[2]
            assert not (families[name] == "counter" and name.endswith("_total"))
        elif helped := re.fullmatch(r"# HELP ([a-z_]+) \S.*", line):
            assert helped[1] == name
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == name + ("_total" if families[name] == "counter" else "")
            labels = tuple(
                (label, re.sub(r"\\.", lambda escaped: _UNESCAPED[escaped[0]], value))
                for label, value in re.findall(_LABEL, sample[2])
            )
            assert len(dict(labels)) == len(labels) and (sample[1], labels) not in found
            found[sample[1], labels] = float(sample[7])
    return found


def history(*marks: dict[str, Any], name: str = "lake", **more: Any) -> dict[str, Any]:
    whole = [mark for mark in marks if mark["state"] in ("complete", "swept", "retired")]
    left = {"objects": 4, "bytes": 400} if whole else None
    return {"repository": name, "marks": list(marks), "garbage": left} | more


def sweep(deleted: int = 5, came_back: int = 2, **more: Any) -> dict[str, Any]:
    """A sweep of objects of 100 bytes. `deleted`: those that are there no more."""
    back = {"objects": came_back, "bytes": 100 * came_back}
    return {"deleted": deleted, "bytes_deleted": 100 * deleted, "came_back": back, "delay": None} | more


def mark(state: str = "complete", **more: Any) -> dict[str, Any]:
    found = {"state": state, "started_at": "2026-11-21T02:00:00.000Z", "sweepable_from": BEFORE, "refused": []}
    return found | {"unconfirmed": {"objects": 1, "bytes": 100}, "swept": [sweep()]} | more


def figures(*marks: dict[str, Any], now: float = NOW) -> dict[str, float]:
    """Each metric of one repository, without its prefix."""
    found = parsed(metrics_text([history(*marks)], now))
    return {name.removeprefix("lakegc_"): value for (name, _), value in found.items()}


def test_a_mark_that_waits_for_its_sweep_says_how_much_may_go_and_how_much_waits() -> None:
    assert figures(mark()) == {
        "garbage_bytes": 400,
        "garbage_objects": 4,
        "sweepable_bytes": 300,
        "unconfirmed_bytes": 100,
        "unasked_bytes": 0,
        "last_mark_timestamp_seconds": 1_795_226_400,
        "readable": 1,
        "refused": 0,
        "deleted_bytes_total": 700,
        "deleted_objects_total": 7,
    }


def test_before_its_time_nothing_of_a_mark_may_be_swept() -> None:
    found = figures(mark(sweepable_from=LATER))
    assert (found["sweepable_bytes"], found["unconfirmed_bytes"]) == (0, 100)


@pytest.mark.parametrize(("sweepable_from", "sweepable"), [(BEFORE, 400), (LATER, 0)])
def test_a_mark_of_which_all_waits_may_be_swept_whole_once_its_time_has_come(
    sweepable_from: str, sweepable: int
) -> None:
    found = figures(mark(sweepable_from=sweepable_from, unconfirmed={"objects": 4, "bytes": 400}))
    assert (found["sweepable_bytes"], found["unconfirmed_bytes"]) == (sweepable, 400 - sweepable)


def test_a_refused_mark_says_so_and_nothing_of_it_may_be_swept() -> None:
    found = figures(mark(refused=[{"name": "blast-radius", "description": "too much"}]))
    assert (found["refused"], found["sweepable_bytes"]) == (1, 0)


def test_what_a_mark_could_not_ask_about_is_told() -> None:
    assert figures(mark(unasked={"objects": 3, "bytes": 70}))["unasked_bytes"] == 70
    assert figures(mark())["unasked_bytes"] == 0, "as in histories of earlier versions"


@pytest.mark.parametrize("state", ["swept", "retired"])
def test_nothing_of_a_swept_mark_may_be_swept(state: str) -> None:
    assert figures(mark(state))["sweepable_bytes"] == 0


def test_an_unfinished_mark_hides_no_complete_one() -> None:
    assert figures({"state": "begun", "started_at": LATER, "swept": []}, mark()) == figures(mark())


def test_what_was_never_marked_has_no_garbage_that_is_known() -> None:
    assert figures() == {"readable": 1, "refused": 0, "deleted_bytes_total": 0, "deleted_objects_total": 0}


def test_what_sweeps_and_drills_deleted_counts_in_all_so_that_no_counter_falls_when_it_comes_back() -> None:
    def total(*swept: dict[str, Any]) -> tuple[float, float]:
        found = figures(mark("retired", swept=list(swept)), mark(swept=[]))
        return found["deleted_objects_total"], found["deleted_bytes_total"]

    assert total(sweep(9, 0), sweep(20, 0, drill=True)) == total(sweep(4, 5), sweep(0, 20, drill=True)) == (29, 2_900)


def test_nothing_is_said_of_deletes_while_the_record_of_a_mark_does_not_read() -> None:
    damaged = {"state": "damaged", "started_at": None, "problem": "altered"}
    found = parsed(metrics_text([history(mark(), damaged), history(mark(), name="b")], NOW))
    told = [dict(labels)["repository"] for name, labels in found if name == "lakegc_deleted_bytes_total"]
    assert told == ["b"]
    assert ("lakegc_garbage_bytes", (("repository", "lake"),)) in found


def test_of_a_history_that_does_not_read_only_that_is_said_and_it_hides_no_other() -> None:
    text = metrics_text(
        [history(mark(), name="a"), history(name="b", problem="damaged"), history(mark(), name="c")], NOW
    )
    found = [(dict(labels)["repository"], name, value) for (name, labels), value in parsed(text).items()]
    assert [each for each in found if each[0] == "b"] == [("b", "lakegc_readable", 0)]
    assert {each[0] for each in found if each[1:] == ("lakegc_readable", 1)} == {"a", "c"}
    assert {name for name, *each in found if each[0] == "lakegc_garbage_bytes"} == {"a", "c"}


def test_a_newest_mark_that_does_not_read_is_not_readable_and_an_older_one_hides_nothing() -> None:
    damaged = mark(problem="the chain of its stages does not hold", refused=[])
    assert figures(damaged, mark()) == {"readable": 0}
    assert figures(mark(), damaged)["readable"] == 1


def test_the_delays_of_the_last_sweep_that_deleted_anything_and_the_oldest_garbage_have_their_labels() -> None:
    swept = mark("swept", swept=[sweep(finished_at=BEFORE, delay={"p50": 90_000.0, "p99": 180_000.5})])
    oldest = {"since": "2026-11-20T02:00:00.000Z", "address": "data/a", "why": "failed:Access\nDenied"}
    found = parsed(metrics_text([history(swept, oldest=oldest), history(mark(), name="b", oldest=None)], NOW))
    told = {labels: value for (name, labels), value in found.items() if "delay" in name or "oldest" in name}
    assert told == {
        (("repository", "lake"), ("quantile", "0.5")): 90_000.0,
        (("repository", "lake"), ("quantile", "0.99")): 180_000.5,
        (("repository", "lake"), ("why", "failed")): 1_795_140_000.0,
    }


def test_labels_are_escaped() -> None:
    odd = 'a"b\\c\nd\\n'
    assert {dict(labels)["repository"] for _, labels in parsed(metrics_text([history(mark(), name=odd)], NOW))} == {odd}


def test_stages_have_their_seconds() -> None:
    seconds = stage_seconds([{"seconds": {"namespace_listing": 1.5, "expired_addresses": 2.0}}, {"seconds": 3.25}])
    assert seconds == {"namespace_listing": 1.5, "expired_addresses": 2.0, "swept_report": 3.25}
    found = parsed(metrics_text([history(mark())], NOW, {"lake": seconds}))
    stages = {dict(labels)["stage"]: value for (name, labels), value in found.items() if name == "lakegc_stage_seconds"}
    assert stages == seconds


def test_a_file_of_metrics_takes_the_place_of_the_old_one_and_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "lakegc.prom"
    for text in ("old\n", "new\n"):
        write_metrics(file, text)
        assert file.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["lakegc.prom"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_of_metrics_is_whole_whenever_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lakegc.prom"
    write_metrics(file, "old\n")
    seen: list[list[str]] = []

    def fails(descriptor: int) -> None:
        seen.append([each.name for each in tmp_path.iterdir() if each.suffix == ".prom"])
        assert file.read_text() == "old\n"
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="full"):
        write_metrics(file, "new\n")
    assert seen == [["lakegc.prom"]] and file.read_text() == "old\n"
    assert [each.name for each in tmp_path.iterdir()] == ["lakegc.prom"]


def test_a_mark_that_was_retired_unfinished_is_not_the_newest() -> None:
    began = "2026-11-22T02:00:00.000Z"
    unfinished = {"state": "retired", "started_at": began, "complete": False, "swept": []}
    assert figures(unfinished, mark()) == figures(mark())
    alone = history(unfinished) | {"garbage": None}
    assert ("lakegc_refused", (("repository", "lake"),)) in parsed(metrics_text([alone], NOW))


def test_the_plain_form_names_its_counters_whole_and_has_the_same_samples() -> None:
    """As Prometheus's own parser wants it: the samples of a family begin with the family's name."""
    found = [history(mark())]
    plain = metrics_text(found, NOW, plain=True)
    samples = [line for line in plain.splitlines() if not line.startswith("#")]
    declared = set(re.findall(r"^# TYPE (\w+) ", plain, re.MULTILINE))
    assert {line.partition("{")[0] for line in samples} == declared and "lakegc_deleted_bytes_total" in declared
    whole = metrics_text(found, NOW)
    assert samples == [line for line in whole.splitlines() if not line.startswith("#")]
    assert "# EOF" not in plain and plain.endswith("\n")
