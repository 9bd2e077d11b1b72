"""The command `lakegc`: reads arguments, calls the pipeline, prints. It decides nothing.

stdout carries the result, stderr everything else. Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 refused.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakegc_core
from lakegc_core import clock, pipeline
from lakegc_core.config.durations import parse_duration
from lakegc_core.config.settings import RULES_MODES, Settings
from lakegc_core.copies import backup
from lakegc_core.copies.transfer import Limits
from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.marks import layers, retire
from lakegc_core.marks.artifacts import AUTO, CLEAN, INCREMENTAL, new_mark_id
from lakegc_core.marks.catalogue import list_marks, newest_to_sweep
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_mark, open_repository
from lakegc_core.policy import guards
from lakegc_core.policy.safety import KEEP_MARKS
from lakegc_core.stages.swept_report import other_tools as foreign_mark
from lakegc_core.stages.swept_report.authorize import ready_at
from lakegc_core.stages.swept_report.result import SweepResult
from lakegc_core.views import report
from lakegc_core.views.progress import Reporter, ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Json = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    reporter = Reporter(quiet=options.quiet)
    try:
        code: int = options.verb(options, reporter)
        return code
    except LakegcError as error:
        if options.json:
            print(json.dumps({"error": str(error), "kind": type(error).__name__, "exit_code": error.exit_code}))
        sys.stderr.write(f"lakegc: {error}\n")
        return error.exit_code
    except Exception as error:  # a fault of lakegc or of what it stands on: said in a line, the trace on demand
        if os.environ.get("LAKEGC_DEBUG"):
            raise
        first = (str(error).strip().splitlines() or [""])[0][:300]
        if options.json:
            print(json.dumps({"error": first, "kind": type(error).__name__, "exit_code": 1}))
        sys.stderr.write(f"lakegc: {type(error).__name__}: {first}\nLAKEGC_DEBUG=1 shows where. Please report this.\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("lakegc: interrupted. Run the same command again; it goes on where it stopped.\n")
        return 130


def command(arguments: Sequence[str] | None = None) -> int:
    """`main` as the last thing that a process does: it ends without a search for garbage among all that it imported,
    which takes longer than many a command."""
    code = main(arguments)
    gc.freeze()
    return code


def parser() -> argparse.ArgumentParser:
    """The command line. Every option can be given as an environment variable LAKEGC_<NAME> as well."""
    top = argparse.ArgumentParser(
        prog="lakegc",
        description="Garbage collection for lakeFS: finds the objects that nothing refers to, proves it, deletes them.",
        epilog="Every option has an environment variable: --mark-id is LAKEGC_MARK_ID, and so on.",
    )
    top.add_argument("--version", action="version", version=f"lakegc {lakegc_core.__version__}")
    verbs = top.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, does: Callable[[argparse.Namespace, Reporter], int], text: str) -> argparse.ArgumentParser:
        found = verbs.add_parser(name, help=text, description=text)
        found.set_defaults(verb=does)
        option(found, "--config", metavar="FILE", help="lakegc.yaml (default: ./lakegc.yaml if there is one)")
        flag(found, "--json", "print one JSON object on stdout")
        flag(found, "--quiet", "say nothing while working")
        return found

    def with_mark(name: str, does: Callable[[argparse.Namespace, Reporter], int], text: str) -> argparse.ArgumentParser:
        found = verb(name, does, text)
        found.add_argument("repository", metavar="REPO")
        found.add_argument("mark_id", metavar="MARK_ID")
        return found

    marking = verb("mark", _mark, "find the garbage of a repository and judge it; deletes nothing")
    marking.add_argument("repository", metavar="REPO")
    _marking_options(marking)
    reviewing = with_mark("review", _review, "show a mark and judge it again")
    option(reviewing, "--addresses", metavar="FILE", help="write the expired addresses to FILE, one a line")
    option(reviewing, "--html", metavar="FILE", help="write the mark as a page of HTML with pictures to FILE")
    sweeping = with_mark("sweep", _sweep, "delete what a mark found, after another look")
    _sweeping_options(sweeping)
    running = verb("run", _run, "mark, then sweep what may be swept by now")
    running.add_argument("repository", metavar="REPO")
    _marking_options(running)
    _sweeping_options(running)
    listing = verb("marks", _marks, "list the marks of a repository, newest first")
    listing.add_argument("repository", metavar="REPO")
    flag(listing, "--retired", "list those that were retired instead, and what they freed")
    retiring = verb("retire", _retire, "delete the artifacts of old marks that nothing needs; a record of each stays")
    retiring.add_argument("repository", metavar="REPO")
    option(retiring, "--keep", metavar="N", type=int, help=f"newest complete marks to keep (default: {KEEP_MARKS})")
    flag(retiring, "--dry-run", "say what would be retired")
    saving = with_mark("backup", _backup, "copy the objects that a mark would delete away, under their own keys")
    saving.add_argument("destination", metavar="DEST", help="where to: a URI such as s3://bucket/prefix, or a folder")
    _copying_options(saving)
    restoring = with_mark("restore", _restore, "bring the objects of a mark back from their backup")
    restoring.add_argument("source", metavar="SRC", help="where from: the DEST of the backup")
    restoring.add_argument(
        "--path",
        metavar="GLOB",
        action="append",
        default=[],
        help="only objects that commits show at such paths (* stays in a folder, ** crosses them), or such addresses",
    )
    _copying_options(restoring)
    demo = verb("demo", _demo, "run the whole story on an embedded lakeFS")
    option(demo, "--dir", metavar="DIR", help="where the demo's lake lies (default: a new temporary folder)")
    sandbox = verb("sandbox", _sandbox, "serve an embedded lakeFS with a demo history until interrupted")
    option(sandbox, "--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    option(sandbox, "--dir", metavar="DIR", help="where its lake lies (default: a new temporary folder)")
    return top


def option(to: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Add an option whose default comes from its environment variable."""
    variable = "LAKEGC_" + name.removeprefix("--").replace("-", "_").upper()
    if os.environ.get(variable):
        more["default"] = os.environ[variable]
    to.add_argument(name, **more)


