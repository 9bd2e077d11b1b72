"""What the assets are given to work with: lakegc's settings, lakeFS, and a Spark session. All of it lazily.

Definitions load without a lakeFS, without settings and without Java. Credentials are never fields of a resource
(Dagster shows those): they come from lakectl's file or the environment of the process that runs the step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lakegc_core import spark as core_spark
from lakegc_core.context import RepositoryContext, open_repository
from lakegc_core.settings import Settings
from lakegc_dagster.partitions import GcCell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LakegcResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it provides itself
    """lakegc's settings and its Spark session, both found where the command line finds them."""

    config_file: str | None = Field(
        default=None, description="lakegc.yaml; else LAKEGC_CONFIG, else ./lakegc.yaml where there is one."
    )
    pyspark: LazyPySparkResource = Field(
        default_factory=lambda: LazyPySparkResource(spark_config={}),
        description="Spark settings that win over lakegc.yaml's. Never credentials: Dagster shows them to everybody.",
    )

    def settings(self) -> Settings:
        """The settings as they stand now."""
        return Settings.load(self.config_file, os.environ)

    def open(self, cell: GcCell, say: Callable[[str], None]) -> RepositoryContext:
        """Ask lakeFS for the cell's repository. Writes nothing."""
        settings = self.settings()
        settings.server.require()
        return open_repository(settings, cell.repository, say=say)

    @property
    def spark(self) -> SparkSession:
        """The process's Spark session; it stays for the steps and runs that follow in the same process."""
        spark, own = self.settings().spark, _flat(self.pyspark.spark_config)
        if "spark.remote" not in own:  # Spark Connect brings its own server
            master = own.pop("spark.master", spark.master)
            core_spark.session(master, {**spark.conf, **own})
        session: SparkSession = self.pyspark.spark_session
        return session


def _flat(conf: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Spark settings with dotted names, whether they were written so or nested."""
    found: dict[str, str] = {}
    for name, value in conf.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
