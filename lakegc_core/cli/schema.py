"""The work of `schema`: the JSON Schema of lakegc.yaml."""

from __future__ import annotations

import argparse
import json

from lakegc_core.cli.options import show
from lakegc_core.config.schema import lakegc_yaml_schema
from lakegc_core.views.progress import Reporter


def run_schema(options: argparse.Namespace, reporter: Reporter) -> int:
    found = lakegc_yaml_schema()
    show(options, found, json.dumps(found, indent=2, ensure_ascii=False))
    return 0
