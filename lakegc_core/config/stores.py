"""How a store is reached, deleted from and written to: an entry of `stores` in lakegc.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from lakegc_core.config.fields import Text, flag_by
from lakegc_core.config.urls import is_plain
from lakegc_core.policy.places import KINDS

DeleteConditions = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class StoreMapping:
    """How addresses below `match` are reached where not as lakeFS names them, how they are deleted, and what their
    ETags are."""

    match: Text
    """Beginning of the addresses that this is for, by whole segments, such as local://."""
    endpoint: Text | None = None
    """URL at which the collector reaches this store."""
    root: Text | None = None
    """Folder in which a store of blockstore local lies."""
    delete_versions: Annotated[
        bool,
        flag_by(Literal["keep", "delete"]),
        Field(validation_alias="versions", json_schema_extra={"default": "keep"}),
    ] = False
    """delete: what is deleted leaves no old version in an S3 bucket that keeps them; nothing brings it back then."""
    etags: Literal["md5"] | None = None
    """md5: you promise that no object in this place of S3 was ever written with KMS or with a customer's key."""
    delete_conditions: DeleteConditions = "never"
    """Whether deletes name the ETag that was listed: auto where the store keeps to it, always or no sweep, never."""
    encryption: Literal["AES256", "aws:kms"] | None = None
    """Encryption that each write and copy to this place of S3 asks for, where a policy of the bucket demands that."""
    kms_key_id: Text | None = None
    """Key of aws:kms. Without it the account's own."""


def useful(store: StoreMapping) -> StoreMapping:
    """The entry. ValueError if its keys do not go together, or change nothing. `schema` says the same to editors."""
    if store == StoreMapping(store.match):
        raise ValueError(
            "neither `endpoint` nor `root` nor `versions: delete` nor `etags: md5` nor `encryption` nor "
            "`delete_conditions` other than `never` is given, so it would change nothing"
        )
    if "://" not in store.match or "*" in store.match:
        raise ValueError("`match` is the beginning of addresses, such as s3://lake/, and no pattern")
    if store.match.partition("://")[0] not in KINDS:
        schemes = ", ".join(f"{scheme}://" for scheme in KINDS)
        raise ValueError(f"`match` must begin with one of {schemes}: no other address is that of a store here")
    if store.endpoint and not is_plain(store.endpoint):
        raise ValueError("`endpoint` must be a URL with http:// or https://, a host, and without credentials")
    if store.root and not store.match.startswith("local://"):
        raise ValueError("`root` is for addresses of blockstore local: `match` must begin with local://")
    if store.root and not store.root.startswith("/"):
        raise ValueError("`root` is a folder from the root on, such as /srv/lakefs: others depend on where lakegc runs")
    s3 = {"versions: delete": store.delete_versions, "etags: md5": store.etags, "encryption": store.encryption}
    for key, is_given in s3.items():
        if is_given and not store.match.startswith("s3://"):
            raise ValueError(f"`{key}` is for addresses on S3: `match` must begin with s3://")
    if store.delete_conditions != "never" and store.match.startswith("local://"):
        raise ValueError("`delete_conditions` is for object stores: a file system deletes by name alone")
    if store.kms_key_id and store.encryption != "aws:kms":
        raise ValueError("`kms_key_id` is the key of `encryption: aws:kms`, which is not given")
    if store.etags and store.encryption == "aws:kms":
        raise ValueError("`etags: md5` promises that nothing there is written with KMS, and `encryption` asks for it")
    return store
