"""From arguments to an exit code: the parser of all verbs, and what becomes of errors."""

from __future__ import annotations

import argparse
import difflib
import gc
import io
import json
import os
import re
import select
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import lakegc_core
from lakegc_core import clock, spark
from lakegc_core.cli.options import flag, misspelt_variables, option, repository_name
from lakegc_core.cli.verb import Verb, from_elsewhere
from lakegc_core.cli.verbs import VERBS
from lakegc_core.errors import LakegcError, SettingsError, did_you_mean
from lakegc_core.marks.ids import LATEST
from lakegc_core.spark.traces import advice, cause

BROKEN_PIPE, INTERRUPTED = 141, 130
"""Exit codes where stdout was closed early, and after Ctrl-C: those that shells give commands that SIGPIPE or SIGINT
ended."""

_FAILING = ("strict", "surrogateescape")  # ways to deal with what an encoding lacks; the second is that of locale C
_TEXTS = ("repository", "mark_id", "what", "destination", "source", "place", "remove", "because")
"""Arguments that go to lakeFS, to stores or into records. Names of files may be any bytes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started this process
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in _FAILING:
        sys.stdout.reconfigure(errors="replace")  # what a terminal's encoding lacks is shown as ?
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else list(arguments))
        except KeyboardInterrupt:  # before the verb began
            sys.stderr.write("lakegc: interrupted.\n")
            return INTERRUPTED
        finally:
            sys.stdout.flush()  # here, because Python itself would complain of a closed stdout at its exit
    except OSError as error:
        is_closed = isinstance(error, BrokenPipeError) and _stdout_is_closed()
        if not is_closed and (isinstance(error, BrokenPipeError) or os.environ.get("LAKEGC_DEBUG")):
            raise
        if not is_closed:
            sys.stderr.write(f"lakegc: the output cannot be written: {error}\n")
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return BROKEN_PIPE if is_closed else 1


def _stdout_is_closed() -> bool:
    """True if nobody reads stdout any more. Other pipes break too, and that is no reason to be quiet."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # no poll on this system, or stdout is no file
        return False
    return any(found & (select.POLLERR | select.POLLHUP) for _, found in poll.poll(0))


def _run(given: list[str]) -> int:
    """Run one command, and turn its errors into messages and exit codes."""
    own = bool(given) and given[0] in {verb.name for verb in VERBS}
    # No other package takes part in a verb of lakegc's own: it costs no time there, and breaks nothing.
    verbs = VERBS if own else (*VERBS, *from_elsewhere())
    top, names = parser(verbs), [verb.name for verb in verbs]
    if given and not given[0].startswith("-") and given[0] not in names:
        meant = did_you_mean(given[0], names) or f"The verbs are {', '.join(names)}."
        top.error(f"there is no verb {given[0]!r}. {meant} `lakegc --help` says what each does.")
    if verb := _verb_behind_options(given, names):
        top.error(f"options stand behind the verb: lakegc {verb} … {given[0]}")
    options, unknown = top.parse_known_args(given)
    if unknown:
        options.usage.error(f"unrecognized arguments: {' '.join(unknown)}{_options_meant(options.usage, unknown)}")
    for warning in misspelt_variables(os.environ):
        sys.stderr.write(f"lakegc: {warning}\n")
    # These cost time, which help and wrong usage need not spend.
    from lakegc_core.views.progress import Reporter
    from lakegc_core.views.words import shown

    reporter = Reporter(quiet=options.quiet)
    try:
        clock.now()  # which a variable may replace: a wrong one is said at once
        _check_texts(options)
        if getattr(options, "repository", None) is not None:
            options.repository = repository_name(options.repository)
        code: int = options.verb(options, reporter)
        return code
    except LakegcError as error:
        lines = (shown(line) for line in str(error).split("\n"))
        sys.stderr.write("lakegc: " + "\n".join(lines) + "\n")
        if options.json:
            print(json.dumps({"error": str(error), "kind": type(error).__name__, "exit_code": error.exit_code}))
        return error.exit_code
    except Exception as error:  # a fault of lakegc or of what it stands on: said in a line, the trace on demand
        if os.environ.get("LAKEGC_DEBUG") or (isinstance(error, BrokenPipeError) and _stdout_is_closed()):
            raise
        if _came_of_interrupt(error):
            return _interrupted(given, options)
        first = (cause(error) or (str(error).strip().splitlines() or [""])[0])[:300]
        known = advice(error)
        sys.stderr.write(
            f"lakegc: {type(error).__name__}: {shown(first)}\n"
            + (
                f"{known}\nLAKEGC_DEBUG=1 shows where.\n"
                if known
                else "LAKEGC_DEBUG=1 shows where. Please report this.\n"
            )
        )
        if options.json:
            print(json.dumps({"error": first, "kind": type(error).__name__, "exit_code": 1}))
        return 1
    except KeyboardInterrupt:
        return _interrupted(given, options)


