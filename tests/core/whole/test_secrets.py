"""Secrets are in no artifact, no output, no log, no repr and no error: neither lakeFS's nor the store's."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakegc_core import pipeline
from lakegc_core.config.lakectl import Credentials, LakectlSettings, load_lakectl
from lakegc_core.config.settings import ServerSettings, Settings, SparkSettings
from lakegc_core.errors import LakegcError
from lakegc_core.lakefs.client import LakeFSClient
from lakegc_core.stages import swept_report
from tests.support import servers
from tests.support.proxy import Answer, Forward, Request, proxy
from tests.support.replays import LAKEFS_KEY, LAKEFS_SECRET, Replay, environment, replayed
from tests.support.waiting import STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = base64.b64encode(f"{LAKEFS_KEY}:{LAKEFS_SECRET}".encode()).decode()
SECRETS = {
    "lakeFS's secret key": LAKEFS_SECRET,
    "lakeFS's basic authentication": TOKEN,
    "the store's secret key": servers.SECRET_KEY,
    "lakeFS's secret key, escaped": LAKEFS_SECRET.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D"),
    "the store's secret key, escaped": servers.SECRET_KEY.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D"),
}


def leaks(text: str | bytes) -> list[str]:
    """What is told in this text that nobody may read."""
    data = text if isinstance(text, bytes) else text.encode()
    return [name for name, secret in SECRETS.items() if secret.encode() in data]


def only_with_the_key(request: Request, forward: Forward) -> Answer:
    """A lakeFS that knows one pair of keys."""
    if request.header("Authorization") == f"Basic {TOKEN}":
        return forward(request)
    quoted = json.dumps({"message": f"error authenticating request {request.header('Authorization')}"})
    return Answer(401, {"Content-Type": "application/json"}, quoted.encode())


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Replay, str]]:
    """A recording whose lakeFS and whose store both ask for their secrets, and lakeFS's address."""
    with (
        replayed("unified_gc", tmp_path_factory.mktemp("secrets")) as replay,
        proxy(replay.server.url, only_with_the_key) as between,
    ):
        yield replay, between.endpoint


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that lakegc and what it uses log, down to DEBUG; botocore's and urllib3's own lines below INFO are
    theirs to answer for."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    root = logging.getLogger()
    before = root.level, logging.getLogger("lakegc_core").level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("lakegc_core").setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)
    root.setLevel(before[0])
    logging.getLogger("lakegc_core").setLevel(before[1])


def wrong_secrets_are_refused(replay: Replay, lakefs: str) -> None:
    settings = Settings(server=ServerSettings(lakefs, LAKEFS_KEY, "another"))
    with pytest.raises(LakegcError, match="401"):
        replay.open(settings=settings)


