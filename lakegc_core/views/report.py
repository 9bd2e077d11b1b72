"""What a mark or a sweep says of itself: one JSON object for machines, one screen for people.

The figures come from manifests and results; nothing is computed here that decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakegc_core.config.settings import Price
from lakegc_core.copies.backup import CopyResult
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL, Manifest
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.policy import guards
from lakegc_core.policy.guards import Verdict
from lakegc_core.policy.holds import PATH
from lakegc_core.stages.swept_report.authorize import confirmed_at
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.store.base import ALREADY_GONE, DELETED, FAILED

if TYPE_CHECKING:
    from lakegc_core.marks.retire import Retirement

Json = dict[str, Any]


def mark_report(context: MarkContext, manifests: Mapping[str, Manifest], verdicts: Sequence[Verdict]) -> Json:
    """The contract of `lakegc mark --json` and `lakegc review --json`."""
    header, facts = context.header, manifests["expired_addresses"].facts
    commits = manifests["retention_commits"].facts
    kept = ("committed", "uncommitted", "held", "neighbour", "foreign", "unknown", "young", "unasked")
    groups = ("listed", *kept, "expired", "confirmed")
    return {
        "repository": header.repository,
        "mark_id": header.mark_id,
        "started_at": instant(header.started_at),
        "cutoff": instant(header.cutoff),
        "safety": header.safety,
        "objects": {group: facts[group]["objects"] for group in groups} | {"missing": facts["missing"]},
        "bytes": {group: facts[group]["bytes"] for group in groups},
        "commits": {
            "known": commits["known"],
            "retained": commits["retained"],
            "kept_by": commits["kept_by"],
        },
        "holds": list(commits["holds"]),
        "guards": [verdict_json(verdict) for verdict in verdicts],
        "authorized": guards.authorized(verdicts),
        "missing": facts.get("missing_paths", []),
        # Marks of earlier versions lack these four.
        "ages": facts.get("ages", []),
        "sizes": facts.get("sizes", []),
        "prefixes": facts.get("prefixes", []),
        "asked": {"pages": facts["pages_asked"], "waiting": facts["waiting"]},
        "foreign_prefixes": facts.get("foreign_prefixes", []),
        "collect_unknown_names": header.collect_unknown_names,
        "run": run_json(manifests),
        "price": price_json(context.settings.price),
        "confirmed_at": instant(confirmed_at(context)),
        "seconds": {stage: round(manifests[stage].seconds, 3) for stage in STAGES},
        "artifacts": context.mark.location,
    }


def run_json(manifests: Mapping[str, Manifest]) -> Json:
    """How a mark read: all anew, or what may have changed since the marks that it rests on, newest first."""
    listing = manifests["namespace_listing"].facts
    below = [mark_id for mark_id, _ in listing["rests_on"]]
    return {
        "mode": INCREMENTAL if below else CLEAN,
        "rests_on": below,
        "why_clean": listing["why_clean"] or None,
        "units": listing["units"],
        "units_listed": listing["units_listed"],
    }


def verdict_json(verdict: Verdict) -> Json:
    """One guard in the contract's form."""
    found: Json = {
        "name": verdict.name,
        "passed": verdict.passed,
        "severity": verdict.severity,
        "description": verdict.description,
    }
    if verdict.accepted_because is not None:
        found["accepted_because"] = verdict.accepted_because
    return found


def sweep_report(result: SweepResult) -> Json:
    """The contract of `lakegc sweep --json`."""
    failures = {outcome: count for outcome, count in result.outcomes.items() if outcome.startswith(FAILED)}
    others = {outcome: count for outcome, count in result.outcomes.items() if outcome not in failures}
    return {
        "repository": result.repository,
        "mark_id": result.mark_id,
        "sweep": result.sweep,
        "outcomes": {**others, "failed": sum(failures.values()), **failures},
        "bytes_deleted": result.bytes_deleted,
        "price": price_json(result.price),
        "planned": result.planned,
        "dry_run": result.dry_run,
        "versioned": result.versioned,
        "recoverable_until": instant(result.recoverable_until) if result.recoverable_until else None,
        "unreadable": dict(result.unreadable),
        "waiting": dict(result.waiting),
        "seconds": round(result.seconds, 3),
        "report": result.report,
    }