def _check_texts(options: argparse.Namespace) -> None:
    """SettingsError for an argument that holds bytes which are no text."""
    for given in (getattr(options, name, None) for name in _TEXTS):
        if given and any("\ud800" <= letter <= "\udfff" for letter in given):
            raise SettingsError(f"{given!r} is not UTF-8: write it in UTF-8.")


def _verb_behind_options(given: Sequence[str], names: Sequence[str]) -> str | None:
    """The verb before which an option stands that only verbs have; None if none does."""
    if not given or not given[0].startswith("-") or given[0] in ("-h", "--help", "--version"):
        return None
    return next((each for each in given if each in names), None)


def _came_of_interrupt(error: BaseException | None) -> bool:
    """True for an error that came while Ctrl-C ended the command: Spark's jobs and connections end with it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupted(given: Sequence[str], options: argparse.Namespace) -> int:
    is_of_repository = getattr(options, "repository", None)
    how = f" To go on where it stopped: {_again(given, options)}" if is_of_repository else ""
    sys.stderr.write(f"lakegc: interrupted.{how}\n")
    return INTERRUPTED


def _again(given: Sequence[str], options: argparse.Namespace) -> str:
    """The command that goes on with an interrupted one: with the id of its mark, which a new run would not have."""
    mark_id = getattr(options, "mark_id", None)
    if mark_id and LATEST in given[2:]:  # behind the verb and the repository; another mark may be the newest by then
        at = given.index(LATEST, 2)
        given = [*given[:at], mark_id, *given[at + 1 :]]
    named = not mark_id or mark_id in given or os.environ.get("LAKEGC_MARK_ID")
    return shlex.join(["lakegc", *given, *(() if named else ("--mark-id", mark_id))])


def command(arguments: Sequence[str] | None = None) -> int:
    """`main` as the last thing that a process does: it ends without a search for garbage among all that it imported,
    which takes longer than many a command."""
    spark.free_memory_at_once()
    code = main(arguments)
    gc.freeze()
    return code


def _options_meant(usage: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """A question that names the options of a verb which are like those that it does not know."""
    known = [name.removeprefix("--") for name in usage._option_string_actions if name.startswith("--")]
    given = [each.removeprefix("--").partition("=")[0] for each in unknown if each.startswith("--")]
    near = [name for each in given for name in difflib.get_close_matches(each, known, n=1)]
    return f". Did you mean --{' and --'.join(dict.fromkeys(near))}?" if near else ""


class _Parser(argparse.ArgumentParser):
    """Says what an argument that is missing may be. What begins with a minus and a digit is a value of the option
    before it, and not an option: the option says what is wrong with it."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # as Python 3.14 has it

    def error(self, message: str) -> NoReturn:
        _, missing, names = message.partition("arguments are required: ")
        for each in self._get_positional_actions():
            if missing and each.help and each.metavar in names.split(", "):
                message += f". {each.metavar}: {each.help}"
        super().error(message)


def parser(of: Sequence[Verb]) -> argparse.ArgumentParser:
    """The command line of some verbs. Most options can be given as an environment variable LAKEGC_<NAME> as well: the
    epilog says which."""
    top = _Parser(
        prog="lakegc",
        description="Garbage collection for lakeFS: finds the objects that nothing refers to, proves it, deletes them.",
        epilog="Options of a verb have environment variables: --mark-id is LAKEGC_MARK_ID, and so on. Options that can "
        "be given several times have none, nor has --protect-tags of whatif.",
    )
    top.add_argument("--version", action="version", version=f"lakegc {lakegc_core.__version__}")
    verbs = top.add_subparsers(required=True, metavar="VERB")
    for verb in of:
        found = verbs.add_parser(verb.name, help=verb.text, description=verb.text)
        found.set_defaults(verb=verb.run, usage=found)
        option(found, "--config", metavar="FILE", help="lakegc.yaml (default: ./lakegc.yaml if there is one)")
        flag(found, "--json", "print one JSON object on stdout")
        flag(found, "--quiet", "say nothing while working")
        verb.add_arguments(found)
    return top
