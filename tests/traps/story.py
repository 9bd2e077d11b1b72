"""One repository, one mark and one sweep of it, into which most traps are laid.

The mark runs while a commit waits for its hooks, and lakeFS changes between the mark's calls; between mark and sweep
old things come back to life. Each trap's material has a name in `keys`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakegc_core import pipeline
from lakegc_core.marks.context import MarkContext
from lakegc_core.stages import swept_report
from lakegc_core.tables.parts import list_parts, read_part
from lakegc_sandbox import PageLimits
from tests.core.policy.test_namespace import HEX, ID, SIGNATURE, SLICE, XID
from tests.support.lake import CUTOFF, NOW, Lake, leave
from tests.support.replays import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFT_OVER = (
    "data/plain-name",
    f"data/{SLICE}/{XID}",
    f"data/{SLICE}/{XID},{SIGNATURE}",
    f"data/{SLICE}/{XID}.part_00001",
    f"data/{SLICE}/{XID}_size",
    f"data/shard-07/{SLICE}/{XID},{SIGNATURE}",
    "data/lake-main:5e6ff8b9-44c0-4b4f-8d4c-0f3f7c4c9f6e/V1StGXR8_Z5jdHi6B-myT",
    "data/lake-feature/x:5e6ff8b9-44c0-4b4f-8d4c-0f3f7c4c9f6e/V1StGXR8_Z5jdHi6B-myT",
    HEX,
)
"""Names as all servers gave them, at every depth."""

FOREIGN = (
    "dummy",
    "_lakefs/refs_manifest.json",
    "_lakefs/actions/log/run/hook.log",
    "_lakefs/exported/main/abc123/_delta_log/0.json",
    "symlinks/lake/main/symlink.txt",
    f"{HEX}-00001",
    "_gc-backup-restore/x",
    "_distCp/logs/x",
    "README.md",
    "data.txt",
    ID,
    HEX.upper(),
    f"nested/{HEX}",
    "data/blank at the end ",
)
ODD_TEXT = ("data/#a comment;", "data/; 'quoted', \"twice\"", "data/100%25 a+b&c", "data/日本/é,1")
SAME, SAME_TOO = b"the same bytes again", b"and the same once more"


class Story:
    """What was laid out, and what lakegc made of it."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        self.lake, self.spark = lake, spark
        self.keys: dict[str, str] = {}
        self.stood: dict[str, bool] = {}  # by call: the manifest of the stage before stood when lakeFS was asked
        self.pages = 0
        lake.sandbox.uncommitted_page = PageLimits(branches=1)
        self.repo = lake.create("lake")
        self.repo.set_rules(7)
        self._history()
        self._left_behind()
        self._staged()
        self.context = lake.begin("lake", "m1")
        self.repo.commit("dev", "waits for its hooks", hooks=self._mark)
        self.expired = set(pipeline.expired_of(self.context))

    # --- before the mark ---

    def _upload(self, branch: str, path: str, data: bytes, days: float, name: str = "") -> str:
        address = self.repo.upload(branch, path, data, age=timedelta(days=days))
        self.keys[name or path] = address
        return address

    def _save(self, branch: str, days: float, message: str = "saved", **options: Any) -> str:
        return self.repo.commit(branch, message, date=NOW - timedelta(days=days), **options).id

    def _adopt(self, key: str, path: str, name: str) -> None:
        """Stage an object that lies under this key already, by its full address."""
        leave(self.repo, key, 90, name.encode())
        self._link("main", path, key, name.encode(), 90)
        self.keys[name] = key

    def _link(self, branch: str, path: str, key: str, data: bytes, days: float) -> None:
        checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
        address, age = self.repo.place.qualify(key), timedelta(days=days)
        self.repo.stage(branch, path, address, size=len(data), checksum=checksum, age=age)

    def _history(self) -> None:
        repo = self.repo
        first = next(iter(repo.refs.commits))
        for number in range(12):
            self._upload("main", f"p/{number:02}", b"p" * (1000 + number), 90)
        self._upload("main", "p/empty", b"", 90)
        self._upload("main", "p/same", SAME, 90)
        self._upload("main", "p/same too", SAME_TOO, 90)
        self._upload("main", "p/changed", b"first", 90, "replaced")
        self._adopt("data/caf\u00e9", "p/nfc", "composed")
        self._adopt("data/Key", "p/key", "upper case")
        self._adopt("f" * 32, "p/old", "full address at the root")
        self._save("main", 80)
        self._upload("main", "p/changed", b"second", 75, "tagged")
        repo.tag("v1", self._save("main", 70))
        self._upload("main", "p/changed", b"third", 65, "current")
        self._save("main", 60)
        repo.create_branch("brief", "main")
        self._upload("brief", "b/1", b"only here", 51, "revived")
        self.brief = self._save("brief", 50)
        repo.delete_branch("brief")
        for days in (5, 4, 3):
            self._upload("main", f"p/0{days}", b"q" * (2000 + days), days + 0.5)
            self._save("main", days)
        self._save("main", 2, "nothing new", allow_empty=True)
        repo.create_branch("_hidden", "main", hidden=True)
        self._upload("_hidden", "h/1", b"hidden", 40, "hidden")
        self._save("_hidden", 30)
        repo.create_branch("bare", first)
        repo.create_branch("empty", "main")
        for path, _ in list(repo.objects("empty")):
            repo.delete("empty", path)
        self._save("empty", 1)

    def _left_behind(self) -> None:
        repo, names = self.repo, self.repo.place.names
        for key in (*LEFT_OVER, *FOREIGN, *ODD_TEXT, "data/cafe\u0301", "data/key"):
            leave(repo, key, 20)
        self.keys["without bytes"] = leave(repo, "data/empty", 20, b"")
        self.keys["vanished"] = leave(repo, "data/vanished", 20)
        self.keys["stuck"] = leave(repo, "data/stuck", 20)
        for edge in (-1, 0, 1):
            at, old = CUTOFF + edge, names.xid(int(CUTOFF) - 86_400)
            at_edge = f"{names.run_id(at)}/{names.xid(int(at))}"
            days = (NOW.timestamp() - at) / 86_400
            self.keys[f"dated {edge:+}"] = leave(repo, f"data/{SLICE}/{old}", days)
            self.keys[f"named {edge:+}"] = leave(repo, f"data/{at_edge}", 9)
        late, linked = (repo.physical_address("main", age=timedelta(days=3)) for _ in range(2))
        for name, address, data in (("completed late", late, b"multipart"), ("linked again", linked, SAME_TOO)):
            repo.put(address, data, age=timedelta(days=3))
            self.keys[name] = address.removeprefix(repo.place.qualify(""))
        # Dates that a client gives to entries: they decide nothing.
        for name, entry, written in (("entry says old", 10, 0.1), ("entry says young", 0, 10)):
            address = repo.physical_address("main", age=timedelta(days=10))
            repo.put(address, name.encode(), age=timedelta(days=written))
            self.keys[name] = address.removeprefix(repo.place.qualify(""))
            self._link("main", name, self.keys[name], name.encode(), entry)
            repo.delete("main", name)

    def _staged(self) -> None:
        repo = self.repo
        for branch in ("a-stage", "dev", "moves", "moves-too", "zz-quiet"):
            repo.create_branch(branch, "main")
        self._upload("a-stage", "s/1", b"staged", 3, "staged")
        self._upload("dev", "d/k", b"old", 3, "in flight")
        self._upload("moves", "m/1", b"moves", 3, "committed as the dump began")
        self._upload("moves-too", "m/2", b"moves too", 3, "committed as the dump had ended")
        self._upload("main", "p/same", SAME, 3, "uploaded again")

    # --- the mark ---

    def _mark(self) -> None:
        """While `dev` waits for its hooks: its key is overwritten, and a mark made."""
        self._upload("dev", "d/k", b"new", 0, "overwrote")
        self.lake.server.fault = self._meanwhile
        try:
            self.review = pipeline.mark(self.spark, self.context)
        finally:
            self.lake.server.fault = None

    def _meanwhile(self, method: str, path: str, query: Any) -> None:
        """lakeFS goes on between the calls of the mark."""
        if path.endswith("/gc/prepare_uncommited"):
            self.pages += 1
            if self.pages == 1:
                self.stood["staged dump"] = self.context.mark.manifest("namespace_listing") is not None
                self.repo.commit("moves", "as the dump begins")
            elif self.pages == 2:  # `_hidden`, the first branch, has been dumped
                address = self.repo.physical_address("_hidden", age=timedelta(days=3))
                self.keys["appeared late"] = address.removeprefix(self.repo.place.qualify(""))
                self.repo.put(address, b"slow", age=timedelta(days=3))
                self._link("_hidden", "h/slow", self.keys["appeared late"], b"slow", 0)
        elif "commits" not in self.stood and path.endswith(("/async", "/dump", "/tags")):
            self.stood["commits"] = self.context.mark.manifest("uncommitted_addresses") is not None
            self.repo.commit("moves-too", "as the dump has ended")

    def rows(self, stage: str, dataset: str = "") -> list[dict[str, Any]]:
        """All rows of a dataset of the mark."""
        return rows(self.context, stage, dataset)

    def reason(self, name: str) -> str | None:
        """Why the mark keeps an unreferenced object; None where something refers to it, or it expires."""
        kept = {row["address"]: row["reason"] for row in self.rows("expired_addresses", "kept")}
        return kept.get(self.keys[name])

    def listed(self) -> set[str]:
        return {row["address"] for row in self.rows("namespace_listing")}

    def facts(self, stage: str) -> Any:
        return self.context.mark.require(stage).facts

    # --- the sweep ---

    def come_back(self) -> None:
        """After the mark: three of its expired objects come back to life, one is gone, one cannot be deleted."""
        self._link("main", "p/late", self.keys["completed late"], b"multipart", 0)
        self._link("main", "p/same too", self.keys["linked again"], SAME_TOO, 0)
        self.repo.create_branch("back", self.brief)
        folder = self.lake.files("lake")
        (folder / self.keys["vanished"]).unlink()
        (folder / self.keys["stuck"]).unlink()
        (folder / self.keys["stuck"]).mkdir()


