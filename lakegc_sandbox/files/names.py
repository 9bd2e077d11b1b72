"""Names as lakeFS makes them: objects and slices that carry their time, runs, tasks, signatures.

Decoding times out of names belongs in the collector, not here.
"""

from __future__ import annotations

import base64
import random

SLICE_SECONDS = 3600  # a slice takes names for one hour
SLICE_NAMES = 50_000  # and for so many of them
DESCENDING_ORIGIN = 64_060_588_800  # year 4000: slices and run ids count down from here, newest first

_ID_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Names:
    """One lakeFS process's source of names. The same seed gives the same names for the same calls.

    `shards`: over how many shards new objects are spread; 0: the namespace is not sharded.
    """

    def __init__(self, seed: int | None = None, shards: int = 0) -> None:
        self.shards = shards
        self._random = random.Random(seed)
        self._process = self._random.randbytes(5)
        self._counter = self._random.randrange(1 << 24)
        self._slices: dict[int, tuple[str, int]] = {}  # hour -> its current slice, names issued from it

    def xid(self, seconds: int) -> str:
        """A unique name whose first four bytes are `seconds`, cut to 32 bits."""
        self._counter = (self._counter + 1) & 0xFFFFFF
        raw = (seconds & 0xFFFFFFFF).to_bytes(4, "big") + self._process + self._counter.to_bytes(3, "big")
        return base64.b32hexencode(raw).decode().lower().rstrip("=")

    def run_id(self, at: float) -> str:
        """A descending xid: later ones sort first."""
        return self.xid(DESCENDING_ORIGIN - int(at))

    def data_address(self, at: float) -> str:
        """`data/<slice>/<name>` as an upload at that time would get it, below a shard where there are shards."""
        hour = int(at) // SLICE_SECONDS
        current, issued = self._slices.get(hour, ("", SLICE_NAMES))
        if issued >= SLICE_NAMES:
            current, issued = self.run_id(hour * SLICE_SECONDS), 0
        self._slices[hour] = (current, issued + 1)
        return f"data/{self._shard()}{current}/{self.xid(int(at))}"

    def _shard(self) -> str:
        if not self.shards:
            return ""
        first, second = divmod(self._random.randrange(self.shards), 16)
        return f"!{first:02x}/{second:x}/"

    def signature(self) -> str:
        """The part behind the comma in the name of a linked object: 32 bytes in URL-safe base64."""
        return base64.urlsafe_b64encode(self._random.randbytes(32)).decode().rstrip("=")

    def task_id(self, prefix: str) -> str:
        """An id as background tasks get it."""
        return prefix + "".join(self._random.choices(_ID_ALPHABET, k=20))

    def token(self) -> str:
        """A name for a temporary thing that nothing reads meaning from."""
        return self._random.randbytes(16).hex()
