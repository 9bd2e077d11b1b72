"""A team's own keys, groups, tags, owners and texts for lakegc's assets, as with other integrations of Dagster."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True)
class LakegcAssetProps:
    """One asset of lakegc, for a translator.

    `name`: its plain name, such as `expired_addresses`, or `repository` for an asset that a repository has of its own;
    then `repository` names it. `spec`: the asset as lakegc has it.
    """

    name: str
    spec: dg.AssetSpec
    repository: str | None = None


class LakegcTranslator:
    """Says how each asset of lakegc shows in Dagster. Inherit from it, and change what comes from `super()`:

    class Ours(LakegcTranslator):
        def get_asset_spec(self, props):
            return super().get_asset_spec(props).replace_attributes(group_name="storage")
    """

    def get_asset_spec(self, props: LakegcAssetProps) -> dg.AssetSpec:
        """The asset as it is to show: its key, group, tags, owners, kinds, description and metadata count, and its
        `deps` come beside lakegc's own. Partitions stay lakegc's.

        The key may depend on the `name`, the `repository` and the key in `spec` alone: lakegc also asks with a `spec`
        that has no more than its key.
        """
        return props.spec
