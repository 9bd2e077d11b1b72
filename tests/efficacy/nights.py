"""What nightly jobs do to a lake: the same bytes at the same paths again, beside files that change.

Every object belongs to a case, so that a test can say of which kind of garbage how much is gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.efficacy.site import Site

NIGHTS = (31, 21, 11, 1)
"""Days ago. Under rules of seven days the last two commits count: the third was shown until yesterday."""

_WRITERS = 6


@dataclass
class Writer:
    """Writes to a site from some threads; `cases` says which case each key belongs to."""

    site: Site
    cases: dict[str, str] = field(default_factory=dict)
    days: float = 0.0

    def upload(self, case: str, files: Iterable[tuple[str, bytes]], branch: str = "main") -> None:
        """Through lakeFS, which computes the MD5."""
        age = timedelta(days=self.days)
        self._each(case, files, lambda path, data: self.site.repository.upload(branch, path, data, age=age))

    def link_in_parts(self, case: str, files: Iterable[tuple[str, bytes]], branch: str = "main") -> None:
        """A client's own upload in parts, linked with the ETag that it was given."""
        repository = self.site.repository
        inside = repository.place.namespace_slash

        def link(path: str, data: bytes) -> str:
            address = repository.physical_address(branch, age=timedelta(days=self.days))
            key = address.removeprefix(inside)
            etag = self.site.bucket.put_in_parts(f"{self.site.name}/{key}", data)
            repository.stage(branch, path, address, size=len(data), checksum=etag)
            return key

        self._each(case, files, link)

    def copy_onto_itself(self, case: str, files: Iterable[tuple[str, bytes]], branch: str = "main") -> None:
        """Server-side, as jobs do that touch a file."""
        copy = self.site.repository.copy
        self._each(case, files, lambda path, _: copy(branch, path, branch, path).address)

    def upload_and_drop(self, case: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Temporary files that are gone before the commit."""
        files = list(files)
        self.upload(case, files)
        for path, _ in files:
            self.site.repository.delete("main", path)

    def commit(self, branch: str = "main") -> None:
        date = datetime.fromtimestamp(self.site.now, UTC) - timedelta(days=self.days)
        self.site.repository.commit(branch, f"{self.days} days ago", date=date, allow_empty=True)

    def _each(self, case: str, files: Iterable[tuple[str, bytes]], write: Callable[[str, bytes], str]) -> None:
        with ThreadPoolExecutor(_WRITERS) as pool:
            for key in pool.map(lambda file: write(*file), files):
                self.cases[key] = case


def filler(name: str, size: int) -> bytes:
    """Bytes that are always the same for the same name, and of no other."""
    block = hashlib.sha256(name.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


SAME = [(f"same/day={n % 20:02}/part-{n:05}.parquet", filler(f"same {n}", 100 + n % 50)) for n in range(400)]
MARKERS = [(f"jobs/{n:03}/_SUCCESS", b"") for n in range(150)]
PARTS = [(f"parts/{n:03}", filler(f"parts {n}", 300 + n)) for n in range(30)]
COPIES = [(f"copies/{n:03}", filler(f"copies {n}", 120)) for n in range(40)]


def _changing(night: int) -> list[tuple[str, bytes]]:
    return [(f"changing/part-{n:04}.parquet", filler(f"changing {night} {n}", 1000 + n)) for n in range(200)]


def _by_chance(night: int) -> list[tuple[str, bytes]]:
    """Records of one length: no two of one content, and all of one size."""
    return [(f"records/{n:03}", filler(f"records {night} {n}", 64)) for n in range(100)]


def four_nights(site: Site) -> Writer:
    """Four nights with a commit each, then identical re-uploads that three branches show and no dump names."""
    writer = Writer(site)
    for night, days in enumerate(NIGHTS):
        writer.days = days
        writer.upload("identical rewrites", SAME)
        writer.upload("zero-byte markers", MARKERS)
        writer.upload("files that change", _changing(night))
        writer.upload("sizes that coincide by chance", _by_chance(night))
        writer.link_in_parts("multipart objects", PARTS)
        if night == 0:
            writer.upload("copies onto themselves", COPIES)
        else:
            writer.copy_onto_itself("copies onto themselves", COPIES)
        writer.upload_and_drop("dropped, identical to a live one", [(f"tmp/{path}", data) for path, data in SAME[:50]])
        writer.commit()
    writer.days = 0.5
    for place, branch in enumerate(("main", "dev", "feature")):
        if place:
            site.repository.create_branch(branch, "main")
        some = slice(place * 5, place * 5 + 10)
        writer.upload("hidden", SAME[some], branch)
        writer.upload("hidden", MARKERS[some], branch)
        writer.link_in_parts("hidden", PARTS[some], branch)
        writer.copy_onto_itself("hidden", COPIES[some], branch)
    return writer


def one_content(site: Site, garbage: int) -> Writer:
    """The same file everywhere: half as many paths as there will be garbage, written by three nights."""
    writer = Writer(site)
    files = [(f"copy-{n:06}", b"the one content of all") for n in range(garbage // 2)]
    for days in (30, 20, 10):
        writer.days = days
        writer.upload("all objects of one content", files)
        writer.commit()
    writer.days = 0.5
    site.repository.create_branch("dev", "main")
    writer.upload("hidden", files[:20])
    writer.upload("hidden", files[-20:], "dev")
    return writer
