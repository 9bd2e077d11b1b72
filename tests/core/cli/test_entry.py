"""What the command says when it ends otherwise than it should."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakegc_core
from lakegc_core.cli import main, marking, options
from lakegc_core.cli.entry import INTERRUPTED, parser
from lakegc_core.cli.options import misspelt_variables
from lakegc_core.cli.verbs import VERBS
from lakegc_core.marks.context import RepositoryContext
from tests.support.waiting import STARTS

ROOT = Path(lakegc_core.__path__[0]).parent


def test_an_error_that_came_of_an_interrupt_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark's connections end with it."""

    def interrupted(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("the connection to Java is gone") from interrupt

    monkeypatch.setattr(marking, "opened_to_judge", interrupted)
    assert main(["mark", "lake"]) == INTERRUPTED
    assert capsys.readouterr().err == "lakegc: interrupted. To go on where it stopped: lakegc mark lake\n"


@pytest.mark.parametrize("given", [[], ["--mark-id", "m1"]])
def test_a_mark_that_is_interrupted_names_the_command_that_goes_on_with_it(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []

    def interrupted(context: RepositoryContext, mark_id: str, **options: Any) -> None:
        begun.append(mark_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "opened_to_judge", lambda *_: None)
    monkeypatch.setattr(marking, "unfinished_mark", lambda *_: None)
    monkeypatch.setattr(marking, "begin_mark", interrupted)
    assert main(["mark", "lake", *given]) == 130
    assert f"To go on where it stopped: lakegc mark lake --mark-id {begun[0]}\n" in capsys.readouterr().err


def test_other_commands_go_on_as_they_were(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(marking, "opened_to_judge", interrupted)
    assert main(["sweep", "lake", "m1", "--yes"]) == 130
    assert "To go on where it stopped: lakegc sweep lake m1 --yes\n" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "missing"), [(["sweep", "demo"], "MARK_ID"), (["backup", "demo"], "MARK_ID")])
def test_a_mark_that_is_not_named_is_asked_for_with_where_its_id_is_found(
    given: list[str], missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(given)
    said = capsys.readouterr().err
    told = "MARK_ID: an id from `lakegc marks REPO`, or latest, the newest complete one\n"
    assert f"arguments are required: {missing}. {told}" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["explain", "demo"], "WHAT. WHAT: lakefs://REPO/REF/PATH, a path (all its versions), or the address of an"),
        (["explain"], "REPO, WHAT. WHAT: lakefs://REPO/REF/PATH, "),
        (["gone", "demo"], "GLOB. GLOB: paths: * stays in a folder, ** crosses them\n"),
        (["du"], "REPO\n"),
    ],
)
def test_what_is_missing_is_asked_for_with_what_it_may_be(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(given)
    assert f"arguments are required: {said}" in capsys.readouterr().err


_LOADED = """
import json, os, sys
bare = set(sys.modules)
from lakegc_core.cli import main
code = 0
try:
    code = main({arguments})
except SystemExit as ended:
    code = ended.code
assert code == {code}, code
os.write(2, b"\\n" + json.dumps(sorted(set(sys.modules) - bare)).encode())
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["mark", "--help"], 0),
        (["demo", "--help"], 0),
        ([], 2),
        (["destroy"], 2),
        (["sweep", "lake"], 2),
        (["mark", "lake", "--safety", "paranoid"], 2),
    ],
    ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else None,
)
def test_help_and_wrong_usage_import_nothing_but_the_standard_library_and_what_declares_the_verbs(
    arguments: list[str], code: int
) -> None:
    """So that they come at once: the imports of a mark alone take seconds."""
    program = _LOADED.format(arguments=arguments, code=code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(done.stderr.splitlines()[-1])
    own = [name for name in loaded if name.startswith(("lakegc_core", "lakegc_sandbox"))]
    assert {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) <= {
        "lakegc_core",
        "lakegc_sandbox",
    }
    assert "lakegc_core.cli.verbs" in own and len(own) <= 20, own


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("sweeep", "there is no verb 'sweeep'. Did you mean sweep? `lakegc --help` says what each does."),
        ("sandbax", "there is no verb 'sandbax'. Did you mean sandbox?"),
        ("xyzzy", "there is no verb 'xyzzy'. The verbs are mark, review, sweep, "),
    ],
)
def test_a_verb_that_there_is_not_is_answered_with_those_that_may_be_meant(
    given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([given, "lake"])
    assert ended.value.code == 2 and f"lakegc: error: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["marks", "lake", "--nonsense"], ["marks", "lake", "m1"]])
def test_an_argument_that_a_verb_does_not_know_is_answered_with_the_usage_of_the_verb(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("usage: lakegc marks ") and "--retired" in said
    assert said.endswith(f"lakegc marks: error: unrecognized arguments: {arguments[-1]}\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--min-agee", "5h"], "unrecognized arguments: --min-agee 5h. Did you mean --min-age?"),
        (["--saftey=full", "--cleen"], "arguments: --saftey=full --cleen. Did you mean --safety and --clean?"),
        (["--min-age", "-5h"], "--min-age: the duration '-5h' is negative; a duration is 0 or more, such as 25h"),
        (["--min-age", "--clean"], "argument --min-age: expected one argument"),
    ],
)
def test_a_misspelt_option_and_a_negative_value_are_answered_with_what_helps(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mark", "lake", *given])
    assert ended.value.code == 2 and capsys.readouterr().err.endswith(f"{said}\n")


def test_a_misspelt_variable_is_named_and_one_that_is_like_none_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("LAKEGC_MIN_AGEE", "LAKEGC_SAFETY", "LAKEGC_DEBUG", "LAKEGC_GOLDEN", "LAKEGC_BENCH_OBJECTS"):
        monkeypatch.setenv(name, "full")
    assert main(["schema"]) == 0
    said = capsys.readouterr().err
    assert said == "lakegc: LAKEGC_MIN_AGEE is set, and lakegc reads no such variable. Did you mean LAKEGC_MIN_AGE?\n"


def test_all_variables_that_lakegc_reads_are_known_and_those_of_its_tests_are_taken_for_none_of_them() -> None:
    parser(VERBS)
    named: dict[str, set[str]] = {}
    for folder in ("lakegc_core", "lakegc_dagster", "lakegc_sandbox", "tests", "benchmarks"):
        texts = (file.read_text(encoding="utf-8") for file in (ROOT / folder).rglob("*.py"))
        named[folder] = {name for text in texts for name in re.findall(r"LAKEGC_[A-Z][A-Z_]*[A-Z]", text)}
    read = named["lakegc_core"] | named["lakegc_dagster"] | named["lakegc_sandbox"]
    assert read - options._known == set()
    others = (named["tests"] | named["benchmarks"]) - {"LAKEGC_MIN_AGEE"}
    assert misspelt_variables(dict.fromkeys(others, "1")) == []


def test_an_argument_that_a_verb_of_another_package_does_not_know_is_answered_with_its_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["sandbox", "--nonsense"])
    assert capsys.readouterr().err.startswith("usage: lakegc sandbox ")


_PROGRAM = """
import sys
from lakegc_core.cli import command, history

def work(options, reporter):
    {work}
    return 0

history.run_marks = work
sys.exit(command({arguments}))
"""


def unread(work: str, arguments: list[str]) -> tuple[int, str]:
    """How the command ends, and what it says on stderr, when nobody reads its stdout. `work`: what its verb does."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        program = _PROGRAM.format(work=work, arguments=arguments)
        variables = {name: each for name, each in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=variables,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "work",
    ["print('short')", "print('long ' * 100_000)", "sys.stdout.buffer.write(b'long ' * 100_000)"],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_command_whose_output_nobody_reads_any_more_ends_quietly(work: str, more: list[str]) -> None:
    assert unread(work, ["marks", "lake", *more]) == (141, "")


def test_a_command_whose_progress_nobody_reads_any_more_goes_on_to_its_result() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    work = "reporter.say('at work'); print('the result'); sys.stderr.write('a warning\\n'); reporter.say('done')"
    program = _PROGRAM.format(work=work, arguments=["marks", "lake"])
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=writing, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, "the result\n")


def test_a_question_where_stdin_was_closed_is_wrong_usage_and_no_fault_of_lakegc() -> None:
    command = f"{shlex.quote(sys.executable)} -m lakegc_core.cli run lake <&- 2>&1; echo $?"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=STARTS, check=True)
    assert "without a terminal it needs --yes" in done.stdout and done.stdout.endswith("\n2\n")


