"""A server over stdio: every line is answered in bounded memory, and every end is soon, clean and loses nothing."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import FULL, HANG_S, is_in_time

from swarm_memory.server.mcp.stdio import (
    MAX_MESSAGE_BYTES,
    AnswerableLines,
    answerable,
    memory_to_read,
    without_lone_surrogates,
)

Record = Callable[[str, str], None]
pytestmark = pytest.mark.fault

SERVE = [sys.executable, "-I", "-m", "swarm_memory.server.cli", "serve"]
STARTS = 20 if FULL else 1
"""Of each way to end; the nightly run makes 20."""

END_LIMIT_S = 2.5
MIB = 1024 * 1024


def call(number: int, arguments: str, name: str = "retrieve_memories") -> bytes:
    params = f'{{"name":"{name}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()


@contextmanager
def serving(folder: Path) -> Generator["subprocess.Popen[bytes]"]:
    """Run a server that was initialized."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with subprocess.Popen(
        SERVE, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            send(
                process,
                json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}).encode() + b"\n",
            )
            assert answer(process)["id"] == 0
            send(process, b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
            yield process
        finally:
            process.kill()


def send(process: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def answer(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def resident(process: "subprocess.Popen[bytes]") -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hostile() -> Iterator[bytes]:
    """Yield requests with id 7 that the SDK alone would leave unanswered, or read into memory whole."""
    yield call(7, '{"query":"a \\ud800 b"}')
    yield call(7, '{"query":"\\udfff\\ud83e\\udd8a"}')
    yield call(7, '{"query":' + "[" * 10_000 + "]" * 10_000 + "}")
    yield call(7, '{"query":' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}")
    yield call(7, '{"k":' + "9" * 5000 + "}")
    yield call(7, '{"query":"x","k":1e999}')
    yield call(7, '{"query":"x","k":NaN}')
    yield call(7, '{"query":"cut off')
    yield call(7, '{"query":[' + "[]," * 1_000_000 + "[]]}")
    yield b'{"method":"tools/call","params":[1],"jsonrpc":"2.0","id":7}\n'
    yield b'{"jsonrpc":"2.0","id":7,"method":5}\n'
    yield b'{"jsonrpc":"2.0","id":7,"method":"no/such/method"}\n'


def test_every_request_is_answered_whatever_stands_in_it(tmp_path: Path, record: Record) -> None:
    with serving(tmp_path) as server:
        count = 0
        for line in hostile():
            send(server, line)
            assert answer(server)["id"] == 7, line[:200]
            count += 1
        send(server, call(8, "{}", "memory_status"))
        assert answer(server)["id"] == 8
    record("D3", f"hostile lines: unanswered 0 of {count}")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_an_argument_of_100_mb_is_refused_in_bounded_memory(tmp_path: Path, record: Record) -> None:
    with serving(tmp_path) as server:
        send(server, call(1, "{}", "memory_status"))
        answer(server)
        before = resident(server)
        send(server, call(2, '{"query":"')[:-4])
        for _ in range(100):
            send(server, b"x" * MIB)
        send(server, b'"}}}\n')
        refused = answer(server)
        rise = resident(server) - before
        send(server, call(3, "{}", "memory_status"))
        assert answer(server)["id"] == 3
    assert refused["id"] == 2
    assert "larger than" in refused["error"]["message"] + str(refused["error"].get("data"))
    assert rise <= 2 * MAX_MESSAGE_BYTES
    record("D7", f"an argument of 100 MB: refused, memory +{rise / MIB:.0f} MiB")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rb'"\ud83e\udd8a"', rb'"\ud83e\udd8a"'),
        (rb'"\ud83e"', rb'"\ufffd"'),
        (rb'"\udd8a\ud83e"', rb'"\ufffd\ufffd"'),
        (rb'"\\ud83e"', rb'"\\ud83e"'),
        (rb'"\\\ud83e\n"', rb'"\\\ufffd\n"'),
        (rb'"\u00e9\ud83e\u0041"', rb'"\u00e9\ufffd\u0041"'),
    ],
)
def test_only_a_surrogate_without_its_other_half_is_replaced(given: bytes, expected: bytes) -> None:
    assert without_lone_surrogates(given) == expected