def flag(to: argparse._ActionsContainer, name: str, text: str) -> None:
    """Add a switch, which its environment variable turns on with `1`, `yes` or `true`."""
    variable = "LAKEGC_" + name.removeprefix("--").replace("-", "_").upper()
    on = os.environ.get(variable, "").lower() in ("1", "yes", "true")
    to.add_argument(name, action="store_true", default=on, help=text)


def _marking_options(to: argparse.ArgumentParser) -> None:
    option(
        to,
        "--mark-id",
        metavar="ID",
        help="id of the mark (default: the present, UTC); an unfinished one is resumed",
    )
    option(
        to,
        "--min-age",
        metavar="DURATION",
        help="youngest age of what may be collected, e.g. 25h (the default)",
    )
    option(to, "--safety", choices=("full", "standard", "none"), help="safety level (default: full)")
    option(
        to,
        "--rules",
        choices=RULES_MODES,
        help="what a repository without GC rules means",
    )
    variable = os.environ.get("LAKEGC_PROTECT_TAGS", "").lower()
    default = None if not variable else variable in ("1", "yes", "true")
    to.add_argument(
        "--protect-tags",
        action=argparse.BooleanOptionalAction,
        default=default,
        help="keep what tagged commits refer to (default; lakeFS itself does not)",
    )
    mode = to.add_mutually_exclusive_group()
    flag(mode, "--clean", "read everything anew, whatever earlier marks have left")
    flag(mode, "--incremental", "read what changed since the mark before, although a clean one is due")


def _sweeping_options(to: argparse.ArgumentParser) -> None:
    flag(to, "--yes", "do not ask; needed where there is no terminal")
    flag(to, "--dry-run", "do everything but delete")
    to.add_argument("--accept", metavar="GUARD", action="append", default=[], help="sweep although this guard refused")
    option(to, "--because", metavar="REASON", help="why --accept is right; goes into the report")


def _copying_options(to: argparse.ArgumentParser) -> None:
    option(to, "--parallel", metavar="N", type=int, default=8, help="copies at a time in each task (default: 8)")
    option(
        to,
        "--bandwidth",
        metavar="BYTES",
        type=int,
        default=0,
        help="most bytes a second in each task, where bytes pass through it (default: no limit)",
    )


def _settings(options: argparse.Namespace) -> Settings:
    return Settings.load(options.config, os.environ)


def _spark(settings: Settings, *, quick: bool = False) -> SparkSession:
    from lakegc_core.spark.session import session

    return session(settings.spark.master, settings.spark.conf, quick=quick)


def _open(options: argparse.Namespace, reporter: Reporter) -> RepositoryContext:
    settings = _settings(options)
    settings.server.require()
    return open_repository(settings, options.repository, say=reporter.say)


