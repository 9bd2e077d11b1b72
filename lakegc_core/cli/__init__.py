"""The command `lakegc`: reads arguments, calls the pipeline, prints. It decides nothing.

stdout carries the result, stderr everything else. Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 refused.
"""

try:
    from lakegc_core.cli.entry import command, main
except KeyboardInterrupt:  # nothing has begun
    raise SystemExit(130) from None

__all__ = ["command", "main"]
