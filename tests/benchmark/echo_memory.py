"""A small outside memory over stdio: it searches by shared words, and assigns its own ids.

It implements the protocol by hand, because importing the SDK would take most of the time of the tests that start it.
`--dying` ends it at its first item.
"""

import json
import os
import sys
from typing import Any

kept: list[tuple[str, str]] = []


def remember(text: str) -> dict[str, Any]:
    """Keep a text."""
    if "--dying" in sys.argv:
        os._exit(3)
    kept.append((f"own-{len(kept)}", text))
    return {"stored": {"id": kept[-1][0]}}


def recall(question: str, limit: int) -> dict[str, Any]:
    """Find texts."""
    words = set(question.lower().split())
    order = sorted(kept, key=lambda pair: -len(words & set(pair[1].lower().split())))
    return {"hits": [{"id": own, "text": text, "made_up": "a1"} for own, text in order[:limit]]}


def tool(call: Any, **kinds: str) -> dict[str, Any]:
    """Return the description of a tool for a client."""
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": [*kinds]}
    return {"name": call.__name__, "description": call.__doc__, "inputSchema": schema}


TOOLS = {"remember": remember, "recall": recall}
LISTED = [tool(remember, text="string"), tool(recall, question="string", limit="integer")]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for an unknown method."""
    if method == "initialize":
        about = {"name": "echo-memory", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": LISTED}
    if method == "tools/call":
        if params["name"] not in TOOLS:
            return {"content": [{"type": "text", "text": f"Unknown tool: {params['name']}"}], "isError": True}
        done = TOOLS[params["name"]](**params["arguments"])
        return {"content": [{"type": "text", "text": json.dumps(done)}], "structuredContent": done}
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params", {}))
            unknown = {"error": {"code": -32601, "message": "Method not found"}}
            reply = unknown if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}) + "\n")
            sys.stdout.flush()
