"""A mark as one page of HTML: what an operator forwards. What the screen says, with pictures, and what sweeps did.

The figures come from `report`, `history` and the answers; nothing is computed here that decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from lakegc_core import clock
from lakegc_core.clock import instant, roughly
from lakegc_core.names import Json
from lakegc_core.sweep.result import freed
from lakegc_core.views.history import left_of
from lakegc_core.views.page.headline import headline
from lakegc_core.views.page.kept import kept
from lakegc_core.views.page.over_time import over_time, unread
from lakegc_core.views.page.parts import document, table
from lakegc_core.views.page.pictures import bars
from lakegc_core.views.words import UNKNOWN_REMARK, day_and_time, held_by, human_bytes, kept_by, monthly, too_young

_GROUPS = (
    ("In the namespace", "listed"),
    ("Kept: committed", "committed"),
    ("Kept: staged", "uncommitted"),
    ("Kept: held", "held"),
    ("Kept: other repositories refer to it", "neighbour"),
    ("Kept: too young", "young"),
    ("Not lakeFS's: never touched", "foreign"),
    ("Of it below data/", "unknown"),
    ("Not asked about yet", "unasked"),
    ("Garbage", "expired"),
    ("Of it unreferenced for long enough", "confirmed"),
)


def page(
    report: Json,
    sweeps: Sequence[Json] = (),
    history: Json | None = None,
    usage: Json | None = None,
    curves: Mapping[str, Sequence[Json]] | None = None,
) -> str:
    """The page of a mark. `report`: as `lakegc review --json` has it; `sweeps`: the reports of its sweeps so far.

    `history`: of the repository, as `history_of` or `unreadable` has it. `usage` and the `curves` of `whatif`: as their
    answers are printed. What is not given is not shown.
    """
    title = f"{report['repository']} · mark {report['mark_id']}"
    body = [
        f"<h1>{escape(title)}</h1>",
        _began(report, sweeps, history),
        _headline(report, sweeps, history),
        *_trend(history),
        _figures(report),
        *_pictures(report),
        *kept(report["repository"], usage, curves),
        *_origins(report.get("origins")),
        _prefixes(report["prefixes"], "Where most of it lies"),
        _prefixes(report.get("foreign_prefixes", []), "What is not lakeFS's"),
        _guards(report["guards"]),
        *(_sweep(sweep, _in_quarantine(sweep, report["mark_id"], history)) for sweep in sweeps),
        *_missing(report["missing"]),
        f"<h2>Where it is</h2><p><code>{escape(report['artifacts'])}</code></p>",
    ]
    return document(title, body)


def _began(report: Json, sweeps: Sequence[Json], history: Json | None) -> str:
    if sweeps:
        verdict = '<span class="good">swept</span>'
    elif report["authorized"]:
        verdict = '<span class="good">no guard stops a sweep</span>'
    else:
        verdict = '<span class="bad">a guard stops the sweep</span>'
    said = [
        f"began {day_and_time(report['started_at'])}",
        f"cutoff {day_and_time(report['cutoff'])}",
        f"safety level {escape(report['safety'])}",
        roughly(sum(report["seconds"].values())),
        verdict,
    ]
    newest = history["last_mark"] if history else None
    if newest and newest > report["started_at"]:
        said.append(f"a newer mark began {day_and_time(newest)}")
    return f'<p class="sub">{" · ".join(said)}</p>'


def _headline(report: Json, sweeps: Sequence[Json], history: Json | None) -> str:
    """By the history of the repository; without one, by this mark and its own sweeps."""
    of, price = f"repository {report['repository']}", report.get("price")
    if history is not None and history["garbage"] is not None:
        found_by = f"found by the mark of {day_and_time(history['last_mark'])}, less what its sweeps finished with"
        note = unread(history)
        sums = {"garbage": history["garbage"], "totals": history["totals"], "price": price}
        told = f'<p class="bad">{escape(note)}</p>' if note else ""
        return headline(sums, of, history["since"], found_by) + told
    garbage = left_of(report["objects"]["expired"], report["bytes"]["expired"], sweeps)
    return headline({"garbage": garbage, "totals": None, "price": price}, of)


def _trend(history: Json | None) -> list[str]:
    if history is None:
        return []
    if "problem" in history:
        return [f'<p class="bad">The history of the repository cannot be read: {escape(history["problem"])}</p>']
    return ["<h2>Over time</h2>", over_time(history)]


def _figures(report: Json) -> str:
    objects, size, price = report["objects"], report["bytes"], report.get("price")
    listed, commits = max(1, objects["listed"]), report["commits"]
    remarks = {
        "committed": f"{commits['retained']:,} of {commits['known']:,} commits retained ({kept_by(commits)})",
        "held": held_by(report),
        "young": too_young(report.get("first_young"), day_and_time),
        "expired": monthly(size["expired"], price) if price else "",
        "unknown": UNKNOWN_REMARK,
        "confirmed": _when_the_rest(report),
    }
    rows = [
        (
            escape(title),
            f"{objects.get(group, 0):,}",
            human_bytes(size.get(group, 0)),
            f"{objects.get(group, 0) / listed:.1%}",
            escape(remarks.get(group, "")),
        )
        for title, group in _GROUPS
        if group != "unknown" or objects.get(group)
    ]
    return "<h2>What there is</h2>" + table(("", "objects", "bytes", "share", ""), rows, (1, 2, 3), "Garbage")


def _when_the_rest(report: Json) -> str:
    """When the garbage may be swept that was not unreferenced for long enough, in words; "" if there is none."""
    if report["objects"]["expired"] == report["objects"]["confirmed"]:
        return ""
    return f"the rest may be swept after {day_and_time(report['confirmed_at'])}"


def _guards(verdicts: Sequence[Json]) -> str:
    rows = []
    for each in verdicts:
        accepted = each.get("accepted_because")
        held = '<span class="good">holds</span>' if each["passed"] else f'<span class="bad">{each["severity"]}</span>'
        text = escape(each["description"]) + (f"<br>Accepted: {escape(accepted)}" if accepted else "")
        rows.append((f"<code>{escape(each['name'])}</code>", held, text))
    return "<h2>The guards</h2>" + table(("guard", "", "what was found"), rows)


def _pictures(report: Json) -> list[str]:
    if not report["objects"]["expired"]:
        return []
    return [
        "<h2>The garbage, by bytes</h2>",
        '<div class="pictures">',
        bars(report["ages"], "Expired bytes by age"),
        bars(report["sizes"], "Expired bytes by size of object"),
        "</div>",
    ]


def _origins(origins: Json | None) -> list[str]:
    """The causes of garbage, and the folders in which users last saw it."""
    if not origins or not origins["causes"]:
        return []
    rows = [
        (f"objects that {escape(each['words'])}", f"{each['objects']:,}", human_bytes(each["bytes"]))
        for each in origins["causes"]
    ]
    why = "<h2>Why it is garbage</h2>" + table(("", "objects", "bytes"), rows, (1, 2))
    return [why, _prefixes(origins["folders"], "Under which paths it was last shown")]


def _prefixes(prefixes: Sequence[Json], title: str) -> str:
    if not prefixes:
        return ""
    rows = [
        (f"<code>{escape(each['prefix'] or '(root)')}</code>", f"{each['objects']:,}", human_bytes(each["bytes"]))
        for each in prefixes
    ]
    return f"<h2>{escape(title)}</h2>" + table(("folder", "objects", "bytes"), rows, (1, 2))


def _missing(missing: Sequence[Json]) -> list[str]:
    if not missing:
        return []
    rows = [(escape(each["path"] or "(staged)"), f"<code>{escape(each['address'])}</code>") for each in missing]
    return ["<h2>Live, but not in the store</h2>", table(("path", "address"), rows)]


def _in_quarantine(sweep: Json, mark_id: str, history: Json | None) -> str:
    """Until when copies of what a sweep deleted lie in quarantine, in words; "" if none do."""
    told = sweep.get("quarantine")
    if not told:
        return ""
    marks = history["marks"] if history else ()
    found = [each for mark in marks if mark["mark_id"] == mark_id for each in mark.get("swept", ())]
    if any(each["sweep"] == sweep["sweep"] and not each["quarantined_until"] for each in found):
        return ""  # it was emptied
    until = f"until {day_and_time(instant(told['until']))}" if "until" in told else "nobody knows until when"
    return f"{human_bytes(told.get('bytes', sweep['bytes_deleted']))} of it in quarantine {until}"


def _sweep(sweep: Json, in_quarantine: str) -> str:
    rows = [(escape(outcome), f"{count:,}") for outcome, count in sweep["outcomes"].items() if count]
    size = sweep["bytes_deleted"]
    when = f", {day_and_time(instant(sweep['finished_at']))}" if sweep.get("finished_at") else ""
    recoverable = (sweep.get("recoverable_until") or 0.0) > clock.now().timestamp()
    gone = freed(size, 0, versioned=sweep.get("versioned"), recoverable=recoverable)
    gain = in_quarantine or monthly(gone, sweep.get("price"))
    said = [f"Sweep {sweep['sweep']}{when}: {human_bytes(size)} deleted", gain]
    title = escape(", ".join(filter(None, said)))
    return f"<h2>{title}</h2>" + table(("outcome", "objects"), rows, (1,))
