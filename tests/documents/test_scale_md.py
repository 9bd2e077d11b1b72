"""docs/scale.md: its formulas of requests are those of the doctor, and its figures follow from them."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest

from lakegc_core.config.settings import Price
from lakegc_core.doctor.cost import Requests, of_clean_mark, of_sweep
from lakegc_core.marks.artifacts import Manifest
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy import safety
from lakegc_core.tables import parts
from lakegc_core.tables.parts import Part
from tests.support.facts import whole_facts
from tests.support.links import ROOT

TEXT = (
    (ROOT / "docs" / "scale.md")
    .read_text(encoding="utf-8")
    .partition("\n## Sizing and cost\n")[2]
    .partition("\n## ")[0]
)
KINDS = dict(
    zip(("lists", "reads", "writes", "deletes", "calls of lakeFS"), Requests.__dataclass_fields__, strict=True)
)
SIGNS = {"N": 2_000_000, "U": 300, "M": 70, "R": 210, "G": 45_000, "P": 90, "g": 4, "s": 3, "F": 12, "D": 5, "A": 31}
SIGNS |= {"H": 600, "m": 14, "k": safety.FULL.samples}
_PART = Part("part", 1, 1, "")


def manifests(signs: dict[str, int]) -> dict[str, Manifest]:
    """A clean mark of which all this is true."""
    garbage = {"objects": signs["G"], "bytes": 1}
    facts: dict[str, dict[str, Any]] = {
        Stage.NAMESPACE_LISTING: {"objects": signs["N"], "units": signs["U"]},
        Stage.UNCOMMITTED_ADDRESSES: {
            "files": signs["F"],
            "pages": signs["D"],
            "pages_with_location": signs["D"],
        },
        Stage.RETENTION_COMMITS: {"branches": 10},
        Stage.COMMITTED_ADDRESSES: {"metaranges": signs["M"], "ranges": signs["R"]},
        Stage.EXPIRED_ADDRESSES: {"expired": garbage, "heads": signs["H"], "pages_asked": signs["A"], "asked_at": 1.0},
    }
    own = {Stage.EXPIRED_ADDRESSES: signs["g"], Stage.UNCOMMITTED_ADDRESSES: signs["s"]}
    own[Stage.NAMESPACE_LISTING] = signs["P"] - sum(own.values())
    return {
        stage: Manifest(
            stage=stage,
            repository="lake",
            mark_id="m1",
            upstream="",
            started_at=0.0,
            finished_at=0.0,
            seconds=0.0,
            datasets={stage: (_PART,) * own.get(Stage(stage), 0)},
            facts=whole_facts(stage, facts[Stage(stage)]),
            rows=0,
            bytes=0,
        )
        for stage in STAGES
    }


def clean_mark(**more: int) -> Requests:
    signs = {name: count + more.get(name, 0) for name, count in SIGNS.items()}
    return of_clean_mark(manifests(signs), signs["m"])


def test_the_formulas_are_those_of_the_doctor() -> None:
    sweep = of_sweep(manifests(SIGNS), SIGNS["m"], safety.FULL)
    rows = re.findall(r"^\| ([\w ]+) \| `(.+)` \| `(.+)` \|$", TEXT, re.MULTILINE)
    assert [name for name, *_ in rows] == list(KINDS)
    for name, *formulas in rows:
        for formula, found in zip(formulas, (clean_mark(), sweep), strict=True):
            written = re.sub(r"([0-9.])([A-Za-z])", r"\1*\2", formula)
            assert eval(written, {}, SIGNS) == asdict(found)[KINDS[name]], (name, formula)


def test_every_sign_of_the_formulas_is_explained_and_no_other() -> None:
    explained = re.findall(r"`(\w)`", "".join(re.findall(r"^\| (`\w`(?:, `\w`)*) \|", TEXT, re.MULTILINE)))
    assert sorted(explained) == sorted(SIGNS)


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("1,000,000 objects", {"N": 1_000_000}),
        ("1,000 slices", {"U": 1_000}),
        ("1,000 retained commits, each with a metarange and two ranges of its own", {"M": 1_000, "R": 2_000}),
        (f"{safety.FULL.heads:,} HEAD requests (the most that one mark makes)", {"H": safety.FULL.heads}),
        ("one more mark in the home", {"m": 1}),
    ],
)
def test_what_more_of_something_costs(what: str, more: dict[str, int]) -> None:
    told = re.search(
        r"^price: \{per_gb_month: ([0-9.]+), per_1000_writes: ([0-9.]+), per_1000_reads: ([0-9.]+)\}$",
        TEXT,
        re.MULTILINE,
    )
    assert told
    price = Price(float(told[1]), per_1000_writes=float(told[2]), per_1000_reads=float(told[3]))
    before, after = asdict(clean_mark()), asdict(clean_mark(**more))
    asked = Requests(**{name: after[name] - before[name] for name in before})
    said = ", ".join(f"{count:,} {name}" for name, count in asdict(asked).items() if count)
    assert f"| {what} | {said} | {asked.money(price):.4f} USD |" in TEXT


def test_the_limits_and_settings_that_it_names_are_those_of_the_code() -> None:
    assert f"a part holds at most {parts._ROWS_PER_PART:,} rows" in TEXT
    assert f"{safety.FULL.samples}, at level `none` {safety.LEVELS['none'].samples}" in TEXT
    assert safety.FULL.samples == safety.LEVELS["standard"].samples
    assert f"| {safety.KEEP_MARKS} at least, of which every seventh" in TEXT and safety.CLEAN_EVERY == 7
    minutes = int(safety.FULL.look_validity.total_seconds() // 60), safety.LEASE_RENEWAL.total_seconds()
    assert re.search(rf"looks again after {minutes[0]}\s+minutes", TEXT) and minutes[1] == 120
    assert safety.FULL.watch_interval.total_seconds() == 60
