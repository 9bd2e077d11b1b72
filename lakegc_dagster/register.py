"""`python -m lakegc_dagster.register REPO MARK_ID`: make a cell known to the Dagster instance of DAGSTER_HOME.

Afterwards the UI offers it, and `dagster asset materialize … --partition 'MARK_ID|REPO'` takes it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_dagster.partitions import GcCell, Grid


def main(arguments: Sequence[str] | None = None) -> int:
    """Register one cell; print the partition key. Exit code 2 when the cell or DAGSTER_HOME is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m lakegc_dagster.register",
        description="Make a repository and a mark id known to the Dagster instance of DAGSTER_HOME.",
    )
    parser.add_argument("repository", metavar="REPO", help="name of a lakeFS repository")
    parser.add_argument("mark_id", metavar="MARK_ID", help="such as 20261121T0200Z")
    parser.add_argument("--prefix", metavar="A/B", default="", help="the definitions' key_prefix, if they have one")
    options = parser.parse_args(arguments)
    grid = Grid.named([part for part in options.prefix.split("/") if part])
    try:
        cell = GcCell.checked(options.repository, options.mark_id)
        if not os.environ.get("DAGSTER_HOME"):
            raise SettingsError("DAGSTER_HOME is not set: it names the folder that Dagster keeps its records in.")
    except SettingsError as error:
        sys.stderr.write(f"lakegc: {error}\n")
        return error.exit_code
    with dg.DagsterInstance.get() as instance:
        cell.register(instance, grid)
    print(cell.key)
    return 0


if __name__ == "__main__":
    sys.exit(main())
