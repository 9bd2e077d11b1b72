"""From a place that a person names to a store: what is none, or carries a secret, is refused and not repeated."""

from __future__ import annotations

import pytest

from lakegc_core.config.settings import ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import SettingsError
from lakegc_core.marks.workspaces import workspace_at
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.factory import config_at, config_for
from lakegc_core.store.local import LocalConfig

SETTINGS = Settings(server=ServerSettings("http://127.0.0.1:9", "id", "key"))
SECRETS = [
    "https://account.blob.core.windows.net/backups/lake?sv=2024-11-04&sig=hush",
    "s3://AKIA:hush@bucket/backups",
    "https://user:hush@account.blob.core.windows.net/backups",
]


@pytest.mark.parametrize("place", SECRETS)
def test_a_place_for_backups_or_marks_that_carries_a_secret_is_refused_without_repeating_it(place: str) -> None:
    for read in (config_at, workspace_at):
        with pytest.raises(SettingsError, match="was named together with a secret") as refused:
            read(place, SETTINGS)
        assert "hush" not in str(refused.value) and "backups" in str(refused.value)


@pytest.mark.parametrize("written", ["local://x//sub", "local:///x/sub", "local://x/./q/../sub", "local:////x///sub/"])
def test_a_namespace_on_local_lies_below_the_root_that_lakegc_yaml_names_however_it_is_spelled(written: str) -> None:
    below = Settings(server=SETTINGS.server, stores=(StoreMapping("local://", root="/srv/lake"),))
    assert config_for(Namespace(written), below) == LocalConfig("/srv/lake/x/sub")


@pytest.mark.parametrize("written", ["local://../x", "local://x/../../y", "local://", "local:///"])
def test_a_namespace_on_local_that_leads_out_of_the_servers_folder_has_no_place(written: str) -> None:
    with pytest.raises(SettingsError, match="names no place"):
        Namespace(written)


def test_a_mapping_of_lakegc_yaml_holds_for_every_spelling_of_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = Settings(server=SETTINGS.server, stores=(StoreMapping("s3://lake", endpoint="http://127.0.0.1:1"),))
    for written in ("s3://lake/ns", "s3://x@lake/ns", "S3://lake/ns"):
        assert getattr(config_for(Namespace(written), mapped), "endpoint_url", "") == "http://127.0.0.1:1"


def test_only_a_place_of_which_lakegc_yaml_says_so_has_etags_that_are_md5s() -> None:
    pond = StoreMapping("s3://pond/clear", endpoint="http://127.0.0.1:1", etags="md5")
    mapped = Settings(server=SETTINGS.server, stores=(pond,))
    said = {uri: config_for(Namespace(uri), mapped).connect() for uri in ("s3://pond/clear/ns", "s3://pond/ns")}
    assert {uri: store.listed_digests for uri, store in said.items()} == {
        "s3://pond/clear/ns": True,
        "s3://pond/ns": False,
    }


def test_a_folder_is_a_place_by_its_path_and_by_its_uri() -> None:
    for place in ("/backups/a b", "file:///backups/a%20b", "/backups/x/../a b"):
        assert config_at(place, SETTINGS) == LocalConfig("/backups/a b")


@pytest.mark.parametrize("place", ["s3://", "s3:///backups", "https://"])
def test_a_uri_without_a_bucket_is_refused_as_such(place: str) -> None:
    with pytest.raises(SettingsError, match="names no bucket"):
        config_at(place, SETTINGS)


@pytest.mark.parametrize("by", ["lakegc.yaml", "AWS_ENDPOINT_URL_S3"])
def test_lakefs_is_no_endpoint_of_a_store(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gateway answers as S3 does, and shows branches."""
    settings = SETTINGS
    if by == "lakegc.yaml":
        settings = Settings(server=SETTINGS.server, stores=(StoreMapping("s3://lake", endpoint="http://127.0.0.1:9/"),))
    else:
        monkeypatch.setenv(by, "http://127.0.0.1:9")
    with pytest.raises(SettingsError, match="which is lakeFS itself"):
        config_for(Namespace("s3://lake/ns"), settings)
    for other in ("http://127.0.0.1:10", "http://127.0.0.1:9/minio"):  # one proxy may stand before both
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", other)
        assert getattr(config_for(Namespace("s3://lake/ns"), SETTINGS), "endpoint_url", "") == other


@pytest.mark.parametrize("place", ["backups", "", "local://backups/x"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(SettingsError, match="is no place"):
        config_at(place, SETTINGS)
