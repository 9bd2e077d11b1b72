"""Listed ETags that are digests where lakegc.yaml says `etags: md5`, and the HEADs that contradict it.

S3 gives an object that was uploaded in one piece its MD5 as ETag. Under SSE-KMS or a customer's key the ETag looks
alike and is random. A listing does not tell these apart, HEAD does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakegc_core.errors import LakegcError
from lakegc_core.store.base import MD5_DIGEST, HeadAnswer, RefusedObjectError, Store

MD5_ETAG = "^[0-9a-f]{32}$"
"""The form of an ETag that may be an MD5, as a regular expression of Python, Arrow and Spark alike. ETags of objects
that were uploaded in parts end in `-` and a number."""


def digest_by_etag(etag: str | None) -> str | None:
    """The digest in an ETag without its quotes: 32 hex digits in lower case. None for any other ETag.

    For a listing's ETag that is true only where `Store.listed_digests`.
    """
    return f"{MD5_DIGEST}{etag}" if etag and re.fullmatch(MD5_ETAG, etag) else None


@dataclass(frozen=True)
class Heads:
    """Results of HEADs of objects whose listed ETags look like MD5s.

    `shown`: objects that they showed as they were listed. `failure`: why one of them failed; "" if none did.
    `contradiction`: a sentence that names an object whose listed ETag is no MD5, and says why; "" if there is none.
    """

    shown: int = 0
    failure: str = ""
    contradiction: str = ""


def ask_heads(store: Store, listed: Sequence[tuple[str, int, str]]) -> Heads:
    """Make a HEAD of each object. `listed`: address, size in bytes, and ETag, of few objects."""
    answers = store.try_heads([address for address, _, _ in listed], failures=len(listed))
    found = [_told(store, *each) for each in zip(listed, answers, strict=True)]
    return Heads(
        shown=sum(each.shown for each in found),
        failure=next((each.failure for each in found if each.failure), ""),
        contradiction=next((each.contradiction for each in found if each.contradiction), ""),
    )


def _told(store: Store, listed: tuple[str, int, str], answer: HeadAnswer) -> Heads:
    address, size, etag = listed
    where = f"{store.root}/{address} is listed with the ETag {etag}"
    if isinstance(answer, RefusedObjectError) and not answer.is_denied:
        return Heads(1, contradiction=f"{where}, and HEAD of it is refused, as it is under a customer's key.")
    if isinstance(answer, LakegcError):
        return Heads(failure=str(answer))
    if answer is None or answer.size != size:
        return Heads()  # gone, or written over since
    if answer.etag != etag:
        return Heads(1, contradiction=f"{where}, and HEAD shows {answer.etag or 'none'}.")
    if answer.digest is None:
        return Heads(1, contradiction=f"{where}, and HEAD shows that this is no MD5, as under KMS.")
    return Heads(1)
