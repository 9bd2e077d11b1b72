"""The storage namespace of a repository: its URI, the names in it, and the allow-list of what may be collected.

Only this module decides which keys an address keeps alive, and which keys a collector may ever delete. `places` tells
where a spelling leads. Nothing here reads stores or lakeFS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import SettingsError
from lakegc_core.policy.places import (
    ALIAS,
    AZURE,
    KINDS,
    LOCAL,
    NAMES_A_SCHEME,
    ODD_PATH,
    ODD_SEGMENTS,
    Place,
    account_of,
    clean,
    encoded,
    have,
    may_be_any,
    may_have_odd_segments,
    names_known_place,
    parse,
    place_of,
    readings,
    touching,
)
from lakegc_core.policy.xids import XID

ALLOW_LIST_VERSION = 6
"""The version of the patterns and the readings here, raised whenever they change: no mark builds on marks made under
another version."""

_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_NANOID = "[0-9A-Za-z_-]{21}"
_PART = r"\.(multipart|part_[0-9]{5}(_[0-9]+)*)"
_BLOCKS = "_(id|size)"

COLLECTABLE = r"^(data/.+|[0-9a-f]{32})$"
"""Places of lakeFS's data: below data/, and as 32 hex digits at the root before v0.84. Below data/ see GIVEN."""

GIVEN = (
    # <slice>/<xid>, below shards too; with the signature of a link, or what a multipart upload keeps beside it.
    rf"^data/(.+/)?{XID}/{XID}(,[0-9A-Za-z_-]{{43}})?({_PART}|{_BLOCKS})?$"
    # What clients got to write to before v0.84: below the branch's staging token, the first one with a colon, those
    # after a commit with a hyphen; below none where the branch had none.
    rf"|^data/[0-9a-z][0-9a-z-]+-.+:{_UUID}/[0-9A-Za-z_-]+$"
    rf"|^data/[0-9a-z][0-9a-z-]+-.+-{_UUID}/{_NANOID}$"
    rf"|^data//?{_NANOID}$"
)
"""Names below data/ that a released lakeFS gives. Any other name there is somebody else's, as far as names tell."""

COLLECTABLE_BESIDE = {
    "gs": rf"^[0-9a-f]{{32}}{_PART}$",
    "http": rf"^[0-9a-f]{{32}}{_BLOCKS}$",
    "https": rf"^[0-9a-f]{{32}}{_BLOCKS}$",
    "local": r"^[0-9a-f]{32}-[0-9]{5}$",
}
"""Leftovers of multipart uploads at the root, by scheme: of servers before v0.84, and on `local` of every one."""

NEVER = r"(/$|[\s\v\pZ\x{85}]$|^data/(.*/)?_lakefs/|/\.{1,2}(/|$))"
"""Directory markers, and whatever lies beside the metadata of another repository nested below data/. Names that lakeFS
never gives: those that end in white space (rclone trims the lines of a list, so that a backup would miss them), and
those with dot segments (clients of Azure delete another name instead)."""

UPLOAD_PART = rf"{_PART}$"
"""Bookkeeping of multipart uploads on GCS, alive for as long as the upload runs."""

ADDRESS_RELATIVE, ADDRESS_FULL = 1, 2
"""lakeFS's address_type; 0 is deprecated: by prefix, which is FULL where the address resolves so, else RELATIVE."""

_NO_URL = r"[%\x00-\x1f\x7f]"  # escapes, which may be wrong ones, and control characters
_PLAIN_HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://([A-Za-z0-9._:-]+@)?[A-Za-z0-9._-]+(:[0-9]*)?([/?]|$)"


