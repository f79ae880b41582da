"""A tool server over stdio that starts quickly: unlike those in `e2e/test_mcp_servers.py`, it imports no library."""

import sys
from pathlib import Path
from typing import Any

_SERVER = """
import json, sys

schema = {"type": "object", "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}}}
names = open("tools.txt").read().split()
open("started", "a").write("x")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "tiny", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
    elif asked["method"] == "tools/list":
        tools = [{"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in names]
        answer = {"result": {"tools": tools}}
    else:
        answer = {"error": {"code": -32601, "message": "Method not found"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def tiny_server(root: Path, *tools: str) -> dict[str, Any]:
    """Write the server into a project, and its tools into `tools.txt`; return its entry for a list of servers.

    The server adds an `x` to the file `started` whenever it starts.
    """
    (root / "server.py").write_text(_SERVER)
    (root / "tools.txt").write_text(" ".join(tools))
    return {"command": sys.executable, "args": ["server.py"]}
