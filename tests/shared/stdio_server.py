"""A server process over stdio, spoken to in lines of JSON."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked import CLI, Forked

CLIENT: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
"""What a client says of itself to begin with."""


class Server:
    """A server process, spoken to in lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._id = 0

    def send(self, method: str, params: dict[str, Any], **extra: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | extra).encode())
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self.send(method, params, id=self._id)
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._id:
                return answer["result"]
        raise AssertionError("the server ended without an answer")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def initialize(self) -> dict[str, Any]:
        told = self.ask("initialize", CLIENT)
        self.send("notifications/initialized", {})
        return told


@contextmanager
def serving(folder: Path, *options: str, **given: Any) -> Generator[Server]:
    """Run the server in a project's folder; `given` is what `subprocess.Popen` takes besides."""
    pipe = subprocess.PIPE
    with Forked([*CLI, *options, "serve"], cwd=folder, stdin=pipe, stdout=pipe, **given) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