def test_the_id_of_a_refused_request_is_never_taken_from_its_arguments() -> None:
    nested = b'{"jsonrpc":"2.0","method":"x","params":{"id":1,"a":' + b"[" * 999 + b'],"id":2}}\n'
    assert answerable(nested) == nested
    last = b'{"method":"x","params":{"id":1,"a":' + b"[" * 999 + b'},"jsonrpc":"2.0","id":"r-3"}\n'
    assert json.loads(answerable(last))["id"] == "r-3"


def test_a_good_line_passes_unchanged_and_the_next_follows_a_line_that_was_too_long() -> None:
    good = call(1, '{"query":"caf\\u00e9 \u8868"}')
    lines = io.BytesIO(good + b"x" * (MAX_MESSAGE_BYTES + 5) + b"\n" + good)
    assert io.BufferedReader(AnswerableLines(lines)).read() == good + b"\n" + good


def test_only_values_count_as_values_not_the_signs_in_a_text() -> None:
    table = call(1, '{"query":"' + "1,2,[3,{" * 400_000 + '"}')
    assert answerable(table) == table
    refused = answerable(call(2, '{"query":[' + "[]," * 1_000_000 + "[]]}"))
    assert json.loads(refused)["id"] == 2
    assert "too many values" in json.loads(refused)["method"]
    unended = b'"' + rb"\"" * 2_000_000
    assert memory_to_read(unended) < 14 * len(unended)


def ended(process: "subprocess.Popen[bytes]", began: float) -> float:
    process.wait(HANG_S)
    return time.monotonic() - began


@pytest.mark.parametrize("way", ["EOF", "SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "writing"])
def test_every_end_is_soon_and_keeps_what_was_acknowledged(
    tmp_path: Path, way: str, busy: bool, record: Record
) -> None:
    times: list[float] = []
    acknowledged: list[str] = []
    for number in range(STARTS):
        with serving(tmp_path) as server:
            if busy:
                acknowledged.append(_learn(server, f"{way}-{number}"))
            else:
                send(server, call(1, "{}", "memory_status"))
                answer(server)
            began = time.monotonic()
            assert server.stdin is not None
            if way == "EOF":
                server.stdin.close()
            else:
                server.send_signal(getattr(signal, way))
            times.append(ended(server, began))
            assert server.returncode == 0
    lost = _lost(tmp_path, acknowledged) if acknowledged else 0
    times.sort()
    p95 = times[min(STARTS - 1, round(0.95 * STARTS))]
    record(
        "C1, C2",
        f"{way} {'writing' if busy else 'idle'}: {STARTS} ended, p95 {p95:.2f}, max {times[-1]:.2f} s, "
        f"lost {lost} of {len(acknowledged)}",
    )
    assert lost == 0
    assert is_in_time(times[-1], END_LIMIT_S)


def _lost(folder: Path, tasks: list[str]) -> int:
    """Return how many tasks' memories a new server does not know."""
    lost = 0
    with serving(folder) as server:
        for number, task in enumerate(tasks, 10):
            send(server, call(number, json.dumps({"action": "list", "task_id": task}), "manage_memories"))
            lost += not answer(server)["result"]["structuredContent"]["memories"]
    return lost


def _learn(server: "subprocess.Popen[bytes]", task: str) -> str:
    """Store an item, wait for its acknowledgement, and send the next write without waiting for it."""
    words = task.replace("-", " number ")
    for number, suffix in ((1, ""), (2, "-next")):
        item = {"title": f"Migrate {words}{suffix}", "description": f"When {words} fails.", "content": f"Run {words}."}
        steps = [{"role": "assistant", "content": f"I migrated {words}."}]
        own: dict[str, Any] = {
            "task_id": task + suffix,
            "task": f"Fix {words}{suffix}",
            "steps": steps,
            "items": [item],
        }
        send(server, call(number, json.dumps(own | {"verdict": "Success"}), "distill_memories"))
        if number == 1:
            assert not answer(server)["result"].get("isError")
    return task


def test_a_signal_that_its_starter_ignores_does_not_end_it(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *SERVE], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            start = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}).encode()
            send(process, start + b"\n")
            answer(process)
            process.send_signal(signal.SIGHUP)
            send(process, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert answer(process)["id"] == 1
        finally:
            process.kill()
