"""The real command over recordings on S3 and on a folder: its exit codes and its contract.

A run, which marks and sweeps, and a refusal are processes of their own. All else runs in the test's process, with the
session of the whole run: a start takes seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core.cli import main, opening
from lakegc_core.names import STAGES
from lakegc_core.policy.guards import GUARDS
from tests.support.replays import Replay, environment, replayed
from tests.support.waiting import STARTS, asks_again_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK_KEYS = {
    "repository",
    "mark_id",
    "started_at",
    "cutoff",
    "objects",
    "bytes",
    "commits",
    "guards",
    "authorized",
    "seconds",
    "artifacts",
}
OBJECT_KEYS = {"listed", "committed", "uncommitted", "foreign", "young", "expired"}
SWEEP_KEYS = {"repository", "mark_id", "sweep", "outcomes", "bytes_deleted", "seconds", "report"}
OUTCOMES = {"deleted", "already_gone", "rescued", "unconfirmed", "failed"}


@dataclass
class Command:
    """`lakegc` in a home of its own."""

    replay: Replay
    home: Path
    spark: SparkSession

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        java = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # for a life of seconds
        mine = os.environ | java | self.replay.variables() | {"HOME": str(self.home)} | variables
        return subprocess.run(
            [sys.executable, "-m", "lakegc_core.cli", *arguments],
            env=mine,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * STARTS,
            check=False,
        )

    def here(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The same without a process of its own."""
        mine = self.replay.variables() | {"HOME": str(self.home)} | variables
        out, err = StringIO(), StringIO()
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(opening, "spark_of", lambda *_, **__: self.spark)
            patch.setattr(sys, "stdin", StringIO())
            asks_again_at_once(patch)
            for each in (environment(mine), chdir(self.home), redirect_stdout(out), redirect_stderr(err)):
                stack.enter_context(each)
            try:
                code: Any = main(arguments)
            except SystemExit as ended:  # argparse's way
                code = ended.code
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The one JSON object that a process of its own writes to stdout."""
        return self._json(self(*arguments, "--json"), code)

    def json_here(self, *arguments: str, code: int = 0, **variables: str) -> Any:
        """The same without a process of its own."""
        return self._json(self.here(*arguments, "--json", **variables), code)

    @staticmethod
    def _json(done: subprocess.CompletedProcess[str], code: int) -> Any:
        assert done.returncode == code, done.stderr
        assert done.stdout.count("\n") == 1, "exactly one line"
        return json.loads(done.stdout)

    @property
    def marking(self) -> list[str]:
        """The options that make a mark judge as the recording did."""
        age = f"{int(self.replay.min_age.total_seconds())}s"
        return [self.replay.repository, "--safety", "none", "--min-age", age]


@pytest.fixture(scope="module", params=["unified_gc", pytest.param("local_rich", marks=pytest.mark.slow)])
def lakegc(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Command]:
    """The command over a recording on S3, and over one in a folder."""
    with replayed(request.param, tmp_path_factory.mktemp("cli")) as replay:
        yield Command(replay, tmp_path_factory.mktemp("home"), spark)


def check_mark(found: dict[str, Any], replay: Replay) -> None:
    assert found.keys() >= MARK_KEYS
    assert found["objects"].keys() >= OBJECT_KEYS
    assert found["bytes"].keys() >= {"listed", "expired"}
    assert found["commits"].keys() >= {"known", "retained"}
    assert [guard["name"] for guard in found["guards"]] == [guard.name for guard in GUARDS]
    assert all(guard.keys() >= {"name", "passed", "severity", "description"} for guard in found["guards"])
    assert set(found["seconds"]) == set(STAGES)
    assert found["repository"] == replay.repository and found["mark_id"] == "m1"
    assert found["objects"]["expired"] == len(replay.right())
    assert found["authorized"] is True


@pytest.fixture(scope="module")
def m1(lakegc: Command) -> Any:
    """What the command said of the mark `m1`, which it made."""
    return lakegc.json_here("mark", *lakegc.marking, "--mark-id", "m1")


@dataclass(frozen=True)
class Swept:
    """What lay in the store before `m1` was swept, and what the commands said up to that."""

    before: dict[str, int]
    review: Any
    addresses: str
    refused: subprocess.CompletedProcess[str]
    dry: Any
    left_by_dry: dict[str, int]
    said: Any


@pytest.fixture(scope="module")
def swept(lakegc: Command, m1: Any, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """`m1`, reviewed and swept."""
    replay, repository, file = lakegc.replay, lakegc.replay.repository, tmp_path_factory.mktemp("list") / "list"
    return Swept(
        before=replay.files(),
        review=lakegc.json_here("review", repository, "m1", "--addresses", str(file)),
        addresses=file.read_text(encoding="utf-8"),
        refused=lakegc("sweep", repository, "m1"),
        dry=lakegc.json_here("sweep", repository, "m1", "--dry-run"),
        left_by_dry=replay.files(),
        said=lakegc.json_here("sweep", repository, "m1", "--yes"),
    )


def test_a_mark_is_made_reviewed_swept_and_listed(lakegc: Command, m1: Any, swept: Swept) -> None:
    replay, repository = lakegc.replay, lakegc.replay.repository
    check_mark(m1, replay)
    check_mark(swept.review, replay)
    assert set(swept.addresses.splitlines()) == replay.right()

    assert swept.refused.returncode == 2 and "--yes" in swept.refused.stderr
    assert swept.dry.keys() >= SWEEP_KEYS and swept.dry["outcomes"]["deleted"] == 0
    assert swept.left_by_dry == swept.before

    said = swept.said
    assert said.keys() >= SWEEP_KEYS and said["outcomes"].keys() >= OUTCOMES
    assert said["outcomes"]["deleted"] == len(replay.right()) and said["outcomes"]["failed"] == 0
    assert said["bytes_deleted"] == sum(swept.before[key] for key in replay.right())
    assert said["sweep"] == 1 and said["report"].endswith("report.json")
    assert replay.files() == {key: size for key, size in swept.before.items() if key not in replay.right()}

    listed = lakegc.json_here("marks", repository)
    assert [mark["mark_id"] for mark in listed] == ["m1"]
    assert listed[0]["state"] == "swept"
    assert lakegc.here("marks", repository).stdout.split()[0] == "m1"


ON_S3_ALONE = pytest.mark.parametrize("lakegc", ["unified_gc"], indirect=True)
"""For what does not depend on the store."""


@ON_S3_ALONE
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "VERB"),
        (["destroy"], "destroy"),
        (["mark"], "REPO"),
        (["mark", "REPO", "--safety", "paranoid"], "paranoid"),
        (["mark", "REPO", "--min-age", "soon"], "duration"),
        (["mark", "REPO", "--mark-id", "../x"], "mark id"),
        (["mark", "REPO", "--config", "no-such.yaml"], "no-such.yaml"),
        (["sweep", "REPO"], "MARK_ID"),
        (["sweep", "REPO", "m1", "--accept", "order", "--because", "so"], "cannot be accepted"),
        (["sweep", "REPO", "m1", "--accept", "blast-radius"], "--because"),
        (["run", "REPO", "--mark-id", "r1"], "--yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_and_wrong_settings_end_with_2(lakegc: Command, m1: Any, arguments: list[str], says: str) -> None:
    done = lakegc.here(*(lakegc.replay.repository if each == "REPO" else each for each in arguments))
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


@ON_S3_ALONE
def test_what_is_unsafe_needs_its_word_and_the_server_its_settings(lakegc: Command) -> None:
    repository = lakegc.replay.repository
    for variables, says in (
        ({"LAKEGC_UNSAFE": "", "LAKEGC_NOW": ""}, "LAKEGC_UNSAFE=yes"),
        ({"LAKEGC_UNSAFE": ""}, "LAKEGC_UNSAFE=yes"),
        ({"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": ""}, "secret access key"),
    ):
        done = lakegc.here("mark", repository, "--safety", "none", "--json", **variables)
        error = json.loads(done.stdout)
        assert done.returncode == 2 and done.stdout.count("\n") == 1
        assert says in error["error"] and error["exit_code"] == 2


@ON_S3_ALONE
def test_a_minimum_age_below_the_grace_period_ends_with_2(lakegc: Command) -> None:
    error = lakegc.json_here(
        "mark", lakegc.replay.repository, "--min-age", "1h", code=2, LAKEGC_UNSAFE="", LAKEGC_NOW=""
    )
    assert "--min-age" in error["error"]


@ON_S3_ALONE
def test_failures_end_with_1(lakegc: Command) -> None:
    for arguments in (("mark", "no-such-repository"), ("review", lakegc.replay.repository, "no-such-mark")):
        done = lakegc.here(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("lakegc: ") and "Traceback" not in done.stderr and done.stdout == ""


def test_a_mark_that_its_guards_do_not_authorise_is_complete_and_its_sweep_ends_with_3(
    lakegc: Command, swept: Swept
) -> None:
    """At level `standard` so large a share is not swept, and the mark that lists too short a time ago neither."""
    replay = lakegc.replay
    config = "lease: external\nrepositories: [{match: '*', safety: standard}]"  # rclone has no conditional writes
    (lakegc.home / "strict.yaml").write_text(config, encoding="utf-8")
    before = replay.files()
    error = lakegc.json_here("sweep", replay.repository, "m1", "--yes", "--config", "strict.yaml", code=3)
    assert "Nothing was deleted" in error["error"]
    review = lakegc.json_here("review", replay.repository, "m1", "--config", "strict.yaml")
    assert review["authorized"] is False
    shown = lakegc.here("review", replay.repository, "m1", "--config", "strict.yaml").stdout.splitlines()[-1]
    assert shown.startswith("swept ") and f"{len(replay.right()):,} objects deleted" in shown
    lakegc.json_here("mark", *lakegc.marking, "--safety", "standard", "--mark-id", "m9", "--config", "strict.yaml")
    shown = lakegc.here("review", replay.repository, "m9", "--config", "strict.yaml").stdout.splitlines()[-1]
    assert "lakegc review" not in shown, "a review that sends one back to itself"
    assert replay.files() == before


def test_a_repository_without_rules_ends_with_3(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    with replayed("no_rules", tmp_path_factory.mktemp("cli")) as replay:
        lakegc = Command(replay, tmp_path_factory.mktemp("home"), spark)
        error = lakegc.json_here("mark", *lakegc.marking, "--mark-id", "m1", code=3)
        assert "--rules keep-all-commits" in error["error"] and error["exit_code"] == 3
        before = replay.files()
        found = lakegc.json("run", *lakegc.marking, "--mark-id", "m2", "--rules", "keep-all-commits", "--yes")
        assert found["mark"]["objects"]["expired"] == 1
        assert found["sweep"]["outcomes"]["deleted"] == 1
        assert before.keys() - replay.files().keys() == replay.right()


@pytest.fixture
def unswept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """A repository with one object of garbage."""
    with replayed("no_rules", tmp_path_factory.mktemp("cli")) as replay:
        yield Command(replay, tmp_path_factory.mktemp("home"), spark)


def run_with_backup(lakegc: Command, policy: str) -> list[str]:
    """The arguments of a run that needs a backup. `policy`: what else lakegc.yaml says of the repository."""
    config = f"lease: external\nrepositories: [{{match: '*', backup: required{policy}}}]"
    (lakegc.home / "strict.yaml").write_text(config, encoding="utf-8")
    return ["run", *lakegc.marking, "--rules", "keep-all-commits", "--yes", "--config", "strict.yaml"]


def test_a_run_makes_the_backup_that_is_required_before_it_sweeps(unswept: Command, tmp_path: Path) -> None:
    run, replay = run_with_backup(unswept, f", backup_to: '{tmp_path}'"), unswept.replay
    dry = unswept.json_here(*run, "--mark-id", "m1", "--dry-run", code=3)
    assert dry["backup"] is None and "backup" in dry["error"] and not list(tmp_path.iterdir())
    before = replay.files()
    found = unswept.json_here(*run, "--mark-id", "m2")
    assert found["backup"]["outcomes"]["copied"] == 1 and found["mark"]["authorized"]
    assert found["sweep"]["outcomes"]["deleted"] == 1
    (gone,) = before.keys() - replay.files().keys()
    assert {gone} == replay.right()
    assert [path.name for path in tmp_path.rglob("*") if gone.endswith(path.name)], "a copy lies there"
    shown = unswept.here(*run, "--mark-id", "m3").stdout
    assert "backup" not in shown and "garbage                           0 objects" in shown


def test_a_run_that_another_guard_stops_or_that_has_no_place_for_its_backup_copies_nothing(
    unswept: Command, tmp_path: Path
) -> None:
    for number, policy in enumerate(("", f", backup_to: '{tmp_path}', blast_radius: 1%")):
        before = unswept.replay.files()
        error = unswept.json_here(*run_with_backup(unswept, policy), "--mark-id", f"m{number}", code=3)
        assert error["backup"] is None and "backup" in error["error"]
        assert not list(tmp_path.iterdir()) and unswept.replay.files().keys() >= before.keys()
