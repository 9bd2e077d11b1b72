"""A workspace lies in no repository's data: asked of lakeFS whenever a repository is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakegc_core import pipeline
from lakegc_core.config.settings import RepositoryPolicy, ServerSettings, Settings
from lakegc_core.config.stores import StoreMapping
from lakegc_core.errors import RefusedError, SettingsError, StoreError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.marks import workspaces
from lakegc_core.marks.artifacts import HOME
from lakegc_core.marks.context import RepositoryContext, begin_mark, open_repository
from lakegc_core.marks.shelf import marks
from lakegc_core.store.base import connect
from lakegc_core.store.local import LocalConfig
from lakegc_sandbox import Sandbox, SandboxServer
from lakegc_sandbox.api.server import ACCESS_KEY, SECRET_KEY
from tests.support.lake import lake

NAMESPACES = {"lake": "/lakes/one", "other": "/lakes/two/inner", "third": "/third"}


@pytest.fixture(scope="module", params=["s3", "local"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    sandbox = Sandbox(tmp_path_factory.mktemp("lakes"), blockstore=request.param)
    for name, path in NAMESPACES.items():
        sandbox.create_repository(name, f"{request.param}:/{path}").set_rules(7)
    with SandboxServer(sandbox) as served:
        yield served


def opened(server: SandboxServer, workspace: str | None) -> RepositoryContext:
    """The repository `lake`, with a workspace: a path in the store of its namespace."""
    blockstore, where = server.sandbox.blockstore, None
    if workspace is not None:
        below = str(server.sandbox.root)[1:] if blockstore == "local" else ""
        where = f"{blockstore}://{below}{workspace}" if below else f"{blockstore}://{workspace.lstrip('/')}"
    policy = RepositoryPolicy(match="*", workspace=where)
    settings = Settings(server=ServerSettings(server.url, ACCESS_KEY, SECRET_KEY), repositories=(policy,))
    return open_repository(settings, "lake", client=LakeFSClient(settings.server))


@pytest.mark.parametrize(
    ("workspace", "of", "where"),
    [
        ("/lakes/one", "lake", "in"),
        ("/lakes/one/", "lake", "in"),
        ("/lakes/one/data/marks", "lake", "in"),
        ("/lakes/one/_lakefs2", "lake", "in"),
        ("/lakes/two/inner/marks", "other", "in"),
        ("/lakes/two", "other", "around"),
        ("/third/x", "third", "in"),
    ],
)
def test_a_workspace_in_the_data_of_a_repository_is_refused(
    server: SandboxServer, workspace: str, of: str, where: str
) -> None:
    with pytest.raises(SettingsError, match=f"lies {where} the namespace of repository {of}, ") as caught:
        opened(server, workspace)
    assert "Set `workspace` in lakegc.yaml to a place of its own" in str(caught.value)


@pytest.mark.parametrize("workspace", ["/lakes/one/_lakefs/lakegc", "/lakes/one2", "/ops/marks", "/third2"])
def test_a_workspace_beside_all_data_is_taken(server: SandboxServer, workspace: str) -> None:
    found = opened(server, workspace)
    assert found.workspace.root.rstrip("/").endswith(workspace)
    assert found.home == "lake"


def test_a_first_mark_in_a_workspace_is_refused_while_marks_or_copies_lie_in_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path / "lakefs") as served:
        served.create("lake")
        said, context = list[str](), served.open("lake")
        ops = replace(context, workspace=LocalConfig(str(tmp_path / "ops")), home="lake", say=said.append)
        store = connect(context.data)
        for where in ("quarantine", "marks"):
            key = f"{HOME}/{where}/m1/namespace_listing/manifest.json"
            store.write(key, b"{}")
            with pytest.raises(RefusedError, match=f"/{where}/ hold what lakegc left there before") as refused:
                begin_mark(ops, "m1")
            assert f"to {ops.workspace.root}/lake/, and try again" in str(refused.value)
            store.delete_many([key])
        store.write(key, b"{}")

        def forbidden(data: object) -> list[str]:
            raise StoreError("AccessDenied")

        with monkeypatch.context() as patch:
            patch.setattr(workspaces, "left_behind", forbidden)
            begin_mark(ops, "m2")
        assert said[-1].endswith("/: AccessDenied")
        begin_mark(ops, "m3")


def test_a_mark_that_was_refused_for_want_of_rules_does_not_keep_a_workspace_from_being_set(
    tmp_path: Path,
) -> None:
    with lake(tmp_path / "lakefs") as served:
        served.create("lake")
        context = served.open("lake")
        with pytest.raises(RefusedError, match="no garbage collection rules"):
            pipeline.check_beforehand(begin_mark(context, "m1"))
        assert marks(context.workspace) == ["m1"]
        begin_mark(replace(context, workspace=LocalConfig(str(tmp_path / "ops")), home="lake"), "m2")


def test_a_folder_of_artifacts_that_is_a_namespace_is_refused_too(tmp_path: Path) -> None:
    """Artifacts lie in a folder of the workspace that is called like the repository."""
    sandbox = Sandbox(tmp_path, blockstore="s3")
    sandbox.create_repository("lake", "s3://bucket/lake")
    with SandboxServer(sandbox) as served, pytest.raises(SettingsError, match="in the namespace of repository lake"):
        opened(served, "/bucket")


def test_without_a_workspace_no_other_repository_is_asked_for(server: SandboxServer) -> None:
    before = len(server.requests)
    found = opened(server, None)
    assert found.workspace == found.data
    assert not any(path.endswith("/repositories") for _, path in server.requests[before:])
    opened(server, "/ops")
    assert any(path.endswith("/repositories") for _, path in server.requests[before:])


def test_names_for_stores_hold_for_the_workspace_too(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "lakefs", blockstore="local")
    sandbox.create_repository("lake", "local://lake")
    sandbox.create_repository("other", "local://other")
    with SandboxServer(sandbox) as served:
        for workspace, refused in (("local://other/x", True), ("local://ops", False)):
            settings = Settings(
                server=ServerSettings(served.url, ACCESS_KEY, SECRET_KEY),
                stores=(StoreMapping("local://", root=str(tmp_path / "lakefs")),),
                repositories=(RepositoryPolicy(match="*", workspace=workspace),),
            )
            if refused:
                with pytest.raises(SettingsError, match="in the namespace of repository other"):
                    open_repository(settings, "lake", client=LakeFSClient(settings.server))
            else:
                assert open_repository(settings, "lake", client=LakeFSClient(settings.server)).home == "lake"


def test_a_workspace_without_a_scheme_is_told_with_its_key() -> None:
    with pytest.raises(SettingsError, match=r"`workspace: relative` in lakegc\.yaml names no place of a store"):
        workspaces.workspace_at("relative", Settings(server=ServerSettings("", "", "")))