def _begin(options: argparse.Namespace, context: RepositoryContext) -> MarkContext:
    return begin_mark(
        context,
        options.mark_id or new_mark_id(clock.now()),
        min_age=parse_duration(options.min_age) if options.min_age is not None else None,
        safety_level=options.safety,
        rules=options.rules,
        protect_tags=options.protect_tags,
        mode=CLEAN if options.clean else INCREMENTAL if options.incremental else AUTO,
    )


def _print(options: argparse.Namespace, value: Any, screen: str) -> None:
    print(json.dumps(value) if options.json else screen)


def _mark(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _begin(options, _open(options, reporter))
    spark = _spark(context.settings, quick=layers.likely(context))
    with reporter.watch(spark):
        review = pipeline.mark(spark, context)
    _print(options, review.report, report.mark_screen(review.report) + _next_step(context, review))
    return 0


def _next_step(context: MarkContext, review: pipeline.Review, *, reviewed: bool = False) -> str:
    repository, mark_id = context.header.repository, context.header.mark_id
    if not review.authorized and not reviewed:
        return f"\nnext: lakegc review {repository} {mark_id}"
    if not review.authorized:
        stopping = [verdict.name for verdict in review.verdicts if verdict.stops]
        if not all(guards.BY_NAME[name].may_be_accepted for name in stopping):
            return f"\nnext: do what ✗ says, then lakegc mark {repository}"
        accepting = " ".join(f"--accept {name}" for name in stopping)
        return f'\nnext, if that was meant: lakegc sweep {repository} {mark_id} {accepting} --because "…"'
    if not review.report["objects"]["expired"]:
        return "\nnothing to sweep"
    when = ready_at(context)
    if when > clock.now().timestamp():
        return (
            f"\nnext: lakegc sweep {repository} {mark_id}   (after {report.instant(when)[:16].replace('T', ' ')} UTC)"
        )
    return f"\nnext: lakegc sweep {repository} {mark_id}"


def _review(options: argparse.Namespace, reporter: Reporter) -> int:
    context = open_mark(_open(options, reporter), _own_mark(options.mark_id))
    review = pipeline.review(context)
    if options.addresses:
        count = pipeline.write_addresses(context, Path(options.addresses))
        reporter.say(f"{count:,} addresses written to {options.addresses}")
    if options.html:
        Path(options.html).write_text(pipeline.page_of(context, review.report), encoding="utf-8")
        reporter.say(f"the report is in {options.html}")
    screen = f"{report.mark_screen(review.report, every_guard=True)}\n  artifacts   {review.report['artifacts']}"
    _print(options, review.report, screen + "\n" + _next_step(context, review, reviewed=True))
    return 0


def _sweep(options: argparse.Namespace, reporter: Reporter) -> int:
    repository, accepted = _open(options, reporter), _accepted(options)
    only = foreign_mark.find(repository, options.mark_id) if foreign_mark.parse(options.mark_id) else None
    context = _judge_of(options, repository, reporter) if only else open_mark(repository, options.mark_id)
    review = pipeline.review(context)
    _confirm(options, context, review)
    spark = _spark(context.settings)
    with reporter.watch(spark):
        result = pipeline.sweep(spark, context, dry_run=options.dry_run, accepted=accepted, only=only)
    found = report.sweep_report(result)
    _print(options, found, report.sweep_screen(found))
    return _end(result)


def _judge_of(options: argparse.Namespace, repository: RepositoryContext, reporter: Reporter) -> MarkContext:
    """The mark of our own by which another tool's is judged: the newest whole one, else one that is made now."""
    standing = newest_to_sweep(repository)
    if standing is not None:
        reporter.say(f"{options.mark_id} is judged by lakegc's own mark {standing}")
        return open_mark(repository, standing)
    context = begin_mark(repository, new_mark_id(clock.now()))
    reporter.say(f"{options.mark_id} is judged by a mark of lakegc's own, {context.header.mark_id}, which is made now")
    spark = _spark(context.settings)
    with reporter.watch(spark):
        pipeline.mark(spark, context)
    return context


def _run(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _begin(options, _open(options, reporter))
    accepted = _accepted(options)
    if not options.dry_run and not options.yes and not sys.stdin.isatty():
        raise SettingsError("`run` deletes: without a terminal it needs --yes (or --dry-run).")
    spark = _spark(context.settings, quick=layers.likely(context))
    with reporter.watch(spark):
        review = pipeline.mark(spark, context)
    found: Json = {"mark": review.report, "sweep": None}
    screen = report.mark_screen(review.report)
    when = ready_at(context)
    if when > clock.now().timestamp() and review.authorized:
        found["sweep_after"] = report.instant(when)
        _print(options, found, f"{screen}\nnot swept yet: to be confirmed after {found['sweep_after']}")
        return 0
    if not options.json:
        print(screen)
    try:
        _confirm(options, context, review)
        with reporter.watch(spark):
            result = pipeline.sweep(spark, context, dry_run=options.dry_run, accepted=accepted)
    except RefusedError as error:
        if options.json:
            print(json.dumps(found | {"error": str(error), "exit_code": error.exit_code}))
        sys.stderr.write(f"lakegc: {error}\n")
        return error.exit_code
    found["sweep"] = report.sweep_report(result)
    _print(options, found, report.sweep_screen(found["sweep"]))
    return _end(result)


def _backup(options: argparse.Namespace, reporter: Reporter) -> int:
    context = open_mark(_open(options, reporter), _own_mark(options.mark_id))
    spark = _spark(context.settings)
    with reporter.watch(spark):
        result = backup.backup(spark, context, options.destination, _limits(options))
    return _end_copy(options, result)


def _restore(options: argparse.Namespace, reporter: Reporter) -> int:
    context = open_mark(_open(options, reporter), _own_mark(options.mark_id), retired_too=True)
    spark = _spark(context.settings)
    with reporter.watch(spark):
        result = backup.restore(spark, context, options.source, paths=options.path, limits=_limits(options))
    return _end_copy(options, result)


def _limits(options: argparse.Namespace) -> Limits:
    if options.parallel < 1 or options.bandwidth < 0:
        raise SettingsError("--parallel is at least 1, --bandwidth at least 0 (no limit).")
    return Limits(options.parallel, options.bandwidth)


def _end_copy(options: argparse.Namespace, result: backup.CopyResult) -> int:
    found = report.copy_report(result)
    _print(options, found, report.copy_screen(result.verb, found))
    if result.failed:
        sys.stderr.write(f"lakegc: {result.failed:,} objects were not copied. The others are; run it again.\n")
    return 1 if result.failed else 0


def _end(result: SweepResult) -> int:
    """The exit code of a sweep; trouble is said on stderr as well."""
    if result.trouble:
        sys.stderr.write(f"lakegc: {result.trouble}\n")
    return 1 if result.trouble else 0


def _accepted(options: argparse.Namespace) -> dict[str, str]:
    if options.accept and not (options.because or "").strip():
        raise SettingsError('--accept needs --because "…": the reason goes into the report.')
    return guards.check_accepted(dict.fromkeys(options.accept, options.because or ""))


def _confirm(options: argparse.Namespace, context: MarkContext, review: pipeline.Review) -> None:
    if options.dry_run or options.yes:
        return
    if not sys.stdin.isatty():
        raise SettingsError("`sweep` deletes: without a terminal it needs --yes (or --dry-run).")
    expired = review.report["objects"]["expired"]
    size = report.human_bytes(review.report["bytes"]["expired"])
    if not ask(f"Delete up to {expired:,} objects ({size}) of {context.header.storage_namespace}?"):
        raise RefusedError("Not confirmed. Nothing was deleted.")


def _own_mark(mark_id: str) -> str:
    if foreign_mark.parse(mark_id):
        raise SettingsError(
            f"{mark_id} is a list that another tool left: it can only be swept, as far as lakegc's own mark agrees."
        )
    return mark_id


def _marks(options: argparse.Namespace, reporter: Reporter) -> int:
    context = _open(options, reporter)
    if options.retired:
        records = retire.list_retired(context)
        _print(options, records, report.retired_screen(records))
        return 0
    found = list_marks(context)
    lines = [
        f"  {mark['mark_id']:<28} {mark['by']:<8} {mark.get('state', ''):<28} "
        + (
            f"{mark['expired']:>12,} expired {report.human_bytes(mark['expired_bytes']):>10}"
            if "expired" in mark
            else ""
        )
        for mark in found
    ]
    _print(options, found, "\n".join(line.rstrip() for line in lines) or "no marks")
    return 0


def _retire(options: argparse.Namespace, reporter: Reporter) -> int:
    found = report.retirement_report(retire.retire(_open(options, reporter), options.keep, dry_run=options.dry_run))
    _print(options, found, report.retirement_screen(found))
    return 0


def _demo(options: argparse.Namespace, reporter: Reporter) -> int:
    from lakegc_sandbox.demo import demo

    return demo(options.dir, reporter, as_json=options.json)


def _sandbox(options: argparse.Namespace, reporter: Reporter) -> int:
    from lakegc_sandbox.demo import serve

    return serve(options.dir, int(options.port), reporter)


if __name__ == "__main__":
    sys.exit(command())
