"""lakegc's own package on its way to tasks, so that driver and tasks never differ.

Executors elsewhere get one zip, of exactly the driver's code; third-party packages come with their own Python
(`spark.pyspark.python`). Workers on this machine get the driver's search path.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import sys
import sysconfig
import tempfile
import weakref
import zipfile
from importlib.machinery import PathFinder
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
    """Give the tasks of a session this very package. Once a session. It goes before any lakegc that executors have
    installed, or that lies in the folder in which workers start."""
    if spark in _has_it:
        return
    if runs_here(spark):
        told = spark.sparkContext.environment
        told |= search_path(told.get("PYTHONPATH", ""))
    else:
        versions.add_package(spark, package(), connect=_is_connect(spark))
    _has_it.add(spark)


def runs_here(spark: SparkSession) -> bool:
    """True if the tasks run on this machine."""
    return not _is_connect(spark) and str(spark.conf.get("spark.master", "")).startswith("local")


def _is_connect(spark: SparkSession) -> bool:
    """True if a Spark Connect server runs the tasks: it may have any Python, even if its master is local."""
    return ".connect." in type(spark).__module__


def search_path(others: str = "") -> dict[str, str]:
    """The variables with which a Python on this machine imports what this process imports, and nothing from the folder
    in which it starts. `others`: folders to look in last, as PYTHONPATH names them. The standard library is not among
    the places: that Python has its own, and one of another version cannot even start with this one's."""
    own = _of_this_python()
    places = [str(place) for place in (Path(each).absolute() for each in sys.path) if place not in own]
    found = PathFinder.find_spec(lakegc_core.__name__, places)
    if found is None or list(found.submodule_search_locations or ())[:1] != list(lakegc_core.__path__):
        places.insert(0, str(Path(lakegc_core.__path__[0]).parent))  # imported from elsewhere, as an editable one is
    places += (place for place in others.split(os.pathsep) if place)  # an empty one is the folder of the start
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(places)), "PYTHONSAFEPATH": "1"}


def _of_this_python() -> set[Path]:
    """The places of the standard library of the Python that runs here."""
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return {place for each in libraries for place in (each, each / "lib-dynload", each.parent / archive)}


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
