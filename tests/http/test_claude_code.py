"""Claude Code reaches a server over HTTP as the documentation describes."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import HANG_S

from tests.http.http_server import HttpServer

NODE = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(
        not (NODE / "claude").exists() or shutil.which("node") is None,
        reason="needs Node.js programs: npm ci --prefix tests/node",
    ),
]


def test_claude_code_connects_with_the_token_and_not_without(serve: Callable[..., HttpServer], tmp_path: Path) -> None:
    server = serve()
    home = tmp_path / "claude-home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    environment |= {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "dummy"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(NODE / "claude"), "mcp", *arguments],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        return done.stdout + done.stderr

    header = f"Authorization: Bearer {server.token}"
    run("add", "--transport", "http", "with-token", server.url, "--header", header)
    run("add", "--transport", "http", "without-token", server.url)
    listed = {line.partition(":")[0]: line for line in run("list").splitlines() if server.url in line}
    assert "Connected" in listed["with-token"]
    assert "Connected" not in listed["without-token"]
