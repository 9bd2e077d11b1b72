"""A team's wishes for lakegc's place among its own assets. lakegc.yaml decides what is collected, and how."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lakegc_core.errors import SettingsError
from lakegc_core.names import STAGES
from lakegc_core.policy import guards
from lakegc_dagster.partitions import GcCell, Grid
from lakegc_dagster.rounds import check_cron
from lakegc_dagster.translator import LakegcAssetProps, LakegcTranslator

SWEEP = "swept_report"
BACKUP = "backup"
OVER_BACKUPS = guards.BACKUP
"""The guard over backups."""
JUDGED_ANEW = (OVER_BACKUPS, guards.NEIGHBOURS)
"""Guards that may stop a mark and let its sweep pass: a backup is made, or neighbours are marked, after the mark. Core
judges them at the sweep by what is so then."""
JOBS = ("gc_mark", "gc_sweep", "gc", "gc_backup", "gc_restore", "gc_retire", "gc_watch", "gc_doctor", "gc_answers")
"""The plain names of the jobs; `gc_backup` is there where `backup` is an asset."""
REPOSITORY_ASSET = "repository"
"""The plain name of each repository's own asset."""
RESOURCE = "lakegc"
"""The plain key of lakegc's resource."""
_AS_IT_IS = LakegcTranslator()
_NAME = re.compile("[A-Za-z0-9_]+")
_KIND = "dagster/kind/"  # Dagster keeps kinds among tags, and takes them in apart