class Swept:
    """The sweep of a story: how things stood just before its first delete, and what came of it."""

    def __init__(self, story: Story) -> None:
        self.story = story
        story.come_back()
        self.before = self._there()
        self.result = swept_report(story.spark, replace(story.context, say=self._watch))
        self.after = self._there()
        self.outcomes = _outcomes(story.context, 1)

    def _watch(self, message: str) -> None:
        """Nothing is deleted yet; whoever kills the sweep from here on leaves at least this behind."""
        if "deleting" in message:
            home = self.story.lake.files("lake") / self.story.context.mark.folder / "sweeps/1"
            self.there_when_deleting = self._there()
            self.planned_when_deleting = (home / "plan.json").exists()
            self.listed_when_deleting = report_lines(self.story.context, self.story.lake)

    def _there(self) -> set[str]:
        """Every file in the namespace, but for lakeFS's and lakegc's own."""
        folder = self.story.lake.files("lake")
        keys = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
        return {key for key in keys if not key.startswith("_lakefs/") or key in FOREIGN}


def _outcomes(context: MarkContext, number: int) -> dict[str, str]:
    """The final outcome of every address of one sweep."""
    folder = f"{context.mark.folder}/sweeps/{number}/outcomes"
    told = [
        row
        for part in list_parts(context.workspace, folder)
        for batch in read_part(context.workspace, folder, part)
        for row in batch.to_pylist()
    ]
    return {row["address"]: row["outcome"] for row in sorted(told, key=lambda row: row["attempt"])}


def report_lines(context: MarkContext, lake: Lake) -> list[str]:
    """The addresses in `deleted.text` of lakeFS's own report."""
    folder = lake.files("lake") / "_lakefs/retention/gc/unified" / context.header.mark_id / "deleted.text"
    return [line for file in sorted(folder.glob("part-*")) for line in file.read_text("utf-8").split("\n") if line]
