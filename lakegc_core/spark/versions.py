"""The versions of Spark that lakegc runs on, and all that differs between them: no other module asks for a version.

All must decide alike. What they would decide differently is set (`ALIKE`); a version, a Python or a Java that does not
fit is refused before anything is read.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakegc_core.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALIKE = {"spark.sql.ansi.enabled": "true"}
"""Settings that decide results, and whose defaults differ: without it 3.5 lets sums overflow and makes nulls of what
cannot be cast, where 4 stops."""

_FIRST, _BEYOND = (3, 5), (5, 0)
_IMPORTS = {(3, 5): "distutils"}
"""A module that a version imports, and that Python has only up to 3.11. setuptools brings it; so do some platforms."""

_LAST_JAVA = {(3, 5): 17, (4, 0): 21, (4, 1): 21}
"""The newest Java of a version. Hadoop and Arrow in it ask later ones for what these have no more: the session or its
first job fails."""


def check(version: str) -> None:
    """SettingsError if lakegc does not run on this version of Spark, or that version not on this Python.

    `version` as Spark says it; platforms append to it, as in `3.5.4-amzn-0`.
    """
    found = _numbers(version)
    if not _FIRST <= found < _BEYOND:
        raise SettingsError(
            f"This is Spark {version}. lakegc runs on Spark 3.5 and 4; on other versions nobody knows whether it "
            "decides the same. Install or choose one of these."
        )
    module = _IMPORTS.get(found)
    if module and find_spec(module) is None:
        raise SettingsError(
            f"Spark {version} imports {module}, which Python has only up to 3.11, and this is Python "
            f"{sys.version_info[0]}.{sys.version_info[1]}. Install setuptools, which brings it, for executors too; "
            "or take Python 3.11, or Spark 4."
        )


def check_home(home: str | None) -> None:
    """SettingsError if SPARK_HOME names no Spark, or one of another version than PySpark here. PySpark starts Java from
    there, and sides of two versions do not understand each other. `home`: its value."""
    if not home:
        return
    import pyspark

    names = [jar.name for jar in Path(home, "jars").glob("spark-core_*.jar")]
    found = {match[1] for name in names if (match := re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", name))}
    if {_numbers(each) for each in found} != {_numbers(pyspark.__version__)}:
        other = f"is Spark {' and '.join(sorted(found))}" if found else "holds no Spark"
        raise SettingsError(
            f"SPARK_HOME is {home}, which {other}; PySpark here is {pyspark.__version__}. Unset SPARK_HOME to start "
            "the Spark that PySpark brings, or let it name one of this version."
        )


def last_java(version: str) -> int | None:
    """The newest Java that this version of Spark starts on; None: there is no such limit."""
    return _LAST_JAVA.get(_numbers(version))


def may_start_apart() -> bool:
    """True if another thread may start the session: columns of 3.5 go by the settings of the one that their own thread
    started, so that `ALIKE` would not count."""
    import pyspark

    return _numbers(pyspark.__version__) >= (4, 0)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of a few rows; Spark knows if there are none."""
    import pyspark
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(rows.schema)  # Connect cannot tell it where there are no rows
    if _numbers(pyspark.__version__) >= (4, 0):  # this side's version: the server's may be another one
        # Spark stops at an empty batch, and loses what comes after.
        return spark.createDataFrame(rows.combine_chunks(), schema)
    frame = spark.createDataFrame(rows.to_pylist(), schema)
    return frame if rows.num_rows else frame.limit(0)


def add_package(spark: SparkSession, package: Path, *, connect: bool) -> None:
    """Give the tasks of a session a zip of Python modules. `connect`: the session is one of Spark Connect."""
    if connect or _numbers(spark.version) >= (4, 0):
        spark.addArtifacts(str(package), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(package))


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise SettingsError(f"Spark says that its version is {version!r}, which is none that lakegc knows.")
    return int(found[1]), int(found[2])
