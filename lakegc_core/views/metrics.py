"""Figures of marks and sweeps as OpenMetrics text, for Prometheus: mostly by node_exporter's textfile collector.

Made of the JSON of `history` and of `report`. Bytes are bytes, times are unix seconds, durations are seconds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lakegc_core.clock import unix_seconds
from lakegc_core.marks.drills import PASSED
from lakegc_core.names import COMPLETE, Json, Stage
from lakegc_core.views.history import whole_marks
from lakegc_core.views.waits import last_delay

Seconds = Mapping[str, Mapping[str, float]]
"""For each repository, how long each stage took."""
Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""

_GAUGES = {
    "lakegc_garbage_bytes": "Garbage of the newest complete mark that is still there, at most: no sizes are on record "
    "of what a sweep found gone or live.",
    "lakegc_garbage_objects": "Objects of that garbage.",
    "lakegc_sweepable_bytes": "Garbage that a sweep may delete now.",
    "lakegc_unconfirmed_bytes": "Garbage that was not unreferenced for long enough yet.",
    "lakegc_unasked_bytes": "Candidates of the newest complete mark that it could not ask about, so that they wait.",
    "lakegc_last_mark_timestamp_seconds": "When the newest complete mark began.",
    "lakegc_refused": "1 if a guard stops the sweep of the newest complete mark, else 0.",
}
_COUNTERS = {
    "lakegc_deleted_bytes": (
        ("bytes_deleted", "bytes"),
        "Bytes that all sweeps and drills deleted, of retired marks too, whatever came back since.",
    ),
    "lakegc_deleted_objects": (
        ("deleted", "objects"),
        "Objects that all sweeps and drills deleted, of retired marks too, whatever came back since.",
    ),
}
_DELAY = "lakegc_delete_delay_seconds"
_DELAY_HELP = "How long what the last sweep deleted had been unreferenced until its delete, as far as marks know."
_QUANTILES = {"0.5": "p50", "0.99": "p99"}
_OLDEST = "lakegc_oldest_garbage_timestamp_seconds"
_OLDEST_HELP = (
    "Since when the oldest garbage that is still there is unreferenced, as far as marks know; and why it waits."
)
_READABLE = "lakegc_readable"
_READABLE_HELP = (
    "1 if the newest complete mark and its sweeps read, else 0, and nothing else is told of the repository."
)
_DRILL = "lakegc_last_drill_timestamp_seconds"
_DRILL_HELP = "When the last drill of undo was over, or began, if it is not over."
_PASSED = "lakegc_last_drill_passed"
_PASSED_HELP = "1 if all that the last drill deleted came back as it was, else 0."
_STAGE = "lakegc_stage_seconds"
_STAGE_HELP = "How long each stage of the last command took."
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def metrics_text(history: Sequence[Json], now: float, seconds: Seconds | None = None, *, plain: bool = False) -> str:
    """The metrics of some repositories as OpenMetrics text; `plain`: in the older form that a Pushgateway reads.

    `history`: of each repository, as `history_of` gives it since ever, or as `unreadable` does. Of one that does not
    read, or whose newest complete mark does not, only that is said: no sweep works before there is another mark.
    `now`: unix seconds.
    """
    known = [each for each in history if _reads(each, now)]
    figures = [({"repository": each["repository"]}, _figures(each, now)) for each in known]
    readable = [({"repository": each["repository"]}, int(_reads(each, now))) for each in history]
    lines = list(_family(_READABLE, "gauge", _READABLE_HELP, readable))
    for name, text in _GAUGES.items():
        lines += _family(name, "gauge", text, ((labels, found[name]) for labels, found in figures if name in found))
    for name, (keys, text) in _COUNTERS.items():
        lines += _family(f"{name}_total" if plain else name, "counter", text, _deleted(known, *keys))
    stages: list[Sample] = [
        ({"repository": repository, "stage": stage}, value)
        for repository, found in (seconds or {}).items()
        for stage, value in found.items()
    ]
    for name, text, told in (
        (_DELAY, _DELAY_HELP, [*_delays(known)]),
        (_OLDEST, _OLDEST_HELP, [*_oldest(known)]),
        (_DRILL, _DRILL_HELP, [*_drills(known, lambda drill: unix_seconds(drill["at"]))]),
        (_PASSED, _PASSED_HELP, [*_drills(known, lambda drill: int(drill["state"] == PASSED))]),
        (_STAGE, _STAGE_HELP, stages),
    ):
        lines += _family(name, "gauge", text, told) if told else []
    return "\n".join([*lines, *([] if plain else ["# EOF"]), ""])


def _reads(history: Json, now: float) -> bool:
    return not any("problem" in each for each in (history, *whole_marks(history["marks"], now)[:1]))


def _deleted(known: Iterable[Json], there_no_more: str, came_back: str) -> Iterator[Sample]:
    """The deletes of each repository in all. A counter must not fall: nothing is said while sweeps cannot be read."""
    for each in known:
        if all("swept" in mark for mark in each["marks"]):
            swept = [sweep for mark in each["marks"] for sweep in mark["swept"]]
            total = sum(sweep[there_no_more] + sweep["came_back"][came_back] for sweep in swept)
            yield {"repository": each["repository"]}, total


def _delays(known: Iterable[Json]) -> Iterator[Sample]:
    for each in known:
        if delay := last_delay(each["marks"]):
            for quantile, name in _QUANTILES.items():
                yield {"repository": each["repository"], "quantile": quantile}, delay[name]


def _oldest(known: Iterable[Json]) -> Iterator[Sample]:
    for each in known:
        oldest = each.get("oldest")
        if oldest and oldest["since"]:
            why = oldest["why"].partition(":")[0]  # a code of a failure can be any
            yield {"repository": each["repository"], "why": why}, unix_seconds(oldest["since"])


def _drills(known: Iterable[Json], value: Callable[[Json], float]) -> Iterator[Sample]:
    for each in known:
        if drill := each.get("drill"):
            yield {"repository": each["repository"]}, value(drill)


def stage_seconds(reports: Iterable[Json]) -> dict[str, float]:
    """Seconds that each stage took, by the reports of a mark and of its sweep, as `report` makes them."""
    found: dict[str, float] = {}
    for report in reports:
        seconds = report["seconds"]
        found |= seconds if isinstance(seconds, Mapping) else {Stage.SWEPT_REPORT.value: seconds}
    return found


def write_metrics(file: Path, text: str) -> None:
    """Write a file at once: who reads it meanwhile finds the old or the new one, whole. OSError if that fails."""
    # Not named `*.prom` until it is whole: the textfile collector reads every such file of the folder.
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".tmp", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o644)  # the collector is another user
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _figures(history: Json, now: float) -> dict[str, float]:
    """The gauges of a repository; those alone that are known before its first complete mark."""
    whole = whole_marks(history["marks"], now)
    if not whole:
        return {"lakegc_refused": 0}
    newest, left = whole[0], history["garbage"]
    unconfirmed = min(left["bytes"], newest.get("unconfirmed", {"bytes": 0})["bytes"])
    refused, sweepable = bool(newest.get("refused")), 0
    if newest["state"] == COMPLETE and "sweepable_from" in newest and unix_seconds(newest["sweepable_from"]) <= now:
        # A mark of which all waits may be swept whole once its time has come.
        unconfirmed = 0 if unconfirmed == left["bytes"] else unconfirmed
        sweepable = 0 if refused else left["bytes"] - unconfirmed
    return {
        "lakegc_garbage_bytes": left["bytes"],
        "lakegc_garbage_objects": left["objects"],
        "lakegc_sweepable_bytes": sweepable,
        "lakegc_unconfirmed_bytes": unconfirmed,
        "lakegc_unasked_bytes": newest.get("unasked", {"bytes": 0})["bytes"],
        "lakegc_last_mark_timestamp_seconds": unix_seconds(newest["started_at"]),
        "lakegc_refused": int(refused),
    }


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {text.translate(_ESCAPES)}"
    for labels, value in samples:
        said = ",".join(f'{label}="{each.translate(_ESCAPES)}"' for label, each in labels.items())
        yield f"{name}{'_total' if kind == 'counter' and not name.endswith('_total') else ''}{{{said}}} {value}"
