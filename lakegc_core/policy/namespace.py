"""The storage namespace of a repository: its URI, the names in it, and the allow-list of what may be collected.

Here and nowhere else is decided how an address that lakeFS wrote down becomes a key, and which keys a collector
may ever delete. Reading stores and lakeFS is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakegc_core.errors import SettingsError

ALLOW_LIST_VERSION = 3
"""Raised whenever the patterns here change: marks made under another version are not built upon."""

_XID = "[0-9a-v]{19}[0g]"
_UUID = "[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
_NANOID = "[0-9A-Za-z_-]{21}"
_PART = r"\.(multipart|part_[0-9]{5}(_[0-9]+)*)"
_BLOCKS = "_(id|size)"

COLLECTABLE = r"^(data/.+|[0-9a-f]{32})$"
"""Where lakeFS writes data: below data/, and as 32 hex digits at the root before v0.84. Below data/ see GIVEN."""

GIVEN = (
    # <slice>/<xid>, below shards too; with the signature of a link, or what a multipart upload keeps beside it.
    rf"^data/(.+/)?{_XID}/{_XID}(,[0-9A-Za-z_-]{{43}})?({_PART}|{_BLOCKS})?$"
    # What clients got to write to before v0.84: below the branch's staging token, the first one with a colon, those
    # after a commit with a hyphen; below none where the branch had none.
    rf"|^data/[0-9a-z][0-9a-z-]+-.+:{_UUID}/[0-9A-Za-z_-]+$"
    rf"|^data/[0-9a-z][0-9a-z-]+-.+-{_UUID}/{_NANOID}$"
    rf"|^data//?{_NANOID}$"
)
"""Names below data/ that a released lakeFS gives. Whatever else lies there is somebody else's, as far as names tell."""

COLLECTABLE_BESIDE = {
    "gs": rf"^[0-9a-f]{{32}}{_PART}$",
    "http": rf"^[0-9a-f]{{32}}{_BLOCKS}$",
    "https": rf"^[0-9a-f]{{32}}{_BLOCKS}$",
    "local": r"^[0-9a-f]{32}-[0-9]{5}$",
}
"""What multipart uploads leave at the root, by scheme: servers before v0.84, and on `local` every one."""

NEVER = r"(/$|[\s\v\pZ\x{85}]$|^data/(.*/)?_lakefs/)"
"""Directory markers, whatever lies beside the metadata of another repository nested below data/, and names that end in
white space: lakeFS gives none, and rclone trims the lines of a list, so that a backup would miss them."""

UPLOAD_PART = rf"{_PART}$"
"""Bookkeeping of multipart uploads on GCS, alive for as long as the upload runs."""

ADDRESS_RELATIVE = 1
"""lakeFS's address_type RELATIVE; 0 is deprecated (by prefix), 2 is FULL."""

_ENCODED = "[%?]"
_SCHEMES = {"s3", "gs", "http", "https", "local"}
_GO_PATH_SAFE = "$&+,/:;=@-_.~"  # what Go's URL type leaves unescaped in a path
_XID_EPOCH = 64_060_588_800  # year 4000: slices and run ids count down to it
_XID_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_XID_NAME = r"(?:^|/)(?P<time>[0-9a-v]{7})[0-9a-v]{12}[0g](?:[,._][^/]*)?$"
_XID_DIGITS = np.array([max(0, _XID_ALPHABET.find(chr(letter))) for letter in range(128)], np.int64)


