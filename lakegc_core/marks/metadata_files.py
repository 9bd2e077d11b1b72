"""Metadata files of a repository: its ranges and metaranges, by their ids."""

from __future__ import annotations

from dataclasses import dataclass

from lakegc_core.store.base import StoreConfig, connect


@dataclass(frozen=True)
class MetadataFiles:
    """The ranges and metaranges that lie in a namespace.

    `data`: the store, rooted at the namespace. `prefix`: the folder in it, as the header of the mark has it.
    """

    data: StoreConfig
    prefix: str

    def key(self, identifier: str) -> str:
        """Key of a range or metarange. Never taken from an answer of the server."""
        return f"{self.prefix}/{identifier}"

    def read(self, identifier: str) -> bytes:
        """The bytes of a range or metarange. ObjectNotFoundError if it is absent."""
        return connect(self.data).read_there(self.key(identifier))
