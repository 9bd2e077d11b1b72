"""What becomes of a range follows from what the mark below and the metaranges say of it; contradictions are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakegc_core.errors import CorruptFileError, ObjectNotFoundError
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.policy.namespace import Namespace
from lakegc_core.references.ranges.range_counts import (
    _ADDED,
    _BEFORE,
    _COUNTED,
    _GONE,
    _JUDGED,
    _NAMED,
    _NOW,
    _changed_ranges,
    _Comparing,
    _counted,
    _judged,
)
from lakegc_core.references.ranges.range_files import METARANGES_SCHEMA, RangeReader, RangeWriter
from lakegc_core.store.local import LocalConfig
from lakegc_core.tables.dataset import DatasetFolder

ID = "a" * 64
Said = dict[str, Any]


def before(references: int, count: int = 5, read_in: str = "m1") -> Said:
    return {"kind": _BEFORE, "references": references, "count": count, "read_in": read_in}


def now(references: int, stated: int = 5) -> Said:
    return {"kind": _NOW, "references": references, "stated": stated}


def judged(*said: Said) -> pa.Table:
    rows = [{"hash": 1, "range_id": ID} | each for each in said]
    (found,) = _judged(("m2", "m1"), pa.Table.from_pylist(rows, _COUNTED))
    return found.select(_JUDGED.names).cast(_JUDGED)


def writing(folder: Path) -> RangeWriter:
    home = LocalConfig(str(folder))
    reader = RangeReader(MetadataFiles(home, "_lakefs"), Namespace("s3://bucket/lake"))
    return RangeWriter(reader, DatasetFolder(home, "here"), "m3")


@pytest.mark.parametrize(
    ("said", "verdict", "references"),
    [
        ([before(2)], "ranges", 2),
        ([before(2), now(1), now(-1), now(1)], "ranges", 3),
        ([before(2), now(-1), now(-1)], "ranges_dropped", 0),
        ([now(1), now(1)], "ranges_added", 2),
        ([before(2, read_in=""), now(-1)], "ranges_added", 1),
        ([before(1, read_in=""), now(-1)], "left", 0),
    ],
)
def test_a_range_is_held_still_or_added_or_dropped(said: list[Said], verdict: str, references: int) -> None:
    (row,) = judged(*said).to_pylist()
    assert (row["verdict"], row["references"]) == (verdict, references)


@pytest.mark.parametrize(
    "said",
    [
        [before(1), now(-1), now(-1)],
        [before(1, read_in="m0")],
        [now(1), now(-1)],
        [now(-1)],
    ],
    ids=["dropped twice", "read in no layer", "came and went", "dropped and never held"],
)
def test_what_contradicts_the_mark_below_is_an_error(tmp_path: Path, said: list[Said]) -> None:
    with pytest.raises(
        CorruptFileError, match=r"Ranges such as a{64} do not agree .* Make a new mark: it will be a clean one"
    ):
        list(_changed_ranges(writing(tmp_path), iter(judged(*said).to_batches())))


@pytest.mark.parametrize("stated", [0, 4, 9])
def test_what_the_mark_below_read_of_a_range_counts_and_not_what_metaranges_say(stated: int) -> None:
    (row,) = judged(before(1), now(1, stated), now(1, 5)).to_pylist()
    assert (row["verdict"], row["references"], row["count"]) == ("ranges", 3, 5)
    (row,) = judged(now(1, stated), now(1, 3)).to_pylist()
    assert (row["verdict"], row["references"], row["count"]) == ("ranges_added", 2, max(stated, 3))


@pytest.mark.parametrize("sign", [1, -1])
def test_of_a_range_that_many_metaranges_hold_one_row_is_told(sign: int) -> None:
    own = {"metarange_id": "m", "checksum": 0, "min_key": b"a", "max_key": b"b"}
    rows = [own | {"range_id": name, "count": count} for name in ("x", "y") for count in (3, 4, 3)]
    said = _counted(sign, pa.RecordBatch.from_pylist([own | {"range_id": "", "count": 2}, *rows], METARANGES_SCHEMA))
    told = {name: value if isinstance(value, int) else value.tolist() for name, value in said.items()}
    assert sorted(told.pop("range_id")) == ["x", "y"] and len(set(told.pop("hash"))) == 2
    assert told == {"kind": _NOW, "references": [3 * sign] * 2, "stated": [4, 4]}


@pytest.mark.parametrize("there", [False, True])
def test_a_lost_metarange_of_the_mark_below_asks_for_a_clean_mark_and_one_of_now_to_be_brought_back(
    tmp_path: Path, there: bool
) -> None:
    lost = {"hash": 1, "metarange_id": ID, "kind": _NOW if there else _BEFORE}
    comparing = _Comparing(writing(tmp_path).reader)
    error, said = _lost("Metarange", there=there)
    with pytest.raises(error, match=said):
        list(comparing(pa.Table.from_pylist([lost], _NAMED)))


@pytest.mark.parametrize("there", [False, True])
def test_so_does_a_lost_range(tmp_path: Path, there: bool) -> None:
    lost = {"range_id": ID, "references": int(there), "count": 5, "verdict": _ADDED if there else _GONE}
    error, said = _lost("Range", there=there)
    with pytest.raises(error, match=said):
        list(_changed_ranges(writing(tmp_path), iter(pa.Table.from_pylist([lost], _JUDGED).to_batches())))


def _lost(kind: str, *, there: bool) -> tuple[type[Exception], str]:
    if there:
        return ObjectNotFoundError, f"^{kind} {ID}: .*Bring .* back"
    return CorruptFileError, rf"cannot be read now. {kind} {ID}: [^.]*\. This mark cannot .* it will be a clean one"
