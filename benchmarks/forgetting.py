"""Tells the S3 server before a lake's folder, where there is one, that others have written there.

The server remembers what folders hold: to read them for each request would take several times what the request does.
"""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path


def control(root: Path) -> Path:
    """Where the server of this lake listens for it: a socket."""
    return root / "control"


def forget(root: Path, folder: str = "") -> None:
    """Let the server read a folder of the lake's root anew, and all in it; "": all. RuntimeError if it does not."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(control(root)))
        connection = http.client.HTTPConnection("rclone")
        connection.sock = channel
        body = json.dumps({"dir": folder} if folder else {})
        connection.request("POST", "/vfs/forget", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    if answer.status != 200:
        raise RuntimeError(f"rclone answered {answer.status} when it was to forget {folder!r}")
