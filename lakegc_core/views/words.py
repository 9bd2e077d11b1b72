"""Figures and reasons in words, the same wherever people read them: on a screen, on a page, in Dagster's UI.

All are taken from the JSON objects of `report`, or are plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from shlex import quote

from lakegc_core import clock
from lakegc_core.clock import duration, roughly
from lakegc_core.names import Json, Outcome, counted
from lakegc_core.policy.holds import PATH
from lakegc_core.sweep.result import freed as bytes_freed

UNKNOWN_REMARK = "lakeFS gives no such names; collected with `collect_unknown_names: true` in lakegc.yaml"
"""Advice about objects below data/ whose names lakeFS never gives."""
CHANGED_REMARK = "not deleted: another object lies there now than the mark listed; the next clean mark judges it"
NOT_IN_BACKUP_REMARK = "not deleted: lakegc.yaml asks for a backup, and that of this mark lacks them"
BROUGHT_BACK_REMARK = "a drill or a restore brought them back: only a sweep of a later mark deletes them"
_KEPT_BY = {"all": "because there are no rules", "server": "by lakeFS's own list"}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip


def shown(text: str) -> str:
    """A text of others, such as a path or a key, for a terminal: every character that does not print is escaped as in
    Python (`\\x1b`, `\\n`), so that it cannot move the cursor, change colours or begin a line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def argument(text: str) -> str:
    """A text as an argument of a command that people paste into a shell. If a character of it does not print, it is
    written as bash and zsh read it (`$'a\\012b'`)."""
    if text.isprintable():
        return quote(text)
    return "$'" + "".join(map(_in_quotes, text)) + "'"


def _in_quotes(letter: str) -> str:
    if letter.isprintable():
        return f"\\{letter}" if letter in "\\'" else letter
    return "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogateescape"))


def human_bytes(size: int) -> str:
    """Bytes as people read them, in powers of 1000."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < (1000 if unit == "B" else 999.95):  # what would be written as 1000.0 has the next unit
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} PB"


def to_the_minute(instant: str) -> str:
    """An ISO 8601 instant of a report, as people read it."""
    return clock.minute(clock.unix_seconds(instant))


def from_the_minute(instant: str) -> str:
    """An ISO 8601 instant of a report, from which something may be done."""
    return clock.from_minute(clock.unix_seconds(instant))


def day(instant: str) -> str:
    """The day of an ISO 8601 instant, UTC, as people write it: 23 November 2026."""
    moment = datetime.fromisoformat(instant).astimezone(UTC)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def day_and_time(instant: str) -> str:
    """An ISO 8601 instant as people write it: 23 November 2026, 16:30 UTC."""
    return f"{day(instant)}, {datetime.fromisoformat(instant).astimezone(UTC):%H:%M} UTC"


def ago(instant: str) -> str:
    """The time since an ISO 8601 instant: in minutes for an hour, in hours for two days, then in days."""
    passed = max(timedelta(0), clock.now() - datetime.fromisoformat(instant))  # clocks of machines differ
    minutes, hours = round(passed / timedelta(minutes=1)), passed / timedelta(hours=1)
    if minutes < 60:
        return f"{counted(minutes, 'minute')} ago" if minutes else "less than a minute ago"
    return f"{counted(round(hours), 'hour')} ago" if hours < 48 else f"{counted(round(hours / 24), 'day')} ago"


def too_young(first: Json | None, written: Callable[[str], str] = to_the_minute) -> str:
    """When the first of the young objects may go, in words; "" if the mark found garbage, or nothing too young.
    `first`: as `report.first_young_json` has it. `written`: how instants are written."""
    if not first:
        return ""
    found, deleted = written(first["old_enough_at"]), written(first["deletable_from"])
    return f"the first is old enough at {found}, and may be deleted from {deleted}"


def kept_by(commits: Json) -> str:
    """The number of commits that each reason keeps, in words."""

    def said(reason: str, count: int) -> str:
        if reason == "dangling":  # lakeFS's word
            return f"{count:,} as the last of {'a deleted branch' if count == 1 else 'deleted branches'}"
        return f"{count:,} {_KEPT_BY.get(reason, f'by {reason}')}"

    return ", ".join(said(*each) for each in sorted(commits["kept_by"].items()))


def held_by(report: Json) -> str:
    """Holds that keep objects which nothing else keeps, in words; and what counts as committed by holds."""
    paths = [hold for hold in report.get("holds", ()) if hold.startswith(f"{PATH}:")]
    commits = report["commits"]["kept_by"].get("hold", 0)
    committed = f"{counted(commits, 'commit')} held {'counts' if commits == 1 else 'count'} as committed"
    said = [f"by {', '.join(paths)}" if paths else "", f"the {committed}" if commits else ""]
    return " · ".join(filter(None, said))


def monthly_cost(size: int, price: Json) -> float:
    """The cost of so many bytes a month, in the price's currency. `price`: as `price_json` has it."""
    return size / 1e9 * float(price["per_gb_month"])


