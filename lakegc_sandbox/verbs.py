"""The verbs that the sandbox adds to `lakegc`, by entry points of the group `lakegc.verbs`.

What they do is in `demo`, which is imported when one of them runs: every `lakegc` reads this module.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lakegc_core.cli.options import option, whole
from lakegc_core.cli.verb import Verb

if TYPE_CHECKING:
    from lakegc_core.views.progress import Reporter


def _demo_arguments(to: argparse.ArgumentParser) -> None:
    option(to, "--dir", metavar="DIR", help="where the demo's lake lies (default: a new temporary folder)")


def _demo(options: argparse.Namespace, reporter: Reporter) -> int:
    from lakegc_sandbox.demo import demo

    return demo(options.dir, reporter, as_json=options.json)


def _sandbox_arguments(to: argparse.ArgumentParser) -> None:
    option(to, "--port", whole(0, 65_535), default=0, help="port on 127.0.0.1 (default: a free one)")
    option(to, "--dir", metavar="DIR", help="where its lake lies (default: a new temporary folder)")


def _sandbox(options: argparse.Namespace, reporter: Reporter) -> int:
    from lakegc_sandbox.demo import serve

    return serve(options.dir, options.port, reporter)


DEMO = Verb("demo", "run the whole story on an embedded lakeFS", _demo_arguments, _demo)
SANDBOX = Verb(
    "sandbox",
    "serve an embedded lakeFS with a demo history until interrupted",
    _sandbox_arguments,
    _sandbox,
)
