"""HEAD and GET over HTTP/1.1 on connections that are kept: a message out, an answer in, and no doubt about whose.

Here: connections, and reading an answer strictly. Not here: what is asked, how it is signed, what an answer means
(`quick`). SDKs spend most of their time on things that neither needs: events, models of answers, streams.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import weakref
from collections import deque
from typing import NamedTuple

_STATUS = re.compile(r"HTTP/1\.1 ([2-5]\d\d)(?: .*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_END, _MOST = b"\r\n\r\n", 1 << 16  # bytes of the head of an answer
_PIECE = 1 << 20  # bytes of a body that are received at once


class NoAnswerError(Exception):
    """The server gave no answer that can be read as one to this request."""


class Answer(NamedTuple):
    """An answer. `headers`: by name in lower case; values of a repeated name are joined by ", ". `body`: of a GET that
    is answered by 200, whole."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Wire:
    """Connections to one server, as many as are in use at once. Safe to share between threads. Timeouts in seconds."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, connect_timeout: float, read_timeout: float
    ) -> None:
        self._host, self._port, self._context = host, port, context
        self._connect_timeout, self._read_timeout = connect_timeout, read_timeout
        self._idle: deque[socket.socket] = deque()  # the last one used is taken first
        weakref.finalize(self, _close, self._idle)

    def ask(self, message: bytes) -> Answer:
        """The answer to this whole request, a HEAD or a GET. NoAnswerError or OSError if there is none."""
        connection = self._connection()
        try:
            connection.sendall(message)
            answer = _read(connection, has_body=message.startswith(b"GET "))
        except BaseException:
            connection.close()  # what it still brings would be taken for the next answer
            raise
        if answer.status != 200 or answer.headers.get("connection", "").lower() == "close":
            connection.close()  # a body of words, which a GET leaves unread; or the server closes it
        elif "date" not in answer.headers:
            connection.close()  # every server dates its answers: this may be the body of one, and its own still comes
        else:
            self._idle.append(connection)
        return answer

    def _connection(self) -> socket.socket:
        while True:
            try:
                kept = self._idle.pop()
            except IndexError:
                return self._connect()
            if not _has_something(kept):
                return kept
            kept.close()  # the server closed it, or sent what nobody asked for

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self._host, self._port), self._connect_timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_hostname=self._host)
            connection.settimeout(self._read_timeout)
        except BaseException:
            connection.close()
            raise
        return connection


def _has_something(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0)) or (isinstance(connection, ssl.SSLSocket) and connection.pending() > 0)


def _read(connection: socket.socket, *, has_body: bool) -> Answer:
    received = b""
    while _END not in received:
        more = connection.recv(_MOST)
        if not more or len(received) > _MOST:
            raise NoAnswerError("it breaks off, or does not end")
        received += more
    head, _, rest = received.partition(_END)
    first, *lines = head.decode("latin-1").split("\r\n")
    status = _STATUS.fullmatch(first)
    if not status or (rest and not has_body):
        raise NoAnswerError("no answer in HTTP/1.1, or a body that HEAD does not have")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or "\n" in value or "\r" in value:
            raise NoAnswerError("a header that cannot be read")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    answer = Answer(int(status[1]), headers)
    return answer._replace(body=_body(connection, headers, rest)) if has_body and answer.status == 200 else answer


def _body(connection: socket.socket, headers: dict[str, str], begun: bytes) -> bytes:
    """A body as long as the headers announce. `begun`: what came of it with the head."""
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdecimal()) or "transfer-encoding" in headers:
        raise NoAnswerError("it does not say how long it is")
    pieces, missing = [begun], int(length) - len(begun)
    while missing > 0:
        pieces.append(connection.recv(min(missing, _PIECE)))
        if not pieces[-1]:
            raise NoAnswerError("it breaks off")
        missing -= len(pieces[-1])
    if missing:
        raise NoAnswerError("it is longer than it says")
    return b"".join(pieces)


def _close(connections: deque[socket.socket]) -> None:
    for each in connections:
        each.close()
