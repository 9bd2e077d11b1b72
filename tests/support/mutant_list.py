"""What a mutant is. Which ones there are is in `mutants_of_policy`, `_marks`, `_stages` and `_sweeps`; `mutants`
runs them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MutantError(Exception):
    """A mutant that does not fit the code, or whose tests cannot run."""


@dataclass(frozen=True)
class Mutant:
    """One fault in one file. `name` says what is wrong. `tests` are arguments of pytest: what has to notice it."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def of(self, source: str) -> str:
        """The source of the file with the fault. MutantError unless the old text stands there once, and the new one is
        Python and something else."""
        if source.count(self.old) != 1:
            raise MutantError(f"{self.path} has the text of {self.name!r} {source.count(self.old)} times: {self.old!r}")
        faulty = source.replace(self.old, self.new)
        if faulty == source:
            raise MutantError(f"{self.name!r} changes nothing")
        try:
            compile(faulty, self.path, "exec")
        except SyntaxError as error:
            raise MutantError(f"{self.name!r} is no Python: {error}") from None
        return faulty

    @property
    def targets(self) -> tuple[str, ...]:
        """The files and folders among the tests."""
        return tuple(each.partition("::")[0] for each in self.tests if each.startswith("tests/"))

    def check(self, root: Path) -> None:
        """MutantError unless the mutant fits the checkout at `root`."""
        file = root / self.path
        if not file.is_file():
            raise MutantError(f"{self.name!r} is about {self.path}, which is not there")
        self.of(file.read_text(encoding="utf-8"))
        if not self.targets:
            raise MutantError(f"{self.name!r} has no tests")
        for target in self.targets:
            if not (root / target).exists():
                raise MutantError(f"{self.name!r} is tested by {target}, which is not there")


def of(path: str, tests: str, *faults: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """Mutants of one file with the same tests, separated by blanks. A fault: what is wrong, old text, new text."""
    return tuple(Mutant(name, path, old, new, tuple(tests.split())) for name, old, new in faults)
