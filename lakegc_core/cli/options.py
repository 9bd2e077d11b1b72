"""The common part of verbs: arguments, options with their environment variables, and the printed result.

Every `lakegc` reads this module: it imports little.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.config.durations import duration_with_unit
from lakegc_core.errors import SettingsError
from lakegc_core.marks.ids import LATEST

if TYPE_CHECKING:
    from lakegc_core.views.progress import Reporter

SCHEME = "lakefs://"
STDOUT = "-"
"""The name of a file that means stdout."""

NO_RULE = "none"
"""The word that `whatif --rule` takes instead of days."""


OTHER_VARIABLES = (
    "LAKEGC_UNSAFE",
    "LAKEGC_NOW",
    "LAKEGC_DEBUG",
    "LAKEGC_WARM_WORKERS",  # lakegc sets it for its own workers
    "LAKEGC_DAGSTER_BACKUP",
    "LAKEGC_DAGSTER_REPOSITORIES",
)
"""The variables of lakegc that are no option's."""

_PREFIX = "LAKEGC_"
_LIKE = 0.8  # how like a known name another must be to count as misspelt: 1 is the same
_known = set(OTHER_VARIABLES)  # and those of all options that were declared

_ON, _OFF = ("1", "yes", "true", "on"), ("0", "no", "false", "off")


def option(
    to: argparse.ArgumentParser, name: str, read: Callable[[str], Any] | None = None, *, many: bool = False, **more: Any
) -> None:
    """Add an option whose default comes from its environment variable; `many`: one that can be given several times,
    which has no variable. `read` turns the text into a value: its SettingsError is wrong usage, which names the option.
    """
    if many:
        to.add_argument(name, action="append", default=[], type=_reader(read, ""), **more)
        return
    variable = _variable(name)
    if os.environ.get(variable):
        more["default"] = os.environ[variable]
    to.add_argument(name, type=_reader(read or _one_of(more.get("choices")), variable), **more)


def _reader(read: Callable[[str], Any] | None, variable: str) -> Callable[[str], Any]:
    """`read` as argparse wants it. argparse reads a default that is text like what is given."""

    def reader(given: str) -> Any:
        try:
            return given if read is None else read(given)
        except SettingsError as error:
            whose = f" ({variable} says so)" if variable and os.environ.get(variable) == given else ""
            raise argparse.ArgumentTypeError(f"{error}{whose}") from None

    return reader


def _one_of(choices: Sequence[str] | None) -> Callable[[str], str] | None:
    """A reader that takes only these words: argparse itself does not look at a default."""

    def read(given: str) -> str:
        if choices is not None and given not in choices:
            raise SettingsError(f"{given!r} is none of {', '.join(choices)}")
        return given

    return read


