"""An optimized mark asks the store for what no listing knows; what it does not answer for is never taken for absent."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.errors import StoreError
from lakegc_core.inventory.carried import LEARNT
from lakegc_core.judging import optimized
from lakegc_core.judging.address_rows import SOUGHT_SCHEMA, SWEPT
from lakegc_core.judging.subtraction import ABSENT
from lakegc_core.policy.namespace import Namespace
from lakegc_core.spark.tasks import Make, Mapped
from lakegc_core.store.local import LocalConfig, LocalStore
from lakegc_core.tables.hashing import hash_strings
from lakegc_core.tables.joins import among
from lakegc_core.tables.key_scan import Source, Wanted
from lakegc_core.tables.parts import PartWriter
from tests.support.lake import NO_SPARK

SLICE = "data/gk5b63g7lm5ii54909u0"
HERE, HELD, GONE, LISTED = (f"{SLICE}/ca5b63g7lm5ii549090{letter}" for letter in "ghij")
_ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])


@pytest.fixture
def asking(tmp_path: Path) -> Make:
    """Asks a store that holds HERE, HELD and LISTED; LISTED is known from a listing."""
    config = LocalConfig(str(tmp_path / "data"))
    for address in (HERE, HELD, LISTED):
        LocalStore(config).write(address, b"12345")
    writer = PartWriter(LocalConfig(str(tmp_path / "marks")), "known", _ADDRESSES)
    writer.write(pa.RecordBatch.from_pylist([{"address": LISTED}], schema=_ADDRESSES))
    known = Wanted(tuple(Source(LocalConfig(str(tmp_path / "marks")), "known", part, "") for part in writer.close()))
    ask = partial(optimized._ask, config, Namespace("local://lake"))
    make = among(NO_SPARK, Mapped(NO_SPARK, SOUGHT_SCHEMA), known, found=False).then(optimized._ANSWER, ask).make
    assert make is not None
    return make


def asked(asking: Make, *addresses: str, swept: bool = False) -> dict[str, list[str]]:
    """The addresses by the dataset that they come to; HELD is held by a range. `swept`: sweeps had deleted them."""
    rows: list[dict[str, Any]] = [
        {
            "address": address,
            "hash": int(hash_strings(pa.array([address]))[0]),
            "range_id": "r" if address == HELD else None,
            "live": True,
        }
        for address in addresses
    ]
    answers = pa.Table.from_batches(asking(iter([pa.RecordBatch.from_pylist(rows, schema=SOUGHT_SCHEMA)])))
    answers = answers.append_column(SWEPT, pa.repeat(swept, answers.num_rows))
    return {name: found["address"].to_pylist() for name, found in optimized._by_answer(answers).items()}


def test_what_lies_there_is_learnt_and_loose_unless_a_range_holds_it_and_what_does_not_is_absent(
    asking: Make,
) -> None:
    found = asked(asking, HERE, HELD, GONE)
    assert found == {LEARNT: [HERE, HELD], optimized._RETURNED: [], optimized._LOOSE: [HERE], ABSENT: [GONE]}


def test_what_a_sweep_had_deleted_and_the_store_has_is_not_learnt_for_a_listing_has_it(asking: Make) -> None:
    found = asked(asking, HERE, HELD, GONE, swept=True)
    assert found == {LEARNT: [], optimized._RETURNED: [HERE, HELD], optimized._LOOSE: [HERE], ABSENT: [GONE]}


def test_what_a_listing_knows_is_not_asked_for(asking: Make) -> None:
    assert asked(asking, LISTED, GONE)[LEARNT] == []


def test_a_store_that_does_not_answer_makes_nothing_absent(asking: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(store: LocalStore, key: str) -> None:
        raise StoreError(f"{key}: no answer")

    monkeypatch.setattr(LocalStore, "head", broken)
    with pytest.raises(StoreError, match="no answer"):
        asked(asking, GONE)


@pytest.mark.parametrize("name", ["./x", "../x", "/x", "x/", "\0", "n" * 300])
def test_an_address_that_the_store_cannot_hold_is_absent_and_the_others_are_asked_for(asking: Make, name: str) -> None:
    assert asked(asking, f"data/{name}", HERE, GONE)[ABSENT] == [f"data/{name}", GONE]
