"""The work of `mark`, `review`, `sweep` and `run`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import IO, TYPE_CHECKING

from lakegc_core import clock, pipeline
from lakegc_core.cli.against import review_against
from lakegc_core.cli.budget import EXIT_CODE, budget_given, budget_of
from lakegc_core.cli.copying import copy_report, copy_screen, due_backup
from lakegc_core.cli.metrics import metered, metrics_file
from lakegc_core.cli.opening import at_work, named_mark, opened, opened_to_judge, own_mark
from lakegc_core.cli.options import STDOUT, addresses_file, page_file, show, write_page, writing
from lakegc_core.cli.question import question
from lakegc_core.errors import CorruptFileError, IncompleteError, MarkError, RefusedError, SettingsError
from lakegc_core.marks import layers
from lakegc_core.marks.artifacts import AUTO, CLEAN, INCREMENTAL
from lakegc_core.marks.catalogue import newest_to_sweep
from lakegc_core.marks.context import MarkContext, RepositoryContext, begin_mark, open_mark
from lakegc_core.marks.ids import new_mark_id
from lakegc_core.marks.ledger import brought_back
from lakegc_core.marks.previous import unfinished_mark
from lakegc_core.marks.sweeps import finished_sweeps, is_open, left_nothing, without_drills
from lakegc_core.names import FAILED, Json, Outcome, Stage
from lakegc_core.policy import guards
from lakegc_core.store.base import connect
from lakegc_core.sweep.authorize import ready_at, refusal
from lakegc_core.sweep.other_tools import find_other_mark, parse_other_mark
from lakegc_core.sweep.result import SweepResult
from lakegc_core.sweep.what_counts import check_level
from lakegc_core.views import report, screen
from lakegc_core.views.progress import Reporter, ask
from lakegc_core.views.words import came_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _marked(
    options: argparse.Namespace, repository: RepositoryContext, reporter: Reporter
) -> tuple[MarkContext, pipeline.Review]:
    """Make the mark that is asked for. If none is named, go on with an unfinished one: another one would make
    everything wait anew. If that cannot be, begin another one, so that no mark stands in the way."""
    wanted = options.mark_id
    if not wanted and (unfinished := unfinished_mark(repository)):
        repository.say(
            f"Mark {unfinished} has not come to its end. It is resumed, if that can be. --mark-id begins another one."
        )
        try:
            return _mark_of(options, repository, unfinished, reporter)
        except (MarkError, CorruptFileError, IncompleteError) as error:
            repository.say(f"Mark {unfinished} cannot be resumed, and another one is begun. {error}")
    return _mark_of(options, repository, wanted or new_mark_id(clock.now()), reporter)


def _mode(options: argparse.Namespace) -> str:
    """How the mark is to be made. SettingsError for two ways at once: one comes from the environment then."""
    if options.clean and options.incremental:
        raise SettingsError(
            "Both --clean and --incremental are given, one of them by LAKEGC_CLEAN or LAKEGC_INCREMENTAL. Unset the "
            "variable."
        )
    return CLEAN if options.clean else INCREMENTAL if options.incremental else AUTO


def _mark_of(
    options: argparse.Namespace, repository: RepositoryContext, mark_id: str, reporter: Reporter
) -> tuple[MarkContext, pipeline.Review]:
    options.mark_id = mark_id  # whoever interrupts it is told the id
    context = begin_mark(
        repository,
        mark_id,
        min_age=options.min_age,
        safety_level=options.safety,
        rules=options.rules,
        protect_tags=options.protect_tags,
        mode=_mode(options),
    )
    pipeline.check_beforehand(context)  # before Spark is started
    if context.mark.manifest(Stage.EXPIRED_ADDRESSES) is not None:
        repository.say(f"Mark {mark_id} is complete already, and is shown as it stands. Another id makes a new mark.")
    with at_work(context, reporter, "mark", quick=layers.will_be_little(context)) as spark:
        return context, pipeline.mark(spark, context)


def run_mark(options: argparse.Namespace, reporter: Reporter) -> int:
    metrics_file(options)
    repository = opened_to_judge(options, reporter)
    with metered(options, repository) as told:
        context, review = _marked(options, repository, reporter)
        told.append(review.report)
        show(options, review.report, screen.mark_screen(review.report) + _next_step(context, review))
    return 0


def _next_step(context: MarkContext, review: pipeline.Review, *, reviewed: bool = False) -> str:
    repository, mark_id = context.header.repository, context.header.mark_id
    if swept := _swept(context):
        return swept
    if not review.authorized and not reviewed:
        return f"\nnext: lakegc review {repository} {mark_id}"
    if not review.authorized:
        stopping = [verdict.name for verdict in review.verdicts if verdict.stops]
        if not all(guards.BY_NAME[name].may_be_accepted for name in stopping):
            return f"\nnext: do what ✗ says, then lakegc mark {repository}"
        anew = f"   (it asks anew what `{guards.NEIGHBOURS}` asked)" if guards.NEIGHBOURS in stopping else ""
        accepting = " ".join(f"--accept {name}" for name in stopping if name != guards.NEIGHBOURS)
        if not accepting:
            return f"\nnext: lakegc sweep {repository} {mark_id}{anew}"
        return f'\nnext, if that was meant: lakegc sweep {repository} {mark_id} {accepting} --because "…"{anew}'
    if said := screen.all_young(review.report):
        return said
    if not review.report["objects"]["expired"]:
        return "\nnothing to sweep"
    when = ready_at(context)
    if when > clock.now().timestamp():
        return f"\nnext: lakegc sweep {repository} {mark_id}   (after {clock.from_minute(when)})"
    return f"\nnext: lakegc sweep {repository} {mark_id}"


def _swept(context: MarkContext) -> str:
    """The results of the sweeps of a mark, and what is still to be done; empty for a mark that nobody has swept."""
    over, broke_off = _sweeps(context)
    lines = screen.swept_lines(over)
    again = f"lakegc sweep {context.header.repository} {context.header.mark_id}"
    if broke_off:
        lines.append(
            f"next: {again}   (a sweep is not over: if it broke off, this goes on with it, and --close ends it)"
        )
    elif over and any(count and outcome.startswith(FAILED) for outcome, count in over[-1]["outcomes"].items()):
        lines.append(f"next: {again}   (deletes failed: this tries them again)")
    elif over and over[-1]["outcomes"].get(Outcome.OVER_BUDGET):
        lines.append(f"next: {again}   (its budget was spent: this deletes more)")
    return "".join(f"\n{line}" for line in lines)


def _sweeps(context: MarkContext) -> tuple[list[Json], bool]:
    """The reports of the sweeps of a mark that are over, and whether one broke off; those of drills do not count."""
    over, begun = finished_sweeps(context), without_drills(connect(context.workspace), context.mark.folder)
    return over, len(over) < len(begun)


def _nothing_left(context: MarkContext) -> list[Json]:
    """The reports of the sweeps of a mark, if they are over and the last one left nothing: all that the mark found is
    gone, and no other sweep of it has anything to delete. Else nothing."""
    over, broke_off = _sweeps(context)
    return over if over and not broke_off and left_nothing(over[-1]) else []


def run_review(options: argparse.Namespace, reporter: Reporter) -> int:
    on_stdout = options.addresses == STDOUT
    if options.csv and not options.addresses:
        raise SettingsError("--csv says how --addresses are written. Give --addresses FILE too; - is stdout.")
    if on_stdout and options.json:
        raise SettingsError("`--addresses -` and --json both write to stdout. Name a file for the addresses.")
    if options.against:
        return review_against(options, reporter)
    file, lines = page_file(options), addresses_file(options)
    repository = opened(options, reporter)
    context = open_mark(repository, own_mark(repository, options.mark_id))
    review = pipeline.review(context)
    if lines:
        with writing("--addresses", lines) as out:
            count = _write_addresses(options, context, out, reporter)
        reporter.say(f"{count:,} addresses written to {lines.absolute()}")
    if file:
        write_page(file, pipeline.page_of(context, review.report), reporter)
    if on_stdout:
        _write_addresses(options, context, sys.stdout.buffer, reporter)
        return 0
    shown = f"{screen.mark_screen(review.report, every_guard=True)}\n  artifacts   {review.report['artifacts']}"
    show(options, review.report, shown + "\n" + _next_step(context, review, reviewed=True))
    return 0


def _write_addresses(options: argparse.Namespace, context: MarkContext, out: IO[bytes], reporter: Reporter) -> int:
    if not options.csv:
        return pipeline.write_addresses(context, out)
    with at_work(context, reporter, "review", quick=True) as spark:
        return pipeline.write_csv(spark, context, out)


def run_sweep(options: argparse.Namespace, reporter: Reporter) -> int:
    metrics_file(options)
    given = budget_given(options)
    accepted = accepted_by(options)
    if options.close and options.dry_run:
        raise SettingsError("--close accounts for a sweep for good, and --dry-run changes nothing: give one of both.")
    if parse_other_mark(options.mark_id) and not options.close:
        _check_terminal(options, "sweep")  # before a mark is made for it
    repository = opened_to_judge(options, reporter)
    budget = budget_of(repository, given)
    options.mark_id = named_mark(repository, options.mark_id)  # an interrupted command names it
    if options.close:
        own = own_mark(repository, options.mark_id)
        return _close(options, open_mark(repository, own, any_version=True), reporter)
    only = find_other_mark(repository, options.mark_id) if parse_other_mark(options.mark_id) else None
    context = _judge_of(options, repository, reporter) if only else open_mark(repository, options.mark_id)
    check_level(context)  # before anybody is asked
    with metered(options, context) as told:
        review = pipeline.review(context)
        told.append(review.report)
        is_asked = not (options.dry_run or options.yes or only)
        if is_asked and (over := _nothing_left(context)):
            return _show_nothing_left(options, context, over)
        _confirm(options, context, review, accepted)
        with at_work(context, reporter, Stage.SWEPT_REPORT, quick=layers.is_little(context.mark)) as spark:
            result = pipeline.sweep(
                spark, context, dry_run=options.dry_run, accepted=accepted, only=only, budget=budget
            )
        return _show_sweep(options, result, told, screen.all_young(review.report))


def _show_nothing_left(options: argparse.Namespace, context: MarkContext, over: list[Json]) -> int:
    name, mark_id = context.header.repository, context.header.mark_id
    back = brought_back(context.mark)
    left = f"nothing is left to sweep of mark {mark_id}"
    if back.objects:
        left += f" but {came_back(back.objects, back.bytes)}"
    found = {"repository": name, "mark_id": mark_id, "swept": over, "brought_back": asdict(back)}
    show(options, found, "\n".join([*screen.swept_lines(over), left, f"next: lakegc mark {name}"]))
    return 0


def _close(options: argparse.Namespace, context: MarkContext, reporter: Reporter) -> int:
    with metered(options, context) as told:
        with at_work(context, reporter, Stage.SWEPT_REPORT) as spark:
            result = pipeline.close(spark, context)
        return _show_sweep(options, result, told)


def _show_sweep(options: argparse.Namespace, result: SweepResult, told: list[Json], more: str = "") -> int:
    found = report.sweep_report(result)
    told.append(found)
    show(options, found, screen.sweep_screen(found) + more)
    return _end(result)


def _judge_of(options: argparse.Namespace, repository: RepositoryContext, reporter: Reporter) -> MarkContext:
    """The mark of our own by which another tool's is judged: the newest whole one, else one that is made now."""
    standing = newest_to_sweep(repository)
    if standing is not None:
        reporter.say(f"{options.mark_id} is judged by lakegc's own mark {standing}")
        return open_mark(repository, standing)
    context = begin_mark(repository, new_mark_id(clock.now()))
    reporter.say(f"{options.mark_id} is judged by a mark of lakegc's own, {context.header.mark_id}, which is made now")
    with at_work(context, reporter, "mark") as spark:
        pipeline.mark(spark, context)
    return context


