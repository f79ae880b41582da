"""A server over stdio: every line is answered in bounded memory; every shutdown is quick, clean and loses nothing."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import stdio_server
from forked import ISOLATED, Forked
from made_work import lesson
from mcp.types import JSONRPCRequest
from odd_messages import IDS, NO_MESSAGES
from patience import FULL, HANG_S, is_in_time
from stdio_server import Server

from swarm_memory.server.jsonrpc import MAX_VALUES, Message, Refusal, read_message
from swarm_memory.server.mcp.stdio import MAX_MESSAGE_BYTES, next_message, opening_messages
from tests.faults.rig import is_left_alone

pytestmark = pytest.mark.fault

STARTS = 20 if FULL else 1
"""How often each way to end is tried; the nightly run does it 20 times."""

END_LIMIT_S = 2.5
MIB = 1024 * 1024


def call(number: int, arguments: str, name: str = "retrieve_memories") -> bytes:
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()


@contextmanager
def serving(folder: Path) -> Generator[Server]:
    """Run a server and initialize the connection."""
    with stdio_server.serving(folder, stderr=subprocess.DEVNULL) as server:
        server.initialize()
        yield server


def resident(server: Server) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def hostile() -> Iterator[bytes]:
    """Yield readable requests with id 7 that the SDK alone would leave unanswered."""
    yield call(7, '{"query":"a \\ud800 b"}')
    yield call(7, '{"query":"\\udfff\\ud83e\\udd8a"}')
    yield call(7, '{"query":"x","k":1e999}')
    yield call(7, '{"query":"x","k":NaN}')
    yield b'{"method":"tools/call","params":[1],"jsonrpc":"2.0","id":7}\n'
    yield b'{"jsonrpc":"2.0","id":7,"method":5}\n'
    yield b'{"jsonrpc":"2.0","id":7,"method":"no/such/method"}\n'


def unreadable() -> Iterator[bytes]:
    """Yield lines that no parser accepts as JSON, so that they have no known id."""
    yield call(7, '{"query":' + "[" * 10_000 + "]" * 10_000 + "}")
    yield call(7, '{"query":' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}")
    yield call(7, '{"k":' + "9" * 5000 + "}")
    yield call(7, '{"query":"cut off')


def test_every_request_is_answered_whatever_is_in_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for line in hostile():
            server.write(line)
            assert server.read()["id"] == 7, line[:200]
        server.write(call(7, '{"query":[' + "[]," * 1_000_000 + "[]]}"))
        assert server.read()["id"] == 7
        for line in unreadable():
            server.write(line)
            refused = server.read()
            assert (refused["id"], refused["error"]["code"]) in ((None, -32700), (None, -32600)), line[:200]
        server.write(call(8, "{}", "memory_status"))
        assert server.read()["id"] == 8


def test_an_id_is_answered_as_it_was_given_or_refused_and_never_left_waiting(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for sent, known in IDS:
            server.write(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}\n' % sent)
            given = server.read()
            assert given["id"] == known, sent[:80]
            assert ("result" in given) is (known is not None), sent[:80]
            assert known is not None or given["error"]["code"] in (-32600, -32700)
        for sent, code in NO_MESSAGES:
            server.write(sent + b"\n")
            given = server.read()
            assert (given["id"], given["error"]["code"]) == (None, code), sent
        for silent in (b'{"jsonrpc":"2.0","id":null,"result":{}}', b'{"jsonrpc":"2.0","id":null,"error":{}}', b" "):
            server.write(silent + b"\n")
        server.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}\n')
        assert server.read()["id"] == "last"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_an_argument_of_100_mb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.write(call(1, "{}", "memory_status"))
        server.read()
        before = resident(server)
        server.write(call(2, '{"query":"')[:-3])
        for _ in range(100):
            server.write(b"x" * MIB)
        server.write(b'"}}}\n')
        refused = server.read()
        rise = resident(server) - before
        server.write(call(3, "{}", "memory_status"))
        assert server.read()["id"] == 3
    assert refused["id"] == 2
    assert "larger than" in refused["error"]["message"] + str(refused["error"].get("data"))
    assert rise <= 2 * MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rb'"\ud83e\udd8a"', "🦊"),
        (rb'"\ud83e"', "?"),
        (rb'"\udd8a\ud83e"', "??"),
        (rb'"\\ud83e"', r"\ud83e"),
        (rb'"\\\ud83e\n"', "\\?\n"),
        (rb'"\u00e9\ud83e\u0041"', "é?A"),
    ],
)
def test_only_a_surrogate_without_its_other_half_is_replaced(given: bytes, expected: str) -> None:
    read = read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b}}' % given)
    assert isinstance(read, Message)
    assert isinstance(read.value, JSONRPCRequest)
    assert read.value.params == {"a": expected}
    assert json.loads(read.text)["params"] == read.value.params


def test_a_good_line_is_taken_as_it_is_and_the_next_follows_a_line_that_was_too_long() -> None:
    good = call(1, '{"query":"caf\\u00e9 \u8868"}')
    assert isinstance(read := read_message(good), Message)
    assert read.text == good
    lines = io.BytesIO(good + b"\n" + b"x" * (MAX_MESSAGE_BYTES + 5) + b"\n" + good)
    first, refused, last = (next_message(lines) for _ in range(3))
    assert first == last == read.value
    assert isinstance(refused, Refusal)
    assert next_message(lines) is None


def test_a_text_of_many_commas_is_taken_and_a_message_of_too_many_is_not() -> None:
    text = '{"query":"' + "1,2,[3,{" * (MAX_VALUES // 6) + '"}'
    assert isinstance(read_message(call(1, text)), Message)
    assert isinstance(refused := read_message(call(2, '{"query":[' + "[]," * MAX_VALUES + "[]]}")), Refusal)
    said = "commas and opening brackets ([ and {), strings included; at most 500,000 are allowed; send less at a time"
    assert refused.answer.error.message.endswith(said)


@pytest.mark.parametrize(
    ("start", "end", "known"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":', "}", 7),
        ('{"id":"a\\u00e9","jsonrpc":"2.0","method":"m","params":', "}", "aé"),
        ('{"method":"tools/call","params":', ',"jsonrpc":"2.0","id":7}', 7),
        ('{"method":"tools/call","params":', ',"jsonrpc":"2.0", "id" : "a-1" } ', "a-1"),
        ('{"method":"m","params":{"id":1,"a":', '},"jsonrpc":"2.0"}', None),
        ('{"method":"m","params":{"a":', ',"id":1}}', None),
        ('{"method":"m","params":', ',"x\\"id":1}', None),
        ('{"method":"' + "m" * 1003 + '","id":1234,"params":', "}", None),
        ('{"jsonrpc":"2.0","id":7,"result":', "}", None),
        ('{"result":', ',"jsonrpc":"2.0","id":7}', None),
        ('{"jsonrpc":"2.0","id":true,"method":"m","params":', "}", None),
        ('{"jsonrpc":"2.0","id":null,"method":"m","params":', "}", None),
        ('[{"jsonrpc":"2.0","id":7,"method":"m","params":', "}]", None),
    ],
)
@pytest.mark.parametrize("many", ['"' + "1,2,3\n" * 400_000 + '"', '"' + "x" * MAX_MESSAGE_BYTES + '"'], ids=len)
def test_a_request_that_is_too_large_is_refused_by_its_id(start: str, end: str, known: object, many: str) -> None:
    refused = next_message(io.BytesIO((start + many.replace("\n", "\\n") + end + "\n").encode()))
    assert isinstance(refused, Refusal)
    assert refused.answer.id == known


@pytest.mark.parametrize("way", ["EOF", "SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "writing"])
def test_every_end_is_soon_keeps_what_was_acknowledged_and_holds_no_lock(tmp_path: Path, way: str, busy: bool) -> None:
    times: list[float] = []
    acknowledged: list[str] = []
    for number in range(STARTS):
        with serving(tmp_path) as server:
            if busy:
                acknowledged.append(_learn(server, f"{way}-{number}"))
            else:
                server.write(call(1, "{}", "memory_status"))
                server.read()
            began = time.monotonic()
            assert server.process.stdin is not None
            if way == "EOF":
                server.process.stdin.close()
            else:
                server.process.send_signal(getattr(signal, way))
            server.process.wait(HANG_S)
            times.append(time.monotonic() - began)
            assert server.process.returncode == 0
    assert not busy or is_left_alone(tmp_path / ".swarm" / "memory.db")
    assert not acknowledged or _lost(tmp_path, acknowledged) == 0
    assert is_in_time(max(times), END_LIMIT_S)


def _lost(folder: Path, tasks: list[str]) -> int:
    """Return for how many tasks a new server does not know the memories."""
    lost = 0
    with serving(folder) as server:
        for number, task in enumerate(tasks, 10):
            server.write(call(number, json.dumps({"action": "list", "task_id": task}), "manage_memories"))
            lost += not server.read()["result"]["structuredContent"]["memories"]
    return lost


def _learn(server: Server, task: str) -> str:
    """Store an item, wait for its acknowledgement, and send the next write without waiting for it."""
    for number, suffix in ((1, ""), (2, "-next")):
        own = lesson(task + suffix, task.replace("-", " number ") + suffix)  # a known item would not be stored again
        server.write(call(number, json.dumps(own), "distill_memories"))
        if number == 1:
            assert not server.read()["result"].get("isError")
    return task


IGNORING = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); import swarm_memory.server.cli.__main__"
"""A command that starts as the child of one that ignores the hang-up of its terminal, as `nohup` does."""


def test_a_signal_that_its_starter_ignores_does_not_end_it(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with Forked([*ISOLATED, "-c", IGNORING, "serve"], cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        try:
            server = Server(process)
            server.initialize()
            process.send_signal(signal.SIGHUP)
            server.ask("ping", {})
        finally:
            process.kill()


@pytest.mark.parametrize(("sent", "opening"), [
    (["server/discover", "initialize"], ["initialize", "server/discover"]),
    (["server/discover", "notifications/cancelled", "initialize"],
     ["initialize", "server/discover", "notifications/cancelled"]),
    (["server/discover"], ["server/discover"]),
    (["server/discover", "tools/list"], ["server/discover", "tools/list"]),
    (["initialize", "notifications/initialized"], ["initialize"]),
    (["tools/list", "initialize"], ["tools/list"]),
    ([], []),
])  # fmt: skip
def test_a_client_that_waited_in_vain_for_the_newest_protocol_gets_the_older_one(
    sent: list[str], opening: list[str]
) -> None:
    """The pipe stays open: the server must not wait for anything that the client has not sent."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as client:
        for number, method in enumerate(sent):
            named = {} if method.startswith("notifications/") else {"id": number}
            client.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": {}, **named}).encode() + b"\n")
        client.flush()
        if not sent:
            client.close()
        assert [getattr(each, "method", None) for each in opening_messages(source)] == opening
        assert os.get_blocking(source.fileno())
