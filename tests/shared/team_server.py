"""An HTTP server in this process and people who call it: everything behind the socket is the real thing."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from laid_bank import laid

from swarm_memory.schema.settings import HttpSettings, Settings
from swarm_memory.schema.team.person import Role
from swarm_memory.server.http.guard import Guard
from swarm_memory.server.http.identity import Authenticator
from swarm_memory.server.http.serve import Address, guarded
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import open_toolbox
from swarm_memory.tools.team.people import add_person
from swarm_memory.tools.toolbox import Toolbox

OWN_TOKEN = "token-of-the-server-that-is-long-enough"
NEWEST = "2026-07-28"
URL = "http://127.0.0.1:8765"
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@dataclass
class TeamServer:
    """A running server, its bank, and ways to call it."""

    guard: Guard
    identity: Authenticator
    toolbox: Toolbox
    """The toolbox of the bank's own user."""

    async def add(self, name: str, role: Role) -> str:
        """Add a person; return their token."""
        return (await add_person(self.toolbox, name, role)).token

    def http(self, token: str | None) -> httpx2.AsyncClient:
        """Return a client that sends a token."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.guard), base_url=URL, headers=headers)

    async def call(self, token: str, tool: str, /, **arguments: Any) -> tuple[bool, str]:
        """Call a tool in one request of the newest protocol; return whether it failed, and its text."""
        answer = await self.ask(token, "tools/call", name=tool, arguments=arguments)
        if "error" in answer:
            return True, answer["error"]["message"]
        return bool(answer["result"].get("isError")), answer["result"]["content"][0]["text"]

    async def ask(self, token: str, method: str, **params: Any) -> dict[str, Any]:
        """Send one request of the newest protocol, which has no sessions; return the response."""
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        named = {"mcp_name": str(params.get("name") or params["uri"])} if {"name", "uri"} & params.keys() else {}
        answer = await self.post(token, body, mcp_protocol_version=NEWEST, mcp_method=method, **named)
        return json.loads(answer.text.rpartition("data: ")[2])

    async def post(self, token: str | None, body: Any, **headers: str) -> httpx2.Response:
        """Send one JSON request; underscores in header names become hyphens."""
        async with self.http(token) as called:
            sent = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
            return await called.post("/mcp", json=body, headers=sent)


@asynccontextmanager
async def serving_team(place: Location, settings: Settings, **limits: Any) -> AsyncGenerator[TeamServer]:
    """Serve a bank over HTTP without a socket; `limits` are HTTP settings."""
    if not place.is_remote:
        laid(place.database)
    bank = ServedBank(lambda: open_toolbox(place, settings), None, place.root, lambda: place)
    server = build_server(bank)
    identity = Authenticator(OWN_TOKEN, bank)
    address = Address("127.0.0.1", 8765, ("127.0.0.1", "localhost"))
    guard = guarded(server, address, 8765, identity, HttpSettings.model_validate(limits))
    async with server.session_manager.run():
        yield TeamServer(guard, identity, await bank.toolbox())
