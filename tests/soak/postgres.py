"""A Postgres of a test's own, on loopback and a free port, gone when the block ends: pgserver's, else the machine's.

pgserver (a package with a whole Postgres in it) has none for Python 3.13 and newer. Only its programs are used: started
from here they listen as those of a team do, and leave no user behind.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.servers import as_user, started

USER = "lakegc"
DATABASE = "dagster"
_START_SECONDS = 120.0  # `initdb` on a busy machine


class NoPostgres(RuntimeError):
    """Neither pgserver nor a Postgres of the machine is there, or it cannot be run; the message says which."""


@dataclass(frozen=True)
class Postgres:
    """A running server with an empty database."""

    port: int
    password: str = field(repr=False)
    host: str = "127.0.0.1"

    def environment(self) -> dict[str, str]:
        """The variables by which `deploy/dagster.yaml` finds it."""
        return {
            "DAGSTER_POSTGRES_HOST": self.host,
            "DAGSTER_POSTGRES_DB": DATABASE,
            "DAGSTER_POSTGRES_USER": USER,
            "DAGSTER_POSTGRES_PASSWORD": self.password,
        }

    def connect(self, database: str = DATABASE) -> Any:
        """A connection that commits every statement by itself."""
        import psycopg2

        found = psycopg2.connect(
            host=self.host, port=self.port, user=USER, password=self.password, dbname=database, connect_timeout=5
        )
        found.autocommit = True
        return found

    def size(self) -> int:
        """Bytes of the database."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server until the block ends. NoPostgres if there is none to be had."""
    programs, user = _programs(), _user()
    # Not below pytest's folder: nobody but its owner may enter that, and Postgres refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="lakegc-postgres-"))
    try:
        password = secrets.token_hex(16)
        data = _initialise(programs, folder, password, user)

        def command(ports: Sequence[int]) -> list[str]:
            settings = {"listen_addresses": "127.0.0.1", "port": ports[0], "unix_socket_directories": folder}
            chosen = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            return [str(programs / "postgres"), "-D", str(data), *chosen]

        with started(
            command,
            1,
            folder,
            "postgres",
            lambda ports, log: Postgres(ports[0], password),
            _prepare,
            user=user,
            stop_seconds=20,
        ) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _initialise(programs: Path, folder: Path, password: str, user: str | None) -> Path:
    """Make a cluster in the folder, which becomes the user's."""
    data, words = folder / "data", folder / "password"
    words.write_text(password)
    if user is not None:
        for path in (folder, words):
            shutil.chown(path, user, pwd.getpwnam(user).pw_gid)
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "--pwfile", words, "-E", "UTF8"],
        check=True,
        cwd=folder,
        capture_output=True,
        timeout=_START_SECONDS,
        **as_user(user),
    )
    words.unlink()
    return data


def _prepare(server: Postgres) -> None:
    import psycopg2

    try:
        with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE}")
    except psycopg2.OperationalError as error:  # it does not listen yet, or is starting
        raise ConnectionError(str(error)) from error


def _programs() -> Path:
    """The folder with `initdb` and `postgres` that can be run by whom they have to be run."""
    if importlib.util.find_spec("dagster_postgres") is None:
        raise NoPostgres("dagster-postgres is not installed: install the development dependencies.")
    tried = []
    for folder in _folders():
        command = [folder / "postgres", "--version"]
        try:
            subprocess.run(command, check=True, cwd="/", capture_output=True, timeout=60, **as_user(_user()))
            return folder
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(f"{folder}: {error}")
    raise NoPostgres(
        "There is no Postgres here: pgserver has one for Python up to 3.12, Debian's package is postgresql. "
        + "; ".join(tried)
    )


def _folders() -> Iterator[Path]:
    pgserver = importlib.util.find_spec("pgserver")
    if pgserver is not None and pgserver.origin:
        yield Path(pgserver.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("postgres")
    if on_path and (Path(on_path).resolve().parent / "initdb").exists():
        yield Path(on_path).resolve().parent


def _user() -> str | None:
    """Who Postgres runs as: whoever we are, but never root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    found = next((name for name in ("postgres", "nobody") if name in names), None)
    if found is None:
        raise NoPostgres("Postgres does not run as root, and there is neither a user postgres nor nobody here.")
    return found
