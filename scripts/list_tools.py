"""Start an MCP server over stdio by a command, and print how many tools it lists; exits with 1 if there is none.

python scripts/list_tools.py swarm-memory serve
"""

import os
import sys

import anyio
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client


async def main() -> None:
    """List the tools once."""
    command, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        tools = (await client.list_tools()).tools
    print(len(tools), "tools")
    sys.exit(not tools)


if __name__ == "__main__":
    anyio.run(main)