def whole(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """A reader of whole numbers within these limits."""

    def read(given: str) -> int:
        text = given.strip()
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= (most or int(text)):
            limits = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
            raise SettingsError(f"{given!r} is no whole number {limits}")
        return int(text)

    return read


def flag(to: argparse._ActionsContainer, name: str, text: str) -> None:
    """Add a switch, which its environment variable turns on too."""
    _read_variable(to.add_argument(name, action="store_true", help=text))


def on_or_off(to: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add a switch `--NAME` and its contrary `--no-NAME`; None if neither they nor the environment variable say."""
    _read_variable(to.add_argument(name, action=argparse.BooleanOptionalAction, default=None, help=text))


def _variable(name: str) -> str:
    variable = _PREFIX + name.removeprefix("--").replace("-", "_").upper()
    _known.add(variable)
    return variable


def misspelt_variables(env: Mapping[str, str]) -> list[str]:
    """A warning for each variable that nothing reads and whose name is like one that is read. Call once the options are
    declared. What is like none is somebody else's business."""
    known = [name.removeprefix(_PREFIX) for name in _known]
    said = []
    for name in sorted(each for each in env if each.startswith(_PREFIX) and each not in _known):
        if near := difflib.get_close_matches(name.removeprefix(_PREFIX), known, n=1, cutoff=_LIKE):
            said.append(f"{name} is set, and lakegc reads no such variable. Did you mean {_PREFIX}{near[0]}?")
    return said


def _read_variable(switch: argparse.Action) -> None:
    """Let the environment variable of a switch say its default. What it says is wrong usage only of the verb that is
    run, and only where the command line does not say otherwise: argparse reads a default that is text so late."""
    variable = _variable(switch.option_strings[0])
    said = os.environ.get(variable, "").strip()

    def read(said: str) -> bool:
        if said.lower() not in (*_ON, *_OFF):
            raise argparse.ArgumentTypeError(
                f"{variable} is {said!r}. Write {', '.join(_ON)} to turn it on, {', '.join(_OFF)} to turn it off."
            )
        return said.lower() in _ON

    if said:
        switch.default, switch.type = said, read


def name_repository(to: argparse.ArgumentParser) -> None:
    """The argument REPO."""
    to.add_argument("repository", metavar="REPO")


def repository_name(given: str) -> str:
    """The name of a repository that is given as `REPO`, `lakefs://REPO` or `lakefs://REPO/`.

    SettingsError for nothing, which would mean all repositories to some verbs, and for a URI that names something else.
    """
    if not given.strip():
        raise SettingsError("REPO is empty: write the name of a repository.")
    if not given.startswith(SCHEME):
        return given
    name, _, rest = given.removeprefix(SCHEME).partition("/")
    if not name or rest:
        right = f"write {name} or {SCHEME}{name}" if name else f"write its name, or {SCHEME} and its name"
        raise SettingsError(f"{given!r} does not name a repository. REPO is a repository alone: {right}.")
    return name


def one_or_all(to: argparse.ArgumentParser) -> None:
    """The argument REPO or the switch --all, which is the same as neither; and since when."""
    to.add_argument("repository", metavar="REPO", nargs="?")
    flag(to, "--all", "show all repositories of the server, as without REPO")
    text = "only what happened so long ago or later, e.g. 30d"
    option(to, "--since", duration_with_unit, metavar="DURATION", help=text)


def since_of(options: argparse.Namespace) -> float:
    """The start for a verb that takes `one_or_all`: unix seconds, 0 for ever. SettingsError for what is no choice."""
    if options.repository and options.all:
        raise SettingsError("Name one repository, or give --all for all of them, not both.")
    if options.since is None:
        return 0.0
    return clock.now().timestamp() - float(options.since.total_seconds())


def name_mark(to: argparse.ArgumentParser) -> None:
    """The arguments REPO and MARK_ID."""
    name_repository(to)
    text = f"an id from `lakegc marks REPO`, or {LATEST}, the newest complete one"
    to.add_argument("mark_id", metavar="MARK_ID", help=text)


def metrics_option(to: argparse.ArgumentParser) -> None:
    """The option `--metrics FILE`."""
    option(to, "--metrics", metavar="FILE", help="write metrics to FILE, as OpenMetrics text")


def show(options: argparse.Namespace, value: Any, screen: str) -> None:
    """Print a result: as JSON if that is asked for, else as people read it."""
    print(json.dumps(value) if options.json else screen)


def page_file(options: argparse.Namespace) -> Path | None:
    """The file in which --html wants its page. SettingsError before any work if there is no such folder."""
    return _file_to_write("--html", options.html) if options.html else None


def addresses_file(options: argparse.Namespace) -> Path | None:
    """The file in which --addresses wants its lines; None without one, and for stdout. SettingsError as of --html."""
    return _file_to_write("--addresses", options.addresses) if options.addresses not in (None, STDOUT) else None


def _file_to_write(name: str, given: str) -> Path:
    check_is_no_stdout(name, given)
    file = Path(given)
    if file.is_dir():
        raise SettingsError(f"{name} {file} is a folder; name a file in it.")
    if not file.absolute().parent.is_dir():
        raise SettingsError(f"{name} {file}: name a file in a folder that exists.")
    return file


def check_is_no_stdout(name: str, given: str) -> None:
    """SettingsError for `-` where an option names a file: it would be the file's name."""
    if given == STDOUT:
        raise SettingsError(f"{name} {STDOUT}: only --addresses can be written to stdout. Name a file.")


@contextmanager
def writing(name: str, file: Path) -> Iterator[IO[bytes]]:
    """The file of an option, to be written within the block. SettingsError if that fails; no part of it stays then."""
    try:
        out = file.open("wb")
    except OSError as error:
        raise _unwritable(name, file, error) from error
    try:
        with out:
            yield out
    except BaseException as error:
        if file.is_file():  # no device
            file.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, ConnectionError):
            raise _unwritable(name, file, error) from error
        raise


def _unwritable(name: str, file: Path, error: OSError) -> SettingsError:
    return SettingsError(f"{name} {file} cannot be written: {error.strerror or error}. Name another file.")


def write_page(file: Path, page: str, reporter: Reporter) -> None:
    """Write a page of HTML and say where it is. SettingsError if it cannot be written there."""
    with writing("--html", file) as out:
        out.write(page.encode())
    reporter.say(f"the report is in {file}")
