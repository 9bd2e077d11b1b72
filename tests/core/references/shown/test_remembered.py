"""What HEADs proved is found again whatever became of the marks since, and how many more may be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakegc_core.config.settings import ScaleSettings
from lakegc_core.errors import LakegcError, StoreError
from lakegc_core.marks.context import MarkContext
from lakegc_core.names import STAGES
from lakegc_core.policy.prices import Prices
from lakegc_core.policy.safety import FULL
from lakegc_core.references.shown.remembered import PROOFS, PROOFS_SCHEMA, known, proofs_of
from lakegc_core.store.local import LocalConfig
from tests.support.lake import Lake, lake
from tests.support.marks import finish

PRICES = Prices(heads=100, pages=10)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as found:
        found.create("lake").set_rules(7)
        yield found


def proof(address: str) -> dict[str, object]:
    return {"address": address, "size": 1, "etag": "e", "digest": "md5:e"}


def marked(served: Lake, name: str, *proofs: str, repository: str = "lake", stages: int = 5) -> MarkContext:
    """A mark that came so far, and proved something of these addresses."""
    context = served.begin(repository, name)
    for stage in STAGES[: min(stages, 4)]:
        finish(context, stage)
    if stages == 5:
        finish(context, STAGES[4], {PROOFS: (PROOFS_SCHEMA, [proof(each) for each in proofs])} if proofs else None)
    return context


def damage(served: Lake, context: MarkContext) -> None:
    (served.files("lake") / context.mark.folder / "mark.json").write_text("{", encoding="utf-8")


def rows_known(context: MarkContext) -> int:
    return known(context, PRICES).proofs.rows


def test_the_newest_mark_that_proved_anything_is_asked(served: Lake) -> None:
    marked(served, "m1", "a")
    marked(served, "m2", "a", "b")
    found = known(served.begin("lake", "m3"), PRICES)
    assert [(each.part.rows, each.layer) for each in found.proofs.sources] == [(2, "m2")]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(lambda served: marked(served, "m2"), id="that proved nothing"),
        pytest.param(lambda served: marked(served, "m2", stages=2), id="that broke off"),
        pytest.param(
            lambda served: (
                served.files("lake").joinpath(marked(served, "m2", "b").mark.folder, "mark.json").write_text("{")
            ),
            id="that cannot be read",
        ),
    ],
)
def test_it_is_found_whatever_became_of_a_mark_between(served: Lake, between: Callable[[Lake], object]) -> None:
    marked(served, "m1", "a")
    between(served)
    assert rows_known(served.begin("lake", "m3")) == 1


def test_what_was_proven_of_a_repository_that_was_there_before_is_not_known(served: Lake) -> None:
    marked(served, "m1", "a")
    context = served.begin("lake", "m2")
    other = replace(context, header=replace(context.header, repository_created=context.header.repository_created + 1))
    assert (rows_known(context), rows_known(other)) == (1, 0)


def test_only_the_first_mark_has_no_limit_of_time(served: Lake) -> None:
    first = served.begin("lake", "m1", safety_level="full")
    assert known(first, PRICES, seconds=5.0).heads == FULL.heads
    assert known(first, PRICES).heads == FULL.heads, "a look has none either"
    marked(served, "m2", "a")
    later = served.begin("lake", "m3", safety_level="full")
    assert (known(later, PRICES, seconds=5.0).heads, known(later, PRICES, seconds=90.0).heads) == (6000, 9000)
    scale = ScaleSettings(asking_share=2.0, store_heads=17_000)
    wide = replace(later, settings=replace(later.settings, scale=scale))
    assert (known(wide, PRICES, seconds=80.0).heads, known(wide, PRICES, seconds=90.0).heads) == (16_000, 17_000)


def test_of_what_is_gone_or_refused_nothing_is_remembered_and_after_twenty_errors_no_more_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def answers(self: object, keys: Sequence[str], *, failures: int = 0) -> list[LakegcError | None]:
        asked.append(failures)
        return [StoreError("refused")] * 15 + [None] * (len(keys) - 15)

    config = LocalConfig(str(tmp_path))
    monkeypatch.setattr("lakegc_core.store.local.store.LocalStore.try_heads", answers)
    batch = pa.record_batch({"address": [f"data/{number}" for number in range(30)]})
    found = list(proofs_of(config, iter([batch, batch, batch])))
    assert [each.num_rows for each in found] == [0, 0, 0]
    assert asked == [20, 5, 0]