def garbage_bytes(garbage: Json) -> str:
    """The bytes of garbage as a history has it, for people."""
    return f"{'at most ' if garbage.get('at_most') else ''}{human_bytes(garbage['bytes'])}"


def monthly(size: int, price: Json | None) -> str:
    """The cost of so many bytes a month, in words; "" without a price or bytes. `price`: as `price_json` has it."""
    return f"{money(monthly_cost(size, price), price)} a month" if price and size else ""


def yearly(size: int, price: Json | None) -> str:
    """The cost of so many bytes in twelve months, in words; "" without a price or bytes."""
    return f"{money(12 * monthly_cost(size, price), price)} a year" if price and size else ""


def money(cost: float, price: Json) -> str:
    """An amount of the price's currency, in words."""
    return f"about {cost:,.2f} {price['currency']}" if cost >= 0.005 else f"less than 0.01 {price['currency']}"


def freed(report: Json) -> str:
    """Gains of a sweep's deletions, in words: space, and money where space is freed and has a price; "" if it deleted
    nothing. `report`: of a sweep."""
    if not report["outcomes"].get(Outcome.DELETED):
        return ""
    size = report["bytes_deleted"]
    told = report.get("quarantine")
    if told:
        until = f"until {to_the_minute(told['until'])}" if told["until"] else "nobody knows until when"
        copied = told.get("bytes", size)
        rest = space(size - copied, report["versioned"], report["recoverable_until"])
        others = f"{rest}, without a copy; " if "objects" in told else ""
        return f"{others}{human_bytes(copied)}, in quarantine {until}: freed once that is emptied"
    versioned, until = report["versioned"], report["recoverable_until"]
    gone = bytes_freed(size, 0, versioned=versioned, recoverable=bool(until))
    return ": ".join(filter(None, [space(size, versioned, until), monthly(gone, report["price"])]))


def gone_by(report: Json) -> str:
    """Names, in words, who had deleted what was gone when a sweep asked for it. `report`: of a sweep. Somebody else is
    named only where lakegc itself cannot have done it."""
    if not report["outcomes"].get(Outcome.ALREADY_GONE):
        return ""
    sweeps, others = report.get("gone_by_sweeps", 0), report.get("gone_by_others")
    if others is None:
        return "they were gone before this sweep deleted them"
    if not others:
        return "sweeps of other marks had deleted them"
    return (
        f"{sweeps:,} by sweeps of other marks, the others by somebody else"
        if sweeps
        else "somebody else had deleted them"
    )


def deleted(report: Json) -> str:
    """Deleted objects and what their deletion gained, as a part of a sentence. `report`: of a sweep."""
    count = counted(report["outcomes"].get(Outcome.DELETED, 0), "object")
    return ": ".join(filter(None, [f"{count} deleted", freed(report)]))


def nothing_left(report: Json) -> str:
    """A sweep that began nothing, in words; "" for others. `report`: of a sweep."""
    if report["dry_run"] or report["planned"] or report["report"] is not None:
        return ""
    return "no sweep of this mark deletes more" if report["brought_back"] else "nothing is left of this mark to sweep"


def came_back(count: int, size: int) -> str:
    """Objects that sweeps of a mark deleted and that are there again, and what becomes of them, as a part of a
    sentence."""
    objects = f"{counted(count, 'object')} ({human_bytes(size)})"
    return f"{objects} that a drill or a restore brought back: only a sweep of a later mark deletes them"


def unconfirmed(report: Json) -> str:
    """What becomes of objects that were not yet unreferenced for long enough, in words. `report`: of a sweep."""
    when = f", from {from_the_minute(report['confirmed_from'])}" if report["confirmed_from"] else ""
    return f"not yet unreferenced for long enough: kept for a later sweep{when}"


def on_condition(report: Json) -> str:
    """Whether the deletes of a sweep named what was listed, in words; "" if nobody asked. `report`: of a sweep."""
    told = report["delete_conditions"]
    if not told:
        return ""
    return "each names the ETag that was listed" if told["named"] else f"none names what was listed: {told['why']}"


