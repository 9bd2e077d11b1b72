"""Dagster's own resources for stores become values that travel, and show no secret."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_aws.s3 import S3Resource

from lakegc_core.config.settings import Settings
from lakegc_core.errors import SettingsError
from lakegc_core.policy.namespace import Namespace
from lakegc_core.store.azure.store import AzureConfig
from lakegc_core.store.factory import config_for
from lakegc_core.store.s3.store import S3Config
from lakegc_dagster.resources import LakegcResource

SECRET = "s3cr3t-that-nobody-may-see/4711"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of this machine, and none of its stores."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_CONNECTION_STRING", "LAKEGC_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def settings_in_a_run(resource: LakegcResource) -> Settings:
    """The settings as a step sees them: with what stands in `EnvVar` found."""
    found: list[Settings] = []

    @dg.op
    def look(lakegc: LakegcResource) -> None:
        found.append(lakegc.settings())

    @dg.job(resource_defs={"lakegc": resource})
    def looking() -> None:
        look()

    assert looking.execute_in_process().success
    return found[0]


def check_safe(config: Any) -> None:
    assert pickle.loads(pickle.dumps(config)) == config
    assert SECRET not in repr(config) and SECRET not in config.root


def test_an_s3_resource_is_what_stores_on_s3_are_reached_by(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_S3_SECRET", SECRET)
    s3 = S3Resource(
        endpoint_url="http://minio:9000",
        region_name="eu-west-1",
        aws_access_key_id="AKIATEAM",
        aws_secret_access_key=dg.EnvVar("TEAM_S3_SECRET"),
        aws_session_token="token-4711",
    )
    settings = settings_in_a_run(LakegcResource(s3=s3))
    config = config_for(Namespace("s3://bucket/ns"), settings)
    assert config == S3Config("bucket", "ns", "http://minio:9000", "eu-west-1", "AKIATEAM", SECRET, "token-4711")
    check_safe(config)
    assert SECRET not in repr(settings) and "token-4711" not in repr(config)


def test_without_a_resource_the_sdk_looks_for_itself(alone: None) -> None:
    assert config_for(Namespace("s3://bucket/ns"), LakegcResource().settings()) == S3Config("bucket", "ns")


def test_an_azure_resource_counts_for_its_own_account_only(alone: None) -> None:
    from dagster_azure.blob import AzureBlobStorageKeyCredential, AzureBlobStorageResource

    azure = AzureBlobStorageResource(
        account_url="https://team.blob.core.windows.net/", credential=AzureBlobStorageKeyCredential(key=SECRET)
    )
    settings = settings_in_a_run(LakegcResource(azure=azure))
    mine = config_for(Namespace("https://team.blob.core.windows.net/container/ns"), settings)
    assert isinstance(mine, AzureConfig)
    assert (mine.account_key, mine.url) == (SECRET, "https://team.blob.core.windows.net")
    check_safe(mine)
    other = config_for(Namespace("https://other.blob.core.windows.net/container/ns"), settings)
    assert isinstance(other, AzureConfig) and other.account_key is None


def test_an_azure_resource_with_a_sas_is_taken_and_an_anonymous_one_is_not(alone: None) -> None:
    from dagster_azure.blob import (
        AzureBlobStorageAnonymousCredential,
        AzureBlobStorageDefaultCredential,
        AzureBlobStorageResource,
        AzureBlobStorageSASTokenCredential,
    )

    def access(credential: Any) -> Any:
        url = "http://127.0.0.1:10000/devstoreaccount1"
        return LakegcResource(azure=AzureBlobStorageResource(account_url=url, credential=credential)).settings().azure

    sas = access(AzureBlobStorageSASTokenCredential(token=SECRET))
    assert (sas.account, sas.sas_token, sas.account_key) == ("devstoreaccount1", SECRET, None)
    check = access(AzureBlobStorageDefaultCredential())
    assert (check.sas_token, check.account_key) == (None, None)
    for refused in (AzureBlobStorageAnonymousCredential(), AzureBlobStorageDefaultCredential(kwargs={"x": 1})):
        with pytest.raises(SettingsError, match="with a key, a SAS, or the default credential"):
            access(refused)


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (S3Resource(use_unsigned_session=True), "use_unsigned_session"),
        (S3Resource(verify=False), "verify: false"),
        (S3Resource(profile_name="team"), "AWS_PROFILE"),
        (S3Resource(aws_access_key_id="AKIATEAM"), "only one of"),
    ],
)
def test_what_lakegc_cannot_do_for_an_s3_resource_is_refused(alone: None, resource: S3Resource, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        LakegcResource(s3=resource).settings()


def test_another_kind_of_resource_is_refused(alone: None) -> None:
    with pytest.raises(SettingsError, match="takes dagster-aws's S3Resource, not a LakegcResource"):
        LakegcResource(s3=LakegcResource()).settings()
    with pytest.raises(SettingsError, match="takes dagster-azure's AzureBlobStorageResource, not a S3Resource"):
        LakegcResource(azure=S3Resource()).settings()
