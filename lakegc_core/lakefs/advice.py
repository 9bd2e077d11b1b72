"""Advice on calls that fail: by the status of the answer, by lakeFS's words, by what TLS says."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from lakegc_core.names import Symptom, see

WRONG_KEY = "error authenticating request"
"""lakeFS's words, with 401, to a key or a secret that it does not accept."""

NO_RIGHT = "insufficient permissions"
"""lakeFS's words, with 401, to a key that it accepts and that may not do this."""

UNKNOWN_COMMIT = "commit not found"
"""lakeFS's words, with 404, where a commit is asked for by its id or as the head of a branch, and lakeFS knows none."""

NO_DATA = "No data"
"""lakeFS's words, with 410, where the store lacks a file: an object that is read, or a metarange or a range."""

_TLS_SAID = re.compile(r"\[SSL[^]]*\] (.+?) \(_ssl\.c")  # in the text of an error of `requests`


def on_status(status: int, said: str, *, action: str, location: str, attempts: int) -> str:
    """Advice on a status that is no answer to the call.

    `said`: lakeFS's own words, empty if the answer was not in its form. `action`: the permission that the call takes.
    """
    if 200 <= status < 300:
        return "this call has another success status: check that the endpoint is a lakeFS server"
    if 300 <= status < 400:
        target = urlsplit(location)
        to = f" to {target.scheme}://{target.hostname}" if target.scheme and target.hostname else ""
        return f"the endpoint redirects{to}: set the endpoint to where lakeFS itself answers"
    if 400 <= status < 500 and not said and status != 429:
        return (
            "this does not answer like lakeFS: check the endpoint (LAKECTL_SERVER_ENDPOINT_URL, or "
            "`server.endpoint_url` in ~/.lakectl.yaml or lakegc.yaml), and what stands between"
        )
    if status == 401:
        return _on_key(said, action or "this call")
    if status == 403:
        return "forbidden: the repository is read-only, or its store or a protection refuses"
    if status == 404 and UNKNOWN_COMMIT in said:
        return f"lakeFS does not know a commit that this takes: a branch's head? {see(Symptom.UNREADABLE_COMMIT)}"
    if status == 404:
        return "lakeFS does not know this: check the repository's name, and the endpoint"
    if status == 410 and said == NO_DATA:
        return f"the store lacks a file that this takes: metadata of a branch's head? {see(Symptom.UNREADABLE_COMMIT)}"
    if status == 410:
        return "gone: the repository is being deleted, so there is nothing to collect in it"
    if status == 429 or status >= 500:
        times = f"asked {attempts} times: " if attempts > 1 else ""
        return f"{times}try later, and look into the server's log"
    return "lakeFS refuses this call"


def _on_key(said: str, right: str) -> str:
    """Advice on a 401: lakeFS's words tell a wrong key from a missing permission, the status does not."""
    if WRONG_KEY in said:
        return "lakeFS does not accept the access key: correct the key and its secret"
    if NO_RIGHT in said:
        return f"lakeFS accepts the access key, but its policy must allow {right}"
    return f"the key may be wrong, or lack a permission: check the access key, and that its policy allows {right}"


def on_tls(error: Exception) -> str:
    """The words of OpenSSL in an error of `requests`, and advice on them."""
    found = _TLS_SAID.search(str(error))
    said = found[1] if found else type(error).__name__
    if "certificate" in said:
        own = "If it is from a CA of your own, set REQUESTS_CA_BUNDLE to a bundle with this CA beside the usual ones"
        return f'"{said}": the certificate of the server is not trusted. {own}'
    return f'"{said}": does the server speak http:// instead? Check the endpoint, and that lakeFS runs'
