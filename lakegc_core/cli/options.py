"""The common part of verbs: options with their environment variables, what these open, and the printed result."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakegc_core import clock
from lakegc_core.config.durations import parse_duration
from lakegc_core.config.settings import Settings
from lakegc_core.errors import MarkError, SettingsError
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark, open_repository
from lakegc_core.sweep.other_tools import parse_foreign_mark
from lakegc_core.views.progress import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "lakefs://"
STDOUT = "-"
"""The name of a file that means stdout."""


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


def name_repository(to: argparse.ArgumentParser) -> None:
    """The argument REPO."""
    to.add_argument("repository", metavar="REPO")


def repository_name(given: str) -> str:
    """The name of a repository that is given as `REPO`, `lakefs://REPO` or `lakefs://REPO/`.

    SettingsError for a URI that names something else.
    """
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
    option(to, "--since", metavar="DURATION", help="only what happened so long ago or later, e.g. 30d")


def since_of(options: argparse.Namespace) -> float:
    """The start for a verb that takes `one_or_all`: unix seconds, 0 for ever. SettingsError for what is no choice."""
    if options.repository and options.all:
        raise SettingsError("Name one repository, or give --all for all of them, not both.")
    if options.since is None:
        return 0.0
    return clock.now().timestamp() - parse_duration(options.since).total_seconds()


def name_mark(to: argparse.ArgumentParser) -> None:
    """The arguments REPO and MARK_ID."""
    name_repository(to)
    to.add_argument("mark_id", metavar="MARK_ID")


def spark_of(settings: Settings, *, quick: bool = False) -> SparkSession:
    """The session of the settings. `quick`: for little work."""
    from lakegc_core.spark.session import session

    return session(settings.spark.master, settings.spark.conf, quick=quick)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that the arguments and the environment name, with a server in them."""
    settings = Settings.load(options.config, os.environ)
    settings.server.require()
    return settings


def opened(options: argparse.Namespace, reporter: Reporter) -> RepositoryContext:
    """The repository that the arguments name, by their settings."""
    return open_repository(settings_of(options), options.repository, say=reporter.say)


def complete_mark(context: RepositoryContext, mark_id: str | None = None) -> MarkContext:
    """A complete mark as it was sealed: the newest one, or the one that is named. MarkError if there is none."""
    if mark_id is None:
        newest = newest_mark(context)
        if newest is None:
            name = context.repository.id
            raise MarkError(
                f"Repository {name} has no complete mark to answer from. `lakegc mark {name}` makes one; it deletes "
                "nothing."
            )
        mark_id = newest.mark_id
    mark = open_mark(context, mark_id)
    mark.mark.chain()  # complete, and as it was sealed
    return mark


def own_mark(mark_id: str) -> str:
    """The id of a mark of lakegc's own. SettingsError for those of other tools."""
    if parse_foreign_mark(mark_id):
        raise SettingsError(
            f"{mark_id} is a list that another tool left: it can only be swept, as far as lakegc's own mark agrees."
        )
    return mark_id


def show(options: argparse.Namespace, value: Any, screen: str) -> None:
    """Print a result: as JSON if that is asked for, else as people read it."""
    print(json.dumps(value) if options.json else screen)


def page_file(options: argparse.Namespace) -> Path | None:
    """The file in which --html wants its page. SettingsError before any work if there is no such folder."""
    if not options.html:
        return None
    file = Path(options.html)
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise SettingsError(f"--html {file}: name a file in a folder that exists.")
    return file


def write_page(file: Path, page: str, reporter: Reporter) -> None:
    """Write a page of HTML and say where it is. SettingsError if it cannot be written there."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"--html {file} cannot be written: {error.strerror}.") from error
    reporter.say(f"the report is in {file}")
