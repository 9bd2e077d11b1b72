"""Marks and sweeps by the real command on Spark elsewhere, whose machines know nothing of lakegc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakegc_core.spark import shipping
from lakegc_core.store.base import connect
from lakegc_sandbox.api.server import SandboxServer
from lakegc_sandbox.lakefs import Sandbox
from tests.core.whole.test_pipeline_on_stores import DAY, history
from tests.support.lake import QUICK
from tests.support.servers import ACCESS_KEY, SECRET_KEY, S3Server, seaweedfs
from tests.support.spark_cluster import CONNECT_JARS, Cluster, cluster, connect_server, executors_python
from tests.support.waiting import STARTS

EXECUTORS_KEY = "LAKEGCEXECUTORS"
EXECUTORS_SECRET = "executors/only+secret=9876543210"


def of_a_cluster(running: Cluster, python: Path) -> dict[str, Any]:
    """`spark` of lakegc.yaml as a team with a cluster writes it, made small for two cores."""
    conf = {
        "spark.pyspark.python": str(python),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    } | QUICK
    return {"master": running.master, "conf": conf}


def lakegc(home: Path, variables: dict[str, str], *arguments: str) -> Any:
    """The one JSON object of a command that does what it should."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYSPARK_"))}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # of Java, not of settings
    done = subprocess.run(
        [sys.executable, "-m", "lakegc_core.cli", *arguments, "--json"],
        env=inherited | variables | {"HOME": str(home), "XDG_CACHE_HOME": cache},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * STARTS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def logged(folder: Path) -> str:
    """All that is written in text below a folder."""
    return "\n".join(
        file.read_text(errors="replace") for file in folder.rglob("*") if file.name in ("stdout", "stderr")
    )


@pytest.mark.slow
def test_executors_with_nothing_of_lakegc_mark_and_sweep_with_credentials_of_their_own(tmp_path: Path) -> None:
    python = executors_python(tmp_path / "executors")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    without = subprocess.run([python, "-c", "import lakegc_core"], env=bare, cwd=tmp_path, capture_output=True)
    assert b"ModuleNotFoundError" in without.stderr, "the executors' Python must not have lakegc"

    with seaweedfs(tmp_path, more_keys={EXECUTORS_KEY: EXECUTORS_SECRET}) as s3:
        theirs = environment_of(s3, EXECUTORS_KEY, EXECUTORS_SECRET)
        with cluster(tmp_path, 2, theirs) as running:
            mark_and_sweep(tmp_path, s3, of_a_cluster(running, python))
            for worker in running.workers:
                assert list(worker.rglob(shipping.package().name)), f"{worker.name} was given the package"
                text = logged(worker)
                assert text and SECRET_KEY not in text and EXECUTORS_SECRET not in text


@pytest.mark.slow
@pytest.mark.skipif(not CONNECT_JARS, reason="this PySpark comes without the server")
def test_a_spark_connect_server_that_knows_nothing_of_lakegc_marks_and_sweeps(tmp_path: Path) -> None:
    python = executors_python(tmp_path / "executors")
    with seaweedfs(tmp_path, more_keys={EXECUTORS_KEY: EXECUTORS_SECRET}) as s3:
        theirs = environment_of(s3, EXECUTORS_KEY, EXECUTORS_SECRET) | {"PYSPARK_PYTHON": str(python)}
        with connect_server(tmp_path, theirs) as master:
            mark_and_sweep(tmp_path, s3, {"master": master, "conf": {"spark.sql.shuffle.partitions": "2"}})


def environment_of(s3: S3Server, key: str, secret: str) -> dict[str, str]:
    return s3.environment() | {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}


def mark_and_sweep(folder: Path, s3: S3Server, spark: dict[str, Any]) -> None:
    home = folder / "home"
    home.mkdir()
    (home / "lakegc.yaml").write_text(yaml.safe_dump({"spark": spark}), encoding="utf-8")
    sandbox = Sandbox(folder / "lakefs", blockstore="s3", seed=1)
    config = s3.config("team/lake")
    repository = sandbox.create_repository("lake", f"s3://{s3.bucket}/team/lake", store=config, age=30 * DAY)
    live, dead = history(repository)
    with SandboxServer(sandbox) as server:
        variables = environment_of(s3, ACCESS_KEY, SECRET_KEY) | {
            "LAKECTL_SERVER_ENDPOINT_URL": server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
            "LAKEGC_UNSAFE": "yes",
        }
        done = lakegc(home, variables, "run", "lake", "--mark-id", "m1", "--safety", "none", "--min-age", "0s", "--yes")
        marked, swept = done["mark"], done["sweep"]
        assert marked["authorized"] and marked["objects"]["expired"] == len(dead)
        assert (swept["outcomes"]["deleted"], swept["outcomes"]["failed"]) == (len(dead), 0)
        assert lakegc(home, variables, "du", "lake")["objects"]["objects"] == len(live)
        (told,) = lakegc(home, variables, "explain", "lake", min(live))["objects"]
        assert told["address"] == min(live) and told["size"] is not None
    keys = {key for batch in connect(config).list() for key in batch["address"].to_pylist()}
    assert {key for key in keys if not key.startswith("_lakefs/")} == live
    assert not any("/answers/" in key for key in keys), "an answer leaves nothing behind"
