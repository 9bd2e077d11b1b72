"""Screens on a terminal when a mark, a sweep or a retirement ends: one each, made of the JSON of `report`."""

from __future__ import annotations

from collections.abc import Sequence

from lakegc_core.clock import instant, roughly
from lakegc_core.marks.artifacts import CLEAN
from lakegc_core.names import STILL_THERE, Json, Outcome, Symptom, counted, see
from lakegc_core.views.waits import delay_in_words
from lakegc_core.views.words import (
    BROUGHT_BACK_REMARK,
    CHANGED_REMARK,
    NOT_IN_BACKUP_REMARK,
    UNKNOWN_REMARK,
    freed,
    from_the_minute,
    gone_by,
    held_by,
    human_bytes,
    in_quarantine,
    kept_by,
    monthly,
    nothing_left,
    on_condition,
    over_budget,
    shown,
    time_it_takes,
    to_the_minute,
    too_young,
    unconfirmed,
    undo,
)

_SHOWN_IF_ANY = ("neighbour", "unasked")
"""Groups that a mark's screen leaves out where they are empty."""

_CAUSES = 3
"""The screen names at most so many causes of garbage, and folders of its paths; the JSON has more."""
_FOLDERS = 3
"""The screen names at most so many folders of objects that are not lakeFS's; the JSON has more."""


def mark_screen(report: Json, *, every_guard: bool = False) -> str:
    """The one screen on which a mark ends: with the guards that failed, or with all of them."""
    lines = [
        f"{report['repository']} · mark {report['mark_id']} · complete, {roughly(sum(report['seconds'].values()))} · "
        f"cutoff {to_the_minute(report['cutoff'])}",
        _how(report["run"]),
        "",
    ]
    for title, group, remark in _groups(report):
        lines.append(_row(title, report["objects"][group], report["bytes"][group], remark))
        if group == "foreign":
            lines += _foreign_lines(report)
        if group == "expired":
            lines += [*_ready_lines(report), *_cause_lines(report)]
    lines += [*_missing_lines(report), "", *guard_lines(report["guards"], every_guard=every_guard), ""]
    return "\n".join(lines)


def _groups(report: Json) -> list[tuple[str, str, str]]:
    """The groups of objects that a mark's screen shows: title, name in the report, remark."""
    objects, size, commits = report["objects"], report["bytes"], report["commits"]
    retained = f"{commits['retained']:,} of {commits['known']:,} commits retained ({kept_by(commits)})"
    if ignored := commits.get("ignored"):
        retained += f", {len(ignored):,} ignored"
    if lost := commits.get("ranges_ignored", {}).get("count"):
        retained += f", {counted(lost, 'range')} of ignored ones cannot be read"
    garbage = [_share(objects["expired"], objects["listed"]), monthly(size["expired"], report["price"])]
    unasked = "a branch may show or hide it (scale.lakefs_requests, scale.asking_share, server.compaction)"
    groups = [
        ("in the namespace", "listed", ""),
        ("kept: committed", "committed", retained),
        ("kept: staged", "uncommitted", ""),
        ("kept: held", "held", held_by(report)),
        ("kept: neighbours", "neighbour", "other repositories refer to it"),
        ("kept: too young", "young", too_young(report.get("first_young"))),
        ("not lakeFS's", "foreign", "never touched"),
        ("not asked about yet", "unasked", unasked),
        ("garbage", "expired", " · ".join(filter(None, garbage))),
    ]
    return [group for group in groups if objects[group[1]] or group[1] not in _SHOWN_IF_ANY]


def _ready_lines(report: Json) -> list[str]:
    """The garbage that may be swept now, and the rest; nothing if the level has no gap."""
    objects, size = report["objects"], report["bytes"]
    if not objects["expired"] or report["safety"] != "full":
        return []
    newly = {kind: report[kind]["expired"] - report[kind]["confirmed"] for kind in ("objects", "bytes")}
    now = "may be swept now" if objects["confirmed"] else ""
    later = f"may be swept after {from_the_minute(report['confirmed_at'])}" if newly["objects"] else ""
    return [
        _row("  unreferenced ≥ gap", objects["confirmed"], size["confirmed"], now),
        _row("  newly unreferenced", newly["objects"], newly["bytes"], later),
    ]


def _cause_lines(report: Json) -> list[str]:
    """The causes of garbage, and the folders in which users last saw it, those with the most bytes."""
    origins = report.get("origins") or {"causes": [], "folders": []}
    causes = [_row("    of it", each["objects"], each["bytes"], each["words"]) for each in origins["causes"][:_CAUSES]]
    folders = [
        _row("    in folder", each["objects"], each["bytes"], each["prefix"] or "(root)")
        for each in origins["folders"][:_CAUSES]
    ]
    return causes + folders