@dataclass(frozen=True)
class LakegcConfig:
    """Names and labels of the definitions. Values only: the same config always builds the same definitions."""

    key_prefix: tuple[str, ...] = ()  # before every asset key; its parts, joined by "_", before every other name
    mark_group: str = "mark"
    sweep_group: str = "sweep"
    repository_group: str = "repositories"
    tags: Mapping[str, str] = field(default_factory=dict)  # on every asset, job, sensor and schedule
    job_tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # on runs, by the plain name of their job
    owners: tuple[str, ...] = ()  # such as team:data-platform
    store_kinds: tuple[str, ...] = ()  # of the store that the repositories lie on, such as s3; on every asset
    pool: str | None = None  # Dagster's pool of the steps that mark, back up and sweep; its limit is the instance's
    repositories: tuple[str, ...] = ()  # that have an asset of their own, beside those of marks and sweeps
    backup: bool = False  # an asset that copies what a sweep would delete to lakegc.yaml's `backup_to`, before it
    round_cron: str = "0 2 * * *"  # UTC, as all of them: when a round of marks is opened
    watch_cron: str = "0 8 * * *"  # by when every repository must have been marked since the round was opened
    retire_cron: str = "0 12 * * *"  # when old marks are retired
    translator: LakegcTranslator = _AS_IT_IS  # gives the assets other keys, groups, tags, owners or texts

    def __post_init__(self) -> None:
        for name in ("round_cron", "watch_cron", "retire_cron"):
            if not check_cron(getattr(self, name)):
                raise SettingsError(f"`{name}` must be a cron expression of five fields, not {getattr(self, name)!r}.")
        odd = [part for part in self.key_prefix if not _NAME.fullmatch(part)]
        if odd:
            raise SettingsError(
                f"`key_prefix` has {', '.join(map(repr, odd))}: its parts become parts of names in Dagster, which have "
                "only letters without accents, digits and underscores."
            )
        for repository in self.repositories:
            GcCell.checked(repository, "any")
        twice = sorted({each for each in self.repositories if self.repositories.count(each) > 1})
        if twice:
            raise SettingsError(f"`repositories` names {', '.join(twice)} more than once: name each once.")
        unknown = sorted({*self.job_tags} - {*JOBS})
        if unknown:
            raise SettingsError(f"`job_tags` names no job {', '.join(unknown)}; the jobs are {', '.join(JOBS)}.")

    @property
    def grid(self) -> Grid:
        """The partitions of every asset."""
        return Grid.named(self.key_prefix)

    @property
    def assets(self) -> tuple[str, ...]:
        """The names of the assets that there are, in their order."""
        return (*STAGES, *((BACKUP,) if self.backup else ()), SWEEP)

    def op(self, asset: str) -> str:
        """The name of an asset's step, by which a run is given its config."""
        return self.key(asset).to_python_identifier()

    def key(self, asset: str) -> dg.AssetKey:
        """The key of one of lakegc's assets."""
        return self._translated(asset).key

    def repository_key(self, repository: str) -> dg.AssetKey:
        """The key of a repository's own asset."""
        return self._translated(REPOSITORY_ASSET, repository).key

    def _translated(self, name: str, repository: str | None = None, **more: Any) -> dg.AssetSpec:
        path = [name] if repository is None else ["lakefs", repository]
        spec = dg.AssetSpec([*self.key_prefix, *path], **more)
        return self.translator.get_asset_spec(LakegcAssetProps(name, spec, repository))

    def spec(
        self,
        name: str,
        *,
        group: str,
        kinds: Set[str],
        deps: Sequence[str] = (),
        repository: str | None = None,
        **more: Any,
    ) -> dg.AssetSpec:
        """An asset with what all of lakegc's assets have in common, as the translator has it. `more`: of its spec.

        SettingsError if the translator gives it another key than when it is asked for the key alone.
        """
        found = self._translated(
            name,
            repository,
            group_name=self.job_name(group),
            kinds={*kinds, *self.store_kinds},
            tags=dict(self.tags),
            owners=list(self.owners),
            **more,
        )
        key = self._translated(name, repository).key
        if found.key != key:
            raise SettingsError(
                f"The translator names {name} {found.key.to_user_string()} and {key.to_user_string()}: its key may "
                "depend only on the name, the repository and the key that it had."
            )
        return found.replace_attributes(deps=[*(self.key(dep) for dep in deps), *found.deps])

    def job_name(self, job: str) -> str:
        """The name of one of lakegc's jobs, sensors, schedules or groups of assets."""
        return "_".join([*self.key_prefix, job])

    def of_job(self, job: str) -> dict[str, Any]:
        """The arguments of a job that the config decides. Owners of jobs, sensors and schedules are beta in
        Dagster, which warns of them."""
        tags = dict(self.tags)
        runs = {**tags, **self.job_tags.get(job, {})}
        return {"name": self.job_name(job), "tags": tags, "run_tags": runs}

    @property
    def resource_key(self) -> str:
        """The key of the `LakegcResource` that everything here works with. The prefix stands behind: a resource's key
        may not begin with a digit."""
        return "_".join([RESOURCE, *self.key_prefix])

    def asset(
        self,
        name: str,
        *,
        group: str,
        kinds: Set[str],
        deps: Sequence[str] = (),
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
        """`dg.asset` for a `spec`. `description`: else the function's. `more`: of the step."""

        def of(function: Callable[..., Any]) -> dg.AssetsDefinition:
            said = description or inspect.getdoc(function)
            # A step without config would take any, and a `min_age` that is written there would not count.
            schema: dict[str, Any] = {} if "config" in inspect.signature(function).parameters else {"config_schema": {}}
            spec = self.spec(name, group=group, kinds=kinds, deps=deps, description=said, metadata=metadata)
            found: dg.AssetsDefinition = dg.asset(
                key=spec.key,
                deps=list(spec.deps),
                description=spec.description,
                metadata=spec.metadata,
                group_name=spec.group_name,
                kinds=spec.kinds,
                tags={tag: value for tag, value in spec.tags.items() if not tag.startswith(_KIND)},
                owners=list(spec.owners),
                code_version=spec.code_version,
                automation_condition=spec.automation_condition,
                freshness_policy=spec.freshness_policy,
                partitions_def=self.grid.definition,
                pool=self.pool,
                required_resource_keys={self.resource_key},
                **schema,
                **more,
            )(function)
            return found

        return of
