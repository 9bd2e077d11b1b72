"""The JSON Schema of lakegc.yaml and what reads the file are of one mind."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lakegc_core.config import strict_yaml
from lakegc_core.config.schema import lakegc_yaml_schema
from lakegc_core.config.settings import LakegcYaml, Settings
from lakegc_core.errors import SettingsError

SCHEMA = lakegc_yaml_schema()
PLAIN = LakegcYaml.model_json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
WHOLE: dict[str, Any] = {
    "server": {
        "endpoint_url": "https://lakefs.example",
        "connection_timeout": "10s",
        "read_timeout": 60,
        "task_timeout": "1h",
        "compaction": "never",
    },
    "stores": [
        {"match": "local://", "root": "/srv"},
        {"match": "s3://lake", "versions": "delete"},
        {"match": "s3://pond", "etags": "md5"},
        {"match": "https://a", "endpoint": "http://b", "versions": "keep"},
    ],
    "spark": {
        "master": "local[2]",
        "conf": {"spark.driver.memory": "4g", "spark.executor.memory": 4096, "spark.ui.enabled": False, "spark.a": "b"},
    },
    "scale": {"range_num_partitions": 50, "delete_rate": 3000, "store_heads": 1},
    "lease": "external",
    "price": {"per_gb_month": 0.02, "currency": "EUR"},
    "metrics": {"pushgateway": "http://pushgateway:9091"},
    "neighbours": {"within": "7d", "strict": True, "ignore": ["a-*"]},
    "repositories": [
        {"match": "prod", "safety": "standard", "min_age": "1h30m", "holds": ["tag:v*", "path:a/**", "commit:9f2c"]},
        {
            "match": "*",
            "backup": "required",
            "keep_marks": 2,
            "clean_every": 1,
            "rules": "keep-all-commits",
            "budget": {"most_bytes": "2TB", "most_objects": 10, "until": "06:00", "most_requests": 5},
            "rings": {"shares": [0.001, 0.1]},
            "blast_radius": "25%",
        },
    ],
}
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, 2.5, "", " ", "text", "none", "required", "delete", "keep", "internal", "full"),
    *("25h", "0s", "-1h", "1h30m", " 7d ", "soon", "4g", "4gb", "lots", "s3://a", "local://", "tag:v1", "tag: v1"),
    *("branch:main", "path:/a", "path:a/", "path:**", "md5", "commit:AB", "commit:main", "commit:", "name:x", "path: "),
    *([], ["text"], [1], [None], {}, {"match": "x"}, {"no_such_key": 1}, {"currency": "EUR"}, {"currency": None}),
    *("06:00", "24:00", " 7 GiB", "0TB", "00", "2 tb "),
    *("25%", "0.0%", "0.5 %", "100%", "101%", "100.1%", "%"),
    *({"per_gb_month": 1}, {"per_gb_month": None}, [{"match": "s3://a", "root": "/b"}], [{"match": "s3://a"}]),
]


def places(document: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document, from the whole down to each value."""
    below = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [above, *(place for key, value in below for place in places(value, (*above, key)))]


def changed(place: tuple[str | int, ...], value: Any, key: str | None = None) -> Any:
    """The whole document with another value at one place; `key`: below it, instead of it."""
    whole = [deepcopy(WHOLE)]
    at: Any = whole
    *way, last = (0, *place)
    for step in way:
        at = at[step]
    if key is None:
        at[last] = value
    elif isinstance(at[last], dict):
        at[last][key] = value
    return whole[0]


def is_read(document: Any) -> bool:
    """Whether lakegc takes a lakegc.yaml that holds this. What YAML makes of a text is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_yaml, "_read", lambda *_: deepcopy(document))
        patch.setattr(LakegcYaml, "model_json_schema", lambda: PLAIN)  # made once: it takes longer than all the rest
        try:
            Settings.load("lakegc.yaml", {})
        except SettingsError:
            return False
    return True


def test_the_schema_is_one_and_takes_what_the_documents_show() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert VALIDATOR.is_valid(WHOLE) and is_read(WHOLE)


@pytest.mark.parametrize("place", places(WHOLE), ids=lambda place: ".".join(map(str, place)) or "all")
def test_whatever_stands_at_one_place_both_are_of_one_mind(place: tuple[str | int, ...]) -> None:
    documents = [changed(place, value) for value in VALUES] + [changed(place, None, key="no_such_key")]
    if place[-1:] in (("endpoint_url",), ("pushgateway",)):  # what is a URL is said by lakegc alone
        documents = [each for each in documents if not isinstance(each[place[0]][place[1]], str)]
    if place[:1] in (("repositories",), ("stores",)) and place[-1:] in (("repositories",), ("match",), (0,)):
        # And so is what nothing reaches.
        documents = [each for each in documents if not VALIDATOR.is_valid(each)]
    verdicts = {repr(each): (VALIDATOR.is_valid(each), is_read(each)) for each in documents}
    assert {document: both for document, both in verdicts.items() if both[0] != both[1]} == {}


KEYS = sorted({str(place[-1]) for place in places(WHOLE) if place} | {"no_such_key", "holds", "workspace", "mark"})
CHANGES = st.tuples(st.sampled_from(places(WHOLE)), st.none() | st.sampled_from(KEYS), st.sampled_from(VALUES))


@settings(max_examples=200)
@given(CHANGES)
def test_the_schema_refuses_nothing_that_lakegc_reads(change: tuple[tuple[str | int, ...], str | None, Any]) -> None:
    place, key, value = change
    document = changed(place, value, key)
    assert VALIDATOR.is_valid(document) or not is_read(document)


NUMBERS = st.integers(-9, 9) | st.floats(0.001, 1e9) | st.floats(-1e9, -0.001)
TEXTS = st.text(alphabet="0123456789.dhms -+e", max_size=6)


@settings(max_examples=200)
@given(TEXTS | NUMBERS)
def test_durations_are_the_same_to_both(duration: object) -> None:
    for place in (("repositories", 1, "min_age"), ("server", "read_timeout")):
        document = changed(place[:-1], duration, key=str(place[-1]))
        assert VALIDATOR.is_valid(document) == is_read(document)


def test_every_key_is_described() -> None:
    sections = [SCHEMA, *SCHEMA["$defs"].values()]
    assert [
        key for section in sections for key, node in section["properties"].items() if not node.get("description")
    ] == []
