"""ETags that look like digests and are none: nothing live goes, and the garbage does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.efficacy.site import Bucket, Site, s3_behind_proxy, site
from tests.support.disguise import Disguise
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.safety]

SAME = [(f"same/{n}", f"the same bytes, {n}".encode()) for n in range(4)]
Encrypt = Callable[[Callable[[str], bool]], Disguise]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bucket, Proxy]]:
    """A real S3 server behind a proxy."""
    with s3_behind_proxy(tmp_path_factory.mktemp("disguised")) as found:
        yield found


@pytest.fixture
def bucket(behind: tuple[Bucket, Proxy]) -> Bucket:
    return behind[0]


@pytest.fixture
def encrypt(behind: tuple[Bucket, Proxy]) -> Iterator[Encrypt]:
    """Encrypts from now on what a function says; put in its place by the next call."""
    running = behind[1]
    plain = running.hook

    def begin(encrypted: Callable[[str], bool]) -> Disguise:
        running.hook = hook = Disguise(encrypted)
        return hook

    yield begin
    running.hook = plain


def write(lake: Site, days: float, note: str) -> None:
    """A night: the same bytes at the same paths, beside a file that changes, and a commit."""
    age = timedelta(days=days)
    for path, data in SAME:
        lake.repository.upload("main", path, data, age=age)
    lake.repository.upload("main", "changes", note.encode(), age=age)
    lake.repository.commit("main", note, date=datetime.fromtimestamp(lake.now, UTC) - age)


def hide(lake: Site) -> None:
    """Three of the four once more, staged, on main; and one on a branch beside it."""
    lake.repository.create_branch("dev", "main")
    for branch, files in (("main", SAME[:3]), ("dev", SAME[3:])):
        for path, data in files:
            lake.repository.upload(branch, path, data, age=timedelta(days=2))


@contextmanager
def judged(lake: Site, rounds: int = 2) -> Iterator[None]:
    """What is done in the block is followed by rounds: what was live reads on, and all else is gone."""
    yield
    live, hidden = lake.live(), lake.hidden()
    assert live < lake.stored().keys(), "there is no garbage, or something is lost already"
    for _ in range(rounds):
        lake.round()
    left = lake.stored().keys()
    assert lake.live() == live
    assert not live - left, f"{len(live - left)} of {len(live)} live objects are gone: {len(hidden - left)} hidden ones"
    assert not left - live, f"{len(left - live)} objects of garbage stay"


def test_under_kms_from_the_first_listing_on_no_hidden_re_upload_goes(
    bucket: Bucket, encrypt: Encrypt, quick: SparkSession, tmp_path: Path
) -> None:
    disguise = encrypt(lambda path: True)
    with site(quick, bucket, tmp_path, "kms") as lake, judged(lake):
        for days, note in ((30, "one"), (20, "another"), (10, "the last")):
            write(lake, days, note)
        hide(lake)
        stored = {f"lakegc-test/kms/{key}" for key in lake.stored()}
    assert disguise.shown == stored, "the store's listing showed other ETags than it should"


def test_under_kms_from_the_middle_of_a_history_on_no_hidden_re_upload_goes(
    bucket: Bucket, encrypt: Encrypt, quick: SparkSession, tmp_path: Path
) -> None:
    with site(quick, bucket, tmp_path, "kms-later") as lake, judged(lake):
        write(lake, 30, "one")
        write(lake, 20, "another")
        lake.round()  # a listing of plain ETags
        before = lake.stored().keys()
        disguise = encrypt(lambda path: path.partition("/kms-later/")[2] not in before)
        write(lake, 10, "the last")
        hide(lake)
    assert disguise.shown


def test_when_a_whole_bucket_is_encrypted_between_marks_no_hidden_re_upload_goes(
    bucket: Bucket, encrypt: Encrypt, quick: SparkSession, tmp_path: Path
) -> None:
    """Old objects are encrypted too, as a batch job does it: every ETag is another one from then on."""
    with site(quick, bucket, tmp_path, "kms-all") as lake, judged(lake, rounds=1):
        write(lake, 30, "one")
        write(lake, 10, "the last")
        hide(lake)
        lake.repository.upload("main", "dropped", SAME[0][1], age=timedelta(days=2))
        lake.repository.delete("main", "dropped")
        lake.round(between=lambda: encrypt(lambda path: True))
        lake.repository.upload("main", *SAME[0])


@pytest.mark.parametrize("turn", [0, 1], ids=["plain first", "encrypted first"])
def test_where_encryption_comes_and_goes_nothing_live_is_lost(
    bucket: Bucket, encrypt: Encrypt, quick: SparkSession, tmp_path: Path, turn: int
) -> None:
    """Some objects of one content show their MD5 and some another ETag, on either side of every comparison."""
    secret: set[str] = set()
    known: set[str] = set()
    name = f"kms-mixed-{turn}"
    with site(quick, bucket, tmp_path, name) as lake, judged(lake):
        disguise = encrypt(lambda path: path.partition(f"/{name}/")[2] in secret)

        def settle() -> None:
            """What was written since the last call is encrypted every other time."""
            nonlocal turn
            new = lake.stored().keys() - known
            known.update(new)
            if turn % 2:
                secret.update(new)
            turn += 1

        for days, note in ((30, "one"), (20, "another"), (15, "a third"), (10, "the last")):
            write(lake, days, note)
            settle()
        hide(lake)
        settle()
        for path, data in SAME[:2]:
            lake.repository.upload("dev", path, data, age=timedelta(days=2))
        settle()
    assert disguise.shown


def test_what_a_client_has_hidden_with_a_wrong_size_is_kept(
    bucket: Bucket, quick: SparkSession, tmp_path: Path
) -> None:
    """lakeFS compares what entries claim, never what the store holds: such links stand behind a head's entry."""
    with site(quick, bucket, tmp_path, "liars") as lake, judged(lake):
        write(lake, 30, "one")
        write(lake, 10, "the last")
        lake.link("main", "claims", b"claimed by the first", size=7, checksum="a-checksum-of-its-own")
        lake.repository.commit("main", "claims")
        # The head's own entry claims a wrong size, and so does this link: their objects differ in all.
        again = lake.link("main", "claims", b"claimed by the second link", size=7, checksum="a-checksum-of-its-own")
        # The heads' entries tell the truth. These links claim the same, and are other objects, of other sizes.
        (path, data), (other, other_data) = SAME[:2]
        longer = lake.link("main", path, b"not what it claims to be, and longer", size=len(data), checksum=_md5(data))
        empty = lake.link("main", other, b"", size=len(other_data), checksum=_md5(other_data))
        assert {longer, empty, again} <= lake.hidden()
        lake.link("main", "dropped", b"dropped at once")
        lake.repository.delete("main", "dropped")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
