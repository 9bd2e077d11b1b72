"""The errors of lakegc, and the exit code each one ends a command with.

Every message says what was found, why it stops here, and what to do. Nothing here carries a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 3  # names that are suggested


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the known names that are like this one, whatever their case; "" if there are none."""
    by_lower = {each.lower(): each for each in known}
    near = [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=_MOST)]
    return f"Did you mean {' or '.join(near)}?" if near else ""


class LakegcError(Exception):
    """Something failed; nothing was deleted because of it. Exit code 1."""

    exit_code = 1


class SettingsError(LakegcError):
    """A setting, an option or an argument is wrong. Exit code 2."""

    exit_code = 2


class RefusedError(LakegcError):
    """A guard refused: the work could be done, but it is not safe to. Nothing was deleted. Exit code 3."""

    exit_code = 3


class LeaseHeldError(RefusedError):
    """Another collector works on the repository. The same call may succeed when that one is done."""


class ServerError(LakegcError):
    """lakeFS answered with an error, or with something that does not add up."""


class StoreError(LakegcError):
    """The object store failed, or answered with something that does not add up."""


class ObjectNotFoundError(StoreError):
    """The store holds no object under the key asked for."""


class BucketNotFoundError(StoreError):
    """There is no such bucket or container."""


class UnusableKeyError(StoreError):
    """The store takes no such key: too long, or of a form that it refuses. No object can lie under it."""


class PreconditionFailedError(StoreError):
    """A conditional write lost: the object exists already, or is another one than expected."""


class NoConditionsError(StoreError):
    """The store does not know conditions of writes: it refused the condition itself, whether or not it holds."""


class CorruptFileError(LakegcError):
    """A metadata file cannot be read as what it must be: wrong magic, checksum, order or count."""


class IncompleteError(LakegcError):
    """An answer is shorter than it must be. Taken as whole, it would make live data look like garbage."""


class MarkError(LakegcError):
    """The artifacts of a mark do not hold together: missing upstream, changed digest, other settings."""
