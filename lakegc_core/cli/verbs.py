"""lakegc's own verbs: what each takes, and where its work is. What a verb needs for its work is imported when it runs:
help and wrong usage are answered at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from lakegc_core.cli.options import (
    NO_RULE,
    flag,
    metrics_option,
    name_mark,
    name_repository,
    on_or_off,
    one_or_all,
    option,
    whole,
)
from lakegc_core.cli.verb import Verb
from lakegc_core.config.durations import parse_duration
from lakegc_core.config.sizes import parse_size, parse_time_of_day
from lakegc_core.errors import SettingsError
from lakegc_core.names import RULES_MODES
from lakegc_core.policy.safety import DRILL_OBJECTS, DRILL_OBJECTS_MOST, KEEP_MARKS

if TYPE_CHECKING:
    from lakegc_core.views.progress import Reporter

MOST_NAMED = 100
"""Objects that are there, and objects that are gone, of which `gone` names each."""


def _mark_arguments(to: argparse.ArgumentParser) -> None:
    """find the garbage of a repository and judge it; deletes nothing"""
    name_repository(to)
    _marking_options(to)
    metrics_option(to)


def _review_arguments(to: argparse.ArgumentParser) -> None:
    """show a mark and judge it again"""
    name_mark(to)
    option(to, "--addresses", metavar="FILE", help="write the expired addresses to FILE, one a line; - is stdout")
    flag(to, "--csv", "with --addresses: as CSV with a header, and where each object was last shown")
    option(to, "--html", metavar="FILE", help="write the mark as a page of HTML with pictures to FILE")
    option(to, "--against", metavar="KIND:ID", help="compare with a list of lakeFS's own collector, such as unified:ID")


def _sweep_arguments(to: argparse.ArgumentParser) -> None:
    """delete what a mark found, after another look"""
    name_mark(to)
    _sweeping_options(to)
    flag(to, "--close", "close a sweep that broke off: account for what it deleted, and delete nothing more")
    metrics_option(to)


def _run_arguments(to: argparse.ArgumentParser) -> None:
    """mark, then sweep what may be swept by now"""
    name_repository(to)
    _marking_options(to)
    _sweeping_options(to)
    metrics_option(to)


def _marking_options(to: argparse.ArgumentParser) -> None:
    text = (
        "id of the mark; an unfinished mark of this id is resumed (default: the newest mark is resumed if it is "
        "unfinished, has listed the namespace and began within the last 12 hours; else a new one is named by the time)"
    )
    option(to, "--mark-id", metavar="ID", help=text)
    text = "youngest age of what may be collected, e.g. 48h (default: as lakegc.yaml says, else 25h)"
    option(to, "--min-age", parse_duration, metavar="DURATION", help=text)
    text = "safety level (default: as lakegc.yaml says, else full)"
    option(to, "--safety", choices=("full", "standard", "none"), help=text)
    text = "what a repository without GC rules means (default: as lakegc.yaml says, else required)"
    option(to, "--rules", choices=RULES_MODES, help=text)
    text = "keep what tagged commits refer to; lakeFS itself does not (default: as lakegc.yaml says, else yes)"
    on_or_off(to, "--protect-tags", text)
    mode = to.add_mutually_exclusive_group()
    flag(mode, "--clean", "read everything anew, whatever earlier marks have left")
    flag(mode, "--incremental", "read what changed since the mark before, although a clean one is due")


def _sweeping_options(to: argparse.ArgumentParser) -> None:
    _accepting_options(to, "sweep")
    flag(to, "--dry-run", "do everything but delete; say also what would go past guards that can be accepted")
    text = "delete at most so much, e.g. 2TB; the largest objects first"
    option(to, "--most-bytes", parse_size, metavar="SIZE", help=text)
    option(to, "--most-objects", whole(), metavar="N", help="delete at most so many objects; the largest first")
    text = "delete nothing from this time of day on, UTC"
    option(to, "--until", parse_time_of_day, metavar="HH:MM", help=text)
    text = "send at most so many requests for deletes to the store"
    option(to, "--most-requests", whole(), metavar="N", help=text)


def _accepting_options(to: argparse.ArgumentParser, verb: str) -> None:
    flag(to, "--yes", "do not ask; needed where there is no terminal")
    option(to, "--accept", many=True, metavar="GUARD", help=f"{verb} although this guard refused")
    option(to, "--because", metavar="REASON", help="why --accept is right; goes into the report")


def _marks_arguments(to: argparse.ArgumentParser) -> None:
    """list the marks of a repository, newest first"""
    name_repository(to)
    flag(to, "--retired", "list those that were retired instead, and what they freed")


def _retire_arguments(to: argparse.ArgumentParser) -> None:
    """delete the artifacts of old marks that nothing needs; a record of each stays"""
    name_repository(to)
    text = f"newest complete marks to keep (default: as lakegc.yaml says, else {KEEP_MARKS})"
    option(to, "--keep", whole(0), metavar="N", help=text)
    flag(to, "--dry-run", "say what would be retired")


def _history_arguments(to: argparse.ArgumentParser) -> None:
    """show what the marks and sweeps of one or all repositories found and deleted"""
    one_or_all(to)
    metrics_option(to)


def _report_arguments(to: argparse.ArgumentParser) -> None:
    """show what is garbage and what was freed, of one or all repositories, and write it as a page"""
    one_or_all(to)
    option(to, "--html", metavar="FILE", help="write the report as one page of HTML with pictures to FILE")
    text = "with --html or --json, of one repository: also what each branch and each number of days keeps (du, whatif)"
    flag(to, "--answers", text)


def _by_mark(to: argparse.ArgumentParser, use: str = "answer from") -> None:
    name_repository(to)
    option(to, "--mark-id", metavar="ID", help=f"{use} this complete mark (default: `latest`)")


def _du_arguments(to: argparse.ArgumentParser) -> None:
    """show what each branch, tag and hold keeps, and what would go without it"""
    _by_mark(to)
    text = "count these branches and tags together: branch:GLOB or tag:GLOB, several with commas between them"
    option(to, "--together", _patterns, many=True, metavar="PATTERNS", help=text)


def _whatif_arguments(to: argparse.ArgumentParser) -> None:
    """show what would be garbage with other rules, branches or tags, and what each number of days keeps"""
    _by_mark(to)
    text = f"days of a rule, as `default=14` or `main=30`; `main={NO_RULE}` for no rule of that branch"
    option(to, "--rule", many=True, metavar="NAME=DAYS", help=text)
    text = "as if these were gone: branch:GLOB or tag:GLOB"
    option(to, "--without", _pattern, many=True, metavar="PATTERN", help=text)
    text = "as if tagged commits were kept, or were not"
    to.add_argument("--protect-tags", action=argparse.BooleanOptionalAction, default=None, help=text)


def _patterns(given: str) -> list[str]:
    """Patterns of branches and tags with commas between them."""
    from lakegc_core.answers.question import check_patterns  # here, because it costs time

    found = [each.strip() for each in given.split(",")]
    check_patterns(found)
    return found


def _pattern(given: str) -> str:
    """One pattern of branches or tags."""
    from lakegc_core.answers.question import check_patterns

    check_patterns([given])
    return given


def _glob(given: str) -> str:
    """One glob of paths."""
    if not given:
        raise SettingsError("'' names no path; write a path, or a glob such as tables/**")
    return given


def _gone_arguments(to: argparse.ArgumentParser) -> None:
    """show what became of all objects that ever stood at some paths"""
    _by_mark(to)
    to.add_argument("paths", metavar="GLOB", help="paths: * stays in a folder, ** crosses them")
    text = f"name at most so many objects of each kind, up to 2,000; the others are counted (default: {MOST_NAMED})"
    option(to, "--most", whole(), metavar="N", default=MOST_NAMED, help=text)


def _explain_arguments(to: argparse.ArgumentParser) -> None:
    """show why an object, or each version of a path, is kept or gone"""
    _by_mark(to)
    text = "lakefs://REPO/REF/PATH, a path (all its versions), or the address of an object in the store"
    to.add_argument("what", metavar="WHAT", help=text)


def _verify_arguments(to: argparse.ArgumentParser) -> None:
    """compute the statements of a mark's sweeps again, and name what differs"""
    name_mark(to)


