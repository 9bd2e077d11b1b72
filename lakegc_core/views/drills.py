"""What came of drills of undo: in JSON, in words, and on a screen."""

from __future__ import annotations

from lakegc_core.clock import instant, roughly
from lakegc_core.marks import drills
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.marks.drills import PASSED
from lakegc_core.names import Json, counted
from lakegc_core.views.words import ago, human_bytes, shown

WAYS = {
    "quarantine": "out of quarantine",
    "store": "out of what the store keeps",
    "backup": "out of the backup",
}
"""The ways by which objects come back, in words."""
_REMARKS = {
    "back": "deleted, and read as before",
    "stayed": "not deleted by the sweep: they show nothing",
    "missing": "deleted, and not there",
    "different": "other bytes lie there than before, or they cannot be read",
}


def drill_json(context: RepositoryContext) -> Json | None:
    """The last drill of a repository, for `lakegc history --json`; None if there was none."""
    found = drills.last_told(context)
    return found and found | {"at": instant(found["at"])}


def drill_in_words(drill: Json | None) -> str:
    """The last drill in a line; "" if there was none. `drill`: as `drill_json` gives it."""
    if not drill:
        return ""
    first = f"last drill {ago(drill['at'])}: {drill['state']}"
    if drill["state"] != PASSED:
        return f"{first} · {shown(drill['why'])}"
    back = f"{counted(drill['objects'], 'object')} ({human_bytes(drill['bytes'])}) came back {WAYS[drill['way']]}"
    return f"{first} · {back}, in {roughly(drill['seconds'])}"


def drill_screen(report: Json) -> str:
    """The screen on which a drill ends. `report`: as it is on record."""
    state = "passed" if report["passed"] else "failed"
    lines = [
        f"{report['repository']} · mark {report['mark_id']} · drill {report['drill']} {state}, "
        f"{roughly(report['seconds'])}",
        "",
    ]
    for outcome, count in report["outcomes"].items():
        if count or outcome == "back":
            size = human_bytes(sum(each["size"] for each in report["objects"] if each.get("outcome") == outcome))
            lines.append(f"  {outcome:<12} {count:>8,} objects {size:>9}   {_REMARKS[outcome]}")
    bad = [each for each in report["objects"] if each.get("problem")]
    lines += [f"    {shown(each['address'])}   {each['outcome']}: {shown(each['problem'])}" for each in bad]
    took = f"a restore of {roughly(report['seconds_of_restore'])}"
    lines += ["", f"  {WAYS[report['way']]}, by {took}; SHA-256 of each before and after"]
    if report["outcomes"]["back"]:
        lines.append("  what came back is garbage still: only a sweep of a later mark deletes it")
    return "\n".join(lines)


def failed_drill(report: Json) -> str:
    """Sentences on a drill that did not pass, and what to do."""
    name, source = f"{report['repository']} {report['mark_id']}", f" {report['place']}" if report["place"] else ""
    gone = [each["address"] for each in report["objects"] if each.get("outcome") == "missing"]
    said = f"The drill did not pass: {report['why']}."
    if gone:
        said += f" Find out why. Then bring back what is gone: lakegc restore {name}{source} --path '{gone[0]}'"
        said += f" (and {len(gone) - 1:,} more, which are named above)." if len(gone) > 1 else "."
    return f"{said} Do not sweep before a drill has passed."
