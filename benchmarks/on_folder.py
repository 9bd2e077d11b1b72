"""The command `lakegc` where the bytes of `s3://` namespaces lie in a folder.

`python -m benchmarks.on_folder FOLDER VERB …`: run by `mark.py`, so that what is measured is lakegc, and not an object
store on the same cores. All else is the command itself; a namespace `local://` would be marked otherwise, by listing
every branch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

from lakegc_core import cli
from lakegc_core.marks import context
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.local import LocalConfig


def main(folder: str, arguments: list[str]) -> int:
    """Run one command and return its exit code."""

    def in_folder(namespace: Namespace, *_: Any, **__: Any) -> LocalConfig:
        return LocalConfig(str(Path(folder) / namespace.authority / namespace.path))

    # Tasks carry the store's configuration with them, so that executors need not know.
    with mock.patch.object(context, "config_for", in_folder):
        return cli.command(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
