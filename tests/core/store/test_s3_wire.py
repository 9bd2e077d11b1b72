"""Answers to HEAD and GET that are none, connections that are kept, and those that must not be."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest

from lakegc_core.store.s3.wire import Answer, NoAnswerError, Wire

GOOD = b'HTTP/1.1 200 OK\r\nDate: now\r\nETag: "a"\r\nX-Odd:  two words \r\nVary: a\r\nvary: b\r\n\r\n'
HEADERS = {"date": "now", "etag": '"a"', "x-odd": "two words", "vary": "a, b"}
MESSAGE = b"HEAD /lake/a HTTP/1.1\r\nhost: lake\r\n\r\n"


class Script(socketserver.ThreadingTCPServer):
    """Gives each request the next answer. After an empty one, and after any of `last`, it hangs up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[bytes] = []
        self.last: tuple[bytes, ...] = ()
        self.connections = 0
        self.hung_up = threading.Event()


class _Handler(socketserver.StreamRequestHandler):
    server: Script

    def handle(self) -> None:
        self.server.connections += 1
        while self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            answer = self.server.answers.pop(0)
            self.wfile.write(answer)
            if not answer or answer in self.server.last:
                return

    def finish(self) -> None:
        super().finish()
        self.connection.close()
        self.server.hung_up.set()


@pytest.fixture
def script() -> Iterator[Script]:
    with Script() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def wire(script: Script) -> Wire:
    return Wire("127.0.0.1", int(script.server_address[1]), None, 10, 10)


def test_answers_come_over_one_connection(script: Script) -> None:
    script.answers += [GOOD] * 3
    own = wire(script)
    assert [own.ask(MESSAGE) for _ in range(3)] == [Answer(200, HEADERS)] * 3
    assert script.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        GOOD[:-1],
        GOOD + b"a body, which HEAD does not have",
        GOOD + GOOD,
        GOOD.replace(b"1.1", b"1.0"),
        GOOD.replace(b"200 OK", b"100 Continue"),
        GOOD.replace(b"200 OK", b"20 OK"),
        GOOD.replace(b"X-Odd", b"X Odd"),
        GOOD.replace(b"X-Odd:", b"X-Odd"),
        GOOD.replace(b"X-Odd", b" X-Odd"),
        GOOD.replace(b"two", b"t\nw"),
        b"<html>\r\n\r\n",
        GOOD[:-2] + b"x" * (1 << 17) + b": y\r\n\r\n",
    ],
)
def test_what_is_no_answer_to_head_is_none_and_its_connection_is_not_used_again(script: Script, answer: bytes) -> None:
    script.answers, script.last = [answer, GOOD], (answer,)
    own = wire(script)
    with pytest.raises((NoAnswerError, ConnectionError)):
        own.ask(MESSAGE)
    assert own.ask(MESSAGE) == Answer(200, HEADERS)
    assert script.connections == 2


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(script: Script) -> None:
    script.answers, script.last = [GOOD, GOOD], (GOOD,)
    own = wire(script)
    own.ask(MESSAGE)
    assert script.hung_up.wait(30)
    assert own.ask(MESSAGE) == Answer(200, HEADERS)
    assert script.connections == 2


def test_a_server_that_says_so_gets_no_second_request_over_the_connection(script: Script) -> None:
    closing = GOOD[:-2] + b"Connection: Close\r\n\r\n"
    script.answers += [closing, GOOD]
    own = wire(script)
    assert own.ask(MESSAGE).status == own.ask(MESSAGE).status == 200
    assert script.connections == 2


def test_an_answer_without_a_date_may_be_the_body_of_another_and_ends_its_connection(script: Script) -> None:
    """Else the answer that still comes would be taken for the one to the next request."""
    script.answers += [b"HTTP/1.1 200 OK\r\n\r\n", GOOD]
    own = wire(script)
    assert own.ask(MESSAGE) == Answer(200, {})
    assert own.ask(MESSAGE) == Answer(200, HEADERS)
    assert script.connections == 2


BODY = b"ab\r\n\r\ncd" * 100_000
FULL = GOOD[:-2] + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
GET = MESSAGE.replace(b"HEAD", b"GET")


def test_bodies_come_whole_over_one_connection_and_head_takes_none_of_them(script: Script) -> None:
    empty = GOOD[:-2] + b"Content-Length: 0\r\n\r\n"
    script.answers += [FULL, empty, GOOD, FULL]
    own = wire(script)
    assert own.ask(GET).body == BODY and own.ask(GET).body == b""
    assert own.ask(MESSAGE) == Answer(200, HEADERS)
    assert own.ask(GET) == Answer(200, HEADERS | {"content-length": str(len(BODY))}, BODY)
    assert script.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        FULL[:-1],
        GOOD[:-2] + b"Content-Length: 2\r\n\r\nabc",
        GOOD + BODY,
        FULL.replace(b"Content-Length: ", b"Content-Length: +"),
        FULL.replace(b"Content-Length: ", b"Content-Length: 5\r\nContent-Length: "),
        FULL.replace(b"Vary: a", b"Transfer-Encoding: chunked"),
    ],
    ids=["short", "long", "no length", "a length that is none", "two lengths", "in chunks"],
)
def test_a_body_that_is_not_as_long_as_it_says_is_no_answer(script: Script, answer: bytes) -> None:
    script.answers, script.last = [answer, FULL], (answer,)
    own = wire(script)
    with pytest.raises((NoAnswerError, ConnectionError)):
        own.ask(GET)
    assert own.ask(GET).body == BODY
    assert script.connections == 2


@pytest.mark.parametrize("status", [b"206 Partial Content", b"404 Not Found", b"503 Slow Down"])
def test_the_body_of_another_answer_to_get_is_not_read_and_its_connection_is_not_used_again(
    script: Script, status: bytes
) -> None:
    script.answers += [FULL.replace(b"200 OK", status), FULL]
    own = wire(script)
    assert own.ask(GET)[::2] == (int(status[:3]), b"")
    assert own.ask(GET).body == BODY
    assert script.connections == 2
