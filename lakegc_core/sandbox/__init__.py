"""An embedded lakeFS for demo, tests and benchmarks: real files, real REST shapes, state in memory."""

from lakegc_core.sandbox.gc_prepare import PageLimits, ScanError
from lakegc_core.sandbox.graveler_writer import Commit, Entry
from lakegc_core.sandbox.history import build_demo
from lakegc_core.sandbox.lakefs import Sandbox
from lakegc_core.sandbox.refs import GoneError, SandboxError
from lakegc_core.sandbox.repository import Repository
from lakegc_core.sandbox.server import SandboxServer

__all__ = [
    "Commit",
    "Entry",
    "GoneError",
    "PageLimits",
    "Repository",
    "Sandbox",
    "SandboxError",
    "SandboxServer",
    "ScanError",
    "build_demo",
]
