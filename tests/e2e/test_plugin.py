"""The plugin, installed from a local marketplace into the real Claude Code."""

import json
import shutil
import subprocess
from pathlib import Path

from hook_project import wait_for_processes

from tests.e2e.claude_code import ClaudeCode
from tests.e2e.messages_api import MessagesApi, Say, Use
from tests.e2e.sessions import IN_CLAUDE_CODE, NEXT_TASK, NOTES, checkout, connected, learn_demo

pytestmark = IN_CLAUDE_CODE

REPOSITORY = Path(__file__).parents[2]
UV = '#!/bin/sh\necho "$UV_PROJECT_ENVIRONMENT" "$@" > "{said}"\nshift 6\nexec "$UV_PROJECT_ENVIRONMENT/bin/$1" "$2"\n'
"""What uv does if the environment already exists."""


def marketplace(folder: Path) -> Path:
    """Make a folder with the parts of the repository that make up the plugin."""
    shutil.copytree(REPOSITORY / ".claude-plugin", folder / ".claude-plugin")
    (folder / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "plugin_hook.sh", folder / "scripts")
    return folder


def test_the_plugin_starts_its_server_by_uv_and_its_hooks_by_what_that_installed(tmp_path: Path) -> None:
    shop, home, clone = checkout(tmp_path / "shop"), tmp_path / "home", marketplace(tmp_path / "clone")
    home.mkdir()
    learn_demo(shop)
    look = Use("ToolSearch", {"query": "swarm-memory retrieve", "max_results": 20})
    with MessagesApi([connected(home), look, Say("Done."), Say("There are none.")]) as api:
        claude = ClaudeCode(home, shop, api.url)
        environment = claude.config / "plugins" / "data" / "swarm-memory-swarm-memory" / "venv"
        shutil.copytree(claude.commands(), environment / "bin")
        (uv := claude.commands() / "uv").write_text(UV.format(said=home / "uv"))
        uv.chmod(0o755)
        command = [str(claude.binary), "plugin", "install", "swarm-memory", "--marketplace", str(clone), "-y"]
        done = subprocess.run(command, cwd=shop, env=claude.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert claude.run(NEXT_TASK).code == 0
        assert claude.run("/swarm-memory:memories flaky tests").code == 0
        wait_for_processes(shop)
    assert api.text_of(0).count(NOTES) == 1
    assert "mcp__plugin_swarm-memory_swarm-memory__retrieve_memories" in json.dumps(api.requests[2])
    assert "if little comes back: flaky tests" in api.text_of(3)
    words = (home / "uv").read_text().split()
    assert words[:4] == [str(environment), "run", "--project", str(clone)]
    assert {"--frozen", "--no-default-groups", "--no-editable"} < {*words}
