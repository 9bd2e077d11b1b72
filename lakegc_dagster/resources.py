"""The resources of the assets: lakegc's settings, lakeFS, and a Spark session. All of it lazily.

Definitions load without a lakeFS, without settings and without Java. Credentials come from lakectl's file or the
environment of the process that runs the step, where several lakeFS servers need keys of their own from fields that
hold an `EnvVar`, and for a store from Dagster's own resource for it. Dagster shows the name of an `EnvVar`, never its
value; it shows a text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.errors import SettingsError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks.context import RepositoryContext, open_repository
from lakegc_core.spark import session as core_spark
from lakegc_dagster.config import LakegcConfig
from lakegc_dagster.partitions import GcCell
from lakegc_dagster.stores import azure_access, s3_access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TICK_TIMEOUT = 5.0  # seconds a call; six of them and the waits between are less than the minute that a tick may take


class LakegcResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # it provides itself
    """lakegc's settings and its Spark session, both found where the command line finds them."""

    config_file: str | None = Field(
        default=None, description="lakegc.yaml; else LAKEGC_CONFIG, else ./lakegc.yaml where there is one."
    )
    endpoint_url: str | None = Field(default=None, description="URL of lakeFS; else lakegc.yaml's, else lakectl's.")
    access_key_id: str | None = Field(default=None, description="Key id for lakeFS; else lakectl's.")
    secret_access_key: str | None = Field(
        default=None, repr=False, description="Its secret, as EnvVar: Dagster shows anything else to everybody."
    )
    pyspark: LazyPySparkResource = Field(
        default_factory=lambda: LazyPySparkResource(spark_config={}),
        description="Spark settings that win over lakegc.yaml's. Never credentials: Dagster shows them to everybody.",
    )

    s3: dg.ConfigurableResource | None = Field(  # type: ignore[type-arg]  # a parameter would make pydantic copy it
        default=None,
        description="dagster-aws's S3Resource, if stores on S3 are not to be reached by boto3's own chain.",
    )
    azure: dg.ConfigurableResource | None = Field(  # type: ignore[type-arg]
        default=None, description="dagster-azure's AzureBlobStorageResource, for the storage account that it names."
    )

    def settings(self) -> Settings:
        """The settings as they stand now.

        SettingsError for one of the two keys alone, and for a store's resource that asks for what lakegc cannot do.
        """
        found = Settings.load(self.config_file, os.environ)
        return replace(
            found,
            server=self._server(found.server),
            s3=None if self.s3 is None else s3_access(self.s3),
            azure=None if self.azure is None else azure_access(self.azure),
        )

    def _server(self, found: ServerSettings) -> ServerSettings:
        """lakeFS as the fields name it; what they leave out, as it was found."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise SettingsError("lakegc has only one of `access_key_id` and `secret_access_key`: give both or neither.")
        own = {name: getattr(self, name) for name in ("endpoint_url", "access_key_id", "secret_access_key")}
        # An empty text is given, too: a variable left empty must not lead to another lakeFS.
        return replace(found, **{name: value for name, value in own.items() if value is not None})

    def client(self) -> LakeFSClient:
        """lakeFS, for a sensor: it is asked little, and not waited for longer than a tick may take."""
        server = self.settings().server
        shorter = {name: min(getattr(server, name), _TICK_TIMEOUT) for name in ("connection_timeout", "read_timeout")}
        return LakeFSClient(replace(server, **shorter))

    def open(self, cell: GcCell, say: Callable[[str], None]) -> RepositoryContext:
        """Ask lakeFS for the cell's repository. Writes nothing."""
        settings = self.settings()
        settings.server.require()
        return open_repository(settings, cell.repository, say=say)

    @property
    def spark(self) -> SparkSession:
        """The process's Spark session; it stays for the steps and runs that follow in the same process.

        On `spark.remote` or `spark.master` of the resource's settings where it has one, else on lakegc.yaml's.
        """
        spark, own = self.settings().spark, _flat(self.pyspark.spark_config)
        master = own.pop("spark.master", spark.master)
        return core_spark.session(own.pop("spark.remote", master), {**spark.conf, **own})


def resource_of(
    options: LakegcConfig,
    context: dg.AssetExecutionContext
    | dg.AssetCheckExecutionContext
    | dg.OpExecutionContext
    | dg.SensorEvaluationContext,
) -> LakegcResource:
    """The resource that a step or a tick has been given, which must require `options.resource_key`."""
    found: LakegcResource = getattr(context.resources, options.resource_key)
    return found


def _flat(conf: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Spark settings with dotted names, whether they were written so or nested."""
    found: dict[str, str] = {}
    for name, value in conf.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[before + name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