@dataclass(frozen=True)
class Namespace:
    """A storage namespace, e.g. `s3://bucket/prefix`, as lakeFS writes it, and read as lakeFS resolves it."""

    uri: str

    def __post_init__(self) -> None:
        if place_of(self.uri) is None:
            raise SettingsError(
                f"The storage namespace {self.uri!r} names no place that can be collected (known schemes: "
                f"{', '.join(sorted(KINDS))}; on Azure with a container, on local a folder below "
                "the server's own)."
            )

    @cached_property
    def place(self) -> Place:
        """The place of the namespace. Two namespaces are in one store if kind and bucket are the same."""
        place = place_of(self.uri)
        assert place is not None  # or there were no namespace
        return place

    @property
    def scheme(self) -> str:
        return self.uri.partition(":")[0].lower()

    @property
    def authority(self) -> str:
        """Bucket on s3 and gs, account host with its port on Azure; "" on local."""
        url = parse(self.uri)
        return url.host if self.is_azure and url else self.place.bucket

    @property
    def account(self) -> str:
        """The storage account, on Azure: the first label of the host, whatever domain lakeFS is told to use."""
        return self.place.bucket

    @cached_property
    def path(self) -> str:
        """The key prefix of everything in the namespace, without leading slash and without ONE trailing slash.

        On Azure the container is its first part. On local it is the whole folder, below the server's own.
        """
        return self.place.key.removesuffix("/")

    @property
    def spelled(self) -> str:
        """The namespace as lakeFS spells it in what it answers, without a slash at its end."""
        url = parse(self.uri)
        if self.is_local or url is None:
            return f"local://{self.path}"
        scheme = "https" if self.is_azure else url.scheme  # lakeFS takes http there as well, and answers with https
        return f"{scheme}://{f'{url.host}{url.raw}'.strip('/')}"

    @property
    def is_local(self) -> bool:
        return self.place.kind == LOCAL

    @property
    def is_azure(self) -> bool:
        return self.place.kind == AZURE

    def collectable(self, addresses: pa.Array) -> pa.Array:
        """True for each address that may ever be deleted, by its name alone. Everything else is foreign."""
        allowed = pc.match_substring_regex(addresses, COLLECTABLE)
        if beside := COLLECTABLE_BESIDE.get(self.scheme):
            allowed = pc.or_(allowed, pc.match_substring_regex(addresses, beside))
        if self.is_local:  # lists of branches, which alone tell what is staged, leave out what follows the "?"
            allowed = pc.and_not(allowed, pc.match_substring(addresses, "?"))
        return pc.and_not(allowed, pc.match_substring_regex(addresses, NEVER))

    def unknown(self, addresses: pa.Array) -> pa.Array:
        """True for each address below data/ with a name that lakeFS never gives. Such objects are collected only if
        lakegc.yaml says so."""
        return pc.and_not(pc.starts_with(addresses, "data/"), pc.match_substring_regex(addresses, GIVEN))

    def deletable(self, addresses: pa.Array, *, unknown_names: bool) -> pa.Array:
        """True for each address that may be deleted, by its name alone. `unknown_names`: true if unknown ones may
        be."""
        allowed = self.collectable(addresses)
        return allowed if unknown_names else pc.and_not(allowed, self.unknown(addresses))

    def overlaps(self, other: Namespace) -> bool:
        """True where one namespace may be the other or lie inside it, so that one repository's data looks like
        the other's garbage."""
        one, two = (each.place.key.replace("\\", "/") if each.is_azure else each.place.key for each in (self, other))
        return self.place.store == other.place.store and touching(one, two)

    def protected_keys(self, addresses: pa.Array, address_types: pa.Array) -> pa.Table:
        """The keys, relative to the namespace, that entries with these addresses keep alive.

        Returns columns `index` (row of the entry), `address`, and `exact`: False for a second reading of the same
        address, protected in case the server or the store resolves it so. Entries that point elsewhere have no row.
        """
        plain = self._plain(addresses, address_types)
        rows = np.arange(len(addresses), dtype=np.int64)
        if pc.all(plain).as_py() or len(addresses) == 0:
            return _keys(rows, addresses, np.ones(len(addresses), bool))
        # Of full addresses nearly all lie elsewhere, in imports of many millions.
        odd = pc.invert(pc.or_(plain, pc.and_not(pc.equal(address_types, ADDRESS_FULL), self.may_hold(addresses))))
        mask, asked = (each.to_numpy(zero_copy_only=False) for each in (plain, odd))
        index: list[int] = []
        keys: list[str] = []
        exact: list[bool] = []
        written = zip(addresses.filter(odd).to_pylist(), address_types.filter(odd).to_pylist(), strict=True)
        for row, (address, kind) in zip(rows[asked].tolist(), written, strict=True):
            read = self._key_read(address, kind)
            for key in dict.fromkeys((read, *self._keys_named(address, kind))):
                if key:
                    index.append(row)
                    keys.append(key)
                    exact.append(key == read)
        return pa.concat_tables(
            [
                _keys(rows[mask], addresses.filter(plain), np.ones(int(mask.sum()), bool)),
                _keys(np.array(index, np.int64), pa.array(keys, pa.string()), np.array(exact, bool)),
            ]
        )

    def _plain(self, addresses: pa.Array, address_types: pa.Array) -> pa.Array:
        """True for each entry whose address is the key, whatever the store."""
        relative = pc.equal(address_types, ADDRESS_RELATIVE)
        if not may_have_odd_segments(addresses) and not (self._goes_by_address and have(addresses, b":")):
            return relative  # nearly always
        odd = pc.match_substring_regex(addresses, ODD_SEGMENTS)
        if self._goes_by_address:
            odd = pc.or_(odd, pc.match_substring_regex(addresses, NAMES_A_SCHEME))
        return pc.and_not(relative, odd)

    def may_lie_elsewhere(self, addresses: pa.Array, address_types: pa.Array) -> pa.Array:
        """True for each entry whose address can lie in another namespace. False only if it surely lies in this one.

        An empty address lies nowhere, and counts as elsewhere: a branch may hide an object behind such an entry, too.
        """
        named = _named(addresses)
        if not self._goes_by_address:
            named = pc.and_(named, pc.not_equal(address_types, ADDRESS_RELATIVE))
        named = pc.or_(named, pc.equal(pc.binary_length(addresses), 0))
        if not pc.any(named).as_py():
            return named
        start = self.uri if self.uri.endswith("/") else f"{self.uri}/"
        surely = pc.and_not(pc.starts_with(addresses, start), pc.match_substring_regex(addresses, ODD_PATH))
        return pc.and_not(named, surely)

    def may_hold(self, addresses: pa.Array) -> pa.Array:
        """True for each full address that can name a key of this namespace. False only where `protected_keys` has no
        row.

        Quick for many addresses of which few can.
        """
        if self.is_local:
            return pa.array(np.ones(len(addresses), bool))
        end = "(?:-secondary)?(?:[.:][^/?]*)?" if self.is_azure else "(?::[^/?]*)?"
        bucket = "[^/?@]*" if may_be_any(self.place.bucket) else f"(?:{re.escape(self.place.store[1])}|[^/?@]*{ALIAS})"
        here = f"(?is)^[^/?]*//(?:[^/?]*@)?{bucket}{end}(?:[/?]|$)"
        heads = "|".join(re.escape(head) for head in self._heads)
        starts = pc.match_substring_regex(addresses, f"{here}(?:{heads})")
        odd = pc.and_(
            pc.match_substring_regex(addresses, ODD_PATH),
            pc.match_substring_regex(addresses, here),
        )
        odd = pc.or_(odd, pc.invert(pc.match_substring_regex(addresses, _PLAIN_HOST)))
        if self.is_azure:  # what is no URL is taken for a relative address
            odd = pc.or_(odd, pc.match_substring_regex(addresses, _NO_URL))
        return pc.or_(starts, odd)

    def is_at(self, bucket: str) -> bool:
        """True if addresses in this bucket, as `places.bucket_of` tells it, can name keys of this namespace."""
        if self.is_local or may_be_any(bucket) or may_be_any(self.place.bucket):
            return True
        return (account_of(bucket) if self.is_azure else bucket) == self.place.store[1]

    @property
    def _goes_by_address(self) -> bool:
        """True if the server looks at an address alone, and not at its type."""
        return self.is_azure or self.is_local

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        """The beginnings of addresses' paths that name a key here."""
        written = self.uri.partition("://")[2].partition("/")[2].rstrip("/")
        found = (self.path, written, self.path.rstrip("/"), clean(self.path))
        return tuple(f"{start}/" if start else "" for start in dict.fromkeys(found))

    def _is_relative(self, address: str, address_type: int) -> bool:
        """True if lakeFS takes an address as it is, below the namespace: by its type, or because it resolves no other
        way. Azure and local do not look at the type."""
        if self.is_local:
            return not address.startswith("local://")
        if self.is_azure:
            return parse(address) is None
        by_prefix = address_type not in (ADDRESS_RELATIVE, ADDRESS_FULL)
        return address_type == ADDRESS_RELATIVE or (by_prefix and not names_known_place(address))

    def _key_read(self, address: str, address_type: int) -> str | None:
        """The key that lakeFS reads for an address; None where it reads none, or one elsewhere."""
        if self._is_relative(address, address_type):
            if not self.is_local:
                return address
            below = clean(f"{self.path}/{address}")
            return below.removeprefix(f"{self.path}/") if below.startswith(f"{self.path}/") else None
        if self.is_local:  # the server alone knows where its own folder ends
            return next(iter(self._keys_of_local(address.partition("://")[2])), None)
        place = place_of(address, self.place.kind)
        if place is None:
            return None
        inside = f"{self.path}/" if self.path else ""
        here = place.bucket == self.place.bucket and place.key.startswith(inside)
        return place.key[len(inside) :] if here else None

    def _keys_named(self, address: str, address_type: int) -> Iterator[str]:
        """All keys that an address may name, however server, client or store read it. Protecting more is free."""
        named = re.search(NAMES_A_SCHEME, address)
        if not named or self._is_relative(address, address_type):
            slashes = address.replace("\\", "/")
            yield from (address, clean(address), slashes, clean(slashes))
        if self.is_local:
            yield from self._keys_of_local(address.partition("://")[2] if named else f"{self.path}/{address}")
            return
        for place in readings(address, self.place.kind):
            if not self.is_at(place.bucket) and place.bucket != self.place.bucket:
                continue
            for head in self._heads:
                if place.key.startswith(head):
                    key = place.key[len(head) :]
                    yield from (key, key.lstrip("/"), key.strip("/") if self.is_azure else "")

    def _keys_of_local(self, rest: str) -> list[str]:
        """The keys that an address on local may name. `local://` addresses carry the server's own folder, sometimes
        twice. So whatever follows the namespace's path, wherever that stands, may be the key."""
        marker = f"{self.path}/"
        found: list[str] = []
        for written in dict.fromkeys((rest, unquote(rest))):
            for reading in dict.fromkeys((f"/{clean(written)}", f"/{written}")):
                at = reading.rfind(f"/{marker}")
                while at >= 0:
                    found.append(reading[at + 1 + len(marker) :])
                    at = reading.rfind(f"/{marker}", 0, at)
        return found + [encoded(key) for key in found]  # files have names as written, which lists show decoded


def _named(addresses: pa.Array) -> pa.Array:
    """True for each address that begins with a scheme."""
    if have(addresses, b":"):
        return pc.match_substring_regex(addresses, NAMES_A_SCHEME)
    return pa.array(np.zeros(len(addresses), bool))


def overlapping(namespace: Namespace, others: Iterable[tuple[str, str]]) -> list[str]:
    """Names of the repositories whose namespace touches this one, or may. `others`: pairs of name and namespace URI. A
    namespace on a kind of store that lakegc knows may lie anywhere in it if lakeFS would not say where it lies."""
    return [name for name, uri in others if _may_overlap(namespace, uri)]


def _may_overlap(namespace: Namespace, uri: str) -> bool:
    if place_of(uri) is None:
        return (url := parse(uri)) is None or KINDS.get(url.scheme) == namespace.place.kind
    return namespace.overlaps(Namespace(uri))


def _keys(index: np.ndarray, addresses: pa.Array, exact: np.ndarray) -> pa.Table:
    schema = pa.schema([("index", pa.int64()), ("address", pa.string()), ("exact", pa.bool_())])
    return pa.table({"index": pa.array(index), "address": addresses, "exact": pa.array(exact)}, schema=schema)
