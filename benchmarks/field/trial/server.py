"""The MCP server of a session, kept open over stdio as Claude Code keeps it."""

import itertools
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trial.transcript import VERSION

ANSWER_S = 60.0
END_S = 10.0


class ServerEnded(RuntimeError):
    """The server ended, or did not answer in time."""


class Server:
    """A client of one server. It must be started by the process that starts the hooks: they find it by that."""

    def __init__(self, command: Sequence[str], root: Path, environment: Mapping[str, str], log: Path) -> None:
        self._ids = itertools.count(1)
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def shake_hands(self) -> dict[str, Any]:
        """Begin; return what the server says of itself. Raises `ServerEnded`."""
        client = {"name": "claude-code", "version": VERSION}
        said = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})
        return said

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a request's result; of a refused one what was wrong, as a tool's error. Raises `ServerEnded`."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        watch = threading.Timer(ANSWER_S, self._process.kill)
        watch.start()
        try:
            for line in self._process.stdout:
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    error = message.get("error")
                    return message["result"] if error is None else _refused(str(error.get("message")))
        finally:
            watch.cancel()
        raise ServerEnded(f"no answer to {method}")

    def close(self) -> None:
        """End the server by the end of its input."""
        try:
            self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ServerEnded("it has ended") from error


def _refused(reason: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": reason}], "isError": True}
