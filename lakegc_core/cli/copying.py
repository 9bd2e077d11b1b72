"""The work of `backup` and `restore`, and what they say of a copy: one JSON object, or one screen for people."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from lakegc_core.cli.opening import at_work, opened, own_mark
from lakegc_core.cli.options import show
from lakegc_core.clock import roughly
from lakegc_core.config.which_file import settings_line
from lakegc_core.copies import backup, undo
from lakegc_core.copies.copied import CopyResult
from lakegc_core.copies.transfer import Limits
from lakegc_core.errors import SettingsError
from lakegc_core.marks.backups import ALREADY_THERE, COPIED, backup_place
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark
from lakegc_core.names import Json
from lakegc_core.policy import guards
from lakegc_core.policy.guards import Verdict
from lakegc_core.views.progress import Reporter
from lakegc_core.views.words import human_bytes, shown
from lakegc_core.views.words import undo as undo_command


def run_backup(options: argparse.Namespace, reporter: Reporter) -> int:
    repository = opened(options, reporter)
    options.mark_id = own_mark(repository, options.mark_id)
    context = open_mark(repository, options.mark_id)
    place = _place_of_settings(repository) if options.destination is None else options.destination
    backup.writable_place(context, place)  # before Spark is started
    with at_work(context, reporter, "backup") as spark:
        limits = Limits(options.parallel, options.bandwidth)
        result = backup.backup(spark, context, place, limits)
    return _end_copy(options, result)


def due_backup(
    context: MarkContext, verdicts: Iterable[Verdict], accepted: Mapping[str, str], reporter: Reporter
) -> CopyResult | None:
    """Make the backup that lakegc.yaml requires before a sweep of this mark, where it says where to; None if there is
    none to make, or if the sweep is stopped by more than the want of it."""
    judged = (guards.accept(each, accepted) for each in verdicts)
    stopped_by = {each.name for each in judged if each.stops} - {guards.NEIGHBOURS}  # which the sweep asks anew
    is_due = stopped_by == {guards.BACKUP}
    place = context.policy.backups_of(context.repository.id) if is_due else None
    if place is None:
        return None
    with at_work(context, reporter, "backup") as spark:
        result = backup.backup(spark, context, place)
    _tell_of_trouble(result)
    return result


def _place_of_settings(repository: RepositoryContext) -> str:
    """The place by lakegc.yaml of backups for which nobody names one. SettingsError if it names none."""
    place = repository.policy.backups_of(repository.repository.id)
    if place is None:
        raise SettingsError(
            "DEST is missing: name the place of the backup, such as s3://bucket/prefix, or set `backup_to` for "
            f"{repository.repository.id} in lakegc.yaml ({settings_line(repository.settings.file)})."
        )
    return place


def run_restore(options: argparse.Namespace, reporter: Reporter) -> int:
    repository = opened(options, reporter)
    options.mark_id = own_mark(repository, options.mark_id)
    context = open_mark(repository, options.mark_id, retired_too=True, any_version=True)
    if options.source is None:  # before Spark is started, and before others are kept out
        undo.check_keeps(context)
        undo.check_swept(context)
        if place := backup_place(context):
            how = undo_command(context.header.repository, context.header.mark_id, place)
            context.say(f"restore: this mark has a backup; if not all comes back: {how}")
    else:
        backup.readable_place(context, options.source)
    with at_work(context, reporter, "restore") as spark:
        limits = Limits(options.parallel, options.bandwidth)
        result = backup.restore(spark, context, options.source, paths=options.path, limits=limits)
    return _end_copy(options, result)


def _end_copy(options: argparse.Namespace, result: CopyResult) -> int:
    found = copy_report(result)
    show(options, found, copy_screen(result, found))
    _tell_of_trouble(result)
    return 1 if result.failed else 0


def _tell_of_trouble(result: CopyResult) -> None:
    if result.failed:
        sys.stderr.write(f"lakegc: {result.trouble}\n")


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


def copy_screen(result: CopyResult, report: Json) -> str:
    """The one screen on which a backup or a restore ends."""
    lines = [f"{report['repository']} · mark {report['mark_id']} · {result.verb}, {roughly(report['seconds'])}", ""]
    remarks = {
        "copied": human_bytes(report["bytes"]),
        "already_there": "the same object: left as it was",
        "missing": "gone from the namespace already: no copy was made of them",
        "different": "another object lies there: not overwritten",
        "failed": "run the same command again: what is copied is not copied twice",
    }
    if result.verb == "restore":
        remarks |= {
            "missing": "not in the backup",
            "different": "another object lies there, or its copy has another size than is on record: left as they are",
        }
    if result.is_undo:
        remarks |= {
            "missing": "neither quarantine nor the store keeps them",
            "different": "somebody else wrote or deleted them since, or the copies have another size: left as they are",
            "failed": "run the same command again",
        }
    for outcome, count in report["outcomes"].items():
        if count or outcome == "copied":
            lines.append(f"  {outcome:<18} {count:>14,} objects   {remarks.get(outcome, '')}".rstrip())
    if result.is_undo:
        lines.append(f"  {_back(report)}")
    if result.verb == "restore" and report["outcomes"].get(COPIED):
        lines.append("  what nothing refers to is garbage still: a sweep of a later mark deletes it again")
        lines.append("  to keep it: commit it, or hold it by `holds` in lakegc.yaml")
        lines.append("  `du` and `whatif` need a mark that begins an hour from now or later: clocks may differ")
    failures = report["failures"]
    lines += [f"    {shown(each['address'])}   {shown(each['problem'])}" for each in failures[:10]]
    if len(failures) > 10:
        lines.append("    … and more: see --json")
    lines += ["", f"  {'in' if result.verb == 'backup' or result.is_undo else 'from'} {report['place']}"]
    return "\n".join(lines)


def _back(report: Json) -> str:
    """How many of the objects of a restore are back at their place now, and since when."""
    copied, there = (report["outcomes"].get(each, 0) for each in (COPIED, ALREADY_THERE))
    back, every = copied + there, report["objects"]
    told = f", {there:,} {'was' if there == 1 else 'were'} already there" if there else ""
    if back == every == 1:
        return f"{copied:,} copied{told}: it is back at its place"
    of_all = f"all {every:,} are" if back == every else f"{back:,} of {every:,} {'is' if back == 1 else 'are'}"
    return f"{copied:,} copied{told}: {of_all} back at their place"
