"""The real command line serving over HTTP as a process of its own, and raw requests to it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
from forked import CLI, Forked
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from patience import HANG_S, STATIC
from stdio_server import CLIENT

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Answer(NamedTuple):
    """The response to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the message in the body, which may be an event of a stream."""
        return json.loads(self.body.rpartition(b"data: ")[2])


@dataclass
class HttpServer:
    """A server process and ways to call it."""

    process: "subprocess.Popen[bytes]"
    url: str
    token_file: Path
    greeting: str

    @property
    def token(self) -> str:
        return self.token_file.read_text(encoding="ascii").strip()

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def request(
        self, method: str = "POST", path: str = "/mcp", body: Any = None, *, token: bool = True, **headers: str
    ) -> Answer:
        """Send one JSON request; underscores in header names become hyphens."""
        sent = JSON | (self.authorization if token else {})
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG_S)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Open a connection and send nothing."""
        return socket.create_connection((self.host, self.port), timeout=HANG_S)

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """Connect the SDK's client, in a session of its own."""
        async with httpx2.AsyncClient(headers=self.authorization, timeout=HANG_S) as called:
            transport = streamable_http_client(self.url, http_client=called)
            async with Client(transport, mode="legacy") as client:
                yield client

    def end(self, by: signal.Signals) -> float:
        """Send a signal; return the seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(by)
        self.process.wait(HANG_S)
        return time.monotonic() - began

    def resident_bytes(self) -> int:
        """Return the memory the process holds now (Linux)."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def forget_peak(self) -> None:
        """Reset the peak (Linux)."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def peak_bytes(self) -> int:
        """Return the most memory that the process has held since the peak was reset (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def open_files(self) -> int:
        """Return how many files and connections the process holds open (Linux)."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextmanager
def serving_http(
    folder: Path, home: Path, *options: str, variables: Mapping[str, str] | None = None
) -> Generator[HttpServer]:
    """Serve a project over HTTP on a free port, with command-line options and environment variables."""
    command = [*CLI, "serve", "--http", "--port", "0"]
    environment = {**STATIC, "PATH": os.environ["PATH"], "HOME": str(home), **(variables or {})}
    with Forked(
        [*command, *options], cwd=folder, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stderr is not None
            greeting = process.stderr.readline().decode()
            assert "serving " in greeting, greeting + process.stderr.read().decode()
            assert b"pages for a browser" in process.stderr.readline()
            said = greeting.split("serving ", 1)[1].strip().removesuffix(")")
            url, token_file = said.split(" (the bearer token is in ")
            yield HttpServer(process, url, Path(token_file), greeting)
        finally:
            process.kill()
