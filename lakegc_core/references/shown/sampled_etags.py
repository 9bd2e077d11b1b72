"""A sample of listed ETags, checked by HEADs, where lakegc.yaml says `etags: md5`. Each mark takes a different one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakegc_core.errors import RefusedError
from lakegc_core.marks.context import MarkContext
from lakegc_core.policy.safety import ETAGS_ASKED
from lakegc_core.spark.tasks import collected
from lakegc_core.store.base import connect
from lakegc_core.store.etags import MD5_ETAG, ask_heads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_etags(context: MarkContext, objects: DataFrame) -> None:
    """Refuse the mark (RefusedError) if an ETag of the sample is no MD5, or if HEAD shows none of the sampled objects.

    `objects`: address, size (bytes) and etag, as they are listed. Makes at most ETAGS_ASKED HEADs, and none where
    lakegc.yaml promises nothing.
    """
    from pyspark.sql import functions as F

    store = connect(context.data)
    if not store.listed_digests:
        return
    order = F.xxhash64(F.lit(context.header.mark_id), "address")
    sample = objects.where(F.col("etag").rlike(MD5_ETAG)).orderBy(order, "address").limit(ETAGS_ASKED)
    rows = [(row["address"], row["size"], row["etag"]) for row in collected(sample)]
    found = ask_heads(store, rows)
    if found.contradiction:
        raise RefusedError(
            f"{found.contradiction} But lakegc.yaml says `etags: md5` of this place. Where that is false, a sweep may "
            "delete live data. Remove `etags: md5` from lakegc.yaml, and make a new mark."
        )
    if rows and not found.shown:
        why = found.failure or "they are gone, or were written over since they were listed"
        raise RefusedError(
            f"lakegc.yaml says `etags: md5` of {store.root}, and that cannot be checked: HEAD showed none of "
            f"{len(rows):,} listed objects ({why}). Let the key see data (on S3 s3:GetObject), or remove `etags: md5` "
            "from lakegc.yaml. Then make a new mark."
        )
