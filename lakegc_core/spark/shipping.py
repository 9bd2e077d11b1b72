"""lakegc's own package on its way to executors that need not have it: one zip, of exactly the driver's code.

Third-party packages are not shipped: they come with the executors' Python (`spark.pyspark.python`).
"""

from __future__ import annotations

import functools
import hashlib
import io
import tempfile
import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakegc_core
from lakegc_core.spark import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODE = (".py", ".properties")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same code is the same zip
_has_it: weakref.WeakSet[Any] = weakref.WeakSet()


def ship(spark: SparkSession) -> None:
    """Give the tasks of a session this very package, unless they run on this machine with this Python anyway.

    Once a session. The package goes before any lakegc that executors have installed: driver and tasks never differ.
    """
    if spark in _has_it:
        return
    connect = _is_connect(spark)
    if connect or not (spark.conf.get("spark.master") or "").startswith("local"):
        versions.add_package(spark, package(), connect=connect)
    _has_it.add(spark)


def _is_connect(spark: SparkSession) -> bool:
    """True if a Spark Connect server runs the tasks: it may have any Python, even if its master is local."""
    return ".connect." in type(spark).__module__


def package() -> Path:
    """The package as a zip, which bears the digest of what it holds in its name; it goes when this process ends."""
    data = contents()
    file = Path(_folder().name) / f"lakegc_core-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    if not file.exists():
        file.write_bytes(data)
    return file


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="lakegc-package-")


@functools.cache
def contents() -> bytes:
    """The bytes of the zip, the same for the same code."""
    root, data = Path(lakegc_core.__path__[0]), io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file in sorted(root.rglob("*")):
            if file.suffix in _CODE:
                entry = zipfile.ZipInfo(file.relative_to(root.parent).as_posix(), _EPOCH)
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()
