"""The protocol's own conformance scenarios against the real server over HTTP."""

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.http.http_server import HttpServer
from tests.http.token_proxy import adding_token

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
SCENARIOS = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"),
    *("http-header-validation", "caching", "sep-2164-resource-not-found", "server-sse-multiple-streams"),
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.attack,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(
        not CONFORMANCE.exists() or shutil.which("node") is None,
        reason="needs Node.js programs: npm ci --prefix tests/node",
    ),
]


async def test_the_scenarios_that_a_server_passes_without_tools_made_for_them(serve: Callable[..., HttpServer]) -> None:
    server = serve()
    async with adding_token(server.port, server.token) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        process = await asyncio.create_subprocess_exec(
            *("node", str(HERE / "conformance.mjs"), str(CONFORMANCE), url, *SCENARIOS),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await process.communicate())[0].decode()
    ended = re.findall(r"(.*?)\n@@@ (\S+) (\d+)\n", said, re.DOTALL)
    assert [scenario for _, scenario, _ in ended] == list(SCENARIOS), said[-1500:]
    assert {scenario: text[-1500:] for text, scenario, code in ended if code != "0"} == {}
    assert all("passed" in text.lower() or "✓" in text for text, _, _ in ended)