def _backup_arguments(to: argparse.ArgumentParser) -> None:
    """copy away what a mark would delete, under its own keys"""
    name_mark(to)
    text = "where to: a URI such as s3://bucket/prefix, or a folder (default: `backup_to` of lakegc.yaml)"
    to.add_argument("destination", metavar="DEST", nargs="?", help=text)
    _copying_options(to)


def _restore_arguments(to: argparse.ArgumentParser) -> None:
    """bring the objects of a mark back, from their backup, out of quarantine, or from what the store keeps"""
    name_mark(to)
    text = "where from: the DEST of the backup; without it, from quarantine, else from what the store itself keeps"
    to.add_argument("source", metavar="SRC", nargs="?", help=text)
    text = "only objects that commits show at such paths (* stays in a folder, ** crosses them), or such addresses"
    option(to, "--path", _glob, many=True, metavar="GLOB", help=text)
    _copying_options(to)


def _drill_arguments(to: argparse.ArgumentParser) -> None:
    """delete a few objects that a mark would delete, bring them back, and compare: proof that undo works here"""
    _by_mark(to, "drill with")
    _accepting_options(to, "drill")
    text = f"delete and bring back at most so many objects (default: {DRILL_OBJECTS})"
    option(to, "--objects", whole(1, DRILL_OBJECTS_MOST), metavar="N", default=DRILL_OBJECTS, help=text)
    text = "choose objects of at most so much in all, e.g. 5GB: each is read before and after (default: 1 GiB)"
    option(to, "--read-most", parse_size, metavar="SIZE", help=text)


