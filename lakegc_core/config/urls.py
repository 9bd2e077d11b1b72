"""URLs that a user sets: which ones can be, and what is kept of them. Credentials are never part of one."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from lakegc_core.config.lakectl import FILE, SECRET_KEY
from lakegc_core.errors import SettingsError

API = "/api/v1"


def normalise_endpoint(url: str) -> str:
    """`http(s)://host[:port][/path]`, without `/api/v1` and slashes at its end. Empty stays empty.

    SettingsError for another scheme, for credentials inside the URL, and for a query or fragment.
    """
    text = url.strip()
    if not text:
        return ""
    parts = _split(text)
    if "@" in parts.netloc:
        raise SettingsError(
            f"the endpoint of lakeFS must not hold credentials; they belong in ~/{FILE} or {SECRET_KEY}"
        )
    if not _is_plain(parts):
        shown = text.split("@")[-1].split("?")[0]
        raise SettingsError(f"the endpoint of lakeFS must read like https://lakefs.example.com, not {shown!r}")
    return text.rstrip("/").removesuffix(API).rstrip("/")


def pushgateway_url(url: str) -> str:
    """The URL of a Pushgateway. SettingsError if it is no plain `http(s)://host[:port][/path]`."""
    if not is_plain(url):
        raise SettingsError("the URL of a Pushgateway must read like http://pushgateway:9091, without credentials")
    return url


def is_plain(url: str) -> bool:
    """True if it is `http(s)://host[:port][/path]` and no more: no credentials, and no token in a query."""
    return _is_plain(_split(url)) and not set("@?#") & set(url)


def _split(url: str) -> SplitResult:
    """The parts of a URL; of nothing, if it is none."""
    if len(url.split()) != 1:
        return urlsplit("")
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises on a port that is none
    except ValueError:
        return urlsplit("")
    return parts


def _is_plain(parts: SplitResult) -> bool:
    """True if it is `http(s)://host[:port][/path]` and no more."""
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