def copy_report(result: CopyResult) -> Json:
    """The contract of `lakegc backup --json` and `lakegc restore --json`."""
    return {
        "repository": result.repository,
        "mark_id": result.mark_id,
        "place": result.place,
        "outcomes": dict(result.outcomes),
        "objects": sum(result.outcomes.values()),
        "bytes": result.bytes,
        "failures": [dict(problem) for problem in result.problems],
        "seconds": round(result.seconds, 3),
    }


def copy_screen(verb: str, report: Json) -> str:
    """The one screen on which a backup or a restore ends."""
    lines = [f"{report['repository']} · mark {report['mark_id']} · {verb}, {report['seconds']:.0f} s", ""]
    remarks = {
        "copied": human_bytes(report["bytes"]),
        "already_there": "the same object: left as it was",
        "missing": "gone from the namespace: nothing to lose" if verb == "backup" else "not in the backup",
        "different": "another object lies there: not overwritten",
        "failed": "run the same command again: what is copied is not copied twice",
    }
    for outcome, count in report["outcomes"].items():
        if count or outcome == "copied":
            lines.append(f"  {outcome:<18} {count:>14,} objects   {remarks.get(outcome, '')}".rstrip())
    lines += [f"    {each['address']}   {each['problem']}" for each in report["failures"][:10]]
    lines += ["", f"  {'in' if verb == 'backup' else 'from'} {report['place']}"]
    return "\n".join(lines)


def retirement_report(result: Retirement) -> Json:
    """The contract of `lakegc retire --json`."""
    return {
        "repository": result.repository,
        "dry_run": result.dry_run,
        "retired": list(result.retired.values()),
        "kept": [{"mark_id": mark_id, "because": reason} for mark_id, reason in result.kept.items()],
        "artifacts_deleted": result.artifacts,
        "artifact_bytes": result.bytes,
    }


def retirement_screen(report: Json) -> str:
    """The one screen on which a retirement ends."""
    done = "would be retired" if report["dry_run"] else "retired"
    title = f"{report['repository']} · {len(report['retired']):,} marks {done}, {len(report['kept']):,} kept"
    freed = f"  {report['artifacts_deleted']:,} artifacts deleted, {human_bytes(report['artifact_bytes'])}"
    lines = [title, "", *_retired_lines(report["retired"])]
    lines += [f"  {each['mark_id']:<28} kept: {each['because']}" for each in report["kept"]]
    return "\n".join(lines if report["dry_run"] else [*lines, "", freed])


def retired_screen(records: Sequence[Json]) -> str:
    """The history that stays of retired marks."""
    return "\n".join(_retired_lines(records)) or "no mark was retired"


def _retired_lines(records: Sequence[Json]) -> list[str]:
    return [
        f"  {each['mark_id']:<28} {each['expired']:>12,} expired {human_bytes(each['expired_bytes']):>10} "
        f"{each['deleted']:>12,} deleted {human_bytes(each['bytes_deleted']):>10}"
        for each in records
    ]


