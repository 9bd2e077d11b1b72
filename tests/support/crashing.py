"""Stores that die at a chosen step: where a collector can be killed, and how a test chooses the place.

A step is a kind of durable operation (a write, a conditional write, a delete), named after what it leaves in the store.
A real victim kills itself there, driver and all; within one process the store is dead from there on, which nothing
survives either. What is killed and what must hold afterwards belongs in `crash_lake` and the tests.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakegc_core.store.base import Level, ObjectInfo, StoreProbe
from lakegc_core.store.local import LocalStore
from lakegc_core.store.pace import Gate

BEFORE, AFTER = "before", "after"
EVERYWHERE = "everywhere"  # once after each kind of step, start by start; before it is after the one before it

_HOME = "_lakefs/retention/gc/lakegc/"
_NAMES = (
    (r"^_lakefs/retention/gc/lakegc/(marks/[^/]+/)?", ""),
    (r"^_lakefs/retention/gc/unified/[^/]+/", "unified/"),
    (r"^sweeps/[0-9]+/", "sweep/"),
    (r"/attempt-[0-9]+/", "/attempt/"),
    (r"(^|/)part-[^/]*$", r"\1part"),
    (r"^rules/[0-9]+\.json$", "rules"),
)


class Crash(BaseException):
    """The store is dead. Not an Exception, so that nothing takes it for one that it could deal with."""


def written(key: str, data: bytes, if_absent: bool) -> str:
    """The step that writes this key."""
    for pattern, name in _NAMES:
        key = re.sub(pattern, name, key)
    if key == "lease.json":
        given_back = json.loads(data)["expires_at"] == 0.0
        return "lease given back" if given_back else "lease taken" if if_absent else "lease renewed"
    return key


def deleted(keys: Sequence[str]) -> str:
    """The step that deletes these keys."""
    return "delete leftovers" if all(key.startswith("_lakefs/") for key in keys) else "delete objects"


@dataclass(frozen=True)
class Script:
    """When to die: at the `number`-th `step`, before or after it. What happened stands in files of `folder`."""

    folder: str
    step: str = ""
    moment: str = BEFORE
    number: int = 1

    def happened(self) -> list[str]:
        """The steps so far, of all processes."""
        path = Path(self.folder, "steps")
        return path.read_text().splitlines() if path.exists() else []

    def died_at(self) -> list[tuple[str, str]]:
        """Where somebody has died, in order: step and moment."""
        path = Path(self.folder, "deaths")
        return [(died[0], died[1]) for died in map(json.loads, path.read_text().splitlines())] if path.exists() else []

    @property
    def lost_lease(self) -> Path:
        """A file that is there once a victim knows that its lease is lost."""
        return Path(self.folder, "lost-lease")

    @property
    def deaths(self) -> int:
        """How often the store has died. A store lives until the next death: who starts has a new one."""
        dead = Path(self.folder, "dead")
        return dead.stat().st_size if dead.exists() else 0

    def do(self, step: str, work: Callable[[], Any], die: Callable[[], None]) -> Any:
        """Do one step, and die at it if this is the place."""
        with self.locked("steps"):
            if step.startswith("sweep/attempt/") and "sweep/plan.json" in self.happened():
                step = step.replace("attempt", "later attempt")  # a resumption, or the look after the last delete
            with Path(self.folder, "steps").open("a") as file:
                file.write(f"{step}\n")
            moment = self._moment(step)
            if moment is not None:
                with Path(self.folder, "deaths").open("a") as file:
                    file.write(json.dumps([step, moment]) + "\n")
        if moment == BEFORE:
            self._die(die)
        result = work()
        if moment == AFTER:
            self._die(die)
        return result

    def _moment(self, step: str) -> str | None:
        deaths = self.died_at()
        if self.step == EVERYWHERE:
            return AFTER if (step, AFTER) not in deaths else None
        hit = step == self.step and self.happened().count(step) == self.number and not deaths
        return self.moment if hit else None

    def _die(self, die: Callable[[], None]) -> None:
        with self.locked("store"), Path(self.folder, "dead").open("a") as dead:
            dead.write("x")
        die()

    @contextmanager
    def locked(self, name: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
        """For this process alone, or for all that share it."""
        with Path(self.folder, f"{name}.lock").open("a") as lock:
            fcntl.flock(lock, how)
            yield


# --- within one process: a store that is dead from the chosen step on ---


@dataclass(frozen=True)
class MortalConfig:
    """A folder as a store that dies by a script; the workers of Spark share its fate."""

    path: str
    script: Script
    deaths: int  # before this store was made

    @property
    def root(self) -> str:
        return f"local://{self.path}"

    def connect(self) -> MortalStore:
        return MortalStore(self)


class MortalStore:
    """`Store` over a folder, until it dies."""

    deletes = LocalStore.deletes
    proves = LocalStore.proves
    listed_digests = LocalStore.listed_digests

    def __init__(self, config: MortalConfig) -> None:
        self.root, self._script, self._deaths = config.root, config.script, config.deaths
        self._store = LocalStore(config)  # type: ignore[arg-type]

    def _alive(self) -> LocalStore:
        if self._script.deaths != self._deaths:
            raise Crash
        return self._store

    def _do(self, step: str, work: Callable[[LocalStore], Any]) -> Any:
        """A step that is whole when the store dies, or never happens: a task that runs on can do nothing any more."""

        def whole() -> Any:
            with self._script.locked("store", fcntl.LOCK_SH):
                return work(self._alive())

        self._alive()
        return self._script.do(step, whole, self._die)

    def _die(self) -> None:
        raise Crash

    def list(self, prefix: str = "") -> Iterator[pa.RecordBatch]:
        return self._alive().list(prefix)

    def list_level(self, prefix: str = "") -> Iterator[Level]:
        return self._alive().list_level(prefix)

    def read(self, key: str) -> bytes:
        return self._alive().read(key)

    def read_there(self, key: str) -> bytes:
        return self._alive().read_there(key)

    def head(self, key: str) -> ObjectInfo:
        return self._alive().head(key)

    def try_heads(self, keys: Sequence[str], *, failures: int = 0) -> Any:
        return self._alive().try_heads(keys, failures=failures)

    def remove_empty_folders(self, prefix: str) -> None:
        self._alive().remove_empty_folders(prefix)

    def clock(self) -> datetime:
        return self._alive().clock()

    def now(self) -> datetime:
        return self._alive().now()

    def probe(self) -> StoreProbe:
        return self._alive().probe()

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        def work(store: LocalStore) -> str:
            return store.write(key, data, if_absent=if_absent, if_match=if_match)

        return str(self._do(written(key, data, if_absent), work))

    def delete_many(self, keys: Sequence[str], gate: Gate | None = None) -> Any:
        self._alive()
        return self._do(deleted(keys), lambda store: store.delete_many(keys, gate)) if keys else []


# --- in a process of its own: kill -9 ---


def arm(script: Script) -> None:
    """Let this process, and every worker that it starts, kill the whole collector by the script."""
    driver = int(os.environ.setdefault("CRASH_DRIVER", str(os.getpid())))

    def die() -> None:
        os.kill(driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    write, delete_many = LocalStore.write, LocalStore.delete_many

    def mortal_write(
        store: LocalStore, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> Any:
        def work() -> str:
            return write(store, key, data, if_absent=if_absent, if_match=if_match)

        return script.do(written(key, data, if_absent), work, die)

    def mortal_delete(store: LocalStore, keys: Sequence[str], gate: Gate | None = None) -> Any:
        return script.do(deleted(keys), lambda: delete_many(store, keys, gate), die) if keys else []

    LocalStore.write = mortal_write  # type: ignore[method-assign]
    LocalStore.delete_many = mortal_delete  # type: ignore[method-assign, assignment]