@dataclass(frozen=True)
class Namespace:
    """A storage namespace, e.g. `s3://bucket/prefix`, as lakeFS writes it."""

    uri: str

    def __post_init__(self) -> None:
        if self.scheme not in _SCHEMES or not self.authority:
            raise SettingsError(
                f"The storage namespace {self.uri!r} is not of a kind that can be collected "
                f"(known schemes: {', '.join(sorted(_SCHEMES))})."
            )

    @property
    def scheme(self) -> str:
        return self.uri.partition("://")[0]

    @property
    def authority(self) -> str:
        """Bucket on s3 and gs, account host on Azure, first folder on local."""
        return self.uri.partition("://")[2].partition("/")[0]

    @property
    def account(self) -> str:
        """The storage account, on Azure: the first label of the host, whatever domain lakeFS is told to use."""
        return _account(self.authority)

    @cached_property
    def path(self) -> str:
        """The key prefix of everything in the namespace, without leading slash and without ONE trailing slash.

        lakeFS uses the path as it is written only where that differs from the usual encoding of its decoded form. On
        Azure it always decodes the path, takes the slashes off both ends, and the container is its first part.
        """
        written = self.uri.partition("://")[2].partition("/")[2]
        return unquote(written).strip("/") if self.is_azure else _strip_one_slash(_server_reading(written))

    @property
    def is_local(self) -> bool:
        return self.scheme == "local"

    @property
    def is_azure(self) -> bool:
        return self.scheme in ("http", "https")

    def collectable(self, addresses: pa.Array) -> pa.Array:
        """For each address: may it ever be deleted, by its name alone? Everything else is foreign."""
        allowed = pc.match_substring_regex(addresses, COLLECTABLE)
        if beside := COLLECTABLE_BESIDE.get(self.scheme):
            allowed = pc.or_(allowed, pc.match_substring_regex(addresses, beside))
        return pc.and_not(allowed, pc.match_substring_regex(addresses, NEVER))

    def unknown(self, addresses: pa.Array) -> pa.Array:
        """For each address: does it lie below data/ under a name that lakeFS never gives? Such objects are collected
        only where lakegc.yaml says so."""
        return pc.and_not(pc.starts_with(addresses, "data/"), pc.match_substring_regex(addresses, GIVEN))

    def deletable(self, addresses: pa.Array, *, unknown_names: bool) -> pa.Array:
        """For each address: may it be deleted, by its name alone, where unknown names may or may not?"""
        allowed = self.collectable(addresses)
        return allowed if unknown_names else pc.and_not(allowed, self.unknown(addresses))

    def overlaps(self, other: Namespace) -> bool:
        """True where one namespace is the other or lies inside it, so that one repository's data looks like
        the other's garbage."""
        if self._place != other._place:
            return False
        mine, theirs = (f"{ns.path.strip('/')}/".lstrip("/") for ns in (self, other))
        return mine.startswith(theirs) or theirs.startswith(mine)

    @property
    def _place(self) -> tuple[str, str]:
        """What two namespaces share that lie in one store: on Azure the account, by whatever URL."""
        return ("azure", self.account) if self.is_azure else (self.scheme, self.authority)

    def protected_keys(self, addresses: pa.Array, address_types: pa.Array) -> pa.Table:
        """The keys, relative to the namespace, that entries with these addresses keep alive.

        Returns columns `index` (row of the entry), `address`, and `exact`: False for a second reading of the same
        address, protected in case the server resolves it so. Entries that point elsewhere have no row.
        """
        relative = pc.equal(address_types, ADDRESS_RELATIVE)
        rows = np.arange(len(addresses), dtype=np.int64)
        if pc.all(relative).as_py() or len(addresses) == 0:
            return _keys(rows, addresses, np.ones(len(addresses), bool))
        mask = relative.to_numpy(zero_copy_only=False)
        other_rows = rows[~mask]
        index: list[int] = []
        keys: list[str] = []
        exact: list[bool] = []
        for row, address in zip(other_rows.tolist(), addresses.filter(pc.invert(relative)).to_pylist(), strict=True):
            for number, key in enumerate(self._keys_of_full(address)):
                index.append(row)
                keys.append(key)
                exact.append(number == 0)
        return pa.concat_tables(
            [
                _keys(rows[mask], addresses.filter(relative), np.ones(int(mask.sum()), bool)),
                _keys(np.array(index, np.int64), pa.array(keys, pa.string()), np.array(exact, bool)),
            ]
        )

    def may_lie_elsewhere(self, addresses: pa.Array, address_types: pa.Array) -> pa.Array:
        """For each entry: can its address lie in another namespace? False only where it surely lies in this one."""
        named = pc.and_(pc.not_equal(address_types, ADDRESS_RELATIVE), pc.match_substring(addresses, "://"))
        start = self.uri if self.uri.endswith("/") else f"{self.uri}/"
        plain = pc.invert(pc.match_substring_regex(addresses, _ENCODED))
        return pc.and_not(named, pc.and_(pc.starts_with(addresses, start), plain))

    def may_hold(self, addresses: pa.Array) -> pa.Array:
        """For each full address: can it name a key of this namespace? False only where `protected_keys` has no row.

        Quick, for many addresses of which few do.
        """
        if self.is_local:
            return pa.array(np.ones(len(addresses), bool))
        authority = f"{re.escape(self.account)}(?:[.:][^/]*)?" if self.is_azure else re.escape(self.authority)
        here = f"(?is)^.*?://{authority}" if self.is_azure else f"(?s)^.*?://{authority}"
        heads = "|".join(re.escape(head) for head in self._heads)
        return pc.or_(
            pc.match_substring_regex(addresses, f"{here}/(?:{heads})"),
            # Encoded names and queries have several readings.
            pc.and_(
                pc.match_substring_regex(addresses, _ENCODED), pc.match_substring_regex(addresses, f"{here}(?:/|$)")
            ),
        )

    def is_at(self, authority: str) -> bool:
        """Whether addresses with this authority can name keys of this namespace."""
        return self.is_local or self._is_own(authority)

    def _is_own(self, authority: str) -> bool:
        return _account(authority) == self.account if self.is_azure else authority == self.authority

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        """What the path of an address begins with that names a key here."""
        written = self.uri.partition("://")[2].partition("/")[2].rstrip("/")
        return tuple(
            f"{start}/" if start else "" for start in dict.fromkeys((written, self.path.rstrip("/"), self.path))
        )

    def _keys_of_full(self, address: str) -> list[str]:
        scheme, separator, rest = address.partition("://")
        if not separator:
            return [address]
        if self.is_local and scheme == "local":
            return self._keys_of_local(rest)
        authority, _, path = rest.partition("/")
        if not self._is_own(authority):
            return []
        # Every way the server may read the address: as written, decoded, cut at a query. Protecting more is free.
        found: list[str] = []
        bare = path.partition("?")[0]
        likely = unquote(bare) if self.is_azure else _server_reading(bare)
        for reading in (likely, path, unquote(path), bare, unquote(bare)):
            for head in self._heads:
                if reading.startswith(head):
                    key = reading[len(head) :]
                    found += [key, key.lstrip("/"), *([key.strip("/")] if self.is_azure else ())]
        return list(dict.fromkeys(key for key in found if key))

    def _keys_of_local(self, rest: str) -> list[str]:
        """`local://` addresses carry the server's own folder, sometimes twice: whatever follows the namespace's
        path, wherever that stands, may be the key."""
        marker = "/".join(part for part in (self.authority, self.path) if part).strip("/") + "/"
        found: list[str] = []
        for reading in dict.fromkeys((f"/{rest}", unquote(f"/{rest}"))):
            at = reading.rfind(f"/{marker}")
            while at >= 0:
                found.append(reading[at + 1 + len(marker) :])
                at = reading.rfind(f"/{marker}", 0, at)
        return list(dict.fromkeys(key for key in found if key))


