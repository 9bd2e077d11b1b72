"""What verbs share: options with their environment variables, what is opened by them, and how a result is printed."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from lakegc_core.config.settings import Settings
from lakegc_core.errors import SettingsError
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.stages.swept_report import other_tools
from lakegc_core.views.progress import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "lakefs://"


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


def own_mark(mark_id: str) -> str:
    """The id of a mark of lakegc's own. SettingsError for those of other tools."""
    if other_tools.parse(mark_id):
        raise SettingsError(
            f"{mark_id} is a list that another tool left: it can only be swept, as far as lakegc's own mark agrees."
        )
    return mark_id


def show(options: argparse.Namespace, value: Any, screen: str) -> None:
    """Print a result: as JSON if that is asked for, else as people read it."""
    print(json.dumps(value) if options.json else screen)
