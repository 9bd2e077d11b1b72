"""What HEADs may prove something of, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.marks.context import MarkContext
from lakegc_core.marks.elsewhere import ELSEWHERE_SCHEMA
from lakegc_core.policy.prices import GUESSED
from lakegc_core.references.ranges.protected import ENTRIES_SCHEMA
from lakegc_core.references.shown.alike import AlikeEntries
from lakegc_core.references.shown.classes import EVERY, PLANNED, SIZES
from lakegc_core.references.shown.heads import BranchHeads
from lakegc_core.references.shown.intervals import ALIKE
from lakegc_core.references.shown.remembered import PROOFS_SCHEMA, Known
from lakegc_core.references.shown.subjects import Subjects
from lakegc_core.spark.tasks import Mapped
from lakegc_core.tables.dataset import Dataset, DatasetFolder
from tests.support.crowded import crowded
from tests.support.lake import lake
from tests.support.marks import dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE, TWO, THREE = ("".join(letter * 32) for letter in "abc")
Rows = list[dict[str, Any]]
Make = Callable[..., Subjects]


@pytest.fixture
def context(tmp_path: Path) -> Iterator[MarkContext]:
    with lake(tmp_path) as served:
        served.create("lake").set_rules(7)
        yield served.begin("lake", "m1")


@pytest.fixture(params=[False, True], ids=["by this process", "by Spark"])
def make(request: pytest.FixtureRequest, quick: SparkSession, context: MarkContext) -> Iterator[Make]:
    """Makes Subjects of a look, which believes what is remembered, of entries of one range, all alike by their size."""

    def made(entries: Rows, candidates: Rows, known: Rows = []) -> Subjects:  # noqa: B006
        nothing = {each.name: Dataset(PLANNED) for each in fields(BranchHeads)}
        heads = BranchHeads(**nothing | {"entries_bound": 0})  # type: ignore[arg-type]
        rows = [{"range_id": "r", "exact": True} | entry for entry in entries]
        heads = replace(
            heads,
            entries=dataset(context, "here/heads", ENTRIES_SCHEMA, rows),
            outside=Dataset(ELSEWHERE_SCHEMA),
        )
        sizes = sorted({entry["size"] for entry in entries})
        alike = [{"range_id": "r", "count": 9, "size": size, "rank": size} for size in sizes]
        alike.append({"range_id": "odd", "count": 1, "size": 1, "rank": EVERY})
        found = AlikeEntries(
            quick,
            context,
            heads,
            dataset(context, "here/candidates", PLANNED, candidates),
            DatasetFolder(context.workspace, "here"),
            Dataset(SIZES),
        )
        remembered = Known(dataset(context, "here/known", PROOFS_SCHEMA, known), 9, GUESSED, is_mark=False)
        return Subjects(found, remembered, dataset(context, "here/alike", ALIKE, alike))

    with crowded(request.param):
        yield made


def values(rows: Mapped | Dataset, *names: str) -> list[tuple[Any, ...]]:
    found = rows.dicts(*names) if isinstance(rows, Dataset) else (row.asDict() for row in rows.as_frame().collect())
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


def entry(address: str, size: int, e_tag: str) -> dict[str, Any]:
    return {"address": address, "size": size, "e_tag": e_tag}


def candidate(address: str, size: int, etag: str | None) -> dict[str, Any]:
    return {"address": address, "size": size, "etag": etag}


def proof(address: str, size: int, etag: str | None, digest: str) -> dict[str, Any]:
    return {"address": address, "size": size, "etag": etag, "digest": digest}


def test_heads_are_asked_for_claims_that_are_digests_and_that_no_candidate_is_listed_with(make: Make) -> None:
    subjects = make(
        [
            entry("e1", 1, ONE),
            entry("e1", 1, ONE),
            entry("e2", 1, TWO),
            entry("e3", 1, "no digest"),
            entry("e4", 1, f"{THREE}-2"),
            entry("e5", 2, ONE),
            entry("e6", 3, TWO),
        ],
        [candidate("c1", 1, TWO), candidate("c2", 1, None), candidate("c3", 2, f"{ONE}-7"), candidate("c4", 3, ONE)],
    )
    assert values(subjects.claims, "address", "asks") == [
        ("e1", True),
        ("e2", False),
        ("e3", False),
        ("e4", False),
        ("e5", False),
        ("e6", True),
    ]
    assert subjects.claims.sum("asks") == 2
    assert values(subjects.questions, "address", "digest") == [("e1", f"md5:{ONE}"), ("e6", f"md5:{TWO}")]


def test_a_proof_counts_for_a_candidate_only_if_head_saw_the_object_that_is_listed(make: Make) -> None:
    subjects = make(
        [entry("e1", 1, ONE), entry("e2", 1, TWO)],
        [candidate(f"c{number}", 1, etag) for number, etag in enumerate((THREE, THREE, None, None, THREE))],
        [
            proof("e1", 1, "whatever", f"md5:{ONE}"),
            proof("e2", 2, "whatever", f"md5:{TWO}"),  # of another size than claimed
            proof("c0", 1, THREE, f"md5:{THREE}"),
            proof("c1", 1, ONE, f"md5:{ONE}"),  # of what was replaced
            proof("c2", 1, None, f"md5:{TWO}"),
            proof("c3", 1, THREE, f"md5:{THREE}"),  # of what was listed with an ETag
        ],
    )
    assert values(subjects.rows, "address", "is_candidate", "digest") == [
        ("c0", True, f"md5:{THREE}"),
        ("c1", True, None),
        ("c2", True, f"md5:{TWO}"),
        ("c3", True, None),
        ("c4", True, None),
        ("e1", False, f"md5:{ONE}"),
        ("e2", False, None),
    ]
    assert values(subjects.unknown, "address") == [("c1",), ("c3",), ("c4",), ("e2",)]


def test_where_a_candidate_has_no_digest_no_head_of_its_size_is_of_use(make: Make) -> None:
    subjects = make(
        [entry("e1", 1, ONE), entry("e2", 2, ONE)],
        [candidate("c1", 1, TWO), candidate("c2", 1, THREE), candidate("c3", 2, TWO)],
        [proof("c1", 1, TWO, "")],
    )
    assert values(subjects.unknown, "address") == [("c3",), ("e2",)]


def test_contents_are_what_is_remembered_and_what_new_heads_of_the_listed_objects_prove(
    make: Make, context: MarkContext
) -> None:
    subjects = make(
        [entry("e1", 1, ONE), entry("e2", 2, ONE)],
        [candidate("c1", 1, TWO), candidate("c2", 1, THREE), candidate("c3", 2, TWO), candidate("c4", 2, THREE)],
        [proof("c1", 1, TWO, f"md5:{TWO}")],
    )
    made = [
        proof("c2", 1, THREE, f"md5:{THREE}"),
        proof("c3", 2, ONE, f"md5:{ONE}"),  # replaced since
        proof("c4", 2, THREE, ""),
        proof("e1", 1, ONE, f"md5:{ONE}"),
    ]
    answers = dataset(context, "here/made", PROOFS_SCHEMA, made)
    assert values(subjects.contents(answers), "size", "digest") == [(1, f"md5:{TWO}"), (1, f"md5:{THREE}"), (2, "")]
    assert values(subjects.unproven(answers), "size") == [(2,)]
    none = Dataset(PROOFS_SCHEMA)
    assert values(subjects.unproven(none), "size") == [(1,), (2,)]
