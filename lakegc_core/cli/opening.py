"""Opens what the arguments of a verb name: the settings, the repository, a mark of it, the session."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakegc_core.config.settings import Settings
from lakegc_core.config.which_file import settings_line
from lakegc_core.errors import MarkError, SettingsError
from lakegc_core.marks.catalogue import newest_mark
from lakegc_core.marks.context import MarkContext, RepositoryContext, open_mark, open_repository
from lakegc_core.marks.ids import LATEST
from lakegc_core.sweep.other_tools import parse_other_mark
from lakegc_core.views.progress import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_of(settings: Settings, *, quick: bool = False) -> SparkSession:
    """The session of the settings, which may not stand yet. `quick`: for little work."""
    from lakegc_core.spark.session import session_soon

    return session_soon(settings.spark.master, settings.spark.conf, quick=quick)


@contextmanager
def at_work(
    context: RepositoryContext, reporter: Reporter, doing: str, *, quick: bool = False
) -> Iterator[SparkSession]:
    """The session of a repository's settings, whose progress is shown as that of `doing`. `quick`: for little work."""
    spark = spark_of(context.settings, quick=quick)
    with reporter.watch(spark, doing):
        yield spark


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that the arguments and the environment name, with a server in them."""
    settings = Settings.load(options.config, os.environ)
    settings.server.require()
    return settings


def opened(options: argparse.Namespace, reporter: Reporter) -> RepositoryContext:
    """The repository that the arguments name, by their settings."""
    return open_repository(settings_of(options), options.repository, say=reporter.say)


def opened_to_judge(options: argparse.Namespace, reporter: Reporter) -> RepositoryContext:
    """The same for a verb that judges: it says first which file has the settings."""
    context = opened(options, reporter)
    reporter.say(settings_line(context.settings.file))
    return context


def complete_mark(context: RepositoryContext, mark_id: str | None = None) -> MarkContext:
    """A complete mark as it was sealed: the newest one, or the one that is named. MarkError if there is none."""
    mark = open_mark(context, named_mark(context, mark_id) if mark_id else _newest(context))
    mark.mark.chain()  # complete, and as it was sealed
    return mark


def named_mark(context: RepositoryContext, mark_id: str) -> str:
    """The id of the mark that the arguments name; `latest` is the newest complete one, and it is said which that is.
    MarkError if there is none."""
    if mark_id != LATEST:
        return mark_id
    newest = _newest(context)
    context.say(f"{LATEST} is mark {newest}")
    return newest


def _newest(context: RepositoryContext) -> str:
    newest = newest_mark(context)
    if newest is None:
        name = context.repository.id
        raise MarkError(f"Repository {name} has no complete mark. `lakegc mark {name}` makes one; it deletes nothing.")
    return newest.mark_id


def own_mark(context: RepositoryContext, mark_id: str) -> str:
    """The same, for a mark of lakegc's own. SettingsError for those of other tools."""
    if parse_other_mark(mark_id):
        raise SettingsError(
            f"{mark_id} is a list that another tool left: it can only be swept, as far as lakegc's own mark agrees."
        )
    return named_mark(context, mark_id)
