"""An embedded lakeFS for demo, tests and benchmarks: real files, real REST shapes, state in memory.

A name is imported when it is first asked for: `lakegc --help` reads this package for its verbs alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_MODULES = {
    "Attributes": "model.objects",
    "Commit": "files.graveler_writer",
    "Entry": "files.graveler_writer",
    "GoneError": "model.refs",
    "Layout": "model.objects",
    "PageLimits": "model.gc_prepare",
    "Repository": "model.repository",
    "Sandbox": "lakefs",
    "SandboxError": "model.refs",
    "SandboxServer": "api.server",
    "ScanError": "model.gc_prepare",
    "build_demo": "history",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
