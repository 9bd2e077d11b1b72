"""Takes a delete of lakegc back in an S3 bucket that keeps versions: without its delete marker the object shows again.

A sweep does not note the ids of its delete markers: an answer that was lost names none, and the journal of a sweep that
was killed lacks some. The list of versions has them all, with their times.
"""

from __future__ import annotations

from lakegc_core.errors import IncompleteError, ObjectNotFoundError
from lakegc_core.store.base import Deleted
from lakegc_core.store.kept import check_delete, check_hidden, check_object
from lakegc_core.store.s3.bucket import Bucket
from lakegc_core.store.s3.version_lists import id_of, versions_of


def undelete(bucket: Bucket, deleted: Deleted) -> None:
    """Remove the delete markers that lie on the deleted version: see `Store.undelete`.

    There may be several, because a delete without an answer is sent again. All of them must be of the time of the
    delete. The version must be the one that was deleted: nothing was written under its key since.
    """
    key, where = deleted.address, f"{bucket.root}: {deleted.address!r}"
    listed = versions_of(bucket, key, lambda **page: bucket.call("list_object_versions", key, **page))
    if any("LastModified" not in each for each in (*listed.versions, *listed.markers)):
        raise IncompleteError(f"{where}: the store lists a version without its time")
    ids = {id_of(each) for each in listed.versions}
    if any(not each.get("VersionId") or each["VersionId"] in ids for each in listed.markers):
        raise IncompleteError(f"{where}: the store lists a delete marker without an id of its own")
    if not listed.versions:
        raise ObjectNotFoundError(f"{where} has no version left")
    newest = max(listed.versions, key=lambda each: each["LastModified"])  # of several of one second the first listed
    check_hidden(where, is_shown=bool(newest.get("IsLatest")))
    check_object(deleted, where, newest.get("Size"), newest["LastModified"])
    markers = [each for each in listed.markers if each["LastModified"] >= newest["LastModified"]]
    for each in markers:
        check_delete(deleted, where, each["LastModified"])
    for each in reversed(markers):  # the newest last: until then the object stays hidden, as it was
        bucket.call("delete_object", key, Key=bucket.base + key, VersionId=id_of(each))
