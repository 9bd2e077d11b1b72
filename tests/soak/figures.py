"""What a soak costs, in figures: a table for people, JSON for machines. Nothing is judged here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakegc_core.views.words import human_bytes

if TYPE_CHECKING:
    from tests.soak.proof import Proof

PAGE_LIMIT_SECONDS = 2.0
"""In 95 of 100 times a page answers within that."""

_SETTLED = 30  # looks after which everything has come up


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that so many are not above; 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def figures(proof: Proof) -> dict[str, Any]:
    """Sizes, runs, sweeps, seconds, bytes and pages of a night that is over."""
    night = proof.night
    seconds: dict[str, list[float]] = {}
    statuses: dict[str, dict[str, int]] = {}
    for record in proof.records:
        run = record.dagster_run
        by_status = statuses.setdefault(run.job_name, {})
        by_status[run.status.value] = by_status.get(run.status.value, 0) + 1
        if record.start_time and record.end_time and run.run_id not in night.notes.killed:
            seconds.setdefault(run.job_name, []).append(record.end_time - record.start_time)
    deleted = [proof.deleted(name) for name in night.plan.names]
    sampled = night.notes.sampled
    return {
        "repositories": night.plan.repositories,
        "rounds": len(night.notes.slots),
        "minutes_between": night.plan.minutes,
        "wall_seconds": round(night.notes.ended - night.notes.begun, 1),
        "runs": statuses,
        "run_seconds": {job: _spread(each) for job, each in seconds.items()},
        "killed": {"daemon": night.notes.daemon_killed, "runs": len(night.notes.killed)},
        "sweeps": sum(map(len, deleted)),
        "objects_deleted": sum(len(addresses) for each in deleted for addresses in each.values()),
        "page_seconds": {page: _spread(each) for page, each in night.prober.seconds.items()},
        "postgres_bytes": night.site.database.size(),
        "memory_bytes": {
            name: {
                "start": sampled[min(_SETTLED, len(sampled) - 1)][name],
                "end": sampled[-1][name],
                "most": max(each[name] for each in sampled),
            }
            for name in night.site.processes
        },
        "queue_most": night.notes.most_queued,
        "runs_at_once_most": night.notes.most_at_once,
    }


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "p50": round(percentile(values, 0.5), 3),
        "p95": round(percentile(values, 0.95), 3),
        "most": round(max(values, default=0.0), 3),
    }


def table(found: Mapping[str, Any]) -> str:
    """The figures for people."""
    wall = f"{found['wall_seconds'] / 60:.1f} min"
    lines = [
        f"{found['repositories']} repositories, {found['rounds']} rounds, {found['minutes_between']} min apart: {wall}",
        *(f"{job}: {_counts(each)}" for job, each in found["runs"].items()),
        f"killed: the daemon {found['killed']['daemon']} times, runs {found['killed']['runs']}",
        f"sweeps that deleted: {found['sweeps']:,}, objects {found['objects_deleted']:,}",
        f"runs at once {found['runs_at_once_most']}, in the queue {found['queue_most']} at most",
        f"Postgres {human_bytes(found['postgres_bytes'])}",
        "",
        _row("seconds", "count", "p50", "p95", "most"),
    ]
    for kind in ("run_seconds", "page_seconds"):
        for name, each in found[kind].items():
            lines.append(_row(name, each["count"], f"{each['p50']:.2f}", f"{each['p95']:.2f}", f"{each['most']:.2f}"))
    lines += ["", _row("memory", "", "start", "end", "most")]
    for name, each in found["memory_bytes"].items():
        lines.append(_row(name, "", *(human_bytes(each[when]) for when in ("start", "end", "most"))))
    return "\n".join(lines)


def _counts(by_status: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {status.lower()}" for status, count in sorted(by_status.items()))


def _row(name: object, *values: object) -> str:
    return f"{name!s:<20}" + "".join(f"{value!s:>11}" for value in values)