@pytest.mark.parametrize("given", [["--config", "x.yaml", "mark", "lake"], ["--json", "sweep", "lake", "m1"]])
def test_an_option_before_the_verb_is_answered_with_where_it_belongs(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    verb = next(each for each in given if each in ("mark", "sweep"))
    assert ended.value.code == 2
    assert f"error: options stand behind the verb: lakegc {verb} … {given[0]}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [["marks", "a\udcff"], ["explain", "lake", "a\udcff"], ["backup", "lake", "m1", "/spare/\udcff"]]
)
def test_an_argument_that_is_no_text_is_wrong_usage_before_anything_is_done(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """lakeFS, stores and records take text alone: a backup failed once it had copied."""
    assert main(given) == 2
    assert "udcff' is not UTF-8: write it in UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "C"}])
def test_what_the_encoding_of_stdout_lacks_is_shown_as_a_question_mark(variables: dict[str, str]) -> None:
    program = _PROGRAM.format(work="print('lake \\u00b7 m1')", arguments=["marks", "lake"])
    mine = os.environ | {"PYTHONCOERCECLOCALE": "0"} | variables
    done = subprocess.run([sys.executable, "-c", program], env=mine, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "lake ? m1\n", "")


@pytest.mark.parametrize("verb", ["doctor", "history", "report", "mark"])
def test_an_empty_name_of_a_repository_does_not_mean_all_of_them(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is empty gives it."""
    assert main([verb, ""]) == 2
    assert "REPO is empty" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_under_the_output_is_said_without_a_trace(more: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        program = _PROGRAM.format(work="print('long ' * 100_000)", arguments=["marks", "lake", *more])
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "A disk is full: of the store, of temporary files (TMPDIR), or of the output." in done.stderr


def test_a_help_that_nobody_reads_any_more_ends_quietly() -> None:
    assert unread("pass", ["marks", "--help"]) == (141, "")


def test_an_error_that_nobody_reads_on_stdout_is_still_said_on_stderr() -> None:
    fails = "from lakegc_core.errors import MarkError; raise MarkError('no mark')"
    assert unread(fails, ["marks", "lake", "--json"]) == (141, "lakegc: no mark\n")


def test_another_pipe_that_breaks_is_a_fault_that_is_told() -> None:
    code, said = unread("sys.stdout = sys.stderr; raise BrokenPipeError('a socket')", ["marks", "lake"])
    assert code == 1 and "BrokenPipeError: a socket" in said and "Please report this" in said


@pytest.mark.parametrize(
    ("last", "expected"),
    [("a.B: one reason", "Please report this."), ("java.io.IOException: No space left on device", "Make room")],
)
def test_of_an_error_of_java_the_last_cause_is_told(last: str, expected: str) -> None:
    """And who is asked to report it: nobody, if the machine is to blame."""
    text = f"An error occurred while calling None.x.\n: a.B: first\n\tat a.B.c(D.java:1)\nCaused by: {last}\n\tat x"
    code, said = unread(f"raise RuntimeError({text!r})", ["marks", "lake"])
    assert code == 1 and said.startswith(f"lakegc: RuntimeError: {last}\n") and expected in said
    assert ("Please report" in said) == (expected == "Please report this.")


def test_a_command_whose_output_was_closed_before_it_began_ends_as_usual() -> None:
    command = f"{shlex.quote(sys.executable)} -m lakegc_core.cli --version >&- 2>&-; echo $?"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=STARTS, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
