"""The files of `deploy/` are what they say: Dagster takes the settings, and policies allow what is used, no more."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import dagster as dg
import pytest
import yaml
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config
from dagster._core.storage.config import pg_config

from lakegc_core.config.settings import Settings
from lakegc_core.lakefs import client
from lakegc_core.marks.artifacts import MarkArtifacts
from lakegc_core.store.base import DELETE_PROBES, PROBE_KEY
from lakegc_core.store.local import LocalConfig
from lakegc_core.store.s3 import bucket, deletes
from lakegc_core.store.s3 import settings as s3_settings
from lakegc_core.store.s3 import store as s3
from lakegc_core.store.s3 import undelete as s3_undelete
from lakegc_core.store.s3 import versions as s3_versions
from tests.support.policies import allowed, policy

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

OF_OPERATIONS = {
    "list_objects_v2": "s3:ListBucket",
    "get_bucket_versioning": "s3:GetBucketVersioning",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
}
"""What S3 asks permission for when boto3 is called so."""
OF_VERSIONS = {
    "list_object_versions": "s3:ListBucketVersions",
    "delete_object": "s3:DeleteObjectVersion",
    "delete_objects": "s3:DeleteObjectVersion",
}
"""The same where deletes name versions, as all do with `versions: delete`."""
OF_SETTINGS = {
    "get_bucket_versioning": "s3:GetBucketVersioning",
    "get_object_lock_configuration": "s3:GetBucketObjectLockConfiguration",
    "get_bucket_encryption": "s3:GetEncryptionConfiguration",
    "get_bucket_lifecycle_configuration": "s3:GetLifecycleConfiguration",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
}
"""The questions that only `lakegc doctor` asks, versioning aside."""
OF_BACKUPS = {"copy_object", "copy", "download_fileobj", "upload_fileobj"}
OF_PARTS = {"s3:AbortMultipartUpload"}
"""What ends an upload in parts of which one fails: a copy of more than 5 GiB."""


NOT_DATA = ("_lakefs/" + "0a" * 32, "README.md", "exports/2024", "data")
"""Keys of lakeFS's metadata, and of what is somebody else's."""


def read_yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


def lakefs_actions(name: str) -> set[str]:
    statements = policy(name)
    assert all(each["effect"] == "allow" for each in statements)
    return {action for each in statements for action in each["action"]}


def test_dagster_takes_the_settings_of_the_instance(tmp_path: Path) -> None:
    dagster_instance_config(str(DEPLOY))  # the file as it is, Postgres and all
    here = read_yaml("dagster.yaml") | {"storage": {"sqlite": {"base_dir": str(tmp_path)}}}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(here), encoding="utf-8")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None and queue.tag_concurrency_limits is not None
        limits = {each["key"]: (each["limit"], each["value"]) for each in queue.tag_concurrency_limits}
        one = (1, {"applyLimitPerUniqueValue": True})
        assert limits["dagster/partition/repository"] == limits["lakegc/repository"] == one
        assert limits["lakegc/store"][1] == {"applyLimitPerUniqueValue": True}
        assert instance.run_monitoring_enabled and instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure, "what a check refused must not be tried again"


def test_postgres_is_reached_by_variables_that_compose_sets_for_whoever_reads_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compose = read_yaml("docker-compose.yaml")["services"]
    storage = read_yaml("dagster.yaml")["storage"]["postgres"]
    variables = {value["env"] for value in storage["postgres_db"].values() if isinstance(value, dict)}
    for name in ("lakegc", "webserver", "daemon"):
        assert variables <= compose[name]["environment"].keys()
    for variable in variables:
        monkeypatch.setenv(variable, f"value-of-{variable}")
    found = process_config(pg_config(), storage)
    assert found.success and found.value is not None
    assert found.value["postgres_db"]["password"] == "value-of-DAGSTER_POSTGRES_PASSWORD"


def test_webserver_and_daemon_find_the_code_location_that_compose_starts() -> None:
    compose = read_yaml("docker-compose.yaml")["services"]
    (location,) = read_yaml("workspace.yaml")["load_from"]
    server = location["grpc_server"]
    command = compose[server["host"]]["command"]
    assert command[command.index("-p") + 1] == str(server["port"])
    assert command[command.index("-m") + 1] == "lakegc_dagster.definitions"
    read = {compose[name]["command"][compose[name]["command"].index("-w") + 1] for name in ("webserver", "daemon")}
    assert read == {"/opt/dagster/workspace.yaml"}


def test_only_the_code_location_is_given_credentials_of_lakefs() -> None:
    compose = read_yaml("docker-compose.yaml")["services"]
    has = {name for name, service in compose.items() if any(each.startswith("LAKE") for each in service["environment"])}
    assert has == {"lakegc"}
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "docker-compose.yaml").read_text(encoding="utf-8")))
    offered = re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text(encoding="utf-8"), re.MULTILINE)
    assert asked == set(offered)


def test_no_container_of_lakegc_has_rights_that_it_does_not_need_and_each_says_whether_it_is_well() -> None:
    compose = read_yaml("docker-compose.yaml")["services"]
    for name in ("lakegc", "webserver", "daemon"):
        assert compose[name]["cap_drop"] == ["ALL"] and compose[name]["security_opt"] == ["no-new-privileges:true"]
        assert compose[name]["healthcheck"]["test"][0] == "CMD"
        assert "storage:/opt/dagster/storage" in compose[name]["volumes"], "else the UI cannot show what runs print"
    for name in ("webserver", "daemon"):
        assert compose[name]["depends_on"]["lakegc"] == {"condition": "service_healthy"}


def test_what_the_store_needs_reaches_the_code_location_alone() -> None:
    compose = read_yaml("docker-compose.yaml")["services"]
    assert {name for name, service in compose.items() if "env_file" in service} == {"lakegc"}
    ((file,),) = (service["env_file"] for service in compose.values() if "env_file" in service)
    assert file == {"path": "store.env", "required": False}
    ignored = [(ROOT / name).read_text(encoding="utf-8").split() for name in (".gitignore", ".dockerignore")]
    assert "deploy/store.env" in ignored[0] and "**/store.env" in ignored[1]


def health_check(name: str) -> list[str]:
    """The command by which a container is asked whether it is well, as this environment runs it."""
    _, program, *rest = read_yaml("docker-compose.yaml")["services"][name]["healthcheck"]["test"]
    return [str(Path(sys.executable).with_name(program)), *map(str, rest)]


def test_the_webserver_is_well_where_it_answers() -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/server_info" else 404)
            self.end_headers()

    *command, program = health_check("webserver")
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = program.replace(":3000/", f":{server.server_port}/")
        well = subprocess.run([*command, there], check=False)
        lost = subprocess.run([*command, there.replace("server_info", "x")], capture_output=True, check=False)
        server.shutdown()
    assert (well.returncode, lost.returncode) == (0, 1)


@pytest.mark.parametrize("name", ["lakegc", "daemon"])
def test_what_has_not_been_started_is_not_well(name: str, tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    env = os.environ | {"DAGSTER_HOME": str(tmp_path)}
    with socket.socket() as deaf:  # nobody else can have its port, on which nobody listens
        deaf.bind(("127.0.0.1", 0))
        command = [str(deaf.getsockname()[1]) if each == "4000" else each for each in health_check(name)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "No such command" not in done.stderr


def test_dagster_takes_the_bucket_for_what_runs_print_that_the_file_offers() -> None:
    """It stands there as a comment, to be taken out of it."""
    text = (DEPLOY / "dagster.yaml").read_text(encoding="utf-8")
    block = re.search(r"^# compute_logs:\n(?:#  .*\n)+", text, re.MULTILINE)
    assert block
    found = yaml.safe_load(re.sub(r"^# ", "", block[0], flags=re.MULTILINE))["compute_logs"]
    manager = getattr(importlib.import_module(found["module"]), found["class"])
    assert process_config(manager.config_type(), found["config"] | {"bucket": "logs"}).success
    assert found["config"]["bucket"] == {"env": "LAKEGC_LOG_BUCKET"}


def test_the_settings_of_the_example_are_settings(tmp_path: Path) -> None:
    settings = Settings.load(str(DEPLOY / "lakegc.yaml"), {"HOME": str(tmp_path)})
    assert settings.policy_for("any").safety == "full"


def test_the_image_copies_what_there_is_and_warms_java_up() -> None:
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    second = len(lines) - 1 - lines[::-1].index("FROM python:3.11-slim")
    copies = {at: shlex.split(line)[1:-1] for at, line in enumerate(lines) if line.startswith("COPY ")}
    copied = [source for sources in copies.values() if sources[0] != "--from=wheel" for source in sources]
    of_source = [at for at, sources in copies.items() if any(each.startswith("lakegc_") for each in sources)]
    assert of_source and max(of_source) < second, "the image has the wheel, not the source"
    assert copied and all((ROOT / source).exists() for source in copied)
    assert "RUN python -m lakegc_core.spark.java" in lines
    user = lines.index("USER lakegc")
    assert user < lines.index("RUN python -m lakegc_core.spark.java"), "the cache lies in the user's own folder"


def test_the_lakefs_policies_allow_what_the_client_asks_for_and_nothing_else() -> None:
    """Each call of the client names the actions it needs: in its message to whoever is refused."""
    asked = set(re.findall(r"\b(?:fs|retention):[A-Z]\w+", Path(client.__file__).read_text(encoding="utf-8")))
    assert len(asked) > 8
    assert lakefs_actions("lakefs-sweep.json") == asked
    assert lakefs_actions("lakefs-mark.json") == asked - {"fs:ReadObject"}, "a mark reads no data through lakeFS"


def test_the_guide_names_the_same_actions_as_the_policies() -> None:
    guide = (DEPLOY / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`((?:fs|retention):\w+)`", guide)) == lakefs_actions("lakefs-sweep.json")


def operations(*modules: ModuleType) -> set[str]:
    """Every operation of S3 in some modules: named to `call`, `answer` or a paginator, or called by botocore's name."""
    known = set(boto3.client("s3", region_name="us-east-1").meta.method_to_api_mapping)
    found = set()
    trees = [ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")) for module in modules]
    for node in (each for tree in trees for each in ast.walk(tree)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("call", "answer", "get_paginator") and isinstance(node.args[0], ast.Constant):
            found.add(str(node.args[0].value))
        elif node.func.attr in known:
            found.add(node.func.attr)
    return found


def granted(name: str) -> set[str]:
    return {action for each in policy(name) if each["effect"] == "Allow" for action in each["action"]}


def test_every_operation_on_s3_has_its_action_and_the_policies_hold_no_other() -> None:
    used = operations(s3, bucket, deletes)
    assert used - OF_BACKUPS == OF_OPERATIONS.keys()
    actions, reads = set(OF_OPERATIONS.values()), {"s3:GetObject"}
    assert granted("s3-mark.json") == actions - {"s3:DeleteObject"} and granted("s3-see-data.json") == reads
    assert granted("s3-retire.json") == actions
    assert granted("s3-sweep.json") == actions | OF_PARTS
    assert granted("s3-backup.json") == actions - {"s3:DeleteObject"} | OF_PARTS
    assert granted("s3-read-backups.json") == reads | {"s3:ListBucket"}


def test_where_old_versions_go_as_well_the_policies_add_what_that_asks_for_and_no_more() -> None:
    used = operations(s3_versions)
    assert used <= OF_VERSIONS.keys() and OF_VERSIONS.keys() <= used | operations(deletes)
    for verb in ("sweep", "retire"):
        assert granted(f"s3-{verb}-versions.json") == granted(f"s3-{verb}.json") | set(OF_VERSIONS.values())


def test_who_takes_deletes_back_may_remove_delete_markers_of_data_and_delete_nothing_else() -> None:
    statements, home = policy("s3-restore.json"), "arn:aws:s3:::BUCKET/PREFIX"
    assert operations(s3_undelete) == {"list_object_versions", "delete_object"}
    asked = {OF_VERSIONS[each] for each in operations(s3_undelete)} | set(OF_OPERATIONS.values())
    assert granted("s3-restore.json") == asked - {"s3:DeleteObject"} | OF_PARTS
    assert allowed(statements, "s3:ListBucketVersions", "arn:aws:s3:::BUCKET")
    assert allowed(statements, "s3:DeleteObjectVersion", f"{home}/data/gk2/cv1")
    assert allowed(statements, "s3:PutObject", f"{home}/data/gk2/cv1"), "where a copy in quarantine goes back to"
    for change in ("s3:DeleteObjectVersion", "s3:DeleteObject", "s3:PutObject"):
        assert not any(allowed(statements, change, f"{home}/{key}") for key in NOT_DATA)
    assert not allowed(statements, "s3:DeleteObject", f"{home}/data/gk2/cv1")


def test_who_drills_may_do_what_sweeps_and_restores_may_and_nothing_else() -> None:
    statements, home = policy("s3-drill.json"), "arn:aws:s3:::BUCKET/PREFIX"
    assert granted("s3-drill.json") == granted("s3-sweep.json") | granted("s3-restore.json")
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
        assert allowed(statements, action, f"{home}/data/gk2/cv1")
        assert not allowed(statements, action, f"{home}/_lakefs/abc")
    assert allowed(statements, "s3:PutObject", f"{home}/data/gk2/cv1")


def test_what_the_doctor_asks_of_the_bucket_stands_in_a_policy_of_its_own_that_changes_nothing() -> None:
    assert operations(s3_settings) == OF_SETTINGS.keys()
    assert granted("s3-doctor.json") == set(OF_SETTINGS.values())
    source = Path(s3_settings.__file__).read_text(encoding="utf-8")
    assert all(action in source for action in OF_SETTINGS.values()), "whoever may not ask is told the action"


@pytest.mark.parametrize(
    ("verb", "versions"),
    [("mark", ""), ("sweep", ""), ("retire", ""), ("sweep", "-versions"), ("retire", "-versions")],
)
def test_data_is_deleted_by_a_sweep_alone_and_marks_by_retirement_alone(verb: str, versions: str) -> None:
    statements, home = policy(f"s3-{verb}{versions}.json"), "arn:aws:s3:::BUCKET/PREFIX"
    assert allowed(statements, "s3:ListBucket", "arn:aws:s3:::BUCKET")
    assert allowed(statements, "s3:ListBucketVersions", "arn:aws:s3:::BUCKET") is bool(versions)
    assert allowed(statements, "s3:GetObject", f"{home}/_lakefs/abc")
    assert allowed(statements, "s3:PutObject", f"{home}/{PROBE_KEY}")
    mark = f"{home}/{MarkArtifacts(LocalConfig('/'), 'm1').folder}/mark.json"
    for delete, may in (("s3:DeleteObject", True), ("s3:DeleteObjectVersion", bool(versions))):
        for data in ("data/gk2/cv1", "0a" * 16):
            assert allowed(statements, delete, f"{home}/{data}") is (may and verb == "sweep")
        assert allowed(statements, delete, mark) is (may and verb == "retire")
        for kept in (*NOT_DATA, "_lakefs/retention/gc/unified/m1/summary.json"):
            assert not allowed(statements, delete, f"{home}/{kept}")
        assert not allowed(statements, delete, "arn:aws:s3:::BUCKET/ELSEWHERE/data/gk2/cv1")
    assert allowed(statements, "s3:GetObject", f"{home}/data/gk2/cv1") is (verb == "sweep"), (
        "to see whether it is there"
    )
    for written in ("data/gk2/cv1", "_lakefs/abc", "_lakegc/x"):
        assert not allowed(statements, "s3:PutObject", f"{home}/{written}")
    asked = ("s3:PutObject", "s3:GetObject", "s3:DeleteObjectVersion" if versions else "s3:DeleteObject")
    tries = all(allowed(statements, action, f"{home}/{DELETE_PROBES}alone") for action in asked)
    assert tries is (verb == "sweep"), "to find out whether deletes can name ETags"


def test_the_guide_speaks_of_every_file() -> None:
    guide = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = [
        path for path in DEPLOY.rglob("*") if path.is_file() and path.name not in ("README.md", ".env", "store.env")
    ]
    assert files and all(os.fspath(path.relative_to(DEPLOY)) in guide for path in files)