def xid_times(addresses: pa.Array) -> np.ndarray:
    """Unix seconds at which lakeFS gave out the last part of each address, float64; NaN where that does not begin with
    an xid (`<xid>`, `<xid>,<signature>`, `<xid>.multipart` …), whose first 32 bits they are."""
    found = np.full(len(addresses), np.nan)
    letters = pc.struct_field(pc.extract_regex(addresses, _XID_NAME), "time")
    rows = pc.is_valid(letters).to_numpy(zero_copy_only=False)
    digits = np.frombuffer("".join(letters.drop_null().to_pylist()).encode(), np.uint8).reshape(-1, 7)
    values = _XID_DIGITS[digits] @ (32 ** np.arange(6, -1, -1, dtype=np.int64))
    found[rows] = values >> 3
    return found


def is_shard(folder: str) -> bool:
    """Whether a folder directly below data/ is a shard: `data/!ab/`, which holds folders that hold slices."""
    return re.fullmatch(r"data/![^/]+/", folder) is not None


def sharded_slices(addresses: pa.Array) -> pa.Array:
    """For each address the slice in which it lies, at any depth below a shard; null where there is none."""
    return pc.struct_field(pc.extract_regex(addresses, rf"^data/!(?:[^/]+/)+?(?P<slice>{_XID})/"), "slice")


def slice_time(name: str) -> int | None:
    """Unix seconds at which a slice (or a run id) was begun; None if the name is not a slice's."""
    seconds = _xid_seconds(name)
    return None if seconds is None else (_XID_EPOCH - seconds) % 2**32


def _xid_seconds(text: str) -> int | None:
    if not re.fullmatch(_XID, text):
        return None
    value = 0
    for letter in text[:7]:
        value = value << 5 | _XID_ALPHABET.index(letter)
    return value >> 3


def overlapping(namespace: Namespace, others: Iterable[tuple[str, str]]) -> list[str]:
    """Names of the repositories (pairs of name and namespace URI) whose namespace touches this one."""
    found = []
    for name, uri in others:
        try:
            other = Namespace(uri)
        except SettingsError:
            continue  # another kind of store cannot hold our objects
        if namespace.overlaps(other):
            found.append(name)
    return found


def _server_reading(raw: str) -> str:
    """The path that lakeFS reads from a URI's raw path: decoded, unless it is written in an unusual encoding."""
    decoded = unquote(raw)
    return decoded if quote(decoded, safe=_GO_PATH_SAFE) == raw else raw


def _account(host: str) -> str:
    return host.partition(":")[0].partition(".")[0].lower()


def _strip_one_slash(path: str) -> str:
    return path[:-1] if path.endswith("/") else path


def _keys(index: np.ndarray, addresses: pa.Array, exact: np.ndarray) -> pa.Table:
    return pa.table(
        {"index": pa.array(index), "address": addresses, "exact": pa.array(exact)},
        schema=pa.schema([("index", pa.int64()), ("address", pa.string()), ("exact", pa.bool_())]),
    )