def run_run(options: argparse.Namespace, reporter: Reporter) -> int:
    metrics_file(options)
    given, accepted = budget_given(options), accepted_by(options)
    _check_terminal(options, "run")
    repository = opened_to_judge(options, reporter)
    budget = budget_of(repository, given)  # `until` is counted from here
    with metered(options, repository) as told:
        context, review = _marked(options, repository, reporter)
        told.append(review.report)
        sweep = partial(pipeline.sweep, dry_run=options.dry_run, accepted=accepted, budget=budget)
        return _sweep_marked(options, context, review, reporter, sweep, told, accepted)


def _sweep_marked(
    options: argparse.Namespace,
    context: MarkContext,
    review: pipeline.Review,
    reporter: Reporter,
    sweep: Callable[[SparkSession, MarkContext], SweepResult],
    told: list[Json],
    accepted: Mapping[str, str],
) -> int:
    """The second half of `run`: the sweep of the mark that was just made, if it may be swept by now; before it the
    backup that it needs."""
    saved = None if options.dry_run else due_backup(context, review.verdicts, accepted, reporter)
    found: Json = {"mark": review.report, "backup": None, "sweep": None}
    marked = screen.mark_screen(review.report)
    if saved:
        review = pipeline.review(context)
        told[:] = [review.report]
        found |= {"mark": review.report, "backup": copy_report(saved)}
        marked = f"{screen.mark_screen(review.report)}\n\n{copy_screen(saved, found['backup'])}\n"
    code = int(bool(saved and saved.failed))
    when, garbage = ready_at(context), review.report["objects"]["expired"]
    if review.authorized and (when > clock.now().timestamp() or not garbage):
        found["sweep_after"] = clock.instant(when)
        said = f"not swept yet: to be confirmed after {clock.from_minute(when)}" if garbage else "nothing to sweep"
        show(options, found, f"{marked}\n{(not garbage and screen.all_young(review.report).strip()) or said}")
        return code
    if not options.json:
        print(marked)
    try:
        _confirm(options, context, review, accepted)
        with at_work(context, reporter, Stage.SWEPT_REPORT) as spark:  # the one of the mark
            result = sweep(spark, context)
    except RefusedError as error:
        sys.stderr.write(f"lakegc: {error}\n")
        if options.json:
            print(json.dumps(found | {"error": str(error), "exit_code": error.exit_code}))
        return error.exit_code
    found["sweep"] = report.sweep_report(result)
    told.append(found["sweep"])
    show(options, found, screen.sweep_screen(found["sweep"]))
    return _end(result) or code


