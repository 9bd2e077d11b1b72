"""What the Dagster tests share: one Spark session, replayed lakeFS repositories, and instances that forget."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from lakegc_core import clock
from lakegc_core.names import STAGES
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.metadata.entries import EXPIRED, READY, STARTED, STOPPED_BY
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource
from lakegc_sandbox import Sandbox, SandboxServer
from tests.support.golden_replay import Recording, ReplayServer, lay_out, recordings
from tests.support.lake import quick_session
from tests.support.waiting import asks_again_at_once

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t-that-nobody-may-see/4711"
PRICE = 2_000_000.0  # a month for a GB: the lakes are small


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One JVM for all of them; their tables are small."""
    with quick_session(**{"spark.driver.memory": "1g"}) as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """Runs and ticks in this process do not wait for lakeFS."""
    with pytest.MonkeyPatch.context() as patch:
        asks_again_at_once(patch)
        yield


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
        tags: Mapping[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """One run of a job for one cell. What fails, fails in the result."""
        cell = GcCell(repository or self.repository, mark_id)
        cell.register(self.instance)
        configs = {"namespace_listing": mark, "swept_report": sweep}
        ops = {op: {"config": dict(config)} for op, config in configs.items() if config is not None}
        return self.defs.resolve_job_def(job).execute_in_process(
            partition_key=cell.key, instance=self.instance, run_config={"ops": ops}, tags=tags, raise_on_error=False
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
    config.write_text(
        'spark: {master: "local[2]"}\n'
        f"price: {{per_gb_month: {PRICE}, currency: EUR}}\n"
        f'repositories: [{{match: "*", min_age: {age}s}}]\n'
    )
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


@dataclass
class Site:
    """A team's Dagster over a sandbox lakeFS of its own: definitions, and ticks of their sensors as the daemon has
    them, with cursors, new partitions, and run keys that count once."""

    server: SandboxServer
    config_file: Path
    instance: dg.DagsterInstance
    options: LakegcConfig = field(default_factory=LakegcConfig)
    cursors: dict[str, str | None] = field(default_factory=dict)
    run_keys: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lakegc = LakegcResource(config_file=str(self.config_file))
        self.defs = build_lakegc_definitions(self.options, resource_overrides={"lakegc": self.lakegc})

    def configure(self, repositories: str) -> None:
        """Write lakegc.yaml with these policies."""
        self.config_file.write_text(
            f'server: {{endpoint_url: "{self.server.url}"}}\nspark: {{master: "local[2]"}}\n'
            f'stores: [{{match: "local://", root: "{self.server.sandbox.root}"}}]\n'
            f"repositories:\n{repositories}"
        )

    def create(self, *names: str) -> None:
        """Repositories of a hundred days ago, with a commit and a rule."""
        for name in names:
            repository = self.server.sandbox.create_repository(name, age=timedelta(days=100))
            repository.upload("main", "a", b"1", age=timedelta(days=90))
            repository.commit("main", "one", date=clock.now() - timedelta(days=90))
            repository.set_rules(7)

    def tick(self, name: str) -> Tick:
        """One evaluation of a sensor. What it adds is there afterwards; what it raises is raised."""
        name = self.options.job_name(name)
        cursor, resources = self.cursors.get(name), {self.options.resource_key: self.lakegc}
        with dg.build_sensor_context(
            instance=self.instance, cursor=cursor, resources=resources, sensor_name=name
        ) as context:
            # Dagster's own way to call a sensor directly breaks where it requires a resource by its key.
            result = inspect.unwrap(self.defs.resolve_sensor_def(name))(context)
        if isinstance(result, dg.SkipReason):
            return Tick([], str(result.skip_message))
        assert isinstance(result, dg.SensorResult)
        for request in result.dynamic_partitions_requests or []:
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        with dg.partition_loading_context(dynamic_partitions_store=self.instance):
            for each in result.run_requests or []:  # of one that asks for a partition that is not there, nothing counts
                assert self.options.grid.definition.has_partition_key(str(each.partition_key)), each.partition_key
        self.cursors[name] = result.cursor or self.cursors.get(name)
        fresh = [each for each in result.run_requests or [] if (name, str(each.run_key)) not in self.run_keys]
        self.run_keys |= {(name, str(each.run_key)) for each in fresh}
        return Tick(fresh, str(result.skip_reason.skip_message) if result.skip_reason else "")

    def run(self, job: str, request: dg.RunRequest | None = None, **more: Any) -> dg.ExecuteInProcessResult:
        """Run a job as it was requested, or as `more` says. What fails, fails in the result."""
        if request is not None:
            more |= {
                "partition_key": request.partition_key,
                "run_config": request.run_config,
                "tags": request.tags,
            }
        return self.defs.resolve_job_def(self.options.job_name(job)).execute_in_process(
            instance=self.instance, raise_on_error=False, **more
        )

    def says_marked(
        self, repository: str, mark_id: str, *, started: float, ready: float, expired: int = 5, stopped_by: str = ""
    ) -> None:
        """Let Dagster record a complete mark, without making one."""
        cell = GcCell(repository, mark_id)
        cell.register(self.instance, self.options.grid)
        metadata = {
            STARTED: dg.MetadataValue.timestamp(started),
            READY: dg.MetadataValue.timestamp(ready),
            **({STOPPED_BY: stopped_by} if stopped_by else {}),
            EXPIRED: expired,
        }
        self.instance.report_runless_asset_event(
            dg.AssetMaterialization(self.options.key(STAGES[-1]), partition=str(cell.key), metadata=metadata)
        )

    def queued(self, repository: str, mark_id: str) -> dg.DagsterRun:
        """A run of a round that waits in Dagster's queue."""
        location = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("lakegc"), "__repository__")
        job = self.options.job_name("gc_mark")
        return self.instance.create_run_for_job(
            self.defs.resolve_job_def(job),
            status=dg.DagsterRunStatus.QUEUED,
            remote_job_origin=RemoteJobOrigin(location, job),
            tags={
                "dagster/partition/repository": repository,
                "dagster/partition/mark_id": mark_id,
                "lakegc/repository": repository,
                "lakegc/round": mark_id,
            },
        )

    def files(self, repository: str) -> set[str]:
        """What lies in a repository's namespace beside lakeFS's metadata and lakegc's artifacts."""
        root = self.server.sandbox.root / repository
        every = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        return {key for key in every if not key.startswith("_lakefs/")}


@dataclass(frozen=True)
class Tick:
    """What a sensor asked for, and what it said if that was nothing."""

    requests: list[dg.RunRequest]
    skipped: str

    @property
    def repositories(self) -> list[str]:
        return [GcCell(**key.keys_by_dimension).repository for key in self.keys]

    @property
    def keys(self) -> list[dg.MultiPartitionKey]:
        keys = [each.partition_key for each in self.requests]
        assert all(isinstance(key, dg.MultiPartitionKey) for key in keys)
        return keys  # type: ignore[return-value]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """DAGSTER_HOME, with the settings of the example: for commands in processes of their own."""
    found = tmp_path / "dagster-home"
    found.mkdir()
    (found / "dagster.yaml").write_text((ROOT / "dagster.yaml.example").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(found))
    return found


@contextmanager
def open_site(
    folder: Path, env: pytest.MonkeyPatch, instance: dg.DagsterInstance, options: LakegcConfig | None = None
) -> Iterator[Site]:
    """A site whose lake lies in `folder`. Every repository is collected at level `none`, unless configured anew.

    Its time is the collector's, LAKEGC_NOW where it is set: no test depends on the day on which it runs.
    """
    with SandboxServer(Sandbox(folder / "srv", seed=1, clock=lambda: clock.now().timestamp())) as server:
        for variable, value in {
            "HOME": str(folder),  # nobody's ~/.lakectl.yaml
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": server.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": server.secret_key,
            "LAKEGC_UNSAFE": "yes",
        }.items():
            env.setenv(variable, value)
        for variable in ("LAKECTL_SERVER_ENDPOINT_URL", "LAKEGC_CONFIG", "LAKEGC_NOW"):
            env.delenv(variable, raising=False)
        site = Site(server, folder / "lakegc.yaml", instance, options or LakegcConfig())
        site.configure("  - {match: '*', safety: none, sweep: true}\n")
        yield site
