"""Each mutant of the suite fits the code as it stands: otherwise nobody would learn that its fault goes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_changes_stands_once_in_its_file(mutant: Mutant) -> None:
    source = (ROOT / mutant.path).read_text()
    assert mutant.of(source) != source
