"""A file is read into a model strictly, and no error repeats its text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from lakegc_core.config import strict_yaml
from lakegc_core.errors import SettingsError


class Below(BaseModel):
    """A part of a document."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = "default"
    number: int = 1


class Document(BaseModel):
    """A document."""

    model_config = ConfigDict(extra="forbid", strict=True)
    below: Below = Below()
    several: list[Below] = []


def read(folder: Path, text: str, loader: strict_yaml.Loader = strict_yaml.StrictLoader) -> Document:
    """The document of this text."""
    file = folder / "file.yaml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return strict_yaml.load(file, Document, loader)


@pytest.mark.parametrize("text", ["", "null", "# nothing", "below:", "below: {text: null}", "{below: , several: }"])
def test_what_stands_without_a_value_is_left_out(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == Document()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("below: {text: a, text: b}", "line 1.*key 'text' twice"),
        ("below: {text: a}\nbelow: {text: b}", "line 2.*key 'below' twice"),
        ("below: {number: '1'}", "below.number.*a whole number"),
        ("several: [{}, {number: true}]", r"several\[1\].number"),
        ("below: {txt: a}", "unknown key `txt`.*did you mean `text`"),
        ("below: [", "not valid YAML"),
        ("[]", "the document"),
        ("below: \udcff", "is not UTF-8 text; save it as UTF-8"),
        ("below:\n\ttext: a", "line 2.*takes no tabs; indent with spaces"),
        ("below: {text: *}", "line 1.*that begins with .* in quotes"),
        ("below: {text: 'a}", "a quote, bracket, colon or indent is wrong"),
        ("below: {number: 48:00}", "line 1.*counts it in sixties; write 48h, or put a time of day in quotes"),
        ("several:\n  - number: 1:30:00.5", "line 2.*counts it in sixties"),
        ("below: {number: 0,023}", "line 1.*a number stands where a key is expected; decimals have a point"),
    ],
)
def test_what_is_odd_is_told_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        read(tmp_path, text)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a folder; name the file in it"):
        strict_yaml.load(tmp_path, Document)


def test_a_merged_key_may_be_given_again(tmp_path: Path) -> None:
    found = read(tmp_path, "several: [&one {text: a, number: 2}, {<<: *one, text: b}]")
    assert found.several == [Below(text="a", number=2), Below(text="b", number=2)]


def test_with_the_plain_loader_every_scalar_is_a_text(tmp_path: Path) -> None:
    assert read(tmp_path, "below: {text: 0123}", yaml.BaseLoader).below.text == "0123"
    assert read(tmp_path, "below: {text: ''}", yaml.BaseLoader).below.text == "default"


@pytest.mark.parametrize("text", ["below: {text: s3cret, text: s3cret}", "s3cret: [", "below: {number: s3cret-text}"])
def test_no_error_repeats_a_text(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert "s3cret" not in str(caught.value).replace("'s3cret-text'", "")


def test_a_missing_file_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        strict_yaml.load(tmp_path / "none.yaml", Document)
