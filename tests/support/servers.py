"""Real object-store servers for tests and benchmarks, on loopback and free ports, gone when the block ends.

Here: starting, waiting for and stopping servers, SeaweedFS and rclone; Azurite is in `azurite.py`. Not here:
fixtures (conftest files), faults (`proxy.py`) and anything that imitates a server: what answers here is a real
one.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lakegc_core.errors import StoreError
from lakegc_core.store.s3.store import S3Config
from tests.support.waiting import STARTS, until

TRIES = 5  # a free port can be lost to somebody else before the server has it
STOP_SECONDS = 2.0  # then it is killed: the data is thrown away
ACCESS_KEY = "LAKEGCTESTKEY"
SECRET_KEY = "lakegc/test+secret=0123456789"
_PRIVATE = ("AWS_", "AZURE_", "GOOGLE_", "RCLONE_")

_PORTS: list[IO[str]] = []  # the locks of the ports that this process has had

Server = TypeVar("Server")


class ServerStartError(RuntimeError):
    """A server did not come up; the message ends with the tail of its log."""


@dataclass(frozen=True)
class S3Server:
    """A running S3 server and the one bucket made for the test."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    bucket: str
    log: Path
    folder: Path | None = None  # rclone only: the files behind the bucket
    filer: str | None = None  # SeaweedFS only: host and port by which it takes and gives files without S3

    def config(self, prefix: str = "", **changes: Any) -> S3Config:
        """The store under `prefix` of the bucket, with explicit credentials. `changes` replace fields."""
        config = S3Config(
            bucket=self.bucket,
            prefix=prefix,
            endpoint_url=self.endpoint,
            region="us-east-1",
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
        )
        return replace(config, **changes)

    def environment(self) -> dict[str, str]:
        """The variables by which any AWS SDK finds this server."""
        return {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
        }

    def client(self) -> Any:
        """A plain boto3 client, for setting up and looking behind the code under test."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(
                s3={"addressing_style": "path"},
                retries={"mode": "standard", "max_attempts": 2},
                connect_timeout=10,
                read_timeout=60,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 nobody listens on now. No process of the tests gets one that another has had while it lives:
    else it could take the other's server for its own."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if _is_ours(port):
                found.append(port)
    return found


def _is_ours(port: int) -> bool:
    """Whether this process alone may use it from now on."""
    folder = Path(tempfile.gettempdir(), f"lakegc-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    lock = (folder / str(port)).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return False
    _PORTS.append(lock)
    return True


@contextmanager
def seaweedfs(
    tmp: Path,
    bucket: str = "lakegc-test",
    *,
    more_keys: Mapping[str, str] | None = None,
    readers: Mapping[str, str] | None = None,
    iam: bool = False,
) -> Iterator[S3Server]:
    """SeaweedFS (master, volume, filer and S3 in one process) with its data in `tmp`.

    `more_keys`: access keys that may do the same, with their secrets; `readers`: those that may only list and read.
    `iam`: users with policies can be made, by AWS's IAM at the same endpoint.
    """
    data = tmp / "seaweedfs"
    data.mkdir(parents=True)
    keys = {ACCESS_KEY: SECRET_KEY} | dict(more_keys or {})
    identity = {
        "name": "lakegc",
        "credentials": [{"accessKey": key, "secretKey": secret} for key, secret in keys.items()],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    reading = {
        "name": "reader",
        "credentials": [{"accessKey": key, "secretKey": secret} for key, secret in (readers or {}).items()],
        "actions": ["Read", "List"],
    }
    identities = [identity, reading] if readers else [identity]
    (tmp / "seaweedfs-s3.json").write_text(json.dumps({"identities": identities}), encoding="utf-8")

    used: list[int] = []

    def command(ports: Sequence[int]) -> list[str]:
        used.extend(ports)
        names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
        names += ["filer.port", "filer.port.grpc", "s3.port.grpc", "s3.port"]
        return [
            binary("weed"),
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=128",
            "-volume.max=5000",  # each new bucket takes seven
            "-filer",
            "-s3",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-s3.autoCreateBucket=false",
            f"-s3.config={tmp / 'seaweedfs-s3.json'}",
            f"-s3.iam.readOnly={str(not iam).lower()}",
            *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
        ]

    try:
        with _running(command, 8, tmp, "seaweedfs", bucket) as server:
            yield replace(server, filer=f"127.0.0.1:{used[-4]}")
    finally:
        for port in used:  # it keeps sockets there, and leaves them behind when killed
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)


@contextmanager
def rclone_s3(
    folder: Path,
    bucket: str = "lakegc-test",
    log_folder: Path | None = None,
    *,
    remembers: str = "1s",
    arguments: Sequence[str] = (),
) -> Iterator[S3Server]:
    """`rclone serve s3` over a local folder: each folder in it is a bucket, each file an object.

    LastModified is the file's mtime, so `os.utime` makes objects old. For how long it `remembers` a folder: what others
    put there in that time it may not see. `arguments`: more of the command's own.
    """
    (folder / bucket).mkdir(parents=True, exist_ok=True)

    def command(ports: Sequence[int]) -> list[str]:
        return [
            binary("rclone"),
            "serve",
            "s3",
            f"--addr=127.0.0.1:{ports[0]}",
            f"--auth-key={ACCESS_KEY},{SECRET_KEY}",
            "--vfs-cache-mode=off",
            f"--dir-cache-time={remembers}",
            "--config=",  # no settings of the machine's user
            *arguments,
            str(folder),
        ]

    with _running(command, 1, log_folder or folder.parent, "rclone", bucket, folder / bucket) as server:
        yield server


def binary(name: str) -> str:
    """Where a program lies that comes with the development dependencies."""
    beside_python = Path(sys.executable).parent / name
    found = str(beside_python) if beside_python.exists() else shutil.which(name)
    if found is None:
        raise ServerStartError(f"{name} is not installed: install the development dependencies")
    return found


@contextmanager
def _running(
    command: Callable[[Sequence[int]], list[str]],
    ports: int,
    tmp: Path,
    name: str,
    bucket: str,
    folder: Path | None = None,
) -> Iterator[S3Server]:
    """Run `command(ports)`; the last port speaks S3."""

    def server(chosen: Sequence[int], log: Path) -> S3Server:
        return S3Server(f"http://127.0.0.1:{chosen[-1]}", ACCESS_KEY, SECRET_KEY, bucket, log, folder)

    with started(command, ports, tmp, name, server, _try_bucket) as running:
        yield running


@contextmanager
def started(
    command: Callable[[Sequence[int]], list[str]],
    ports: int,
    tmp: Path,
    name: str,
    describe: Callable[[Sequence[int], Path], Server],
    attempt: Callable[[Server], None],
    *,
    variables: Mapping[str, str] | None = None,
    stop_seconds: float = STOP_SECONDS,
    user: str | None = None,
) -> Iterator[Server]:
    """Run `command(ports)` until the block ends, as `user` if one is given. Tried again: a free port can be lost.

    `describe` makes the server's value from its ports and log; `attempt` uses it once, and raises as long as it is
    not up. After `stop_seconds` of waiting for its end it is killed.
    """
    # The settings of the machine's user must not reach a server of the tests.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_PRIVATE)}
    for attempts_left in reversed(range(TRIES)):
        chosen = free_ports(ports)
        log = tmp / f"{name}-{chosen[-1]}.log"
        server = describe(chosen, log)
        with log.open("wb") as out:
            process = subprocess.Popen(
                command(chosen),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment | dict(variables or {}),
                cwd=tmp,
                **as_user(user),
            )
        try:
            try:
                _await(process, lambda server=server: attempt(server), name, log)
            except ServerStartError:
                if not attempts_left:
                    raise
                continue
            yield server
            return
        finally:
            _stop(process, stop_seconds)


def as_user(name: str | None) -> dict[str, Any]:
    """Arguments of `subprocess` for a program that runs as another user; none for None."""
    return {} if name is None else {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def _stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], attempt: Callable[[], None], name: str, log: Path) -> None:
    """Wait until an attempt to use the server succeeds: a listening port alone is not yet a store."""
    last = "no attempt"

    def answers() -> bool:
        nonlocal last
        if process.poll() is not None:
            raise AssertionError(f"it ended with exit code {process.returncode}")
        try:
            attempt()
        except (ClientError, BotoCoreError, OSError, StoreError) as error:
            last = f"{type(error).__name__}: {error}"
            return False
        return process.poll() is None  # else another server has answered, which has its port

    try:
        until(answers, f"{name} answers", STARTS, pause=0.2)
    except AssertionError as error:
        tail = log.read_text(errors="replace")[-3000:]
        raise ServerStartError(f"{name} did not come up: {error}; {last}. The end of {log}:\n{tail}") from None


def _try_bucket(server: S3Server) -> None:
    """Make the bucket, and write an object."""
    client = server.client()
    with suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
        client.create_bucket(Bucket=server.bucket)
    client.put_object(Bucket=server.bucket, Key="ready", Body=b"")
    client.delete_object(Bucket=server.bucket, Key="ready")
