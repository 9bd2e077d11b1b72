"""lakegc as a Dagster code location: how a team runs it. What is garbage is decided in `lakegc_core` alone.

A project of a team's own imports these names from here. Each is loaded when it is asked for, because Spark comes along.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakegc_dagster.alerts import failure_alert
    from lakegc_dagster.build import build_lakegc_definitions
    from lakegc_dagster.component import LakegcComponent
    from lakegc_dagster.config import LakegcConfig
    from lakegc_dagster.resources import LakegcResource
    from lakegc_dagster.translator import LakegcAssetProps, LakegcTranslator

__all__ = [
    "LakegcAssetProps",
    "LakegcComponent",
    "LakegcConfig",
    "LakegcResource",
    "LakegcTranslator",
    "build_lakegc_definitions",
    "failure_alert",
]

_MODULES = {
    "LakegcAssetProps": "translator",
    "LakegcComponent": "component",
    "LakegcConfig": "config",
    "LakegcResource": "resources",
    "LakegcTranslator": "translator",
    "build_lakegc_definitions": "build",
    "failure_alert": "alerts",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """All names, loaded or not: `dg` looks for components here."""
    return sorted({*globals(), *__all__})