def _end(result: SweepResult) -> int:
    """The exit code of a sweep; trouble is said on stderr as well, and what would refuse a sweep that was tried."""
    for said, code in ((result.trouble, 1), (result.refusal, RefusedError.exit_code)):
        if said:
            sys.stderr.write(f"lakegc: {said}\n")
            return code
    return EXIT_CODE if result.over_budget and not result.dry_run else 0


def accepted_by(options: argparse.Namespace) -> dict[str, str]:
    """The reason that the options give for guards that they accept. SettingsError for one without the other."""
    because = (options.because or "").strip()
    if bool(options.accept) != bool(because):
        raise SettingsError('--accept GUARD and --because "…" go together: the report says what was accepted, and why.')
    return guards.check_accepted(dict.fromkeys(options.accept, because))


def _check_terminal(options: argparse.Namespace, verb: str) -> None:
    """SettingsError if somebody is to be asked, and there is no terminal to ask on."""
    if not (options.dry_run or options.yes or sys.stdin.isatty()):
        raise SettingsError(f"`{verb}` deletes: without a terminal it needs --yes (or --dry-run).")


def _confirm(
    options: argparse.Namespace, context: MarkContext, review: pipeline.Review, accepted: Mapping[str, str]
) -> None:
    """Ask before a sweep, if somebody is to be asked. RefusedError if that one says no, or if a guard stops the sweep
    for certain: then nobody is asked."""
    if options.dry_run or options.yes:
        return
    _check_terminal(options, "sweep")
    verdicts = [guards.accept(each, accepted) for each in review.verdicts if each.name != guards.NEIGHBOURS]
    if not guards.authorized(verdicts):
        raise RefusedError(refusal(context, verdicts, begun=is_open(connect(context.workspace), context.mark.folder)))
    if not review.report["objects"]["expired"]:
        return  # nothing goes
    if not ask(question(context, review.report)):
        raise RefusedError("Not confirmed. Nothing was deleted.")
