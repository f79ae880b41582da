"""The protocol's own conformance scenarios against the real server over HTTP."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from http_server import HttpServer
from token_proxy import adding_token

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
SCENARIOS = (
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
    "http-header-validation",
    "caching",
    "sep-2164-resource-not-found",
    "server-sse-multiple-streams",
)

Record = Callable[[str, str], None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.attack,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(
        not CONFORMANCE.exists() or shutil.which("node") is None,
        reason="needs Node.js programs: npm ci --prefix tests/node",
    ),
]


async def test_the_scenarios_that_a_server_passes_without_tools_made_for_them(
    serve: Callable[..., HttpServer], record: Record
) -> None:
    server = serve()
    at_once = asyncio.Semaphore(2)
    async with adding_token(server.port, server.token) as port:

        async def run(scenario: str) -> tuple[str, int, str]:
            async with at_once:
                process = await asyncio.create_subprocess_exec(
                    "node",
                    "--import",
                    str(HERE / "node20.mjs"),
                    str(CONFORMANCE),
                    *("server", "--url", f"http://127.0.0.1:{port}/mcp", "--scenario", scenario),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                told, _ = await process.communicate()
            return scenario, process.returncode or 0, told.decode()

        results = await asyncio.gather(*map(run, SCENARIOS))
    failed = {scenario: told[-1500:] for scenario, code, told in results if code}
    assert failed == {}
    assert all("passed" in told.lower() or "✓" in told for _, _, told in results)
    record("MCP", f"conformance: {len(results)} of {len(SCENARIOS)} scenarios passed")
