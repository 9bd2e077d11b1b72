"""The wait before a request is repeated: the same for lakeFS and for stores."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Waits in seconds that double from `first` to `longest`, spread so that clients do not march in step."""

    first: float
    longest: float

    def wait(self, attempt: int) -> float:
        """Seconds to wait after this attempt; the first one is 1."""
        return min(self.longest, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)
