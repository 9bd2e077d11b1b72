"""What lakegc reads of lakectl's settings, and what it does not tell of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.config.settings import ServerSettings
from lakegc_core.errors import SettingsError
from tests.core.config.conftest import LAKECTL, SECRET, load


def test_lakectls_file_gives_endpoint_and_credentials(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(LAKECTL)
    assert load(home).server == ServerSettings("http://lakectl.example:8000", "AKIALAKECTL", SECRET)


def test_lakectls_environment_wins_over_its_file(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(LAKECTL)
    server = load(
        home,
        LAKECTL_SERVER_ENDPOINT_URL="https://env.example/",
        LAKECTL_CREDENTIALS_ACCESS_KEY_ID="AKIAENV",
        LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY="other",
    ).server
    assert server == ServerSettings("https://env.example", "AKIAENV", "other")


def test_the_file_that_lakectls_variable_names_is_read_in_place_of_the_one_of_the_home_folder(home: Path) -> None:
    """lakectl reads it there: the other one may name another lakeFS."""
    (home / ".lakectl.yaml").write_text("server: {endpoint_url: 'https://another.example'}")
    (home / "elsewhere.yaml").write_text(LAKECTL)
    named = str(home / "elsewhere.yaml")
    assert load(home, LAKECTL_CONFIG_FILE=named).server == ServerSettings(
        "http://lakectl.example:8000", "AKIALAKECTL", SECRET
    )
    with pytest.raises(SettingsError, match=r"none\.yaml does not exist; it was named by LAKECTL_CONFIG_FILE"):
        load(home, LAKECTL_CONFIG_FILE=str(home / "none.yaml"))


def test_an_empty_variable_counts_as_not_set(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(LAKECTL)
    assert load(home, LAKECTL_SERVER_ENDPOINT_URL="").server.endpoint_url == "http://lakectl.example:8000"


@pytest.mark.parametrize("written", ["0123", "1e5", "true", "2026-01-01", "0x1F", "null"])
def test_a_key_that_looks_like_another_yaml_type_stays_the_text_it_is(home: Path, written: str) -> None:
    (home / ".lakectl.yaml").write_text(f"credentials: {{access_key_id: {written}, secret_access_key: x}}")
    assert load(home).server.access_key_id == written


@pytest.mark.parametrize(
    "text",
    [
        f"credentials: {{secret_access_key: {SECRET}\n  bad",
        f"credentials:\n  secret_access_key: !{SECRET} [\n",
        f"credentials: {SECRET}",
        f"- {SECRET}",
        f"credentials: {{secret_access_key: [{SECRET}]}}",
    ],
)
def test_a_broken_lakectl_file_is_reported_without_its_text(home: Path, text: str) -> None:
    (home / ".lakectl.yaml").write_text(text)
    with pytest.raises(SettingsError, match=r"\.lakectl\.yaml") as caught:
        load(home)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
