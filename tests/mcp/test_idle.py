"""The server at rest: no thread of it wakes up until something happens."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import CLI, Forked
from stdio_server import CLIENT

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="wake-ups are counted by /proc")]

ASKED: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": CLIENT},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "retrieve_memories", "arguments": {"query": "a flaky test"}}},
]


def test_a_server_over_stdio_does_not_wake_up_while_nothing_happens(
    tmp_path: Path, rests: Callable[[int], bool]
) -> None:
    with Forked([*CLI, "serve"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in ASKED:
            process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        process.stdin.flush()
        while b'"id":2' not in process.stdout.readline():
            assert process.poll() is None
        assert rests(process.pid)
        process.kill()
