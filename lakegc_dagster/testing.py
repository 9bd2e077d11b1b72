"""For the tests of a project that uses lakegc: a lakeFS on this machine, a resource that reaches it, a mark.

Nothing here is a stand-in. The lakeFS is lakegc's sandbox, with real files in a folder; the mark is made by the job
`gc_mark` and its checks. No part of lakegc but this module and `sandbox_ui` knows the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.resources import LakegcResource
from lakegc_sandbox import Sandbox, SandboxServer, build_demo

REPOSITORY, MARK_ID = "demo", "20260101T0200Z"
_SETTINGS = """\
spark: {{master: "local[2]", conf: {{spark.sql.shuffle.partitions: "2"}}}}
stores: [{{match: "local://", root: "{root}"}}]
repositories: [{{match: "*"}}]
"""


@dataclass(frozen=True)
class SandboxLake:
    """A lakeFS that runs. `resource`: reaches it, with keys that are no secret. `sandbox`: makes repositories."""

    sandbox: Sandbox
    resource: LakegcResource


@contextmanager
def sandbox_lake(folder: Path) -> Iterator[SandboxLake]:
    """An embedded lakeFS in an empty folder until the block ends. Its repository `demo` has two months behind it, with
    garbage. Its settings are `folder`/lakegc.yaml, and can be written anew: level `full`, as by default."""
    sandbox = Sandbox(folder / "lake", seed=1)
    build_demo(sandbox, REPOSITORY)
    settings = folder / "lakegc.yaml"
    settings.write_text(_SETTINGS.format(root=sandbox.root), encoding="utf-8")
    with SandboxServer(sandbox) as server:
        resource = LakegcResource(
            config_file=str(settings),
            endpoint_url=server.url,
            access_key_id=server.access_key,
            secret_access_key=server.secret_key,
        )
        yield SandboxLake(sandbox, resource)


def materialized_mark(
    defs: dg.Definitions,
    instance: dg.DagsterInstance,
    config: LakegcConfig | None = None,
    *,
    repository: str = REPOSITORY,
    mark_id: str = MARK_ID,
) -> dg.ExecuteInProcessResult:
    """Run `gc_mark` for one partition, which becomes known to the instance, and return the run. It takes half a minute
    at first, for Spark. An error of a step is raised. `config`: with which `defs` were built."""
    options, cell = config or LakegcConfig(), GcCell.checked(repository, mark_id)
    cell.register(instance, options.grid)
    job = defs.resolve_job_def(options.job_name("gc_mark"))
    return job.execute_in_process(partition_key=cell.key, instance=instance)