def test_a_mark_and_its_sweep_leave_no_secret_anywhere(
    lake: tuple[Replay, str], spark: SparkSession, logged: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    replay, lakefs = lake
    wrong_secrets_are_refused(replay, lakefs)
    said: list[str] = []
    context = dataclasses.replace(replay.open(lakefs=lakefs), say=said.append)
    marked = replay.begin("secrets", context)
    review = pipeline.mark(spark, marked)
    result = swept_report(spark, marked)
    assert review.authorized and result.outcomes["deleted"]

    artifacts = [Path(folder) / name for folder, _, names in os.walk(replay.root) for name in names]
    assert len([file for file in artifacts if "/lakegc/" in str(file)]) > 20
    assert {str(file): leaks(file.read_bytes()) for file in artifacts if leaks(file.read_bytes())} == {}
    assert not leaks("\n".join(str(file) for file in artifacts))

    out, err = capfd.readouterr()
    assert not leaks(out) and not leaks(err) and not leaks(logged.getvalue()) and not leaks("\n".join(said))
    assert not leaks(json.dumps(review.report)) and not leaks(repr(result))


def everything_below(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value
        for each in dataclasses.fields(value):
            yield from everything_below(getattr(value, each.name), seen)


def test_no_repr_of_settings_configs_contexts_or_clients_tells_a_secret(lake: tuple[Replay, str]) -> None:
    replay, lakefs = lake
    assert replay.s3
    context = replay.begin("reprs", replay.open(lakefs=lakefs))
    explicit = dataclasses.replace(replay.s3.config("x"), session_token=LAKEFS_SECRET)
    values: list[Any] = [
        *everything_below(context, set()),
        explicit,
        explicit.connect(),
        context.data.connect(),
        context.client,
        context.mark,
        context.mark.store,
        LakeFSClient(context.settings.server),
        load_lakectl(replay.variables()),
        LakectlSettings(credentials=Credentials(access_key_id=LAKEFS_KEY, secret_access_key=LAKEFS_SECRET)),
        SparkSettings(conf={"spark.hadoop.fs.s3a.secret.key": servers.SECRET_KEY}),
        Settings.load(None, replay.variables()),
    ]
    assert len(values) > 15
    for value in values:
        for text in (repr(value), str(value), f"{value}", repr([value])):
            assert not leaks(text), type(value)


def messages(error: BaseException) -> str:
    """All that a person may see of an error: its text and those it came from."""
    import traceback

    return "".join(traceback.format_exception(error))


def test_errors_of_lakefs_tell_no_secret_even_where_the_server_repeats_it(
    lake: tuple[Replay, str], capfd: pytest.CaptureFixture[str], logged: io.StringIO
) -> None:
    replay, _ = lake
    for code in (400, 401, 403, 404, 409, 410, 418, 429, 500, 503):

        def repeats(request: Request, forward: Forward, code: int = code) -> Answer:
            text = json.dumps({"message": f"{request.header('Authorization')} is {LAKEFS_SECRET} to me"})
            return Answer(code, {"Content-Type": "application/json"}, text.encode())

        with proxy(replay.server.url, repeats) as rude, pytest.raises(LakegcError) as caught:
            replay.open(lakefs=rude.endpoint)
        assert not leaks(messages(caught.value))
    with pytest.raises(LakegcError) as caught:
        replay.open(lakefs=f"http://127.0.0.1:{servers.free_ports(1)[0]}")
    assert not leaks(messages(caught.value))
    out, err = capfd.readouterr()
    assert not leaks(out + err + logged.getvalue())


def test_errors_of_the_store_tell_no_secret_even_where_the_store_repeats_it(
    lake: tuple[Replay, str], spark: SparkSession, capfd: pytest.CaptureFixture[str], logged: io.StringIO
) -> None:
    replay, lakefs = lake
    assert replay.s3
    for code, name in ((403, "AccessDenied"), (403, "SignatureDoesNotMatch"), (400, "InvalidRequest")):

        def repeats(request: Request, forward: Forward, code: int = code, name: str = name) -> Answer:
            if request.method == "PUT":
                return forward(request)  # the mark is begun; its stages then fail
            text = f"<Error><Code>{name}</Code><Message>not {servers.SECRET_KEY}</Message></Error>"
            return Answer(code, {"Content-Type": "application/xml"}, text.encode())

        with proxy(replay.s3.endpoint, repeats) as rude, pytest.raises(LakegcError, match=name) as caught:
            pipeline.mark(
                spark, replay.begin(f"rude-{name}", replay.open(lakefs=lakefs, store=rude.endpoint, attempts=1))
            )
        assert not leaks(messages(caught.value))
    out, err = capfd.readouterr()
    assert not leaks(out + err + logged.getvalue())


def test_a_wrong_secret_is_refused_by_the_store_and_not_told(lake: tuple[Replay, str]) -> None:
    replay, _ = lake
    assert replay.s3
    wrong = replay.s3.config("015420/unified_gc", secret_access_key=LAKEFS_SECRET, max_attempts=1)
    with pytest.raises(LakegcError, match=r"SignatureDoesNotMatch|AccessDenied") as caught:
        list(wrong.connect().list())
    assert not leaks(messages(caught.value))


def test_settings_that_are_wrong_do_not_quote_what_they_hold(tmp_path: Path) -> None:
    def attempt(lakectl: str, lakegc: str = "") -> str:
        (tmp_path / ".lakectl.yaml").write_text(lakectl)
        (tmp_path / "lakegc.yaml").write_text(lakegc)
        with pytest.raises(LakegcError) as caught:
            Settings.load(str(tmp_path / "lakegc.yaml"), {"HOME": str(tmp_path)}).server.require()
        return messages(caught.value)

    for lakectl in (
        f"credentials:\n  secret_access_key: {LAKEFS_SECRET}\n   access_key_id: x",
        f"credentials: [{LAKEFS_SECRET}]",
        f"credentials:\n  secret_access_key: [{LAKEFS_SECRET}]",
        f"{LAKEFS_SECRET}",
        f"credentials:\n  secret_access_key: {LAKEFS_SECRET}\n",
    ):
        assert not leaks(attempt(lakectl))
    for lakegc in (
        f"server: {{secret_access_key: {LAKEFS_SECRET}}}",
        f"server:\n  x: {LAKEFS_SECRET}\n y: 1",
        f"server: {{endpoint_url: 'http://key:{LAKEFS_SECRET.replace('/', '%2F')}@host'}}",
    ):
        assert not leaks(attempt("", lakegc))


@pytest.mark.slow
def test_the_command_line_tells_no_secret_when_it_works_and_when_it_fails(
    lake: tuple[Replay, str], tmp_path: Path
) -> None:
    replay, lakefs = lake
    command = [sys.executable, "-m", "lakegc_core.cli"]

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | replay.variables() | {"HOME": str(tmp_path), "LAKECTL_SERVER_ENDPOINT_URL": lakefs}
        return subprocess.run(
            [*command, *arguments], env=variables | changes, capture_output=True, text=True, timeout=STARTS, check=False
        )

    def marks(**changes: str) -> subprocess.CompletedProcess[str]:
        return run("marks", replay.repository, "--json", **changes)

    for done, code in (
        (marks(), 0),
        (marks(LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=LAKEFS_SECRET + "x"), 1),
        (marks(AWS_SECRET_ACCESS_KEY=servers.SECRET_KEY + "x"), 1),
        (marks(LAKECTL_SERVER_ENDPOINT_URL="http://127.0.0.1:9"), 1),
    ):
        assert done.returncode == code, done.stderr
        assert not leaks(done.stdout) and not leaks(done.stderr)
        assert "Traceback" not in done.stderr


def test_what_is_searched_for_would_be_found() -> None:
    with contextlib.redirect_stderr(io.StringIO()), environment({"X": servers.SECRET_KEY}):
        assert leaks(f"secret={os.environ['X']}") == ["the store's secret key"]
    assert leaks(TOKEN) == ["lakeFS's basic authentication"]
