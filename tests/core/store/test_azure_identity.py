"""Azure's default credential chain, end to end: a managed identity's token opens an Azurite that demands one."""

from __future__ import annotations

import datetime
import ipaddress
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakegc_core.store.azure.store import AzureConfig
from tests.support.azurite import azurite
from tests.support.npm import NoNetworkError

IDENTITY_SECRET = "hush-identity-header"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(pem)
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def identity_endpoint(asked: list[str]) -> Iterator[str]:
    """The endpoint that a machine in Azure asks for its identity's tokens; `asked` gets what was asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("X-IDENTITY-HEADER") != IDENTITY_SECRET:
                self.send_error(401)
                return
            asked.append(self.path)
            now = int(time.time())
            claims = {
                "aud": "https://storage.azure.com",
                "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
                "iat": now - 60,
                "nbf": now - 60,
                "exp": now + 3600,
            }
            token = jwt.encode(claims, "k" * 32)
            body = json.dumps(
                {
                    "access_token": token,
                    "expires_on": str(now + 3600),
                    "resource": claims["aud"],
                    "token_type": "Bearer",
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
    finally:
        server.shutdown()
        server.server_close()


def test_a_managed_identity_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cert))
    options = ["--oauth=basic", f"--cert={cert}", f"--key={key}"]
    asked: list[str] = []
    try:
        with azurite(tmp_path, options=options, scheme="https") as server, identity_endpoint(asked) as endpoint:
            monkeypatch.setenv("IDENTITY_ENDPOINT", endpoint)
            monkeypatch.setenv("IDENTITY_HEADER", IDENTITY_SECRET)
            for name in ("CONNECTION_STRING", "KEY", "SAS_TOKEN"):
                monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
            config = AzureConfig(server.account, server.container, "ns", endpoint_url=server.endpoint)
            store = config.connect()
            etag = store.write("data/a", b"1", if_absent=True)
            assert store.read("data/a") == b"1" and store.head("data/a").etag == etag
            assert [row["address"] for batch in store.list() for row in batch.to_pylist()] == ["data/a"]
            assert store.delete_many(["data/a", "data/b"]) == ["deleted", "already_gone"]
    except NoNetworkError as error:
        pytest.skip(str(error))
    assert asked and all("storage.azure.com" in path for path in asked)
    assert len(asked) == 1, "the token is kept for as long as it is good"
