"""The option `--metrics` of several verbs: writes what they found and did as a file of metrics."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakegc_core import clock
from lakegc_core.cli.options import check_is_no_stdout
from lakegc_core.errors import LakegcError, RefusedError, SettingsError
from lakegc_core.marks.context import RepositoryContext
from lakegc_core.names import Json
from lakegc_core.views import metrics
from lakegc_core.views.history import history_of


def metrics_file(options: argparse.Namespace) -> Path | None:
    """The file that the arguments name, if any. SettingsError, before any work, if it cannot be there."""
    if not options.metrics:
        return None
    check_is_no_stdout("--metrics", options.metrics)
    file = Path(options.metrics)
    if file.is_symlink() or (file.exists() and not file.is_file() and not file.is_dir()):
        raise SettingsError(
            f"--metrics {file} is a link or a device, and a new file would take its place. Name a plain file, or one "
            "that is not there yet."
        )
    if not file.parent.is_dir() or file.is_dir():
        raise SettingsError(f"--metrics {file}: this is no file in a folder that exists. Name another one.")
    return file


@contextmanager
def metered(options: argparse.Namespace, context: RepositoryContext) -> Iterator[list[Json]]:
    """Write the metrics of a repository when the block ends, by the reports that the block adds.

    They are written also where a guard refuses, and where nobody reads stdout any more. Where the block fails
    otherwise, the file of the last command stays as it was, and its times grow old.
    """
    file = metrics_file(options)
    reports: list[Json] = []
    try:
        yield reports
    except (RefusedError, BrokenPipeError):
        _write(file, context, reports)
        raise
    _write(file, context, reports)


def write_history(file: Path, history: Sequence[Json], seconds: metrics.Seconds | None = None) -> None:
    """Write the metrics of repositories whose whole history this is. LakegcError if the file cannot be written."""
    try:
        metrics.write_metrics(file, metrics.metrics_text(history, clock.now().timestamp(), seconds))
    except OSError as error:
        raise LakegcError(
            f"The metrics were not written to {file} ({error.strerror or error}). All else of the command is done."
        ) from None


def _write(file: Path | None, context: RepositoryContext, reports: Sequence[Json]) -> None:
    if file is not None:
        name = context.repository.id
        write_history(file, [history_of(context)], {name: metrics.stage_seconds(reports)})
