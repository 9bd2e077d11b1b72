"""What the Dagster tests share: one Spark session, replayed lakeFS repositories, and instances that forget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from golden_replay import Recording, ReplayServer, lay_out, recordings

from lakegc_core.spark import session
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.partitions import GcCell

SECRET = "s3cr3t-that-nobody-may-see/4711"


@pytest.fixture(scope="session")
def spark() -> Any:
    """One JVM for all of them."""
    return session("local[2]", {"spark.driver.memory": "1g"})


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@dataclass
class Lake:
    """One recorded repository on a folder, and Dagster runs over it."""

    recording: Recording
    root: Path
    env: pytest.MonkeyPatch
    instance: dg.DagsterInstance
    defs: dg.Definitions = field(default_factory=build_lakegc_definitions)

    @property
    def repository(self) -> str:
        return self.recording.repository

    @property
    def garbage(self) -> set[str]:
        return set(self.recording.outcome["garbage_when_tags_are_protected"])

    def objects(self) -> set[str]:
        """What lies in the namespace beside lakeFS's metadata and lakegc's artifacts."""
        every = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return {key for key in every if not key.startswith("_lakefs/")}

    def forward(self, seconds: float) -> None:
        """Let the collector believe that it is so much later than when the recording was made."""
        self.env.setenv("LAKEGC_NOW", str(self.recording.cutoff_for_replay[0] + seconds))

    def run(
        self,
        job: str,
        mark_id: str,
        *,
        mark: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
        repository: str | None = None,
    ) -> dg.ExecuteInProcessResult:
        """One run of a job for one cell. What fails, fails in the result."""
        cell = GcCell(repository or self.repository, mark_id)
        cell.register(self.instance)
        configs = {"namespace_listing": mark, "swept_report": sweep}
        ops = {op: {"config": dict(config)} for op, config in configs.items() if config is not None}
        return self.defs.resolve_job_def(job).execute_in_process(
            partition_key=cell.key, instance=self.instance, run_config={"ops": ops}, raise_on_error=False
        )


def open_lake(name: str, folder: Path, env: pytest.MonkeyPatch, instance: dg.DagsterInstance) -> Iterator[Lake]:
    """Lay out a recording, serve it, and let the environment point at it, as an operator's would."""
    found = [each for each in recordings() if each.name == name]
    if not found:
        pytest.skip(f"LAKEGC_GOLDEN holds no recording {name}")
    recording = Recording.load(found[0])
    target = folder / "lake"
    lake = Lake(recording, lay_out(recording, target), env, instance)
    now, age = recording.cutoff_for_replay
    config = folder / "lakegc.yaml"
    config.write_text(f'spark: {{master: "local[2]"}}\nrepositories: [{{match: "*", min_age: {age}s}}]\n')
    with ReplayServer(recording, target, substitute=True) as server:
        for variable, value in {
            "HOME": str(folder),  # nobody's ~/.lakectl.yaml
            "LAKECTL_SERVER_ENDPOINT_URL": server.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIAREPLAY",
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
            "LAKEGC_CONFIG": str(config),
            "LAKEGC_UNSAFE": "yes",
            "LAKEGC_NOW": str(now),
        }.items():
            env.setenv(variable, value)
        yield lake


def failure_of(result: dg.ExecuteInProcessResult, step: str) -> str:
    """What a failed step said."""
    for event in result.all_events:
        if event.is_step_failure and event.step_key == step:
            data = event.step_failure_data
            return (data.user_failure_data.description if data.user_failure_data else None) or str(data.error)
    return ""
