"""Claude Code reaches a server over HTTP as the documentation says."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from http_server import HttpServer

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))

from claude_code import CLAUDE, INSTALL_HINT, ClaudeCode

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(not CLAUDE.exists() or shutil.which("node") is None, reason=INSTALL_HINT),
]


def test_claude_code_connects_with_the_token_and_not_without(serve: Callable[..., HttpServer], tmp_path: Path) -> None:
    server = serve()
    claude = ClaudeCode(tmp_path / "claude-home", tmp_path / "project", "http://127.0.0.1:9")
    for folder in (claude.home, claude.project):
        folder.mkdir()

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(claude.binary), "mcp", *arguments],
            cwd=claude.project,
            env=claude.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout + done.stderr

    header = f"Authorization: Bearer {server.token}"
    run("add", "--transport", "http", "with-token", server.url, "--header", header)
    run("add", "--transport", "http", "without-token", server.url)
    listed = {line.partition(":")[0]: line for line in run("list").splitlines() if server.url in line}
    assert "Connected" in listed["with-token"]
    assert "Connected" not in listed["without-token"]
