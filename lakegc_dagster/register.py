"""`python -m lakegc_dagster.register REPO MARK_ID`: make a cell known to the Dagster instance of DAGSTER_HOME.

lakeFS is asked whether there is such a repository. Afterwards the UI offers the cell, and
`dagster asset materialize … --partition 'MARK_ID|REPO'` takes it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import dagster as dg

from lakegc_core.cli.options import repository_name
from lakegc_core.config.settings import Settings
from lakegc_core.errors import LakegcError, SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.lakefs.http import LakeFSError
from lakegc_core.lakefs.named import suggestion
from lakegc_core.marks.ids import check_new_mark_id
from lakegc_dagster.partitions import GcCell, Grid


def main(arguments: Sequence[str] | None = None) -> int:
    """Register one cell; print the partition key.

    Exit code 2 when the cell, DAGSTER_HOME or a setting is wrong, or lakeFS has no such repository; 1 when lakeFS does
    not say.
    """
    parser = argparse.ArgumentParser(
        prog="python -m lakegc_dagster.register",
        description="Make a repository and a mark id known to the Dagster instance of DAGSTER_HOME.",
    )
    parser.add_argument("repository", metavar="REPO", help="name of a lakeFS repository, or lakefs://NAME")
    parser.add_argument("mark_id", metavar="MARK_ID", help="such as 20261121T0200Z")
    parser.add_argument("--prefix", metavar="A/B", default="", help="the definitions' key_prefix, if they have one")
    parser.add_argument("--config", metavar="FILE", help="lakegc.yaml (default: ./lakegc.yaml if there is one)")
    options = parser.parse_args(arguments)
    grid = Grid.named([part for part in options.prefix.split("/") if part])
    try:
        cell = GcCell.checked(repository_name(options.repository), check_new_mark_id(options.mark_id))
        if not os.environ.get("DAGSTER_HOME"):
            raise SettingsError("DAGSTER_HOME is not set: it names the folder that Dagster keeps its records in.")
        _check_repository(Settings.load(options.config, os.environ), cell.repository)
    except LakegcError as error:
        sys.stderr.write(f"lakegc: {error}\n")
        return error.exit_code
    with dg.DagsterInstance.get() as instance:
        cell.register(instance, grid)
    print(cell.key)
    return 0


def _check_repository(settings: Settings, name: str) -> None:
    """SettingsError if lakeFS has no repository of that name; it names those that are called alike."""
    client = LakeFSClient(settings.server.require())
    try:
        client.repository(name)
    except LakeFSError as error:
        if not error.is_absent:
            raise
        advice = suggestion(client, name) or "`lakegc history` shows the repositories of lakeFS."
        raise SettingsError(f"lakeFS has no repository {name!r}. {advice} Nothing was registered.") from None


if __name__ == "__main__":
    sys.exit(main())
