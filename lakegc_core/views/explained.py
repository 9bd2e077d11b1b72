"""Screens of `explain`, and of `review --against`, which explains its examples: made of their JSON."""

from __future__ import annotations

from lakegc_core.marks.backups import COPIED
from lakegc_core.names import SEEN_AGAIN, Json, Outcome, Symptom, counted, see
from lakegc_core.views.answers import BESIDES, amount_line, heading
from lakegc_core.views.words import argument, human_bytes, shown, to_the_minute, undo

_HOLDERS = 8
"""Holders of an object that a screen names; the JSON has more."""
_COMMIT = 12  # digits of a commit id that people see
_GONE = (Outcome.DELETED, Outcome.LOST)
_HOW = {Outcome.LOST: "found referenced and gone", Outcome.ALREADY_GONE: "found gone", SEEN_AGAIN: "seen there again"}
_UNKNOWN = "the mark knows nothing of it: it is newer, it was gone before, or it is below _lakefs/, which no mark lists"
_AGAINST = {
    "young_there": "too young for the other tool",
    "later": "found unreferenced only after the other list was begun: live then, or seen later",
    "untold": "nothing on record tells why the other list leaves it out",
    "committed": "kept: a retained commit refers to it",
    "staged": "kept: staged, or a branch shows it",
    "held": "kept: a hold by path",
    "neighbour": "kept: another repository refers to it",
    "young": "kept: too young",
    "unasked": "not asked about yet: a branch may show it",
    "foreign": "never touched: not lakeFS's",
    "unknown": "kept: below data/, with a name that lakeFS does not give",
    "no_object": "it was not in the store",
}


def against_screen(found: Json) -> str:
    """The screen of `review --against`: what both would delete, and what only one, by reason, with examples."""
    told = [f"began {to_the_minute(found['began'])}"] if found["began"] else []
    told += [f"cutoff {to_the_minute(found['cutoff'])}"] if found["cutoff"] else []
    lines = [heading(found), " · ".join([f"against {shown(found['against'])}", *told])]
    if found["success"] is False:
        lines.append("its summary says that it failed: the list may be short")
    for by, title in (("both", "both would delete"), ("lakegc", "only lakegc"), ("other", "only the other tool")):
        groups = [each for each in found["groups"] if each["by"] == by]
        total = {name: sum(each[name] for each in groups) for name in ("objects", "bytes")}
        lines += ["", amount_line(title, total)]
        for each in groups if by != "both" else ():
            lines.append(
                f"  {_AGAINST[each['why']]}: {counted(each['objects'], 'object')}, {human_bytes(each['bytes'])}"
            )
            lines += [
                f"      {line}" for example in each["examples"] for line in _object_lines(found["repository"], example)
            ]
    return "\n".join(lines)


def explain_screen(found: Json) -> str:
    """The screen of `explain`: why each object is kept, or gone."""
    lines = [heading(found)]
    if not found["objects"]:
        lines += ["", *_no_path_lines(found["repository"], found["what"])]
    lines += _absent_lines(found)
    for each in found["objects"]:
        lines += ["", *_object_lines(found["repository"], each)]
    left = found["objects_in_all"] - len(found["objects"])
    if left > 0:
        lines += ["", f"and {left:,} older objects of this path"]
    return "\n".join(lines)


def _no_path_lines(repository: str, what: str) -> list[str]:
    """That no commit shows a path, and how else it may be meant."""
    bare, branch = what.strip("/"), f"lakefs://{repository}/BRANCH/"
    lines = [f"No commit that lakeFS knows shows {shown(what)} with an object in this namespace."]
    if what.startswith("/") and bare:
        lines.append(f"Without the slash before it, it is another path: lakegc explain {repository} {argument(bare)}")
    if "*" not in what and not what.endswith("/"):
        lines.append(f"An object that is only staged is found with its branch: {argument(branch + what)}")
    if "*" in what:
        lines.append(f"This command takes no globs; another does: lakegc gone {repository} {argument(bare)}")
    # Nobody knows if it is a folder or a path with a slip in it: the folder above shows both.
    folder = what.lstrip("/").partition("*")[0].rpartition("/")[0]
    beside = argument(f"{branch}{folder}/" if folder else branch)
    return [
        *lines,
        f"A folder is no path. What lies {'there' if what.endswith('/') else 'beside it'}: lakectl fs ls {beside}",
        "Objects that were imported from elsewhere are not found by their paths: lakegc never deletes them.",
    ]


def _absent_lines(found: Json) -> list[str]:
    """That the one object that was asked for is not there; nothing if it is, or if a path was asked for."""
    what = found["what"]
    if len(found["objects"]) != 1 or found["objects"][0]["size"] is not None or what in found["objects"][0]["paths"]:
        return []
    if _keeper_lines(found["objects"][0]):
        said = f"but something refers to it: the object is lost. {see(Symptom.LOST_OBJECTS)}"
    else:
        said = "and nothing refers to it."
    return ["", f"{shown(what)} is not in the namespace, {said}"]


def _object_lines(repository: str, each: Json) -> list[str]:
    keepers, took = _keeper_lines(each), _deletion(each)
    deletion = took if keepers else None
    lines = [shown(", ".join(each["paths"]))] if each["paths"] else []
    lines.append(f"{shown(each['address'])} · {_there(each, deletion, kept=bool(keepers))}")
    events = _event_lines(each, deletion)
    if keepers:
        lines += [*events, *(f"  {'kept' if each['size'] is not None else 'needed'}: {keeper}" for keeper in keepers)]
    else:
        lines += [*_verdict_lines(each), *events] or [f"  {_UNKNOWN}"]
    if took and took["outcome"] == Outcome.DELETED:
        lines.append(f"  {_way_back(repository, each, took['mark_id'])}")
    if each["past"] and not each["holders"]:
        lines.append(f"  {_past_line(each['past'])}")
    elif not each["holders"] and not each["past"]:
        lines.append("  no commit that lakeFS knows shows it: it was never committed, or its commits are gone")
    return lines


