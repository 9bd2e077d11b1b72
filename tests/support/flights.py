"""Commits in flight: what was staged is sealed, the hooks run, and the head has not moved yet."""

from __future__ import annotations

from collections.abc import Iterator

from lakegc_sandbox import Repository
from lakegc_sandbox.model.refs import Branch, SandboxError
from tests.support import oracle


class Flight:
    """One commit that waits in its hooks until it is told to land. `begun`: unix seconds by the sandbox's clock."""

    def __init__(self, repository: Repository, branch: str) -> None:
        self.branch, self.begun = branch, repository.place.clock()
        self._repository = repository
        self._finish = repository.begin_commit(branch, "in flight")
        # All that was sealed by then, also by commits that failed; of a path the newest entry counts.
        self._sealed = Branch("", "", sealed=list(repository.refs.branches[branch].sealed)).staged()

    def land(self) -> bool:
        """True when the commit was made: its branch may be gone, or nothing may have changed."""
        try:
            self._finish()
        except SandboxError:
            return False
        return True

    def objects(self) -> Iterator[str]:
        """The names of what it will commit."""
        for entry in self._sealed.values():
            if entry is not None:
                yield from oracle.names_of(self._repository, entry)