def mark_screen(report: Json, *, every_guard: bool = False) -> str:
    """The one screen on which a mark ends: with the guards that failed, or with all of them."""
    objects, size, commits = report["objects"], report["bytes"], report["commits"]
    seconds = sum(report["seconds"].values())
    lines = [
        f"{report['repository']} · mark {report['mark_id']} · complete, {seconds:.0f} s · "
        f"cutoff {_minute(report['cutoff'])}",
        _how(report["run"]),
        "",
    ]
    garbage = [_share(objects["expired"], objects["listed"]), monthly(size["expired"], report["price"])]
    neighbours = [("kept: neighbours", "neighbour", "other repositories refer to it")] if objects["neighbour"] else []
    rows = (
        ("in the namespace", "listed", ""),
        (
            "kept: committed",
            "committed",
            f"{commits['retained']:,} of {commits['known']:,} commits retained ({kept_by(commits)})",
        ),
        ("kept: staged", "uncommitted", ""),
        ("kept: held", "held", held_by(report)),
        *neighbours,
        ("kept: too young", "young", ""),
        ("not lakeFS's", "foreign", "never touched"),
        ("not asked about yet", "unasked", "a branch may show it; scale.lakefs_requests bounds what lakeFS is asked"),
        ("garbage", "expired", " · ".join(filter(None, garbage))),
    )
    for title, group, remark in rows:
        if group == "unasked" and not objects[group]:
            continue
        lines.append(_row(title, objects[group], size[group], remark))
        if group == "expired" and objects["expired"] and report["safety"] == "full":
            newly = {kind: report[kind]["expired"] - report[kind]["confirmed"] for kind in ("objects", "bytes")}
            when = _minute(report["confirmed_at"])
            lines.append(_row("  unreferenced ≥ gap", objects["confirmed"], size["confirmed"], "may be swept now"))
            lines.append(_row("  newly unreferenced", newly["objects"], newly["bytes"], f"may be swept after {when}"))
        if group == "foreign":
            lines += _foreign_lines(report)
    if objects["missing"]:
        lines.append(_row("missing", objects["missing"], None, "live, but not in the store: reads of them fail"))
        lines += [f"      {each['path'] or '(staged)'}   {each['address']}" for each in report["missing"][:10]]
    lines += ["", *guard_lines(report["guards"], every_guard=every_guard), ""]
    return "\n".join(lines)


def _foreign_lines(report: Json) -> list[str]:
    """Of what is not lakeFS's: what lies below data/, what to do about it, and where most of all of it lies."""
    objects, size = report["objects"].get("unknown", 0), report["bytes"].get("unknown", 0)
    lines = [_row("  below data/", objects, size, UNKNOWN_REMARK)] if objects else []
    shown = report.get("foreign_prefixes", [])[:_FOLDERS]
    return lines + [_row(f"    {each['prefix'] or '(root)'}", each["objects"], each["bytes"], "") for each in shown]


UNKNOWN_REMARK = "lakeFS gives no such names; collected with `collect_unknown_names: true` in lakegc.yaml"
"""What to do about objects below data/ whose names lakeFS never gives."""

_FOLDERS = 3
"""How many folders of what is not lakeFS's the screen names; the JSON has more."""


def _how(run: Json) -> str:
    """How a mark read, in words."""
    if run["mode"] == CLEAN:
        return f"a clean mark ({run['why_clean']})"
    return (
        f"read what changed since mark {run['rests_on'][0]}: {run['units_listed']:,} of {run['units']:,} units listed"
    )


def kept_by(commits: Json) -> str:
    """How many commits each reason keeps, in words."""
    return ", ".join(f"{count:,} by {reason}" for reason, count in sorted(commits["kept_by"].items()))


def held_by(report: Json) -> str:
    """By which holds objects are kept that nothing else keeps, in words; and what counts as committed by holds."""
    paths = [hold for hold in report.get("holds", ()) if hold.startswith(f"{PATH}:")]
    commits = report["commits"]["kept_by"].get("hold", 0)
    said = [
        f"by {', '.join(paths)}" if paths else "",
        f"the {commits:,} commits held count as committed" if commits else "",
    ]
    return " · ".join(filter(None, said))


def price_json(price: Price | None) -> Json | None:
    """A price in the reports' form."""
    return None if price is None else {"per_gb_month": price.per_gb_month, "currency": price.currency}


def monthly_cost(size: int, price: Json) -> float:
    """What so many bytes cost a month, in the price's currency. `price`: as `price_json` has it."""
    return size / 1e9 * float(price["per_gb_month"])