def _missing_lines(report: Json) -> list[str]:
    """The live objects that the store lacks, some of them by name."""
    objects, swept = report["objects"], []
    if objects.get("came_back"):
        swept = [_row("came back", objects["came_back"], report["bytes"]["came_back"], "a sweep had deleted them")]
    if objects["swept_before"]:
        why = "live again, but a sweep had deleted them: reads of them fail"
        swept += [_row("swept before", objects["swept_before"], None, why)]
    if not objects["missing"]:
        return swept
    return [
        *swept,
        _row("missing", objects["missing"], None, "live, but not in the store: reads of them fail"),
        *(f"      {shown(each['path'] or '(staged)')}   {shown(each['address'])}" for each in report["missing"][:10]),
    ]


def _foreign_lines(report: Json) -> list[str]:
    """Of what is not lakeFS's: what lies below data/, what to do about it, and where most of all of it lies."""
    objects, size = report["objects"].get("unknown", 0), report["bytes"].get("unknown", 0)
    lines = [_row("  below data/", objects, size, UNKNOWN_REMARK)] if objects else []
    most = report.get("foreign_prefixes", [])[:_FOLDERS]
    return lines + [_row(f"    {each['prefix'] or '(root)'}", each["objects"], each["bytes"], "") for each in most]


def _how(run: Json) -> str:
    """The way a mark read, in words."""
    if run["mode"] == CLEAN:
        return f"a clean mark ({run['why_clean']})"
    return (
        f"read what changed since mark {run['rests_on'][0]}: {run['units_listed']:,} of {run['units']:,} units listed"
    )


def guard_lines(verdicts: Sequence[Json], *, every_guard: bool) -> list[str]:
    """Verdicts of the guards: the failed ones, or all, each with its sentence."""
    held = sum(verdict["passed"] for verdict in verdicts)
    lines = [f"  guards   {held} of {len(verdicts)} hold"]
    for verdict in verdicts:
        if verdict["passed"] and not every_guard:
            continue
        harmless = verdict["severity"] == "WARN" or "accepted_because" in verdict
        sign = "✓" if verdict["passed"] else "!" if harmless else "✗"
        lines.append(f"    {sign} {verdict['name']:<16} {shown(verdict['description'])}")
        if "accepted_because" in verdict:
            lines.append(f"      {'':<16} accepted: {shown(verdict['accepted_because'])}")
    return lines


def sweep_screen(report: Json) -> str:
    """The one screen on which a sweep ends."""
    outcomes = report["outcomes"]
    nothing = nothing_left(report)
    title = "dry run, nothing was deleted" if report["dry_run"] else nothing or f"sweep {report['sweep']}"
    lines = [f"{report['repository']} · mark {report['mark_id']} · {title}, {roughly(report['seconds'])}", ""]
    if report["dry_run"]:
        size = human_bytes(report["planned_bytes"])
        lines.append(f"  {'would be deleted':<18} {report['planned']:>14,} objects {size:>10}")
        lines += [f"  {said}" for said in time_it_takes(report)]
        lines += in_quarantine(report)
    remarks = {
        Outcome.DELETED: freed(report),
        Outcome.ALREADY_GONE: gone_by(report),
        "rescued": "live again: kept",
        "unconfirmed": unconfirmed(report),
        "lost": "FOUND REFERENCED AFTER THEY WERE DELETED: restore them, and report this",
        Outcome.HELD: "kept: a hold keeps them now",
        Outcome.LEFT: "not deleted: the sweep was closed, or stopped by a ring",
        Outcome.CHANGED: CHANGED_REMARK,
        Outcome.OVER_BUDGET: over_budget(report),
        Outcome.NOT_IN_BACKUP: NOT_IN_BACKUP_REMARK,
        STILL_THERE: "the store confirmed these deletes, and still shows the objects: find out why",
        "failed": "run the same sweep again to finish them",
    }
    for outcome, count in outcomes.items():
        if count or (outcome == Outcome.DELETED and not nothing):
            lines.append(f"  {outcome:<18} {count:>14,} objects   {remarks.get(outcome, '')}".rstrip())
    if back := report["brought_back"]:
        lines.append(f"  {'brought back':<18} {back['objects']:>14,} objects   {BROUGHT_BACK_REMARK}")
    if report["delay"]:
        lines.append(f"    {delay_in_words(report['delay'])}")
    if waiting := report["waiting"].get("objects"):
        lines.append(
            f"    of them {waiting:,} objects, {human_bytes(report['waiting']['bytes'])}: a branch may show them, and "
            "the requests to lakeFS did not suffice to ask; they come first next time, unless objects of one size take "
            "more than are allowed (scale.lakefs_requests). Or lakeFS may compact what is staged, and something of "
            "their size is staged (server.compaction)."
        )
    if tried := report["canaries"]:
        named = ", ".join(f"{count:,} {kind}" for kind, count in tried.items())
        lines.append(f"  {'canaries':<18} {sum(tried.values()):>14,} objects   in use ({named}): none was planned")
    if said := on_condition(report):
        lines.append(f"  {'deletes':<18} {shown(said)}")
    if rings := report["rings"]:
        passed = f"{rings['passed']} of {rings['count']} passed"
        lines.append(f"  {'rings':<18} {rings['read']:>14,} paths     near to what went read after them ({passed})")
        gone = rings["gone"].items()
        lines += [f"    {shown(path)}   cannot be read any more: {shown(address)}" for path, address in gone]
    for path, status in report["unreadable"].items():
        lines.append(f"  {shown(path)} read before the sweep and answers {status} now: find out why, and report it")
    if report["report"]:
        lines += ["", f"  report   {report['report']}", f"  statement {report['statement']}"]
    can_undo = report["versioned"] or (report["recoverable_until"] and report["undeletes"]) or report["quarantine"]
    if outcomes.get(Outcome.DELETED) and (can_undo or report["backup"]):
        place = None if can_undo else report["backup"]
        lines.append(f"  undo     {undo(report['repository'], report['mark_id'], place)}")
    return "\n".join(lines)


