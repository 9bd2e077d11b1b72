"""The JSON Schema of lakegc.yaml, for editors and for checks in a pipeline, made of the models that read the file.

It accepts every file that lakegc accepts. It refuses wrong keys, wrong types and most wrong values. lakegc alone
reports what the schema cannot express, such as a policy that no repository reaches.
"""

from __future__ import annotations

from typing import Any

from lakegc_core.config.settings import LakegcYaml
from lakegc_core.policy.places import KINDS

Node = dict[str, Any]

_ROOT: Node = {"required": ["root"], "properties": {"root": {"type": "string"}}}
_ENDPOINT: Node = {"required": ["endpoint"], "properties": {"endpoint": {"type": "string"}}}
_VERSIONS: Node = {"required": ["versions"], "properties": {"versions": {"const": "delete"}}}
_ETAGS: Node = {"required": ["etags"], "properties": {"etags": {"const": "md5"}}}
_ENCRYPTION: Node = {"required": ["encryption"], "properties": {"encryption": {"type": "string"}}}
_CONDITIONS: Node = {
    "required": ["delete_conditions"],
    "properties": {"delete_conditions": {"enum": ["auto", "always"]}},
}
_KMS: Node = {"required": ["encryption"], "properties": {"encryption": {"const": "aws:kms"}}}
_KEY: Node = {"required": ["kms_key_id"], "properties": {"kms_key_id": {"type": "string"}}}
_STORE = [
    {"anyOf": [_ENDPOINT, _ROOT, _VERSIONS, _ETAGS, _ENCRYPTION, _CONDITIONS]},
    {
        "properties": {
            "match": {"pattern": f"^({'|'.join(KINDS)})://[^*]*$"},
            "endpoint": {"pattern": "^[hH][tT][tT][pP][sS]?://[^@?#]+$"},
            "root": {"pattern": "^/"},
        }
    },
    {"if": _ROOT, "then": {"properties": {"match": {"pattern": "^local://"}}}},
    {"if": {"anyOf": [_VERSIONS, _ETAGS, _ENCRYPTION]}, "then": {"properties": {"match": {"pattern": "^s3://"}}}},
    {"if": _KEY, "then": _KMS},
    {"if": _KMS, "then": {"not": _ETAGS}},
]
"""Demands on an entry of `stores` beside its types, as the settings check them."""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def lakegc_yaml_schema() -> Node:
    """The schema, JSON Schema 2020-12."""
    found = LakegcYaml.model_json_schema()
    sections = {f"#/$defs/{name}": section for name, section in found["$defs"].items()}
    for section in (found, *sections.values()):
        _leave_out(section, sections)
    found["$defs"]["StoreMapping"]["allOf"] = _STORE
    price = found["$defs"]["Price"]["properties"]
    found["properties"]["price"]["anyOf"].append(_nothing_of(list(price)))
    found["type"] = ["object", "null"]  # an empty file
    return {"$schema": _DIALECT} | found | {"title": "lakegc.yaml"}


def _leave_out(section: Node, sections: dict[str, Node]) -> None:
    """Let the keys of a section stand without a value, as lakegc does, where they need not be there."""
    required = section.get("required", ())
    for key, node in section.get("properties", {}).items():
        _leave_out(node, sections)
        node.pop("title", None)
        if "default" in node and node["default"] is None:
            del node["default"]
        if key not in required:
            section["properties"][key] = _or_nothing(node, sections)


def _nothing_of(keys: list[str]) -> Node:
    """A section that stands there with none of its keys, or with keys without values."""
    return {"type": "object", "propertyNames": {"enum": keys}, "additionalProperties": {"type": "null"}}


def _or_nothing(node: Node, sections: dict[str, Node]) -> Node:
    if "$ref" in node:
        described = {"description": sections[node["$ref"]]["description"]}
        return described | {"anyOf": [node, {"type": "null"}]}
    if "anyOf" in node:
        either = [*node["anyOf"], {"type": "null"}]
        return node | {"anyOf": [each for number, each in enumerate(either) if each not in either[:number]]}
    kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
    allowed = {"enum": [*node["enum"], None]} if "enum" in node else {}
    return node | {"type": [*kinds, "null"]} | allowed