def monthly(size: int, price: Json | None) -> str:
    """What so many bytes cost a month, in words; "" without a price or bytes. `price`: as `price_json` has it."""
    if not price or not size:
        return ""
    cost, currency = monthly_cost(size, price), price["currency"]
    return f"about {cost:,.2f} {currency} a month" if cost >= 0.005 else f"less than 0.01 {currency} a month"


def _row(title: str, objects: int, size: int | None, remark: str) -> str:
    shown = "" if size is None else human_bytes(size)
    return f"  {title:<20} {objects:>14,} objects {shown:>10}   {remark}".rstrip()


def guard_lines(verdicts: Sequence[Json], *, every_guard: bool) -> list[str]:
    """How the guards stand: the failed ones, or all, each with its sentence."""
    held = sum(verdict["passed"] for verdict in verdicts)
    lines = [f"  guards   {held} of {len(verdicts)} hold"]
    for verdict in verdicts:
        if verdict["passed"] and not every_guard:
            continue
        harmless = verdict["severity"] == "WARN" or "accepted_because" in verdict
        sign = "✓" if verdict["passed"] else "!" if harmless else "✗"
        lines.append(f"    {sign} {verdict['name']:<16} {verdict['description']}")
        if "accepted_because" in verdict:
            lines.append(f"      {'':<16} accepted: {verdict['accepted_because']}")
    return lines


def sweep_screen(report: Json) -> str:
    """The one screen on which a sweep ends."""
    outcomes = report["outcomes"]
    title = "dry run, nothing was deleted" if report["dry_run"] else f"sweep {report['sweep']}"
    lines = [f"{report['repository']} · mark {report['mark_id']} · {title}, {report['seconds']:.0f} s", ""]
    if report["dry_run"]:
        lines.append(f"  {'would be deleted':<18} {report['planned']:>14,} objects")
    remarks = {
        DELETED: freed(report),
        ALREADY_GONE: "somebody else had deleted them",
        "rescued": "live again: kept",
        "unconfirmed": "not yet unreferenced for long enough: kept for a later sweep",
        "lost": "FOUND REFERENCED AFTER THEY WERE DELETED: restore them from a backup, and report this",
        "failed": "run the same sweep again to finish them",
    }
    for outcome, count in outcomes.items():
        if count or outcome == DELETED:
            lines.append(f"  {outcome:<18} {count:>14,} objects   {remarks.get(outcome, '')}".rstrip())
    if waiting := report["waiting"].get("objects"):
        lines.append(
            f"    of them {waiting:,} objects, {human_bytes(report['waiting']['bytes'])}: a branch may show them, and "
            "the requests to lakeFS did not suffice to ask. They come first next time (scale.lakefs_requests)."
        )
    for path, status in report["unreadable"].items():
        lines.append(f"  {path} read before the sweep and answers {status} now: find out why, and report it")
    if report["report"]:
        lines += ["", f"  report   {report['report']}"]
    return "\n".join(lines)


def freed(report: Json) -> str:
    """What a sweep's deletions came to, in words: space, and money where there is a price. `report`: of a sweep."""
    size = report["bytes_deleted"]
    said = [space(size, report["versioned"], report["recoverable_until"]), monthly(size, report["price"])]
    return ": ".join(filter(None, said))


def space(size: int, versioned: bool, recoverable_until: str | None) -> str:
    """What became of the space of deleted objects, in words. `recoverable_until` is an ISO 8601 instant."""
    if recoverable_until:
        return f"{human_bytes(size)}, can be brought back until {_minute(recoverable_until)}: the store's soft delete"
    if versioned:
        return f"{human_bytes(size)}, kept as old versions until the store's own rules let them expire"
    return f"{human_bytes(size)} freed"


def human_bytes(size: int) -> str:
    """Bytes as people read them, in powers of 1000."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} PB"


def instant(seconds: float) -> str:
    """Unix seconds as an ISO 8601 instant, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _minute(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of objects" if whole else ""
