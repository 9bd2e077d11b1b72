"""Reads YAML files strictly: a key given twice, an unknown one and a value of another kind are errors.

The models that files are read into (`settings`, `lakectl`) say which keys there are, and what they mean.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from lakegc_core.errors import SettingsError
from lakegc_core.shapes import Schema, part, problems

Model = TypeVar("Model", bound=BaseModel)
Loader = type[yaml.SafeLoader] | type[yaml.BaseLoader]


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_DIGITS = 100
_SIXTIES = "a number has a colon, and YAML counts it in sixties; write 48h, or put a time of day in quotes"
_EIGHTS = "a number begins with 0, and YAML counts it in eights; leave the 0 out, or put an id in quotes"
_LONG = "a number has more digits than anything here can count"
_NUMBER = "a number stands where a key is expected; decimals have a point, as in 0.023"


class StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: one of two policies would be dropped without a word. No key is a
    number: `{price: 0,023}` would have one. No number has a colon, or begins with 0: YAML 1.1 reads `48:00` as 2,880,
    and `014` as 12."""


def _mapping_once(loader: StrictLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[str] = set()
    for key, _ in node.value:
        name = str(key.value)
        if key.tag in (_INT, _FLOAT):
            raise yaml.constructor.ConstructorError(None, None, _NUMBER, key.start_mark)
        if name in seen and key.tag != "tag:yaml.org,2002:merge":
            raise yaml.constructor.ConstructorError(None, None, f"key {name!r} twice", key.start_mark)
        seen.add(name)
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


def _plain_number(loader: StrictLoader, node: yaml.ScalarNode) -> int | float:
    slips = {
        _SIXTIES: ":" in node.value,
        _EIGHTS: node.tag == _INT and re.fullmatch(r"[-+]?0[0-9_]+", node.value),
        _LONG: len(node.value) > _DIGITS,
    }
    for slip, is_made in slips.items():
        if is_made:
            raise yaml.constructor.ConstructorError(None, None, slip, node.start_mark)
    return loader.construct_yaml_int(node) if node.tag == _INT else loader.construct_yaml_float(node)


StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping_once)
for _tag in (_INT, _FLOAT):
    StrictLoader.add_constructor(_tag, _plain_number)


def load(file: Path, model: type[Model], loader: Loader = StrictLoader) -> Model:
    """Read a file into a model. FileNotFoundError if there is none; SettingsError that names all problems of it.

    A key that stands without a value counts as left out.
    """
    document = _read(file, loader)
    schema = model.model_json_schema()
    nothing = (None, "") if loader is yaml.BaseLoader else (None,)
    try:
        return model.model_validate({} if document in nothing else _given(document, schema, nothing))
    except ValidationError as error:
        # Not chained: pydantic's own text would repeat what was found, which may be a secret.
        found = problems(error, schema, advice="; leave it out for the default")
        raise SettingsError("\n".join(f"{file}: {problem}" for problem in found)) from None


def _read(file: Path, loader: Loader) -> object:
    """The document. SettingsError, without any of its text, if it cannot be read or is not valid."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise SettingsError(f"{file} is a folder; name the file in it") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror or type(error).__name__}") from None
    except RecursionError:
        raise SettingsError(f"{file} is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        # The text of the line stays out: it may be a secret, or hold one where none belongs.
        raise SettingsError(f"{file} is not valid YAML{line}: {_slip(error)}") from None


def _slip(error: yaml.YAMLError) -> str:
    """The slip behind an error of YAML, without any of the document's text."""
    problem, context = str(getattr(error, "problem", "")), str(getattr(error, "context", ""))
    if problem.endswith(" twice") or problem in (_NUMBER, _SIXTIES, _EIGHTS, _LONG):
        return problem
    if isinstance(error, yaml.reader.ReaderError):
        return "there is a character that YAML does not take"
    if context.startswith("expected a single document"):
        return "a second document begins there, and lakegc reads one; remove the line ---"
    if "'\\t'" in problem:
        return "YAML takes no tabs; indent with spaces"
    if context == "while scanning an alias":
        return 'put a text that begins with * in quotes, such as "*"'
    return "a quote, bracket, colon or indent is wrong there or shortly before"


def _given(value: object, schema: Schema, nothing: tuple[object, ...], place: tuple[str | int, ...] = ()) -> object:
    """The document without the known keys that hold nothing."""
    if isinstance(value, list):
        return [_given(item, schema, nothing, (*place, number)) for number, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    known = part(schema, place).get("properties", {})
    return {
        key: _given(below, schema, nothing, (*place, key))
        for key, below in value.items()
        if below not in nothing or key not in known
    }
