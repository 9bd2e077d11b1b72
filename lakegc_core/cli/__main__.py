"""`python -m lakegc_core.cli`."""

import sys

from lakegc_core.cli.entry import command

sys.exit(command())