def _copying_options(to: argparse.ArgumentParser) -> None:
    option(to, "--parallel", whole(), metavar="N", default=8, help="copies at a time in each task (default: 8)")
    text = "most bytes a second in each task, where bytes pass through it (default: 0, no limit)"
    option(to, "--bandwidth", whole(0), metavar="BYTES", default=0, help=text)


def _doctor_arguments(to: argparse.ArgumentParser) -> None:
    """look whether a repository can be marked and swept, and what endangers it; deletes nothing of yours"""
    to.add_argument(
        "repository",
        metavar="REPO",
        nargs="?",
        help="without it: the server, lakegc.yaml, and the rules and namespaces of all",
    )


def _try_arguments(to: argparse.ArgumentParser) -> None:
    """make a throw-away repository in your lakeFS, mark, sweep and restore it without waiting, and remove it again"""
    text = "a place in lakeFS's store that belongs to no repository, such as s3://bucket/prefix/; the trial makes a "
    text += "folder of its own below it"
    to.add_argument("place", metavar="PLACE", nargs="?", help=text)
    text = "remove what a trial left that broke off: PLACE is the folder that it named; nothing else is ever removed"
    option(to, "--remove", metavar="PLACE", help=text)


def _schema_arguments(to: argparse.ArgumentParser) -> None:
    """print the JSON Schema of lakegc.yaml, for editors"""


def _verb(module: str, add_arguments: Callable[[argparse.ArgumentParser], None]) -> Verb:
    """The verb of a function `_<name>_arguments`, whose docstring is its text. Its work is `run_<name>` of a module of
    this room."""
    name = add_arguments.__name__.removeprefix("_").removesuffix("_arguments")

    def run(options: argparse.Namespace, reporter: Reporter) -> int:
        code: int = getattr(import_module(f"lakegc_core.cli.{module}"), f"run_{name}")(options, reporter)
        return code

    return Verb(name, add_arguments.__doc__ or "", add_arguments, run)


VERBS = (
    _verb("marking", _mark_arguments),
    _verb("marking", _review_arguments),
    _verb("marking", _sweep_arguments),
    _verb("marking", _run_arguments),
    _verb("history", _marks_arguments),
    _verb("history", _history_arguments),
    _verb("history", _retire_arguments),
    _verb("report", _report_arguments),
    _verb("answers", _explain_arguments),
    _verb("answers", _du_arguments),
    _verb("answers", _whatif_arguments),
    _verb("accounts", _gone_arguments),
    _verb("accounts", _verify_arguments),
    _verb("copying", _backup_arguments),
    _verb("copying", _restore_arguments),
    _verb("drill", _drill_arguments),
    _verb("doctor", _doctor_arguments),
    _verb("trial", _try_arguments),
    _verb("schema", _schema_arguments),
)
"""In the order of `lakegc --help`."""
