"""The command `lakegc`: reads arguments, calls the pipeline, prints. It decides nothing.

stdout carries the result, stderr everything else. Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 refused.
"""

from lakegc_core.cli.entry import command, main

__all__ = ["command", "main"]
