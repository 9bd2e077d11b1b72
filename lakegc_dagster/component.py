"""lakegc as a component of a `dg` project: `build_lakegc_definitions` for one lakeFS, said in a `defs.yaml`.

Loading asks nobody anything. Repositories are found by the sensor `open_round` at each tick, so that no state is kept
between loads. What is an environment variable in the yaml is read when a step or a tick begins, and Dagster shows its
name only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import dagster as dg
from dagster.components import scaffold_component
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver  # as Dagster's integrations do

from lakegc_core.errors import SettingsError
from lakegc_dagster.build import build_lakegc_definitions
from lakegc_dagster.config import RESOURCE, LakegcConfig
from lakegc_dagster.pipes.launching import Launch
from lakegc_dagster.resources import LakegcResource
from lakegc_dagster.translator import LakegcAssetProps, LakegcTranslator

_VARIABLE = re.compile(r"\{\{\s*env(?:\.(\w+)|\(\s*(['\"])(\w+)\2\s*\))\s*\}\}")  # as `dg` itself reads it


def _late(context: dg.ResolutionContext, value: str | None) -> object:
    """An environment variable alone as an `EnvVar`, which is read late; anything else as Dagster resolves it."""
    if value is None:
        return None
    found = _VARIABLE.fullmatch(value.strip())
    return dg.EnvVar(found[1] or found[3]) if found else context.resolve_value(value, as_type=str)


def _beside(context: dg.ResolutionContext, value: str | None) -> str | None:
    return None if value is None else str(context.resolve_source_relative_path(value))


def _no_text(_context: dg.ResolutionContext, value: object) -> object:
    """A value of a template variable that is no text comes as it is; this sees the rest. ValueError for a text."""
    if value is not None:
        raise ValueError(
            f"This attribute takes the value of a template variable, such as '{{{{ NAME }}}}', not {value!r}. Write "
            "the variable in Python, and name its module by `template_vars_module` (docs/dagster.md)."
        )
    return None


def _object(description: str) -> dg.Resolver:
    return dg.Resolver(_no_text, model_field_type=str, description=description)


def _server(description: str) -> dg.Resolver:
    return dg.Resolver(_late, description=description, inject_before_resolve=False)


def _plain(description: str) -> dg.Resolver:
    resolver: dg.Resolver = dg.Resolver.default(description=description)
    return resolver


@dataclass(frozen=True)
class _Translation(LakegcTranslator):
    """The translator that `translation` in yaml stands for."""

    translate: TranslationFn[LakegcAssetProps]

    def get_asset_spec(self, props: LakegcAssetProps) -> dg.AssetSpec:
        return self.translate(super().get_asset_spec(props), props)


class LakegcScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` whose names and environment variables are those of its folder."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        folder = request.target_path.parent if request.append else request.target_path
        name = re.sub(r"\W", "_", folder.name)
        variables = {
            each: f"{{{{ env.LAKEFS_{name.upper()}_{each.upper()} }}}}"
            for each in ("endpoint_url", "access_key_id", "secret_access_key")
        }
        scaffold_component(request, {"key_prefix": [name], **variables})


@dg.scaffold_with(LakegcScaffolder)
@dataclass(frozen=True)
class LakegcComponent(dg.Component, dg.Resolvable):
    """Garbage collection for one lakeFS: assets, checks, jobs, sensors and schedules.

    Everything that deletes or runs by itself is off until it is turned on. Components of one code location need
    different `key_prefix`es. SettingsError for a secret that is no environment variable, and for a cron expression
    that is none.
    """

    key_prefix: Annotated[
        Sequence[str], _plain("Prefix of every asset key; joined by _, of all other names. Tells lakeFS servers apart.")
    ] = ()
    endpoint_url: Annotated[str | None, _server("URL of lakeFS; else lakegc.yaml's, else lakectl's.")] = None
    access_key_id: Annotated[str | None, _server("Key id for lakeFS; else lakectl's.")] = None
    secret_access_key: Annotated[
        str | None, _server("Its secret, as an environment variable: {{ env.NAME }}. Else lakectl's.")
    ] = None
    config_file: Annotated[
        str | None, dg.Resolver(_beside, description="lakegc.yaml, from the folder of this file; else LAKEGC_CONFIG.")
    ] = None
    mark_group: Annotated[str, _plain("Group of the marking assets.")] = LakegcConfig.mark_group
    sweep_group: Annotated[str, _plain("Group of the sweep and its backup.")] = LakegcConfig.sweep_group
    repository_group: Annotated[str, _plain("Group of the assets of repositories.")] = LakegcConfig.repository_group
    tags: Annotated[Mapping[str, str], _plain("Tags of every asset, job, sensor and schedule.")] = field(
        default_factory=dict
    )
    job_tags: Annotated[Mapping[str, Mapping[str, str]], _plain("Tags of runs, by the plain name of their job.")] = (
        field(default_factory=dict)
    )
    owners: Annotated[Sequence[str], _plain("Owners of every asset, such as team:data-platform.")] = ()
    pool: Annotated[str | None, _plain("Dagster's pool of the steps that mark, back up and sweep.")] = None
    store_kinds: Annotated[
        Sequence[str], _plain("Kinds of the store that the repositories lie on, such as s3: on every asset.")
    ] = ()
    repositories: Annotated[Sequence[str], _plain("Repositories that have an asset of their own.")] = ()
    backup: Annotated[bool, _plain("Whether there is an asset that takes a backup before the sweep.")] = False
    round_cron: Annotated[str, _plain("When a round of marks is due, in UTC.")] = LakegcConfig.round_cron
    watch_cron: Annotated[str, _plain("When missed rounds are looked for, in UTC.")] = LakegcConfig.watch_cron
    retire_cron: Annotated[str, _plain("When old marks are retired, in UTC.")] = LakegcConfig.retire_cron
    pyspark: Annotated[Any, _object("A template variable: dagster-pyspark's LazyPySparkResource.")] = None
    s3: Annotated[Any, _object("A template variable: dagster-aws's S3Resource.")] = None
    azure: Annotated[Any, _object("A template variable: dagster-azure's AzureBlobStorageResource.")] = None
    launch: Annotated[Launch | None, _object("A template variable: runs a Pipes client (docs/pipes.md).")] = None
    translation: Annotated[
        TranslationFn[LakegcAssetProps] | None,
        TranslationFnResolver[LakegcAssetProps](lambda props: {"props": props}),
    ] = None  # what other keys, groups, tags, owners and texts the assets get; `props` and `spec` stand for each

    def __post_init__(self) -> None:
        if self.secret_access_key is not None and not isinstance(self.secret_access_key, dg.EnvVar):
            raise SettingsError(
                "`secret_access_key` must be an environment variable: '{{ env.NAME }}' in yaml, EnvVar(\"NAME\") in "
                "Python. Dagster shows anything else to everybody."
            )
        _ = self.options

    @property
    def options(self) -> LakegcConfig:
        """Names and labels of the definitions."""
        given = {each.name: getattr(self, each.name) for each in fields(LakegcConfig) if each.name != "translator"}
        several = {name: tuple(given[name]) for name in ("key_prefix", "owners", "store_kinds", "repositories")}
        translator = {} if self.translation is None else {"translator": _Translation(self.translation)}
        return LakegcConfig(**given | several | translator)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """`build_lakegc_definitions` with a resource for this lakeFS. The project keeps its executor."""
        own = {name: getattr(self, name) for name in LakegcResource.model_fields}
        resource = LakegcResource(**{name: value for name, value in own.items() if value is not None})
        return build_lakegc_definitions(self.options, resource_overrides={RESOURCE: resource}, launch=self.launch)
