"""Gemini CLI: where it keeps its chats, what its hooks send and accept, and our entries in its settings."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from swarm_memory.server.hosts.host import HookPayload
from swarm_memory.server.hosts.settings import InstalledHost, command_line
from swarm_memory.server.hosts.settings_files import Json

SHELL = "run_shell_command"
_EXIT_CODE = re.compile(r"^Exit Code: (-?[0-9]{1,10})\s*$", re.M)


class GeminiCLI(InstalledHost):
    """Gemini CLI, which has hooks and servers in one file. It accepts no context before a tool call."""

    name = "gemini"
    title = "Gemini CLI"
    own_folder = ("GEMINI_CLI_HOME", "", ".gemini")
    sessions = ("tmp",)
    programs = ("gemini",)
    after_install = "Restart Gemini CLI to use it; it warns about a project's new or changed hooks."
    events: ClassVar[Mapping[str, str]] = {
        "SessionStart": "SessionStart",
        "UserPromptSubmit": "BeforeAgent",
        "PostToolUseFailure": "AfterTool",
        "Stop": "AfterAgent",
        "SessionEnd": "SessionEnd",
    }
    matchers: ClassVar[Mapping[str, str]] = {"PostToolUseFailure": SHELL}
    context_at: ClassVar[Mapping[str, str]] = {"SessionStart": "", "UserPromptSubmit": "", "PostToolUseFailure": ""}
    project_files = (".gemini/settings.json", ".gemini/settings.json")
    user_files = ("settings.json", "settings.json")
    sign = "settings.json"
    """The folder alone is no sign: Antigravity makes it too."""

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Return an event in our vocabulary; `{}` for a resumed session, and for a command that worked."""
        ours: HookPayload = {**said}
        if not str(said.get("transcript_path") or "").endswith(".jsonl"):
            ours.pop("transcript_path", None)  # before 0.40 a chat is one JSON document that is rewritten each time
        if event == "SessionStart" and said.get("source") == "resume":
            return {}
        if event != "PostToolUseFailure":
            return ours
        response = said.get("tool_response")
        text = str(response.get("llmContent") or "") if isinstance(response, dict) else ""  # pyright: ignore
        codes = _EXIT_CODE.findall(text[-2000:])
        return {**ours, "error": text} if codes and codes[-1] != "0" else {}

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return a hook's entry; Gemini CLI's timeout is in milliseconds."""
        name = f"swarm-memory {words[-1]}"
        entry = {"type": "command", "name": name, "command": command_line(words), "timeout": timeout_s * 1000}
        return {"hooks": [entry]}


HOST = GeminiCLI()