def all_young(report: Json) -> str:
    """Lines that say of a mark which found nothing but what is too young what to do, and when; "" of others. `report`:
    of the mark."""
    if not (first := report["first_young"]):
        return ""
    found, deleted = to_the_minute(first["old_enough_at"]), to_the_minute(first["deletable_from"])
    then = f"(after {found}; a sweep of it may delete the first from {deleted})"
    return (
        "\nnothing to sweep yet: all that nothing refers to is too young"
        f"\nnext: lakegc mark {report['repository']}   {then}"
    )


def swept_lines(sweeps: Sequence[Json]) -> list[str]:
    """Sweeps of a mark, a line each: when it was, and what came of it. `sweeps`: the reports of those that are over."""
    return [
        f"swept {to_the_minute(instant(sweep['finished_at']))} (sweep {sweep['sweep']}): {_came_of(sweep)}"
        for sweep in sweeps
    ]


def _came_of(sweep: Json) -> str:
    outcomes = sweep["outcomes"]
    deleted = f"{counted(outcomes.get(Outcome.DELETED, 0), 'object')} deleted, {human_bytes(sweep['bytes_deleted'])}"
    others = (f"{count:,} {outcome}" for outcome, count in outcomes.items() if count and outcome != Outcome.DELETED)
    return " · ".join([deleted, *others])


def retirement_screen(report: Json) -> str:
    """The one screen on which a retirement ends."""
    count, done = len(report["retired"]), "would be retired" if report["dry_run"] else "retired"
    is_any = count or report["artifacts_deleted"]  # those may be what was left over of marks that were retired before
    what = f"{counted(count, 'mark')} {done}" if is_any else "nothing to retire"
    title = f"{report['repository']} · {what}, {len(report['kept']):,} kept"
    freed = f"  {report['artifacts_deleted']:,} artifacts deleted, {human_bytes(report['artifact_bytes'])}"
    lines = [title, "", *_retired_lines(report["retired"])]
    lines += [f"  {each['mark_id']:<28} kept: {shown(each['because'])}" for each in report["kept"]]
    lines += [
        f"  Until the sweep of mark {shown(mark_id)} is over, no mark that was swept since is retired. "
        f"{see(Symptom.SWEEP_BROKE_OFF)}"
        for mark_id in report["unclosed"]
    ]
    lines += [
        f"  {shown(each['mark_id']):<28} quarantine {'to be ' if report['dry_run'] else ''}emptied: "
        f"{counted(each['objects'], 'object')}, {human_bytes(each['bytes'])}"
        for each in report["emptied"]
    ]
    lines += [
        f"  {shown(each['mark_id']):<28} quarantine kept: {_copies(each)}{shown(each['because'])}"
        for each in report["in_quarantine"]
    ]
    return "\n".join([*lines, "", freed] if report["artifacts_deleted"] else lines)


def _copies(kept: Json) -> str:
    """The number of copies that stay in a quarantine, as the beginning of a line; "" where no record tells."""
    return f"{counted(kept['objects'], 'object')}, {human_bytes(kept['bytes'])}: " if "objects" in kept else ""


def retired_screen(records: Sequence[Json]) -> str:
    """The history that stays of retired marks."""
    return "\n".join(_retired_lines(records)) or "no mark was retired"


def _retired_lines(records: Sequence[Json]) -> list[str]:
    return [
        f"  {each['mark_id']:<28} {shown(each['problem'])}"
        if "problem" in each
        else f"  {each['mark_id']:<28} {each['expired']:>12,} expired {human_bytes(each['expired_bytes']):>10} "
        f"{each['deleted']:>12,} deleted {human_bytes(each['bytes_deleted']):>10}"
        for each in records
    ]


def _row(title: str, objects: int, size: int | None, remark: str) -> str:
    told = "" if size is None else human_bytes(size)
    return f"  {shown(title):<20} {objects:>14,} objects {told:>10}   {shown(remark)}".rstrip()


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%} of objects" if whole else ""
