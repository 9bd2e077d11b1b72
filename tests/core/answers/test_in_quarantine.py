"""Of what is gone, the copies that lie in quarantine are named, and until when."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakegc_core.answers.in_quarantine import began_since, copies_of, lying, places, quarantine_of, with_copies
from lakegc_core.clock import instant, minute
from lakegc_core.marks import quarantine
from lakegc_core.store.base import connect
from tests.support.lake import lake
from tests.support.old_marks import DAY, START
from tests.support.replays import environment


def test_a_copy_is_named_while_it_lies_there_and_nothing_is_called_gone_for_good(tmp_path: Path) -> None:
    with lake(tmp_path) as found, environment({"LAKEGC_NOW": str(START)}):
        found.create("lake", "s3://b/ns")
        context = found.open("lake")
        quarantine.begin(context, "m1", 1, DAY)
        connect(quarantine.place_of(context, "m1")).write("data/a", b"abc")
        quarantine.end(context, "m1", 1, 1, 3)

        until = instant(START + DAY)
        assert quarantine_of(context, "m1", 1) == {"until": until}
        assert quarantine_of(context, "m1", 2) is quarantine_of(context, "m2", 1) is None
        deleted = {"data/a": {"m0", "m1"}, "data/b": {"m1"}, "data/c": {"m2"}}
        assert copies_of(context, deleted) == {"data/a": {"mark_id": "m1", "until": until}}
        assert copies_of(context, {"data/a": {"m2"}}) == copies_of(context, {}) == {}
        asked = pa.RecordBatch.from_pydict(
            {
                "address": ["data/a", "data/b", "data/a", "data/a"],
                "inside": [True, True, False, True],
                "size": pa.array([None, None, None, 3], pa.int64()),
            }
        )
        copied = with_copies(asked, places(context), "copied")["copied"].to_pylist()
        assert copied == ["m1", None, None, None], "also of an object that no record says a sweep took"
        assert not list(began_since(context, places(context)))
        assert "mark m1 began to copy" in "".join(began_since(context, {}))
        groups = [{"copied": each, "objects": 2} for each in ("m1", None, "m1")]
        (said,) = lying(context, groups)
        assert said.startswith(
            f"copies of 4 of the objects lie in the quarantine of mark m1, until {minute(START + DAY)};"
        )
        (said,) = lying(context, [{"copied": "m1", "objects": 1}])
        assert said.startswith("a copy of 1 of the objects lies in the quarantine")

        connect(context.workspace).write(f"{context.home}/quarantine/m1/quarantine.json", b"{}")
        assert quarantine_of(context, "m1", 1) == {"until": None}, "nobody knows until when"
        assert copies_of(context, deleted) == {"data/a": {"mark_id": "m1", "until": None}}
        (said,) = lying(context, groups)
        assert "nobody knows until when" in said
