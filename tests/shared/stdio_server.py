"""A server process over stdio that exchanges lines of JSON."""

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
"""What a client sends to initialize the connection."""


class Server:
    """A server process that exchanges lines of JSON."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._id = 0

    def write(self, line: bytes) -> None:
        """Send bytes unchanged."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Return the next message. Raises `ValueError` when the server has ended."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def send(self, method: str, params: dict[str, Any], **extra: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | extra).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting for the response; return its id."""
        self._id += 1
        self.send(method, params, id=self._id)
        return self._id

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        number = self.request(method, params)
        while (answer := self.read()).get("id") != number:
            pass
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def initialize(self) -> dict[str, Any]:
        answer = self.ask("initialize", CLIENT)
        self.send("notifications/initialized", {})
        return answer


@contextmanager
def serving(folder: Path, *options: str, **given: Any) -> Generator[Server]:
    """Run the server in a project's folder; `given` are further arguments of `subprocess.Popen`."""
    pipe = subprocess.PIPE
    with Forked([*CLI, *options, "serve"], cwd=folder, stdin=pipe, stdout=pipe, **given) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
