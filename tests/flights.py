"""Commits in flight: what was staged is sealed, the hooks run, and the head has not moved yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from lakegc_core.sandbox import Repository
from lakegc_core.sandbox.refs import SandboxError
from tests import oracle


class Flight:
    """One commit that waits in its hooks until it is told to land. `begun`: unix seconds by the sandbox's clock."""

    def __init__(self, repository: Repository, branch: str) -> None:
        self.branch, self.begun = branch, repository.place.clock()
        self._repository = repository
        self._sealed, self._go, self._done = threading.Event(), threading.Event(), False
        self._thread = threading.Thread(target=self._commit, daemon=True)
        self._thread.start()
        self._sealed.wait()

    def _commit(self) -> None:
        with suppress(SandboxError):
            self._repository.commit(self.branch, "in flight", hooks=self._hooks)
            self._done = True
        self._sealed.set()

    def _hooks(self) -> None:
        self._sealed.set()
        self._go.wait()

    def land(self) -> bool:
        """True when the commit was made."""
        self._go.set()
        self._thread.join()
        return self._done

    def objects(self) -> Iterator[str]:
        """The names of what it has sealed and will commit."""
        branch = self._repository.refs.branches.get(self.branch)
        for token in reversed(branch.sealed if branch else []):
            for entry in token.values():
                if entry is not None:
                    yield from oracle.names_of(self._repository, entry)
