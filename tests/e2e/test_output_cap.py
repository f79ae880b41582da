"""What a tool gave is shortened before the model sees it, by the real Claude Code: of Bash and of a server of MCP."""

import json
import shlex
import sys
from pathlib import Path

from claude_code import NODE, ClaudeCode
from messages_api import MessagesApi, Say, Use, bash
from sessions import IN_CLAUDE_CODE

from swarm_memory.tools.text.tokens import count_tokens

pytestmark = IN_CLAUDE_CODE

SERVER = NODE.parent / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


def test_long_outputs_reach_the_model_with_head_tail_and_what_is_missing(tmp_path: Path) -> None:
    project, home = tmp_path / "shop", tmp_path / "home"
    (project / ".claude").mkdir(parents=True)
    home.mkdir()
    command = f"{shlex.quote(sys.executable)} -I -m swarm_memory.server.cli cap --hook --max-tokens 1000"
    hook = {"matcher": "Bash|mcp__.*", "hooks": [{"type": "command", "command": command}]}
    settings = project / ".claude" / "settings.json"
    settings.write_text(json.dumps({"hooks": {"PostToolUse": [hook]}}), "utf-8")
    servers = tmp_path / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"all": {"command": "node", "args": [str(SERVER)]}}}), "utf-8")
    message = " ".join(f"word{number}" for number in range(3000))
    script = [bash("seq 1 4000"), bash("echo short"), Use("mcp__all__echo", {"message": message}), Say("Done.")]
    with MessagesApi(script) as api:
        done = ClaudeCode(home, project, api.url).run("count", "--mcp-config", str(servers))
        assert done.code == 0, done.stderr
    blocks = [block for said in api.requests[-1]["messages"] if said["role"] == "user" for block in said["content"]]
    counted, short, echoed = [block["content"] for block in blocks if block["type"] == "tool_result"]
    assert short == "short"
    assert counted.startswith("1\n2\n")
    assert counted.endswith("\n3999\n4000")
    assert echoed[0]["text"].startswith("Echo: word0 word1")
    assert echoed[0]["text"].endswith("word2999")
    for text in (counted, echoed[0]["text"]):
        assert "left out by swarm-memory cap" in text
        assert count_tokens(text) <= 1000
