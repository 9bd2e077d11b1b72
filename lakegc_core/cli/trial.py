"""The work of `try`: a trial of lakegc on the user's own lakeFS and store, told while it happens."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from lakegc_core.cli.copying import copy_report
from lakegc_core.cli.doctor import doctor_screen
from lakegc_core.cli.opening import settings_of, spark_of
from lakegc_core.cli.options import show
from lakegc_core.clock import duration
from lakegc_core.doctor.finding import Diagnosis
from lakegc_core.errors import RefusedError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.names import Json, counted
from lakegc_core.policy.safety import DEFAULT_MIN_AGE, FULL
from lakegc_core.trial.grounds import Grounds
from lakegc_core.trial.history import RULE
from lakegc_core.trial.trial import Trial
from lakegc_core.trial.writer import LakeFSWriter
from lakegc_core.views.progress import Reporter
from lakegc_core.views.report import sweep_report
from lakegc_core.views.screen import mark_screen, sweep_screen
from lakegc_core.views.words import comes_back, human_bytes, undo

INTERRUPTED = 130


def run_try(options: argparse.Namespace, reporter: Reporter) -> int:
    if bool(options.place) == bool(options.remove):
        raise SettingsError("Name the place of a trial, such as s3://bucket/prefix/; or what to --remove, not both.")
    settings = settings_of(options)
    if options.remove:
        grounds = Grounds.at(options.remove, settings)
        count = grounds.remove(LakeFSClient(settings.server), LakeFSWriter(settings.server, grounds.name))
        show(options, {"removed": grounds.uri, "objects": count}, f"{grounds.uri} · {counted(count, 'object')} removed")
        return 0
    trial = Trial.below(options.place, settings, reporter.say)
    try:
        return _tried(trial, options, reporter)
    except KeyboardInterrupt:  # said here, because the same command would begin another trial
        sys.stderr.write("lakegc: interrupted.\n")
        return INTERRUPTED
    finally:
        if trial.is_left:
            sys.stderr.write(f"lakegc: what the trial made is left. This removes it: {trial.grounds.removal}\n")


Tell = Callable[[str], None]


def _tried(trial: Trial, options: argparse.Namespace, reporter: Reporter) -> int:
    """The trial, chapter by chapter."""
    tell: Tell = partial(print, file=sys.stderr if options.json else sys.stdout, flush=True)
    diagnosis = _made(trial, tell)
    found: Json = {"repository": trial.grounds.name, "place": trial.grounds.uri, "doctor": diagnosis.as_json()}
    found |= _collected(trial, tell, reporter)
    if options.json:
        show(options, found, "")
    return RefusedError.exit_code if diagnosis.is_alarming else 0


def _made(trial: Trial, tell: Tell) -> Diagnosis:
    """The repository is made, and the doctor asked."""
    trial.check()
    tell(f"1. A throw-away repository in {trial.grounds.uri}/")
    tell(f"   (if this breaks off: {trial.grounds.removal})")
    trial.make()
    made = trial.history
    tell(f"   {counted(made.commits, 'commit')}, a tag, a deleted branch, staged objects; rule: {RULE} days")
    tell(f"   {len(made.live):,} paths are live, and all read; {len(made.garbage):,} objects are garbage")
    tell("\n2. What this key and this store can do, and cannot: lakegc doctor\n")
    diagnosis = trial.examine()
    tell(doctor_screen(diagnosis))
    return diagnosis


def _collected(trial: Trial, tell: Tell, reporter: Reporter) -> Json:
    """The repository is marked, swept, restored and removed."""
    live, garbage = len(trial.history.live), counted(len(trial.history.garbage), "object")
    waits = f"elsewhere an object waits for {duration(DEFAULT_MIN_AGE)}, and a sweep for {duration(FULL.gap)} more"
    tell(f"\n3. lakegc mark, without waiting, for this repository alone ({waits})\n")
    context, spark = trial.begin_mark(), spark_of(trial.settings, quick=True)
    with reporter.watch(spark, "mark"):
        review = trial.mark(spark, context)
    tell(mark_screen(review.report, every_guard=True).rstrip())
    tell("\n4. lakegc backup, then lakegc sweep\n")
    with reporter.watch(spark, "sweep"):
        saved = trial.back_up(spark, context)
        swept = sweep_report(trial.sweep(spark, context))
    tell(f"  {garbage} ({human_bytes(saved.bytes)}) copied to {saved.place}\n")
    tell(sweep_screen(swept))
    tell(f"\n   all {live:,} live paths still read as they were written; old commits answer 410 Gone")
    tell("\n5. lakegc restore")
    with reporter.watch(spark, "restore"):
        restored = trial.restore(spark, context)
    tell(f"   {garbage} brought back; the old commits read again")
    probe = trial.probe(context)
    removed = trial.remove()
    tell(f"\n6. Removed: the repository, and {counted(removed, 'object')} below {trial.grounds.uri}/")
    how = undo("REPO", "MARK")
    tell(f"   {comes_back(probe.versioning, probe.soft_delete, how, undeletes=probe.undeletes)}")
    copies = {"backup": copy_report(saved), "restore": copy_report(restored)}
    return {"mark": review.report, "sweep": swept, **copies, "paths_read": live, "removed": removed}
