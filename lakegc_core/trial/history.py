"""The history that a trial makes: commits of the last weeks, a deleted branch, objects staged, overwritten and deleted.

lakeFS takes the date of a commit from the client, so that rules of whole days expire commits at once. Objects have the
dates of now. All differ in size, so that even a server that compacts what is staged lets each be judged at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core import clock
from lakegc_core.errors import ServerError
from lakegc_core.policy.namespace import ADDRESS_FULL, Namespace
from lakegc_core.trial.writer import MAIN, LakeFSWriter

RULE = 7
"""Days for which the rule keeps what a branch showed."""

TAG = "v1.0"
_BRANCH = "experiment"
_DAY = 86_400
_SMALLEST = 1_000  # bytes
_ORDERS = [f"tables/orders/part-{part}.parquet" for part in range(4)]
_CUSTOMERS = [f"tables/customers/part-{part}.parquet" for part in range(2)]
_MODELS = [f"models/fold-{fold}.bin" for fold in range(3)]


@dataclass(frozen=True)
class History:
    """The objects that a trial has made. `live`: contents by ref and path; `expired`: contents by commit and path, of
    commits that no rule keeps; `garbage`: addresses, relative to the namespace, that nothing refers to."""

    live: dict[tuple[str, str], bytes] = field(default_factory=dict)
    expired: dict[tuple[str, str], bytes] = field(default_factory=dict)
    garbage: set[str] = field(default_factory=set)
    commits: int = 0


@dataclass
class _Past:
    """Writes to lakeFS, and keeps what was written: `staged` on branches, by path."""

    writer: LakeFSWriter
    namespace: Namespace
    count: int = 0
    commits: int = 0

    def put(self, branch: str, path: str, data: bytes | None = None) -> tuple[bytes, str]:
        """Upload an object of a content of its own; return content and address."""
        data = data or secrets.token_bytes(_SMALLEST + self.count)
        self.count += 1
        return data, _address(self.namespace, self.writer.upload(branch, path, data).physical_address)

    def save(self, branch: str, paths: Iterable[str], days: int) -> tuple[str, dict[str, tuple[bytes, str]]]:
        """Upload to each path and commit, as of some days ago; return the commit and what was written."""
        written = {path: self.put(branch, path) for path in paths}
        at = int(clock.now().timestamp()) - days * _DAY
        self.commits += 1
        return self.writer.commit(branch, f"{', '.join(written)[:60]}", at).id, written


def make_history(writer: LakeFSWriter, namespace: Namespace) -> History:
    """Make the history, with rules that expire a part of it."""
    past, found = _Past(writer, namespace), History()
    writer.set_rules(RULE)
    first, tagged = past.save(MAIN, _ORDERS + _CUSTOMERS, 40)
    writer.tag(TAG, first)
    writer.create_branch(_BRANCH, MAIN)
    replaced, orders = past.save(MAIN, _ORDERS, 30)
    dropped, models = past.save(_BRANCH, _MODELS, 25)
    writer.delete_branch(_BRANCH)
    _, newest = past.save(MAIN, _ORDERS, 20)
    for commit, written in ((replaced, orders), (dropped, models)):
        found.expired.update({(commit, path): data for path, (data, _) in written.items()})
        found.garbage.update(address for _, address in written.values())
    found.live.update({(TAG, path): data for path, (data, _) in tagged.items()})
    found.live.update({(MAIN, path): data for path, (data, _) in (tagged | newest).items()})
    _stage(past, found, newest)
    return History(found.live, found.expired, found.garbage, past.commits)


def _stage(past: _Past, found: History, newest: dict[str, tuple[bytes, str]]) -> None:
    """Stage an object that stays, one that is overwritten and one that is deleted; and the bytes of the head anew, at
    their own path: the branch shows the new object, and no list of what is staged names it."""
    found.live[MAIN, "uploads/stays.csv"], _ = past.put(MAIN, "uploads/stays.csv")
    for path in ("uploads/overwritten.csv", "uploads/deleted.csv"):
        found.garbage.add(past.put(MAIN, path)[1])
    found.live[MAIN, "uploads/overwritten.csv"], _ = past.put(MAIN, "uploads/overwritten.csv")
    past.writer.delete_object(MAIN, "uploads/deleted.csv")
    past.put(MAIN, _ORDERS[0], newest[_ORDERS[0]][0])


def _address(namespace: Namespace, physical: str) -> str:
    """The address of an object relative to the namespace. ServerError if lakeFS has put it elsewhere."""
    keys = namespace.protected_keys(pa.array([physical]), pa.array([ADDRESS_FULL]))
    exact: list[str] = keys.filter(keys["exact"])["address"].to_pylist()
    if len(exact) != 1 or not pc.all(namespace.collectable(pa.array(exact))).as_py():
        raise ServerError(f"lakeFS has put an object at {physical}, which is not below {namespace.uri}.")
    return exact[0]