def _way_back(repository: str, each: Json, mark_id: str) -> str:
    """How to bring back an object that the sweep of a mark deleted."""
    copy, saved = each["quarantine"], each["backup"]
    if saved and not copy:
        back = undo(repository, saved["mark_id"], saved["place"])
        return f"to bring it back from the backup of that mark: {back} --path {argument(each['address'])}"
    back = f"{undo(repository, copy['mark_id'] if copy else mark_id)} --path {argument(each['address'])}"
    if not copy:
        return f"to bring it back, if a copy is kept: {back}"
    until = f"until {to_the_minute(copy['until'])}" if copy["until"] else "nobody knows until when"
    return f"a copy lies in quarantine, {until}; to bring it back: {back}"


def _there(each: Json, deletion: Json | None, *, kept: bool) -> str:
    """A word on whether the store has an object; of one that is gone and needed, by whom it was deleted."""
    if each["size"] is not None:
        return f"{human_bytes(each['size'])}, written {to_the_minute(each['written'])}"
    if not kept:
        return "not in the store"
    since = " since" if each["restored"] else ""
    by = _sweep_line(deletion) if deletion else f"not in the store, and no sweep on record deleted it{since}"
    return f"gone: {by}. Reads of it fail."


def _deletion(each: Json) -> Json | None:
    """The last sweep that deleted an object which is not there, and not brought back since; else one that missed it."""
    if each["size"] is not None:
        return None
    back = max((restored["at"] for restored in each["restored"]), default="")
    found = [swept for swept in each["swept"] if swept["at"] > back and swept["outcome"] in _GONE]
    return max(found, key=lambda swept: (swept["outcome"] == Outcome.DELETED, swept["at"]), default=None)


def _event_lines(each: Json, deletion: Json | None) -> list[str]:
    """What sweeps and restores did with an object, in order, but for the sweep that is named already; and that it lies
    there now, if a sweep deleted it."""
    events = [(swept["at"], _sweep_line(swept)) for swept in each["swept"] if swept is not deletion]
    events += [(restored["at"], _restore_line(restored)) for restored in each["restored"]]
    lines = [f"  {said}" for _, said in sorted(events, key=lambda event: event[0])]  # of one moment, the sweep first
    if each["size"] is not None and any(swept["outcome"] in _GONE for swept in each["swept"]):
        lines.append("  it lies there now")
    return lines


def _keeper_lines(each: Json) -> list[str]:
    keepers = [_holder_line(holder) for holder in each["holders"][:_HOLDERS]]
    if each["holders_in_all"] > _HOLDERS:
        keepers.append(f"and {each['holders_in_all'] - _HOLDERS:,} more; --json names {len(each['holders'])}")
    keepers += ["it is staged on a branch"] * each["staged"] + ["a hold by path"] * each["held"]
    if each["neighbour"]:
        names = [f"repository:{shown(name)}" for name in each["neighbours"]] or ["another repository"]
        keepers += [f"{name} refers to it" for name in names]
    return keepers


def _holder_line(holder: Json) -> str:
    name = shown(holder["name"])
    if holder["why"] == "shows":
        return f"{name} shows it, for as long as that stands"
    if holder["until"]:
        return f"{name}, by the rule of {counted(holder['days'], 'day')}, until {to_the_minute(holder['until'])}"
    return f"{name}, for as long as that stands"


def _verdict_lines(each: Json) -> list[str]:
    """The mark's verdict on an object that nothing keeps; nothing if it has none."""
    if each["reason"] is None:
        return []
    reasons: dict[str, str] = {
        "unreferenced": "garbage" if each["size"] is not None else "was garbage",
        "young": "unreferenced, and too young to be judged",
        "foreign": "not lakeFS's",
    }
    reason = "unknown" if each["reason"] == "young" and each["kept_by_name"] else each["reason"]
    since = f", unreferenced since {to_the_minute(each['since'])}" if reason == "unreferenced" else ""
    said: str = reasons.get(reason) or BESIDES.get(reason, str(reason))
    return [f"  {said}{since}"]


def _sweep_line(swept: Json) -> str:
    how = _HOW.get(swept["outcome"], swept["outcome"])
    return f"{how} by the sweep of mark {swept['mark_id']}, {to_the_minute(swept['at'])}"


def _restore_line(restored: Json) -> str:
    how = "brought back by" if restored["outcome"] == COPIED else "lay there at"
    return f"{how} the restore of mark {restored['mark_id']}, {to_the_minute(restored['at'])}"


def _past_line(past: Json) -> str:
    last = f"last in commit {past['commit'][:_COMMIT]} of {to_the_minute(past['committed'])}"
    if past["cause"] == "deleted":
        return f"{last}, which no branch has any more; the default rule of {counted(past['days'], 'day')} ran out"
    return (
        f"{last}; replaced or deleted in commit {past['by'][:_COMMIT]} on branch {shown(past['branch'])}, "
        f"{to_the_minute(past['by_committed'])}; its rule of {counted(past['days'], 'day')} ran out"
    )
