"""An embedded lakeFS for demo, tests and benchmarks: real files, real REST shapes, state in memory."""

from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.files.graveler_writer import Commit, Entry
from lakegc_sandbox.history import build_demo
from lakegc_sandbox.lakefs import Sandbox
from lakegc_sandbox.model.gc_prepare import PageLimits, ScanError
from lakegc_sandbox.model.objects import Attributes, Layout
from lakegc_sandbox.model.refs import GoneError, SandboxError
from lakegc_sandbox.model.repository import Repository

__all__ = [
    "Attributes",
    "Commit",
    "Entry",
    "GoneError",
    "Layout",
    "PageLimits",
    "Repository",
    "Sandbox",
    "SandboxError",
    "SandboxServer",
    "ScanError",
    "build_demo",
]
