"""The lease: one collector a repository, whatever machine it runs on.

An object in the store, taken and renewed by conditional writes. It expires, so that a dead collector keeps nobody out;
one that died where this process can see it counts as dead at once. A process that holds the lease already shares it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakegc_core import clock
from lakegc_core.errors import (
    LakegcError,
    LeaseHeldError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    SettingsError,
    StoreError,
)
from lakegc_core.names import Symptom, see
from lakegc_core.policy.safety import LEASE, LEASE_RENEWAL
from lakegc_core.store.base import Store, StoreConfig, connect

NAME = "lease.json"
_TRIES = 2  # of taking a lease that the store refuses, though none lies there


@dataclass(frozen=True)
class Holder:
    """The holder of a lease, as it stands in the store. Times are unix seconds."""

    owner: str
    verb: str
    host: str
    boot: str
    processes: str  # the name space that the number of the process belongs to: containers share host and boot
    process: int
    process_started: str
    taken_at: float
    expires_at: float

    @property
    def is_living(self) -> bool:
        """True if its lease has not run out, and nobody can see that it is dead."""
        return self.expires_at > clock.now().timestamp() and not self.is_dead

    @property
    def is_dead(self) -> bool:
        """True when the holder was a process that this one could see, and runs no more."""
        mine = (socket.gethostname(), _boot(), _processes())
        return "" not in mine and (self.host, self.boot, self.processes) == mine and self._has_ended()

    def _has_ended(self) -> bool:
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False  # it is there and belongs to somebody else, whose processes may be hidden from us
        return _started(self.process) not in ("", self.process_started)


@dataclass(frozen=True)
class Proof:
    """The lease that a collector holds, for its tasks, which may outlive the process that sent them."""

    config: StoreConfig
    key: str
    owner: str

    def stands(self) -> bool:
        """False as soon as another collector has taken the lease, or it has been given back.

        No clocks are compared: tasks run on machines whose clocks may be wrong.
        """
        try:
            found = json.loads(connect(self.config).read(self.key))
            return bool(found["owner"] == self.owner and found["expires_at"])
        except (ObjectNotFoundError, ValueError, TypeError, KeyError):
            return False


def living_holder(config: StoreConfig, home: str) -> Holder | None:
    """The collector that holds the lease of a repository now, as far as this process can tell; None if none does."""
    try:
        found = _stands(connect(config), f"{home}/{NAME}")
    except ObjectNotFoundError:
        return None
    return found[0] if found[0].is_living else None


def lost(why: str) -> RefusedError:
    """The error of a collector that may no longer go on."""
    return RefusedError(
        f"The lease of this repository was lost ({why}), so that another collector may be at work. "
        f"What was done is on record; run the same command again. {see(Symptom.LEASE_LOST)}"
    )


class Lease:
    """A lease that this process holds. `check` before anything that cannot be undone; tasks are given the `proof`."""

    def __init__(self, config: StoreConfig, key: str, verb: str) -> None:
        self._store, self._key, self._verb = connect(config), key, verb
        self._owner = uuid.uuid4().hex
        self.proof = Proof(config, key, self._owner)
        self._taken_at = clock.now().timestamp()
        self._etag = ""
        self._lost: str | None = None
        self._stop = threading.Event()
        self._expires_at = 0.0
        self._thread = threading.Thread(target=self._renew, name="lakegc-lease", daemon=True)

    def take(self) -> bool:
        """Take the lease, or a dead collector's. LeaseHeldError if a living one holds it.

        False if the store refuses to write a lease where none lies: its conditional writes do not work.
        """
        taken = any(self._takes() for _ in range(_TRIES))
        if taken:
            self._thread.start()
        return taken

    def _takes(self) -> bool:
        """Take the lease, if it can be had. False if the store refused, and no lease lies there now."""
        try:
            self._write(if_absent=True)
        except PreconditionFailedError:
            return self._takes_over()
        return True

    def check(self) -> None:
        """RefusedError if the lease is no longer ours: somebody may have begun to work."""
        if self._lost is None and clock.now().timestamp() >= self._expires_at:
            self._lost = "it could not be renewed in time"
        if self._lost is not None:
            raise lost(self._lost)

    def give_back(self) -> None:
        """Let the next collector in. A failure is harmless: the lease expires by itself."""
        self._stop.set()
        self._thread.join(timeout=10)
        if self._lost is None:
            with suppress(StoreError):
                self._store.write(self._key, self._body(0.0), if_match=self._etag)

    def _takes_over(self) -> bool:
        try:
            holder, etag = _stands(self._store, self._key)
        except ObjectNotFoundError:
            return False  # collectors leave the object when they give the lease back: somebody has just removed it
        if holder.is_living:
            until = datetime.fromtimestamp(holder.expires_at, UTC)
            raise LeaseHeldError(
                f"Another collector works on this repository: `{holder.verb}` on {holder.host}, process "
                f"{holder.process}, whose lease runs until {until:%Y-%m-%d %H:%M:%S} UTC. "
                f"Wait for it; if it is dead, its lease runs out by itself. {see(Symptom.LEASE_HELD)}"
            )
        try:
            self._write(if_match=etag)
        except PreconditionFailedError:
            raise LeaseHeldError(
                f"Another collector has just taken the lease. Wait for it. {see(Symptom.LEASE_HELD)}"
            ) from None
        return True

    def _renew(self) -> None:
        while self._lost is None and not self._stop.wait(LEASE_RENEWAL.total_seconds()):
            self.renew()

    def renew(self) -> None:
        """Hold the lease for its whole time from now on, unless somebody else has taken it."""
        with suppress(LakegcError):  # `check` judges by the time of the last renewal that succeeded
            try:
                self._write(if_match=self._etag)
            except PreconditionFailedError:
                self._look_whose()

    def _write(self, **condition: Any) -> None:
        """Take or renew the lease; it counts only from when the store has said so."""
        expires_at = clock.now().timestamp() + LEASE.total_seconds()
        self._etag = self._store.write(self._key, self._body(expires_at), **condition)
        self._expires_at = expires_at

    def _look_whose(self) -> None:
        """The lease is not the one that was written last: somebody took it, or a renewal landed whose answer was
        lost. What is ours we go on with; the next renewal notices whoever comes between."""
        try:
            etag = self._store.head(self._key).etag
            ours = self.proof.stands()
        except ObjectNotFoundError:
            etag, ours = None, False
        if etag is None or not ours:
            self._lost = "somebody else took it"
        else:
            self._etag = etag

    def _body(self, expires_at: float) -> bytes:
        holder = Holder(
            owner=self._owner,
            verb=self._verb,
            host=socket.gethostname(),
            boot=_boot(),
            processes=_processes(),
            process=os.getpid(),
            process_started=_started(os.getpid()),
            taken_at=self._taken_at,
            expires_at=expires_at,
        )
        return json.dumps(asdict(holder), indent=1).encode() + b"\n"


_held: dict[tuple[StoreConfig, str], tuple[Lease, int]] = {}
_guard = threading.RLock()


@contextmanager
def held(config: StoreConfig, home: str, verb: str, *, external: bool, demanded: bool) -> Iterator[Lease | None]:
    """Hold the lease of a repository while the block runs; None where the operator says `lease: external`.

    `demanded` False (safety level none) goes on without one where the store has no conditional writes.
    """
    if external:
        yield None
        return
    key = (config, home)
    with _guard:
        lease, users = _held.get(key, (None, 0))
        if lease is None:
            lease = _new(config, home, verb, demanded)
        if lease is not None:
            _held[key] = (lease, users + 1)
    try:
        yield lease
    finally:
        if lease is not None:
            with _guard:
                lease, users = _held.pop(key)
                if users > 1:
                    _held[key] = (lease, users - 1)
                else:
                    lease.give_back()


def _new(config: StoreConfig, home: str, verb: str, demanded: bool) -> Lease | None:
    if connect(config).probe().conditional_writes:
        lease = Lease(config, f"{home}/{NAME}", verb)
        if lease.take():
            return lease
    if not demanded:
        return None
    raise SettingsError(
        f"{config.root} has no conditional writes that work, so that lakegc cannot make sure to be the only collector "
        "there. If something else makes sure (one Dagster queue, one cron line), say `lease: external` in lakegc.yaml."
    )


def _stands(store: Store, key: str) -> tuple[Holder, str | None]:
    """The lease as it stands in the store, and its ETag. ObjectNotFoundError if none lies there."""
    found = store.head(key)
    return _read(store.read(key), found.last_modified), found.etag


def _read(data: bytes, written: datetime) -> Holder:
    """The holder. A lease of another form (another version's, a damaged one) holds for its time from when it was
    written: it may well be a living collector's. So does one that runs for longer than any can: its clock was wrong."""
    until = (written + LEASE).timestamp()
    try:
        found = Holder(**json.loads(data))
        longest = clock.now() + LEASE + timedelta(seconds=clock.APART)
        return replace(found, expires_at=until + clock.APART) if found.expires_at > longest.timestamp() else found
    except (ValueError, TypeError):
        return Holder("", "a command of another version", "another machine", "", "", 0, "", 0.0, until)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _processes() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(process: int) -> str:
    """When a process was started, in the kernel's own form; `ended` for one that only waits to be forgotten by its
    parent; empty if it does not show."""
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "ended" if told[0] in "ZX" else told[19]
    except (OSError, IndexError):
        return ""
