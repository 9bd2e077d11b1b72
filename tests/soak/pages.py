"""A person at the UI, again and again: every page asked for over HTTP as the browser asks, and how long it took.

A page's time is that of all its requests one after the other, which is more than a browser waits: it sends them side by
side. Not here: what the figures have to be (`figures`, `proof`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

from lakegc_dagster.config import LakegcConfig
from tests.soak.ui_queries import query

LOCATION = "lakegc"
REPOSITORY = "__repository__"  # Dagster's name for what is in a code location of ours
PAUSE_SECONDS = 2.0  # between two pages
_TIMEOUT = 60.0
_SHOWN = 30  # rows of the page of runs


@dataclass(frozen=True)
class Seen:
    """What a person who looks for the newest opens: a partition that was marked, and the run that did it."""

    partition: str
    run_id: str


class Webserver:
    """Dagster's webserver as the UI speaks with it. Errors in an answer are raised."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()

    def document(self) -> None:
        """The page that loads the UI itself."""
        answer = self._session.get(self.url, timeout=_TIMEOUT, headers={"Accept": "text/html"})
        answer.raise_for_status()
        assert "<html" in answer.text

    def ask(self, name: str, /, **variables: Any) -> Mapping[str, Any]:
        """One of the UI's queries or mutations; the values of its answer by field."""
        body = {"operationName": name, "query": query(name), "variables": variables}
        answer = self._session.post(f"{self.url}/graphql?op={name}", json=body, timeout=_TIMEOUT)
        told = answer.json()
        if answer.status_code != 200 or told.get("errors"):
            raise RuntimeError(f"{name} was answered with {answer.status_code}: {told.get('errors') or told}")
        found: Mapping[str, Any] = told["data"]
        for field_name, value in found.items():
            if isinstance(value, dict) and str(value.get("__typename", "")).endswith("Error"):
                raise RuntimeError(f"{name}: {field_name} is {value}")
        return found

    def turn_on(self, sensor: str) -> str:
        """Turn a sensor on, as the switch on the page Automation does; by what comes back it is turned off."""
        told = self.ask("StartSensor", sensorSelector=_named("sensorName", sensor))
        return str(told["startSensor"]["sensorState"]["id"])

    def turn_off(self, state: str) -> None:
        """Turn a sensor off."""
        self.ask("StopRunningSensor", id=state)

    def turn_schedule_on(self, schedule: str) -> str:
        """Turn a schedule on; by what comes back it is turned off."""
        told = self.ask("StartThisSchedule", scheduleSelector=_named("scheduleName", schedule))
        return str(told["startSchedule"]["scheduleState"]["id"])

    def turn_schedule_off(self, state: str) -> None:
        """Turn a schedule off."""
        self.ask("StopSchedule", id=state)


def _named(kind: str, name: str) -> dict[str, str]:
    return {"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION, kind: name}


@dataclass
class Prober:
    """Opens the pages in turn until `stop`. `seconds`: by page, of each time; `failures`: what went wrong, in words."""

    webserver: Webserver
    newest: Callable[[], Seen | None]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = LakegcConfig()
        self._keys = [{"path": list(options.key(asset).path)} for asset in options.assets]
        self._key = {"path": list(options.key("expired_addresses").path)}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)

    def start(self) -> None:
        """Open pages from a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Open no more, and wait for the last."""
        self._stopping.set()
        self._thread.join(timeout=2 * _TIMEOUT)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for page, opening in self._pages(self.newest()).items():
                begun = time.monotonic()
                try:
                    opening()
                except Exception as error:  # whatever it is, a person would have seen it
                    self.failures.append(f"{page}: {error}")
                self.seconds.setdefault(page, []).append(time.monotonic() - begun)
                if self._stopping.wait(PAUSE_SECONDS):
                    return

    def _pages(self, seen: Seen | None) -> dict[str, Callable[[], object]]:
        pages: dict[str, Callable[[], object]] = {
            "the first page": self._first,
            "asset graph": lambda: self.webserver.ask("AssetGraphLiveQuery", assetKeys=self._keys),
            "runs": lambda: self.webserver.ask("RunsFeedRootQuery", limit=_SHOWN, view="ROOTS", filter={}),
            "an asset": self._asset,
            "its partitions": lambda: self.webserver.ask("PartitionHealthQuery", assetKey=self._key),
            "a sensor's ticks": self._sensor,
        }
        if seen is None:
            return pages
        return pages | {
            "a materialisation": lambda: self.webserver.ask(
                "AssetPartitionDetailQuery", assetKey=self._key, partitionKey=seen.partition
            ),
            "a run": lambda: self.webserver.ask("RunRootQuery", runId=seen.run_id),
        }

    def _first(self) -> None:
        self.webserver.document()
        self.webserver.ask("LocationWorkspaceQuery", name=LOCATION)
        self.webserver.ask("LocationWorkspaceAssetsQuery", name=LOCATION)

    def _asset(self) -> None:
        self.webserver.ask("AssetViewDefinitionQuery", assetKey=self._key)
        self.webserver.ask("AssetOverviewMetadataEventsQuery", assetKey=self._key)

    def _sensor(self) -> None:
        self.webserver.ask("SensorRootQuery", sensorSelector=_named("sensorName", "open_round"))
        of_sensor = {"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION, "name": "open_round"}
        self.webserver.ask("TickHistoryQuery", instigationSelector=of_sensor, limit=25)
