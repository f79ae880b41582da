"""Runs the real Claude Code binary, headless and cut off from the world, with its own home and against a given API."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patience import HANG_S, STATIC, UNHURRIED

from swarm_memory.server.location import state_folder

NODE = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"
CLAUDE = Path(os.environ.get("CLAUDE_CODE") or NODE / "claude")
"""`make claude VERSION=…` tries another version of it."""
INSPECTOR = NODE / "mcp-inspector"
INSTALL_HINT = "needs Node.js programs: npm ci --prefix tests/node"

COMMAND = f"""
import sys
if sys.argv[1:2] == ["serve"]:
    from swarm_memory.server.hooks import events
    events._WARNING_PATIENCE_S = 60.0
if sys.argv[1:2] == ["hook"]:
    from swarm_memory.server.hooks import client
    client.READY_S = client.PATIENT_S = 5.0
    sys.argv.pop(1)
    {UNHURRIED.strip().replace(chr(10), chr(10) + "    ")}
from swarm_memory.server.console_script import main
main()
"""


def write_commands(folder: Path) -> Path:
    """Write the command that shared settings name into a folder, as installers do, but patient; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "swarm-memory"
    script.write_text(f"#!{sys.executable}\n{COMMAND}")
    script.chmod(0o755)
    return folder


@dataclass(frozen=True, slots=True)
class Run:
    """How one headless run ended."""

    code: int
    stdout: str
    stderr: str
    debug_log: str


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """One person's Claude Code: a home folder, a project and the API's address."""

    home: Path
    project: Path
    api_url: str
    binary: Path = CLAUDE

    @property
    def config(self) -> Path:
        return self.home / ".claude"

    @property
    def environment(self) -> dict[str, str]:
        """Only PATH and the records of banks are the developer's; there is no telemetry, no update and no login."""
        return {
            "PATH": os.pathsep.join(map(str, (self.commands(), Path(sys.executable).parent, os.environ.get("PATH")))),
            **STATIC,
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(state_folder().parent),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.api_url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "IS_SANDBOX": "1",
            "MCP_TIMEOUT": str(int(HANG_S * 1000)),
            "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS": str(int(HANG_S * 1000)),
            "LANG": "C.UTF-8",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }

    def commands(self) -> Path:
        """Return the folder with the command that shared settings name."""
        return write_commands(self.home / "bin")

    def run(self, prompt: str, *options: str) -> Run:
        """Give one prompt to a headless session and wait for its end."""
        debug = self.home / "debug.log"
        debug.unlink(missing_ok=True)
        arguments = ["-p", prompt, "--permission-mode", "bypassPermissions", "--debug-file", str(debug), *options]
        done = subprocess.run(
            [str(self.binary), *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        log = debug.read_text(encoding="utf-8", errors="replace") if debug.exists() else ""
        return Run(done.returncode, done.stdout, done.stderr, log)

    def sit_before(self, prompt: str, until: Callable[[str], bool]) -> str:
        """Give a prompt to an interactive session, as a person does; leave once `until` is true of the screen's text.

        Return all that the screen showed, without control sequences and with white space collapsed.
        """
        debug, known = self.home / "debug.log", {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        answered = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(self.project): known}}
        answered |= {"customApiKeyResponses": {"approved": ["dummy"], "rejected": []}}
        self.config.mkdir(exist_ok=True)
        (self.config / ".claude.json").write_text(json.dumps(answered))
        said = {"enableAllProjectMcpServers": True, "skipDangerousModePermissionPrompt": True}
        (self.config / "settings.json").write_text(json.dumps(said))
        here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        process = subprocess.Popen(
            [str(self.binary), "--permission-mode", "bypassPermissions", "--debug-file", str(debug), prompt],
            cwd=self.project,
            env=self.environment | {"TERM": "xterm-256color"},
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
        )
        os.close(there)
        shown, deadline = b"", time.monotonic() + HANG_S
        text = ""
        while not until(text) and process.poll() is None and time.monotonic() < deadline:
            if select.select([here], [], [], 0.2)[0]:
                shown += os.read(here, 1 << 16)
                plain = re.sub(rb"\x1b\[[0-9;?>]*[A-Za-z]|\x1b\][^\x07]*\x07", b" ", shown)
                text = " ".join(plain.decode("utf-8", "replace").split())
        process.terminate()
        process.wait()
        os.close(here)
        assert until(text), text[-2000:]
        return text

    def transcripts(self) -> list[Path]:
        """Return the transcripts of this home, oldest first."""
        return sorted(self.config.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
