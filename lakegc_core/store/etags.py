"""Which ETags of listings are digests where lakegc.yaml says `etags: md5`, and how HEADs contradict that.

S3 gives an object that was uploaded in one piece its MD5 as ETag. Under SSE-KMS or a customer's key the ETag looks
alike and is random. A listing does not tell these apart, HEAD does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from lakegc_core.errors import (
    IncompleteError,
    ObjectNotFoundError,
    RefusedObjectError,
    StoreError,
    UnusableKeyError,
)
from lakegc_core.store.base import MD5_DIGEST, Store

MD5_ETAG = "^[0-9a-f]{32}$"
"""What an ETag that may be an MD5 looks like, as a regular expression of Python, Arrow and Spark alike. Those of
objects that were uploaded in parts end in `-` and a number."""

_THREADS = 16  # HEADs side by side


def digest_by_etag(etag: str | None) -> str | None:
    """The digest that an ETag without its quotes is, if it is one: 32 hex digits in lower case. None for any other.

    Of a listing's ETag that is true only where `Store.listed_digests`.
    """
    return f"{MD5_DIGEST}{etag}" if etag and re.fullmatch(MD5_ETAG, etag) else None


@dataclass(frozen=True)
class Heads:
    """What HEADs say of objects whose listed ETags look like MD5s.

    `shown`: objects that they showed as they were listed. `failure`: why one of them failed; "" if none did.
    `contradiction`: a sentence that names an object whose listed ETag is no MD5, and says why; "" if there is none.
    """

    shown: int = 0
    failure: str = ""
    contradiction: str = ""


def ask_heads(store: Store, listed: Iterable[tuple[str, int, str]]) -> Heads:
    """Make a HEAD of each object. `listed`: address, size in bytes, and ETag, of few objects."""
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(partial(_ask, store), listed))
    return Heads(
        shown=sum(each.shown for each in found),
        failure=next((each.failure for each in found if each.failure), ""),
        contradiction=next((each.contradiction for each in found if each.contradiction), ""),
    )


def _ask(store: Store, listed: tuple[str, int, str]) -> Heads:
    address, size, etag = listed
    where = f"{store.root}/{address} is listed with the ETag {etag}"
    try:
        found = store.head(address)
    except RefusedObjectError:
        return Heads(1, contradiction=f"{where}, and HEAD of it is refused, as it is under a customer's key.")
    except (ObjectNotFoundError, UnusableKeyError):
        return Heads()
    except (StoreError, IncompleteError) as error:
        return Heads(failure=str(error))
    if found.size != size:
        return Heads()  # written over since
    if found.etag != etag:
        return Heads(1, contradiction=f"{where}, and HEAD shows {found.etag or 'none'}.")
    if found.digest is None:
        return Heads(1, contradiction=f"{where}, and HEAD shows that this is no MD5, as under KMS.")
    return Heads(1)
