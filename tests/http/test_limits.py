"""How much of a server over HTTP a client may use: size and number; and what other clients notice of it."""

import contextlib
import gzip
import sys
from collections.abc import Iterator

import pytest
from hook_project import wait_until
from odd_messages import IDS, NO_MESSAGES
from patience import FULL

from swarm_memory.server.http.serve import MAX_CONNECTIONS
from tests.http.http_server import INITIALIZE, HttpServer

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.attack]

MIB = 1024 * 1024
PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}


def test_a_body_of_5_mb_is_refused_with_413_and_not_held_in_memory(server: HttpServer) -> None:
    server.request(body=INITIALIZE)
    before = server.resident_bytes()
    server.forget_peak()
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + b"x" * 5 * MIB + b'"}}'
    assert server.request(body=body).status == 413
    assert server.request(body=body, token=False).status == 401
    rise = server.peak_bytes() - before
    assert rise < 8 * MIB
    assert server.request(body=INITIALIZE).status == 200


def test_a_body_without_a_length_is_refused_where_it_becomes_too_large(server: HttpServer) -> None:
    with server.connect() as connection:
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(80):
                connection.sendall(chunk)
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_more_connections_than_allowed_are_refused_until_others_end(server: HttpServer) -> None:
    assert MAX_CONNECTIONS == 256
    with contextlib.ExitStack() as held:
        for _ in range(MAX_CONNECTIONS + 2):
            held.enter_context(server.connect())
        wait_until(lambda: server.request(body=INITIALIZE).status == 503)
    wait_until(lambda: server.request(body=INITIALIZE).status == 200)


@pytest.mark.skipif(sys.platform != "linux", reason="memory and open files are read from /proc")
def test_clients_that_begin_and_never_come_back_leave_nothing_and_lock_nobody_out(server: HttpServer) -> None:
    begun = 2000 if FULL else 100
    server.request(body=INITIALIZE)
    before, idle = server.resident_bytes(), server.open_files()
    statuses = {server.request(body=INITIALIZE).status for _ in range(begun)}
    rise = server.resident_bytes() - before
    assert statuses == {200}
    assert server.request(body=PING).status == 200
    assert server.open_files() <= idle + 10
    assert rise < 32 * MIB


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_nothing_can_be_listened_to_for_ever(server: HttpServer, method: str) -> None:
    answer = server.request(method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "header", [b"X: " + b"y" * 200_000, b"bad header line", b"Content-Length: 1\r\nContent-Length: 2"]
)
def test_a_request_that_is_no_http_ends_its_connection_and_nothing_else(server: HttpServer, header: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert server.request(body=INITIALIZE).status == 200


def test_a_body_that_would_unfold_to_a_gigabyte_is_not_unfolded(server: HttpServer) -> None:
    unfolded = (1024 if FULL else 64) * MIB
    bomb = gzip.compress(bytes(unfolded // 16), 9) * 16  # concatenated gzip members are one file
    server.request(body=INITIALIZE)
    before = server.resident_bytes()
    statuses = {server.request(body=bomb, content_encoding=kind).status for kind in ("gzip", "deflate", "br", "zstd")}
    rise = server.resident_bytes() - before
    assert statuses <= {400, 413, 415}
    assert rise < 16 * MIB
    assert server.request(body=INITIALIZE).status == 200


def malformed() -> Iterator[bytes]:
    yield from (b"", b"{", b"[]", b"null", b'"x"', b"NaN", b"\xff\xfe", b"\xef\xbb\xbf{}", b"[" * 100_000)
    yield b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001
    yield b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + b"," * 500_001 + b'"}}'
    yield b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}'


def test_a_body_that_is_no_message_is_answered_with_an_error(server: HttpServer) -> None:
    statuses = [server.request(body=body).status for body in malformed()]
    assert all(400 <= status < 500 for status in statuses), statuses
    assert server.request(body=INITIALIZE).status == 200


def test_an_id_over_http_is_answered_as_it_was_given_or_refused(server: HttpServer) -> None:
    for sent, known in IDS:
        answer = server.request(body=b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % sent)
        assert answer.status == (400 if known is None else 200), sent[:80]
        said = answer.json()
        assert said["id"] == known, sent[:80]
        assert ("result" in said) is (known is not None)
    for body, code in NO_MESSAGES:
        answer = server.request(body=body)
        assert (answer.status, answer.json()["id"], answer.json()["error"]["code"]) == (400, None, code), body


def test_a_notification_and_a_response_are_taken_without_an_answer(server: HttpServer) -> None:
    for sent in (b'"method":"notifications/initialized"', b'"id":3,"result":{}'):
        answer = server.request(body=b'{"jsonrpc":"2.0",%b}' % sent)
        assert (answer.status, answer.body) == (202, b"")


def test_half_a_character_in_a_text_is_replaced_and_the_request_answered(server: HttpServer) -> None:
    asked = {"method": "tools/call", "params": {"name": "retrieve_memories", "arguments": {"query": "a \ud800 b"}}}
    answer = server.request(body={**PING, **asked})
    assert answer.json()["result"]["structuredContent"]["memories"] == []


def test_what_names_no_session_is_refused_with_an_id_too(server: HttpServer) -> None:
    """The protocol of 2026-07-28 has no sessions: the same rule applies on another path through the server."""
    asked = {"jsonrpc": "2.0", "id": None, "method": "tools/list"}
    answer = server.request(body=asked, mcp_protocol_version="2026-07-28", mcp_method="tools/list")
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)