def over_budget(report: Json) -> str:
    """What the budget of a sweep left, in words; "" if it left nothing. `report`: of a sweep."""
    if not report["stopped_by_budget"]:
        return ""
    size = human_bytes(report["over_budget"]["bytes"])
    if report["dry_run"]:
        return f"{size}, which the budget would leave to a later sweep"
    return f"{size} are left: stopped by its budget; run the same sweep again, or sweep the next mark"


def time_it_takes(report: Json) -> list[str]:
    """How long what a dry run planned would take, in sentences; none if it planned nothing. `report`: of a dry run."""
    found, planned = report["estimate"], report["planned"]
    if not planned:
        return []
    if found is None:
        return ["nobody knows yet how long that would take: no sweep of this repository is on record that tells"]
    said = [f"would take about {roughly(found['seconds'])}"]
    if rate := found.get("objects_a_second"):
        sweeps, looks = counted(round(found["sweeps"]), "earlier sweep"), roughly(found["looks"])
        said[0] += f": {looks} for its looks, the rest at the {rate:,.0f} objects a second of {sweeps}"
    if found.get("objects_until", planned) < planned:
        until = to_the_minute(report["budget"]["until"])
        said.append(f"until {until} there is time for about {counted(round(found['objects_until']), 'object')}")
    return said


def in_quarantine(report: Json) -> list[str]:
    """For how long what a dry run planned could be brought back, as a line of its screen; none without quarantine."""
    told = report["quarantine"]
    age = told and duration(timedelta(seconds=told["seconds"]))
    return [f"  could be brought back: copies stay in quarantine for {age}"] if told else []


def undo(repository: str, mark_id: str, backup: str | None = None) -> str:
    """The command that brings back what the sweeps of a mark deleted: what the store or a quarantine keeps of it, or
    what lies in a backup at this place."""
    return f"lakegc restore {repository} {mark_id}{'' if backup is None else f' {argument(backup)}'}"


def comes_back(
    versioned: bool | None,
    soft_delete: timedelta | None,
    how: str,
    quarantine: timedelta | None = None,
    undeletes: bool | None = True,
    backup: str | None = None,
    lacking: int = 0,
) -> str:
    """A sentence that says if deleted objects can be brought back.

    `versioned`: whether the store keeps old versions, None where it does not say; `soft_delete`: for how long it keeps
    what is deleted; `how`: the command that does it; `quarantine`: for how long lakegc keeps copies; `undeletes`:
    whether the command brings back what soft delete keeps, None where nobody can tell; `backup`: the command that
    brings them back from a backup; `lacking`: how many of them the backup lacks.
    """
    if quarantine:
        return f"`{how}` brings them back for {duration(quarantine)}: lakegc copies each into quarantine first."
    if backup:
        rest = f", which lacks {counted(lacking, 'object')} of the mark" if lacking else ""
        return f"`{backup}` brings them back: the mark has a backup{rest}."
    if soft_delete:
        days = f"{soft_delete / timedelta(days=1):.0f} days"
        if undeletes is False:
            return (
                f"The store's soft delete keeps them for {days}, but lakegc cannot bring them back: the account has a "
                "hierarchical namespace."
            )
        unless = "" if undeletes else ", unless the account has a hierarchical namespace, which it does not tell"
        return f"`{how}` brings them back for {days}: the store's soft delete{unless}."
    if versioned:
        return f"`{how}` brings them back until the store's own rules let old versions expire."
    if versioned is None:
        return "The store does not say whether they can be brought back."
    return "The store cannot bring them back."


def space(size: int, versioned: bool | None, recoverable_until: str | None) -> str:
    """The fate of the space of deleted objects, in words. `recoverable_until` is an ISO 8601 instant."""
    if recoverable_until:
        until = to_the_minute(recoverable_until)
        return f"{human_bytes(size)}, kept by the store's soft delete until {until}"
    if versioned:
        return f"{human_bytes(size)}, kept as old versions until the store's own rules let them expire"
    if versioned is None:
        return f"{human_bytes(size)} deleted; whether the store keeps old versions of it is not known"
    return f"{human_bytes(size)} freed"


def still_taken(totals: Json) -> list[str]:
    """The deleted bytes that still take space, or may, in words."""
    kept, held, unknown = (totals[name] for name in ("kept_as_versions", "recoverable", "unknown"))
    copied = totals["in_quarantine"]
    said = [
        f"{human_bytes(kept)} of it kept as old versions until the store lets them expire" if kept else "",
        f"{human_bytes(held)} of it can still be brought back: the store's soft delete" if held else "",
        f"{human_bytes(copied)} of it in quarantine: freed once that is emptied" if copied else "",
        f"of {human_bytes(unknown)} it is not known whether the store keeps old versions" if unknown else "",
    ]
    return list(filter(None, said))
