"""A generated repository behind a sandbox server in a process of its own, as lakeFS would be, and its settings.

Here: starting and asking that process, and the environment in which `lakegc` finds it. Not here: what the repository
holds (`generate`), and what is run against it (`mark`).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.forgetting import control, forget
from benchmarks.generate import BUCKET, REPOSITORY, GeneratedLake, Shape
from benchmarks.shown import Shown
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY, SandboxServer
from lakegc_sandbox.api.wire import Answer, Request

_OURS = ("LAKEGC_", "LAKECTL_", "AWS_")


@dataclass(frozen=True)
class Told:
    """What the process says of its repository: garbage as planned, entries in the ranges that count, seconds taken.

    Since it was asked last, so many `requests` came in; of them `pages` were listings of branches, the first and last
    of which lie `asking` seconds apart.
    """

    url: str
    garbage: int
    entries: int
    seconds: float
    requests: int
    pages: int
    asking: float


@dataclass(frozen=True)
class ServedLake:
    """A running one. `root` is where the bucket's folder lies; `config` is an empty file, which may be written."""

    root: Path
    url: str
    _pipe: Connection

    @property
    def config(self) -> Path:
        return self.root / "lakegc.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """What `lakegc` is run with: nothing of the user's settings, and this server."""
        rest = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return rest | {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_KEY,
            "LAKEGC_CONFIG": str(self.config),
        }

    def ask(self) -> Told:
        """How it stands; counts requests anew."""
        return self._send(0)

    def change(self, uploads: int) -> Told:
        """`GeneratedLake.change`."""
        return self._send(uploads)

    def _send(self, uploads: int) -> Told:
        self._pipe.send(uploads)
        told: Told = self._pipe.recv()
        return told


@contextmanager
def served(shape: Shape) -> Iterator[ServedLake]:
    """Make a repository of this shape in a temporary folder and serve it until the block ends."""
    with tempfile.TemporaryDirectory(prefix="lakegc-bench-") as folder:
        root = Path(folder)
        (root / "lakegc.yaml").touch()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, root, shape), daemon=True)
        process.start()
        theirs.close()
        try:
            told: Told = ours.recv()  # EOFError if it came to nothing: its trace is on stderr
            yield ServedLake(root, told.url, ours)
        finally:
            ours.close()
            process.join(10)
            process.kill()


class _Server(SandboxServer):
    """Lets the store see what an answer speaks of: dumps are files."""

    def answer(self, request: Request) -> Answer:
        answer = super().answer(request)
        if not request.path.endswith("/objects/ls") and control(self.sandbox.root).exists():
            forget(self.sandbox.root, f"{BUCKET}/{REPOSITORY}/_lakefs")
        return answer


def _serve(pipe: Connection, root: Path, shape: Shape) -> None:
    """The process: answers over HTTP, and the pipe until that is closed."""
    began = time.perf_counter()
    lake = GeneratedLake(root, shape)
    seconds = time.perf_counter() - began
    with _Server(lake.sandbox) as server:
        server.fault = shown = Shown(lake.repository, lake.folder)
        while True:
            calls = len(server.requests), shown.pages, shown.seconds
            pipe.send(Told(server.url, lake.garbage, lake.entries, seconds, *calls))
            server.requests.clear()
            shown.forget()
            try:
                uploads: int = pipe.recv()
            except EOFError:
                return
            if uploads:
                lake.change(uploads)
